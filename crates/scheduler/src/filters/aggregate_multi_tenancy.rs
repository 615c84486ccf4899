//! `AggregateMultiTenancyIsolation`: the hosts of an aggregate that lists projects accept no
//! other projects.
//!
//! The listed projects may use hosts outside of the aggregate too.

use super::filter::Filter;
use crate::hosts::verdict::Verdict;
use crate::values::strip;

/// The prefix of the metadata keys that list projects.
const KEY_PREFIX: &str = "filter_tenant_id";

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "AggregateMultiTenancyIsolation",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| {
        let aggregates = context.hosts.aggregates();
        if !aggregates.has_key_prefix(KEY_PREFIX) {
            return Ok(Verdict::All);
        }
        let project = context.request.project_id.as_str();
        Ok(aggregates.verdict(|combination| {
            let mut lists = combination
                .metadata()
                .filter(|(key, _)| key.starts_with(KEY_PREFIX))
                .flat_map(|(_, values)| values)
                .peekable();
            let accepts_all = lists.peek().is_none();
            accepts_all || lists.any(|list| list.split(',').map(strip).any(|id| id == project))
        }))
    },
};
