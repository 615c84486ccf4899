//! `TopologyWeigher`: the soft topology rules of a request and its server group.
//!
//! The raw value of a host is the sum of `weight * value` over the rules. Each value is from 0 (the
//! rule is not satisfied at all) to 1; it is 0 for a host without a place at the rule's level.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::weigher::{RawValues, Weigher};
use crate::context::Context;
use crate::hosts::places::{LevelPlaces, NO_PLACE, PlacePath, Places};
use crate::request::group::{HOST_LEVEL, Strength, TopologyRelation, TopologyRule};

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "TopologyWeigher",
    multiplier_key: "topology_weight_multiplier",
    multiplier: |config| config.topology_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| {
        let group = context.request.instance_group.iter();
        let group_rules = group.flat_map(|group| &group.topology_rules);
        let rules = context.request.topology_rules.iter().chain(group_rules);
        let soft_rules = rules.filter(|rule| rule.strength == Strength::Soft);
        let bound_rules: Vec<BoundSoftRule<'_>> = soft_rules
            .filter_map(|rule| BoundSoftRule::bind(context, rule))
            .collect();
        if bound_rules.is_empty() {
            return Ok(RawValues::Constant(0.0));
        }
        Ok(RawValues::Each(Box::new(move |slot| {
            bound_rules
                .iter()
                .fold(0.0, |sum, rule| sum + rule.value(slot))
        })))
    },
};

/// A soft rule, with the places of the other instances that it compares with.
struct BoundSoftRule<'a> {
    weight: f64,
    values: RuleValues<'a>,
}

/// The values that a rule assigns to hosts.
enum RuleValues<'a> {
    /// All hosts of a place have the same value.
    ByPlace {
        /// The level of the places; `None` if each host is a place of its own.
        level: Option<&'a LevelPlaces>,
        /// By place: the value of its hosts, for the places that have any of the other instances, or that are named.
        values_of_occupied: BTreeMap<u32, f64>,
        /// The value of all other places.
        value_of_empty: f64,
    },
    /// A host's value depends on its mean distance from the other instances.
    ByDistance {
        places: &'a Places,
        /// By host: the number of other instances on it.
        counts_by_host: BTreeMap<u32, u32>,
        /// By place path: the number of other instances on hosts with this path.
        counts_by_path: BTreeMap<PlacePath, u32>,
        /// The number of other instances.
        total: u32,
        /// Whether near hosts are better than far ones.
        prefers_near: bool,
    },
}

impl<'a> BoundSoftRule<'a> {
    /// Binds a rule; `None` if it cannot influence the ranking.
    fn bind(context: &Context<'a>, rule: &TopologyRule) -> Option<Self> {
        let places = context.hosts.places();
        let weight = f64::from(rule.weight.unwrap_or(1));
        if !rule.place.is_empty() {
            let level = places.level(rule.level.as_deref()?)?;
            let values = values_of_named(level, rule)?;
            return Some(Self { weight, values });
        }
        let counts_by_host = counts_of_others(context, rule);
        let total = counts_by_host.values().sum();
        let values = match rule.level.as_deref() {
            None if total == 0 => return None,
            None => {
                let mut counts_by_path = BTreeMap::new();
                for (host, count) in &counts_by_host {
                    *counts_by_path.entry(places.place_path(*host)).or_default() += count;
                }
                RuleValues::ByDistance {
                    places,
                    counts_by_host,
                    counts_by_path,
                    total,
                    prefers_near: rule.relation == TopologyRelation::Near,
                }
            }
            Some(HOST_LEVEL) => {
                let host_count = context.hosts.slots().len();
                values_by_place(None, rule.relation, counts_by_host, host_count)
            }
            Some(name) => {
                let level = places.level(name)?;
                let mut counts = BTreeMap::new();
                for (host, count) in counts_by_host {
                    let place = level.place_of(host);
                    if place != NO_PLACE {
                        *counts.entry(place).or_default() += count;
                    }
                }
                values_by_place(Some(level), rule.relation, counts, level.places().count())
            }
        };
        Some(Self { weight, values })
    }

    /// The rule's part of the raw value of a host.
    fn value(&self, slot: u32) -> f64 {
        self.weight * self.values.value_of(slot)
    }
}

