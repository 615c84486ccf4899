//! `IoOpsFilter` and `AggregateIoOpsFilter`: the host has fewer busy instances than a limit.

use super::filter::Filter;
use super::num_instances::fewer_than;
use crate::hosts::column;

/// `IoOpsFilter` as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "IoOpsFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let limit = context.config.max_io_ops_per_host;
        // `None`: no metadata key of an aggregate overrides the limit.
        Ok(fewer_than(context, column::IO_OPS, limit, None))
    },
};

/// `AggregateIoOpsFilter`: aggregates may override the limit; the smallest of several applies.
pub(super) const AGGREGATE: Filter = Filter {
    name: "AggregateIoOpsFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let limit = context.config.max_io_ops_per_host;
        let key = Some("max_io_ops_per_host");
        Ok(fewer_than(context, column::IO_OPS, limit, key))
    },
};
