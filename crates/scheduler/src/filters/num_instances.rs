//! `NumInstancesFilter` and `AggregateNumInstancesFilter`: the host has fewer instances than a
//! limit.

use super::filter::Filter;
use crate::context::Context;
use crate::hosts::column;
use crate::hosts::verdict::Verdict;

/// `NumInstancesFilter` as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "NumInstancesFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let limit = context.config.max_instances_per_host;
        // `None`: no metadata key of an aggregate overrides the limit.
        Ok(fewer_than(context, column::INSTANCES, limit, None))
    },
};

/// `AggregateNumInstancesFilter`: aggregates may override the limit; the smallest of several
/// applies.
pub(super) const AGGREGATE: Filter = Filter {
    name: "AggregateNumInstancesFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let limit = context.config.max_instances_per_host;
        let key = Some("max_instances_per_host");
        Ok(fewer_than(context, column::INSTANCES, limit, key))
    },
};

/// Hosts whose value in a column is below a limit, which aggregates may override.
pub(super) fn fewer_than<'a>(
    context: &Context<'a>,
    column: usize,
    limit: i32,
    override_key: Option<&str>,
) -> Verdict<'a> {
    let values = &context.hosts.columns()[column];
    let limit = f64::from(limit);
    match override_key.and_then(|key| context.hosts.aggregates().overrides(key)) {
        None => Verdict::Each(Box::new(move |slot| values.get(slot) < limit)),
        Some(overrides) => Verdict::Each(Box::new(move |slot| {
            values.get(slot) < overrides.get(slot).unwrap_or(limit)
        })),
    }
}