/// The values of a rule about named places; `None` if the level has none of them.
fn values_of_named<'a>(level: &'a LevelPlaces, rule: &TopologyRule) -> Option<RuleValues<'a>> {
    let is_wanted = rule.relation == TopologyRelation::Same;
    let value = f64::from(u8::from(is_wanted));
    let named = rule.place.iter();
    let named = named.filter_map(|name| level.place_by_name(name));
    let values_of_occupied: BTreeMap<u32, f64> = named.map(|place| (place, value)).collect();
    (!values_of_occupied.is_empty()).then_some(RuleValues::ByPlace {
        level: Some(level),
        values_of_occupied,
        value_of_empty: 1.0 - value,
    })
}

/// The values of a rule about places, given the number of other instances in each place that has any, and the number of
/// places. `level` is as in [`RuleValues::ByPlace`].
fn values_by_place(
    level: Option<&LevelPlaces>,
    relation: TopologyRelation,
    counts: BTreeMap<u32, u32>,
    place_count: usize,
) -> RuleValues<'_> {
    let total: u32 = counts.values().sum();
    let maximum = counts.values().copied().max().unwrap_or(0);
    let minimum = if counts.len() < place_count {
        0
    } else {
        counts.values().copied().min().unwrap_or(0)
    };
    let value = |count: u32| match relation {
        TopologyRelation::Same if total == 0 => 0.0,
        TopologyRelation::Same => f64::from(count) / f64::from(total),
        TopologyRelation::Different => f64::from(u8::from(count == 0)),
        TopologyRelation::Spread if maximum == minimum => 1.0,
        TopologyRelation::Spread => f64::from(maximum - count) / f64::from(maximum - minimum),
        // Rules about distances have no level.
        TopologyRelation::Near | TopologyRelation::Far => 0.0,
    };
    let values_of_occupied = counts.iter().map(|(place, count)| (*place, value(*count)));
    RuleValues::ByPlace {
        level,
        values_of_occupied: values_of_occupied.collect(),
        value_of_empty: value(0),
    }
}

impl RuleValues<'_> {
    /// The value of a host.
    fn value_of(&self, slot: u32) -> f64 {
        match self {
            Self::ByPlace {
                level,
                values_of_occupied,
                value_of_empty,
            } => {
                let place = level.map_or(slot, |level| level.place_of(slot));
                if level.is_some() && place == NO_PLACE {
                    return 0.0;
                }
                values_of_occupied
                    .get(&place)
                    .copied()
                    .unwrap_or(*value_of_empty)
            }
            Self::ByDistance {
                places,
                counts_by_host,
                counts_by_path,
                total,
                prefers_near,
            } => {
                let host_path = places.place_path(slot);
                let distance_sum = |(path, count): (&PlacePath, &u32)| {
                    f64::from(places.distance(&host_path, path)) * f64::from(*count)
                };
                let mut sum: f64 = counts_by_path.iter().map(distance_sum).sum();
                // Instances on the host itself are at distance 0.
                if let Some(count_here) = counts_by_host.get(&slot) {
                    sum -=
                        f64::from(places.distance(&host_path, &host_path)) * f64::from(*count_here);
                }
                let mean_distance = sum / f64::from(*total);
                let farness = mean_distance / f64::from(places.distance_max().max(1));
                if *prefers_near {
                    1.0 - farness
                } else {
                    farness
                }
            }
        }
    }
}

/// By host: the number of instances on it that a rule compares with.
fn counts_of_others(context: &Context<'_>, rule: &TopologyRule) -> BTreeMap<u32, u32> {
    let mut others: BTreeSet<Uuid> = rule.to.clone();
    if others.is_empty() {
        others.extend(&context.request.siblings);
        if let Some(group) = &context.request.instance_group {
            others.extend(&group.members);
            others.extend(context.hosts.members_of(group.uuid));
        }
    }
    others.remove(&context.instance);
    let mut counts_by_host = BTreeMap::new();
    for other in others {
        for slot in context.hosts.hosts_of(other) {
            *counts_by_host.entry(*slot).or_default() += 1;
        }
    }
    counts_by_host
}
