//! Soft topology rules: the preferences of a request and its server group.
//!
//! A host's value is the sum over the rules of `weight * value`, each value from 0 (not satisfied
//! at all) to 1. A host that has no place at a rule's level has 0.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::weigher::{RawValues, Weigher};
use crate::context::Context;
use crate::hosts::places::{Chain, LevelPlaces, NOWHERE, Places};
use crate::request::group::{HOST_LEVEL, Strength, TopologyRelation, TopologyRule};

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "TopologyWeigher",
    multiplier_key: "topology_weight_multiplier",
    multiplier: |config| config.topology_weight_multiplier,
    is_subtracted: false,
    low: None,
    high: None,
    compile: |context| {
        let group = context.request.instance_group.iter();
        let of_group = group.flat_map(|group| &group.topology_rules);
        let rules = context.request.topology_rules.iter().chain(of_group);
        let soft = rules.filter(|rule| rule.strength == Strength::Soft);
        let bound: Vec<BoundSoftRule<'_>> = soft
            .filter_map(|rule| BoundSoftRule::of(context, rule))
            .collect();
        if bound.is_empty() {
            return Ok(RawValues::Constant(0.0));
        }
        Ok(RawValues::Each(Box::new(move |slot| {
            bound.iter().fold(0.0, |sum, rule| sum + rule.value(slot))
        })))
    },
};

/// A soft rule bound to the present places of the other instances.
struct BoundSoftRule<'a> {
    weight: f64,
    values: Values<'a>,
}

/// The values that a rule assigns to hosts.
enum Values<'a> {
    /// All hosts of a place have the same value.
    ByPlace {
        /// `None` if each host is a place of its own.
        level: Option<&'a LevelPlaces>,
        few: BTreeMap<u32, f64>,
        rest: f64,
    },
    /// By the mean distance from some hosts.
    ByDistance {
        places: &'a Places,
        /// By host: how many of the other instances it has.
        hosts: BTreeMap<u32, u32>,
        /// By places of a host: how many of the other instances are on such hosts.
        chains: BTreeMap<Chain, u32>,
        /// The number of other instances.
        count: u32,
        likes_near: bool,
    },
}

impl<'a> BoundSoftRule<'a> {
    /// `None` if the rule cannot influence the ranking.
    fn of(context: &Context<'a>, rule: &TopologyRule) -> Option<Self> {
        let hosts = hosts_of_others(context, rule);
        let places = context.hosts.places();
        let count = hosts.values().sum();
        let values = match rule.level.as_deref() {
            None if count == 0 => return None,
            None => {
                let mut chains = BTreeMap::new();
                for (host, count) in &hosts {
                    *chains.entry(places.chain(*host)).or_default() += count;
                }
                Values::ByDistance {
                    places,
                    hosts,
                    chains,
                    count,
                    likes_near: rule.relation == TopologyRelation::Near,
                }
            }
            Some(HOST_LEVEL) => {
                let all = context.hosts.known().len();
                by_place(None, rule.relation, hosts, all)
            }
            Some(name) => {
                let level = places.level(name)?;
                let mut counts = BTreeMap::new();
                for (host, count) in hosts {
                    let place = level.of(host);
                    if place != NOWHERE {
                        *counts.entry(place).or_default() += count;
                    }
                }
                by_place(Some(level), rule.relation, counts, level.all().count())
            }
        };
        Some(Self {
            weight: f64::from(rule.weight.unwrap_or(1)),
            values,
        })
    }

    fn value(&self, slot: u32) -> f64 {
        self.weight * self.values.of(slot)
    }
}

/// The values of a rule about places, given how many of the others each place has, and the number
/// of places.
fn by_place(
    level: Option<&LevelPlaces>,
    relation: TopologyRelation,
    counts: BTreeMap<u32, u32>,
    places: usize,
) -> Values<'_> {
    let all: u32 = counts.values().sum();
    let most = counts.values().copied().max().unwrap_or(0);
    let least = if counts.len() < places {
        0
    } else {
        counts.values().copied().min().unwrap_or(0)
    };
    let value = |count: u32| match relation {
        TopologyRelation::Same if all == 0 => 0.0,
        TopologyRelation::Same => f64::from(count) / f64::from(all),
        TopologyRelation::Different => f64::from(u8::from(count == 0)),
        TopologyRelation::Spread if most == least => 1.0,
        TopologyRelation::Spread => f64::from(most - count) / f64::from(most - least),
        // Rules about distances have no level.
        TopologyRelation::Near | TopologyRelation::Far => 0.0,
    };
    let few = counts.iter().map(|(place, count)| (*place, value(*count)));
    Values::ByPlace {
        level,
        few: few.collect(),
        rest: value(0),
    }
}

impl Values<'_> {
    fn of(&self, slot: u32) -> f64 {
        match self {
            Self::ByPlace { level, few, rest } => {
                let place = level.map_or(slot, |level| level.of(slot));
                if level.is_some() && place == NOWHERE {
                    return 0.0;
                }
                few.get(&place).copied().unwrap_or(*rest)
            }
            Self::ByDistance {
                places,
                hosts,
                chains,
                count,
                likes_near,
            } => {
                let own = places.chain(slot);
                let of_chain = |(chain, count): (&Chain, &u32)| {
                    f64::from(places.distance(&own, chain)) * f64::from(*count)
                };
                let mut sum: f64 = chains.iter().map(of_chain).sum();
                // Instances on the host itself are at distance 0.
                if let Some(here) = hosts.get(&slot) {
                    sum -= f64::from(places.distance(&own, &own)) * f64::from(*here);
                }
                let far = sum / f64::from(*count) / f64::from(places.farthest().max(1));
                if *likes_near { 1.0 - far } else { far }
            }
        }
    }
}

/// By host: how many of the instances that a rule compares with it has.
fn hosts_of_others(context: &Context<'_>, rule: &TopologyRule) -> BTreeMap<u32, u32> {
    let mut others: BTreeSet<Uuid> = rule.to.clone();
    if others.is_empty() {
        others.extend(&context.request.siblings);
        if let Some(group) = &context.request.instance_group {
            others.extend(&group.members);
            others.extend(context.hosts.members_of(group.uuid));
        }
    }
    others.remove(&context.instance);
    let mut hosts = BTreeMap::new();
    for other in others {
        for slot in context.hosts.hosts_of(other) {
            *hosts.entry(*slot).or_default() += 1;
        }
    }
    hosts
}
