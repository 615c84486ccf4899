//! `AggregateInstanceExtraSpecsFilter`: extra specs that constrain the metadata of the host's
//! aggregates.

use super::extra_spec_ops::Requirement;
use super::filter::Filter;
use crate::hosts::verdict::Verdict;
use crate::values::strip;

/// The scope prefix of extra specs for this filter. Extra specs without a scope count as well.
const SCOPE: &str = "aggregate_instance_extra_specs";

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "AggregateInstanceExtraSpecsFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| {
        let specs = context.request.flavor.extra_specs.iter();
        let requirements: Vec<(&str, Requirement)> = specs
            .filter_map(|(key, value)| {
                let key = match key.split_once(':') {
                    None => key.as_str(),
                    Some((SCOPE, name)) => name,
                    Some(_) => return None,
                };
                Some((key, Requirement::parse(value)))
            })
            .collect();
        if requirements.is_empty() {
            return Ok(Verdict::All);
        }
        Ok(context.hosts.aggregates().verdict(|combination| {
            requirements.iter().all(|(key, requirement)| {
                let lists = combination.values(key).iter();
                let mut values = lists.flat_map(|list| list.split(',')).map(strip);
                values.any(|value| requirement.is_met_by(value))
            })
        }))
    },
};
