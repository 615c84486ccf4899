//! The hard policies of server groups. Placement enforces them again with the claim.

use std::collections::BTreeMap;

use super::filter::Filter;
use crate::context::Context;
use crate::hosts::verdict::Verdict;
use crate::request::{GroupPolicy, ServerGroup};

/// `ServerGroupAntiAffinityFilter`: the host has fewer members than the policy allows.
pub(super) const ANTI_AFFINITY: Filter = Filter {
    name: "ServerGroupAntiAffinityFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let Some(group) = group_of(context, GroupPolicy::AntiAffinity) else {
            return Ok(Verdict::All);
        };
        let limit = group.max_server_per_host.unwrap_or(1);
        if limit == 0 {
            // With a limit of 0, only a host that already has the scheduled instance passes.
            let current_hosts = context.hosts.hosts_of(context.instance);
            return Ok(Verdict::only(current_hosts.iter().copied()));
        }
        let full_hosts = members_by_host(context, group)
            .into_iter()
            .filter(|(slot, count)| *count >= limit && !is_on_host(context, *slot))
            .map(|(slot, _)| slot);
        Ok(Verdict::all_but(full_hosts))
    },
};

/// `ServerGroupAffinityFilter`: the host is one of the group's hosts, if the group has any.
pub(super) const AFFINITY: Filter = Filter {
    name: "ServerGroupAffinityFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let group = group_of(context, GroupPolicy::Affinity);
        let Some(group) = group.filter(|group| !group.hosts.is_empty()) else {
            return Ok(Verdict::All);
        };
        let service_hosts = group.hosts.iter();
        Ok(Verdict::only(
            service_hosts.flat_map(|host| context.hosts.nodes_of(host)),
        ))
    },
};

/// The request's group, if it has the policy.
fn group_of<'a>(context: &Context<'a>, policy: GroupPolicy) -> Option<&'a ServerGroup> {
    let group = context.request.instance_group.as_ref()?;
    (group.policy == Some(policy)).then_some(group)
}

/// Whether the host has the scheduled instance already, as in a move.
fn is_on_host(context: &Context<'_>, slot: u32) -> bool {
    context.hosts.hosts_of(context.instance).contains(&slot)
}

/// The number of members on each host that has any. Members are those that the request names and
/// those that hosts report.
pub(crate) fn members_by_host(context: &Context<'_>, group: &ServerGroup) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    let named_members = group.members.iter().copied();
    let reported_members = context.hosts.members_of(group.uuid);
    let reported_members = reported_members.filter(|member| !group.members.contains(member));
    for member in named_members.chain(reported_members) {
        for slot in context.hosts.hosts_of(member) {
            *counts.entry(*slot).or_default() += 1;
        }
    }
    counts
}
