//! Checks of the final state, counted over all allocations.

use std::collections::BTreeMap;

use placewright_placement::group::{Relation, RuleScope};
use placewright_placement::{ProviderId, State};
use serde::Serialize;
use uuid::Uuid;

use super::fleet;

/// The results of the audit.
#[derive(Debug, Serialize)]
pub(super) struct Audit {
    pub(super) consumers: u64,
    /// The consumers that are instances; see [`is_instance`].
    pub(super) instances: u64,
    /// Inventories with allocations beyond their capacity, or with a usage that is not the sum of
    /// their allocations.
    pub(super) double_bookings: u64,
    /// Hosts or aggregates with more members of a group than its rule allows, and groups whose members are in several
    /// places although a rule allows only one.
    pub(super) broken_rules: u64,
    /// The allocated part of all memory, in percent.
    pub(super) memory_percent: u64,
}

impl Audit {
    pub(super) fn of(state: &State) -> Self {
        let mut amounts_held: BTreeMap<(ProviderId, &str), i64> = BTreeMap::new();
        let mut members: BTreeMap<Uuid, Vec<ProviderId>> = BTreeMap::new();
        let mut instances = 0;
        for (_, consumer) in state.all_consumers() {
            instances += u64::from(is_instance(state, consumer));
            for allocation in &consumer.allocations {
                let class = state.class_name(allocation.class);
                *amounts_held
                    .entry((allocation.provider, class))
                    .or_default() += i64::from(allocation.amount);
            }
            let group = consumer
                .host_assignment
                .and_then(|assignment| assignment.group);
            let group = group.and_then(|group| state.group_by_id(group));
            let first_allocation = consumer.allocations.first();
            let provider = first_allocation
                .and_then(|first_allocation| state.provider(first_allocation.provider));
            if let (Some(group), Some(provider)) = (group, provider) {
                members.entry(group.uuid).or_default().push(provider.root);
            }
        }
        let memory_percent = {
            let sum_of = |amount: fn(i64, i64) -> i64| -> i64 {
                let providers = state.all_providers();
                let rows = providers.flat_map(|(_, provider)| &provider.inventories);
                rows.filter(|row| state.class_name(row.class) == "MEMORY_MB")
                    .map(|row| amount(row.capacity, row.used))
                    .sum()
            };
            let (capacity, used) = (sum_of(|capacity, _| capacity), sum_of(|_, used| used));
            u64::try_from(100 * used / capacity.max(1)).unwrap_or(0)
        };
        Self {
            consumers: state.consumer_count() as u64,
            instances,
            double_bookings: double_bookings(state, &amounts_held),
            broken_rules: broken_rules(state, &members),
            memory_percent,
        }
    }
}

/// Whether a consumer is an instance, which a scheduler may end, and not one of the consumers with which `fleet::build`
/// fills each host for good. Nothing but the amount of memory distinguishes them.
pub(super) fn is_instance(state: &State, consumer: &placewright_placement::Consumer) -> bool {
    let mut memory = consumer
        .allocations
        .iter()
        .filter(|allocation| state.class_name(allocation.class) == "MEMORY_MB");
    memory.all(|allocation| fleet::is_instance_size(allocation.amount))
}

fn double_bookings(state: &State, amounts_held: &BTreeMap<(ProviderId, &str), i64>) -> u64 {
    let mut count = 0;
    for (id, provider) in state.all_providers() {
        for row in &provider.inventories {
            let class = state.class_name(row.class);
            let sum = amounts_held.get(&(id, class)).copied().unwrap_or(0);
            count += u64::from(sum > row.inventory.capacity() || sum != row.used);
        }
    }
    count
}

fn broken_rules(state: &State, members: &BTreeMap<Uuid, Vec<ProviderId>>) -> u64 {
    let mut count = 0;
    for group in state.all_groups() {
        let hosts = members.get(&group.uuid).map_or(&[][..], Vec::as_slice);
        for rule in &group.rules {
            let mut members_by_place = BTreeMap::new();
            for host in hosts {
                *members_by_place
                    .entry(place_of(state, *host, &rule.scope))
                    .or_insert(0u32) += 1;
            }
            count += match rule.relation {
                Relation::Same => u64::from(members_by_place.len() > 1),
                // A member needs a place with fewer than `limit` other members, so a place may have `limit` in all.
                Relation::FewerThan(limit) => members_by_place
                    .values()
                    .filter(|members| **members > limit)
                    .count() as u64,
                // Instances that have ended may have left an uneven distribution, so this rule is not checked. No group
                // of this benchmark has such a rule.
                Relation::Spread(_) => 0,
            };
        }
    }
    count
}

/// The place of a host in the scope of a rule: its own UUID, or that of its aggregate at a level.
fn place_of(state: &State, host: ProviderId, scope: &RuleScope) -> String {
    let Some(provider) = state.provider(host) else {
        return String::new();
    };
    match scope {
        RuleScope::Host => provider.uuid.to_string(),
        RuleScope::Level(name) => {
            let levels = state.levels().iter().filter(|level| level.name == *name);
            let level_aggregates: Vec<&String> =
                levels.flat_map(|level| &level.aggregates).collect();
            let mut aggregates = provider
                .aggregates
                .iter()
                .map(|id| state.aggregate_uuid(*id));
            aggregates
                .find(|uuid| level_aggregates.iter().any(|aggregate| aggregate == uuid))
                .unwrap_or("")
                .to_owned()
        }
    }
}
