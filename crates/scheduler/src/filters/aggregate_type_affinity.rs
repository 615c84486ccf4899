//! `AggregateTypeAffinityFilter`: the hosts of an aggregate that lists flavors accept no other flavors.

use super::filter::Filter;
use crate::hosts::aggregate::Aggregates;
use crate::hosts::verdict::Verdict;
use crate::values::strip;

/// The metadata key that lists flavors.
const KEY: &str = "instance_type";

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "AggregateTypeAffinityFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| {
        let aggregates: &Aggregates = context.hosts.aggregates();
        if !aggregates.has_key(KEY) {
            return Ok(Verdict::All);
        }
        let flavor = context.request.flavor.name.as_str();
        Ok(aggregates.verdict(|combination| {
            let lists = combination.values(KEY);
            let mut names = lists.iter().flat_map(|list| list.split(',')).map(strip);
            lists.is_empty() || names.any(|name| name == flavor)
        }))
    },
};
