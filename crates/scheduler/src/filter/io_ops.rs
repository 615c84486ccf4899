//! `IoOpsFilter` and `AggregateIoOpsFilter`: the host has not too many busy instances.

use super::Filter;
use super::num_instances::fewer_than;
use crate::host_table::column;

/// `IoOpsFilter`
pub(super) const FILTER: Filter = Filter {
    name: "IoOpsFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let most = context.config.max_io_ops_per_host;
        Ok(fewer_than(context, column::IO_OPS, most, None))
    },
};

/// `AggregateIoOpsFilter`: aggregates may say another limit; of several the smallest counts.
pub(super) const AGGREGATE: Filter = Filter {
    name: "AggregateIoOpsFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let most = context.config.max_io_ops_per_host;
        let key = Some("max_io_ops_per_host");
        Ok(fewer_than(context, column::IO_OPS, most, key))
    },
};
