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
    /// The instances among the consumers, which may end.
    pub(super) instances: u64,
    /// Inventories with allocations beyond their capacity, or with a usage that is not the sum of
    /// their allocations.
    pub(super) double_bookings: u64,
    /// Hosts or aggregates with more members of a group than its rule allows.
    pub(super) broken_rules: u64,
    /// The allocated part of all memory, in percent.
    pub(super) memory_percent: u64,
}

impl Audit {
    pub(super) fn of(state: &State) -> Self {
        let mut held: BTreeMap<(ProviderId, &str), i64> = BTreeMap::new();
        let mut members: BTreeMap<Uuid, Vec<ProviderId>> = BTreeMap::new();
        let mut instances = 0;
        for (_, consumer) in state.all_consumers() {
            instances += u64::from(is_instance(state, consumer));
            for one in &consumer.allocations {
                let class = state.class_name(one.class);
                *held.entry((one.provider, class)).or_default() += i64::from(one.amount);
            }
            let group = consumer.placing.and_then(|placing| placing.group);
            let group = group.and_then(|group| state.group_by_id(group));
            let first = consumer.allocations.first();
            let provider = first.and_then(|first| state.provider(first.provider));
            if let (Some(group), Some(provider)) = (group, provider) {
                members.entry(group.uuid).or_default().push(provider.root);
            }
        }
        let memory_percent = {
            let of = |amount: fn(i64, i64) -> i64| -> i64 {
                let providers = state.all_providers();
                let records = providers.flat_map(|(_, provider)| &provider.inventories);
                records
                    .filter(|record| state.class_name(record.class) == "MEMORY_MB")
                    .map(|record| amount(record.capacity, record.used))
                    .sum()
            };
            let (capacity, used) = (of(|capacity, _| capacity), of(|_, used| used));
            u64::try_from(100 * used / capacity.max(1)).unwrap_or(0)
        };
        Self {
            consumers: state.consumer_count() as u64,
            instances,
            double_bookings: double_bookings(state, &held),
            broken_rules: broken_rules(state, &members),
            memory_percent,
        }
    }
}

/// Whether a consumer is one of the instances that come and end.
pub(super) fn is_instance(state: &State, consumer: &placewright_placement::Consumer) -> bool {
    let mut memory = consumer
        .allocations
        .iter()
        .filter(|one| state.class_name(one.class) == "MEMORY_MB");
    memory.all(|one| fleet::is_instance(one.amount))
}

fn double_bookings(state: &State, held: &BTreeMap<(ProviderId, &str), i64>) -> u64 {
    let mut found = 0;
    for (id, provider) in state.all_providers() {
        for record in &provider.inventories {
            let class = state.class_name(record.class);
            let sum = held.get(&(id, class)).copied().unwrap_or(0);
            found += u64::from(sum > record.inventory.capacity() || sum != record.used);
        }
    }
    found
}

fn broken_rules(state: &State, members: &BTreeMap<Uuid, Vec<ProviderId>>) -> u64 {
    let mut found = 0;
    for group in state.all_groups() {
        let hosts = members.get(&group.uuid).map_or(&[][..], Vec::as_slice);
        for rule in &group.rules {
            let mut places = BTreeMap::new();
            for host in hosts {
                *places
                    .entry(place_of(state, *host, &rule.scope))
                    .or_insert(0u32) += 1;
            }
            found += match rule.relation {
                Relation::Same => u64::from(places.len() > 1),
                Relation::FewerThan(most) => {
                    places.values().filter(|count| **count > most).count() as u64
                }
                // Instances that ended since may have left the rest uneven; no group here has such
                // a rule.
                Relation::Spread(_) => 0,
            };
        }
    }
    found
}

/// The scope that a host is in for a rule: its own UUID, or that of its aggregate at a level.
fn place_of(state: &State, host: ProviderId, scope: &RuleScope) -> String {
    let Some(provider) = state.provider(host) else {
        return String::new();
    };
    match scope {
        RuleScope::Host => provider.uuid.to_string(),
        RuleScope::Level(name) => {
            let levels = state.levels().iter().filter(|level| level.name == *name);
            let of_level: Vec<&String> = levels.flat_map(|level| &level.aggregates).collect();
            let mut own = provider
                .aggregates
                .iter()
                .map(|id| state.aggregate_uuid(*id));
            own.find(|uuid| of_level.iter().any(|one| one == uuid))
                .unwrap_or("")
                .to_owned()
        }
    }
}
