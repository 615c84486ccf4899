//! A second implementation of topology rules, host by host, to compare with.

use std::collections::{BTreeMap, BTreeSet};

use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::request::group::{Strength, TopologyRelation, TopologyRule};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Dice, uuid};

/// The levels, the smallest first, with the base of their aggregates' UUIDs and the number of
/// groups of hosts of each.
const LEVELS: [(&str, u32, u64); 2] = [("rack", 0xb0, 4), ("room", 0xb1, 2)];
/// The number of hops between hosts without any common group.
const OVER_THE_TOP: u32 = 6;

/// The topology, and the hosts of all instances.
#[derive(Default)]
pub(crate) struct Places {
    /// By host, its aggregate at each level.
    of_host: BTreeMap<Uuid, [Option<Uuid>; 2]>,
    /// The operator's distances between aggregates, in both directions.
    distances: BTreeMap<(Uuid, Uuid), u32>,
    /// By instance, its host.
    instances: BTreeMap<Uuid, Uuid>,
    /// By server group, its members.
    members: BTreeMap<Uuid, BTreeSet<Uuid>>,
}

impl Places {
    /// Generates random distances, and returns the body of `PUT /v1/topology`.
    pub(crate) fn draw_topology(&mut self, dice: &mut Dice) -> Value {
        let places = |kind, count| (0..count).map(move |number| uuid(kind, number));
        let levels = LEVELS.map(|(name, kind, count)| {
            // One more than any host is in.
            let all: Vec<Uuid> = places(kind, count + 1).collect();
            json!({"name": name, "aggregates": all})
        });
        let mut distances = Vec::new();
        for (_, kind, count) in LEVELS {
            if dice.one_in(2) {
                continue;
            }
            for from in places(kind, count) {
                for to in places(kind, count).filter(|to| *to >= from) {
                    if dice.one_in(2) {
                        let distance = u32::try_from(dice.below(12)).unwrap();
                        distances.push(json!({"from": to, "to": from, "distance": distance}));
                        self.distances.insert((from, to), distance);
                        self.distances.insert((to, from), distance);
                    }
                }
            }
        }
        json!({"levels": levels, "distances": distances})
    }

    /// Puts a host into random aggregates, and returns them.
    pub(crate) fn draw_host(&mut self, dice: &mut Dice, host: Uuid) -> Vec<Uuid> {
        let places =
            LEVELS.map(|(_, kind, count)| (!dice.one_in(8)).then(|| uuid(kind, dice.below(count))));
        self.of_host.insert(host, places);
        places.into_iter().flatten().collect()
    }

    /// Notes that an instance was claimed.
    pub(crate) fn claimed(&mut self, instance: Uuid, host: Uuid, group: Option<Uuid>) {
        self.instances.insert(instance, host);
        if let Some(group) = group {
            self.members.entry(group).or_default().insert(instance);
        }
    }

    /// The rules of a server group, derived from its UUID.
    pub(crate) fn rules_of_group(group: Uuid) -> Value {
        let number = group.as_bytes()[15];
        match (number + number / 4) % 4 {
            0 => json!([{"level": "rack", "relation": "spread", "max_skew": 2}]),
            1 => json!([{"level": "room", "relation": "same", "strength": "soft"}]),
            2 => json!([]),
            _ => json!([{"level": "rack", "relation": "different"},
                        {"relation": "near", "strength": "soft", "weight": 3}]),
        }
    }

    /// Generates random rules of a request.
    pub(crate) fn draw_rules(&self, dice: &mut Dice) -> Value {
        let mut rules = Vec::new();
        for _ in 0..dice.below(3) {
            let known: Vec<Uuid> = self.instances.keys().copied().collect();
            let count = if known.is_empty() { 0 } else { dice.below(4) };
            let to: BTreeSet<Uuid> = (0..count).map(|_| dice.pick(&known)).collect();
            let relation = dice.pick(&["same", "different", "spread", "near", "far"]);
            let is_about_distance = ["near", "far"].contains(&relation);
            let mut rule = json!({"relation": relation, "to": to});
            let is_soft = is_about_distance || !dice.one_in(3);
            if is_soft {
                rule["strength"] = json!("soft");
                rule["weight"] = json!(1 + dice.below(3));
            }
            if !is_about_distance {
                let is_hard_spread = relation == "spread" && !is_soft;
                let levels: &[&str] = if is_hard_spread {
                    &["rack", "room"]
                } else {
                    &["rack", "room", "host"]
                };
                rule["level"] = json!(dice.pick(levels));
            }
            if relation == "spread" && !is_soft {
                rule["max_skew"] = json!(1 + dice.below(2));
            }
            rules.push(rule);
        }
        json!(rules)
    }

