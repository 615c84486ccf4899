//! `DifferentHostFilter` and `SameHostFilter`: a host without, or with, the instances that a hint
//! names. Instances come and go, so the verdicts hold for one search only.

use uuid::Uuid;

use super::filter::Filter;
use crate::context::Context;
use crate::hosts::verdict::Verdict;

/// `DifferentHostFilter`: the host has none of the instances in the hint `different_host`.
pub(super) const DIFFERENT: Filter = Filter {
    name: "DifferentHostFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        Ok(Verdict::all_but(hosts_of_instances(
            context,
            "different_host",
        )))
    },
};

/// `SameHostFilter`: the host has at least one of the instances in the hint `same_host`.
pub(super) const SAME: Filter = Filter {
    name: "SameHostFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        // An empty text counts as an absent hint.
        let is_absent = match context.request.hints("same_host") {
            [] => true,
            [value] => value.is_empty(),
            _ => false,
        };
        if is_absent {
            return Ok(Verdict::All);
        }
        Ok(Verdict::only(hosts_of_instances(context, "same_host")))
    },
};

/// The hosts of the instances that a hint names; values that are not UUIDs are ignored.
fn hosts_of_instances(context: &Context<'_>, hint: &str) -> impl Iterator<Item = u32> {
    let uuids = context.request.hints(hint).iter();
    let uuids = uuids.filter_map(|text| text.parse::<Uuid>().ok());
    uuids.flat_map(|uuid| context.hosts.hosts_of(uuid).iter().copied())
}