    /// The aggregate of a host at a level.
    fn place(&self, level: &str, host: Uuid) -> Option<Uuid> {
        match LEVELS.iter().position(|(name, ..)| *name == level) {
            Some(level) => self.of_host[&host][level],
            None => Some(host),
        }
    }

    /// The hosts that a rule refers to, one for each instance.
    fn others(&self, request: &RequestSpec, rule: &TopologyRule) -> Vec<Uuid> {
        let group = request.instance_group.as_ref();
        let members = group.and_then(|group| self.members.get(&group.uuid));
        let others = if rule.to.is_empty() {
            members.cloned().unwrap_or_default()
        } else {
            rule.to.clone()
        };
        let hosts = others.iter().filter_map(|other| self.instances.get(other));
        hosts.copied().collect()
    }

    fn rules(request: &RequestSpec, strength: Strength) -> impl Iterator<Item = &TopologyRule> {
        let of_group = request
            .instance_group
            .iter()
            .flat_map(|group| &group.topology_rules);
        let all = request.topology_rules.iter().chain(of_group);
        all.filter(move |rule| rule.strength == strength)
    }

    /// How many of these instances each aggregate of a level has, for all aggregates with hosts.
    fn counts(&self, level: &str, others: &[Uuid]) -> BTreeMap<Uuid, u32> {
        let all = self
            .of_host
            .keys()
            .filter_map(|host| self.place(level, *host));
        let mut counts: BTreeMap<Uuid, u32> = all.map(|place| (place, 0)).collect();
        for place in others.iter().filter_map(|host| self.place(level, *host)) {
            *counts.get_mut(&place).unwrap() += 1;
        }
        counts
    }

    /// Whether a host satisfies the hard rules.
    pub(crate) fn keeps(&self, request: &RequestSpec, host: Uuid) -> bool {
        Self::rules(request, Strength::Hard).all(|rule| {
            let level = rule.level.as_deref().unwrap();
            let others = self.others(request, rule);
            let Some(here) = self.place(level, host) else {
                return false;
            };
            let is_here = |other: &Uuid| self.place(level, *other) == Some(here);
            match rule.relation {
                TopologyRelation::Same => others.iter().all(is_here),
                TopologyRelation::Different => !others.iter().any(is_here),
                _ => {
                    let mut counts = self.counts(level, &others);
                    *counts.get_mut(&here).unwrap() += 1;
                    // The condition after the claim, as far as this aggregate is concerned.
                    counts[&here] - counts.values().min().unwrap() <= rule.max_skew.unwrap_or(1)
                }
            }
        })
    }

    fn distance(&self, one: Uuid, other: Uuid) -> u32 {
        if one == other {
            return 0;
        }
        for (number, (level, ..)) in (1u32..).zip(LEVELS) {
            let both = (self.place(level, one), self.place(level, other));
            let (Some(a), Some(b)) = both else { continue };
            if let Some(said) = self.distances.get(&(a, b)) {
                return *said;
            }
            if a == b {
                return 2 * number;
            }
        }
        OVER_THE_TOP
    }

    /// The degree to which a host satisfies the soft rules.
    pub(crate) fn wish(&self, request: &RequestSpec, host: Uuid) -> f64 {
        let rules = Self::rules(request, Strength::Soft);
        rules
            .map(|rule| f64::from(rule.weight.unwrap_or(1)) * self.value(request, rule, host))
            .sum()
    }

    fn value(&self, request: &RequestSpec, rule: &TopologyRule, host: Uuid) -> f64 {
        let others = self.others(request, rule);
        let Some(level) = rule.level.as_deref() else {
            if others.is_empty() {
                return 0.0;
            }
            let far: u32 = others.iter().map(|other| self.distance(host, *other)).sum();
            let most = self.distances.values().copied().max().unwrap_or(0);
            let far = f64::from(far) / others.len() as f64 / f64::from(most.max(OVER_THE_TOP));
            return match rule.relation {
                TopologyRelation::Near => 1.0 - far,
                _ => far,
            };
        };
        let Some(here) = self.place(level, host) else {
            return 0.0;
        };
        let counts = self.counts(level, &others);
        let all: u32 = counts.values().sum();
        let (least, most) = (
            *counts.values().min().unwrap(),
            *counts.values().max().unwrap(),
        );
        match rule.relation {
            TopologyRelation::Same if all == 0 => 0.0,
            TopologyRelation::Same => f64::from(counts[&here]) / f64::from(all),
            TopologyRelation::Different => f64::from(u8::from(counts[&here] == 0)),
            _ if most == least => 1.0,
            _ => f64::from(most - counts[&here]) / f64::from(most - least),
        }
    }
}
