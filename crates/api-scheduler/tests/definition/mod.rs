//! The definition of topology rules: an independent implementation, host by host, that the
//! scheduler is compared with.

pub(crate) mod random_choices;
pub(crate) mod random_fleet;

use std::collections::{BTreeMap, BTreeSet};

use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::request::group::{Strength, TopologyRelation, TopologyRule};
use serde_json::{Value, json};
use uuid::Uuid;

use random_choices::{RandomChoices, uuid};

/// The levels, the smallest first: the name of each, the kind of its aggregates' UUIDs (see `random_choices::uuid`),
/// and how many aggregates it has.
const LEVELS: [(&str, u32, u64); 2] = [("rack", 0xb0, 4), ("room", 0xb1, 2)];
/// The number of hops between hosts that are in no common aggregate: from one host up beyond both levels, and down to
/// the other host.
const HOPS_MAX: u32 = 6;

/// The name of a place of a level.
fn place_name(number: usize) -> String {
    format!("north/p{number}")
}

/// A field of a rule in its text.
fn field_text(key: &str, value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("{key}={text}"),
        None => format!("{key}={value}"),
    }
}

/// The topology of a fleet, and the hosts of all instances.
#[derive(Default)]
pub(crate) struct Topology {
    /// The aggregate of each host at each level.
    aggregates_of_host: BTreeMap<Uuid, [Option<Uuid>; 2]>,
    /// The operator's distances between aggregates, in both directions.
    distances: BTreeMap<(Uuid, Uuid), u32>,
    /// The host of each instance.
    instances: BTreeMap<Uuid, Uuid>,
    /// The members of each server group.
    members: BTreeMap<Uuid, BTreeSet<Uuid>>,
}

impl Topology {
    /// Generates random distances, and returns the body of `PUT /v1/topology`.
    pub(crate) fn draw_topology(&mut self, choices: &mut RandomChoices) -> Value {
        let aggregates = |kind, count| (0..count).map(move |number| uuid(kind, number));
        let levels = LEVELS.map(|(name, kind, count)| {
            // The last aggregate has no hosts.
            let level_aggregates: Vec<Uuid> = aggregates(kind, count + 1).collect();
            let names = level_aggregates.iter().enumerate();
            let names: BTreeMap<Uuid, String> = names
                .map(|(number, uuid)| (*uuid, place_name(number)))
                .collect();
            json!({"name": name, "aggregates": level_aggregates, "names": names})
        });
        let mut distances = Vec::new();
        for (_, kind, count) in LEVELS {
            if choices.one_in(2) {
                continue;
            }
            for from in aggregates(kind, count) {
                for to in aggregates(kind, count).filter(|to| *to >= from) {
                    if choices.one_in(2) {
                        let distance = u32::try_from(choices.below(12)).unwrap();
                        // A distance holds in both directions, so the body has only the opposite direction of this
                        // pair.
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
    pub(crate) fn draw_host(&mut self, choices: &mut RandomChoices, host: Uuid) -> Vec<Uuid> {
        let aggregates = LEVELS
            .map(|(_, kind, count)| (!choices.one_in(8)).then(|| uuid(kind, choices.below(count))));
        self.aggregates_of_host.insert(host, aggregates);
        aggregates.into_iter().flatten().collect()
    }

    /// Records the claim of an instance.
    pub(crate) fn record_claim(&mut self, instance: Uuid, host: Uuid, group: Option<Uuid>) {
        self.instances.insert(instance, host);
        if let Some(group) = group {
            self.members.entry(group).or_default().insert(instance);
        }
    }

    /// The rules of a server group, derived from its UUID.
    pub(crate) fn rules_of_group(group: Uuid) -> Value {
        let number = group.as_bytes()[15];
        // The policies of groups repeat after four numbers (see `random_fleet::policy_index`). The rules are shifted by
        // one after each four numbers, so that a policy does not always occur with the same rules.
        match (number + number / 4) % 4 {
            0 => json!([{"level": "rack", "relation": "spread", "max_skew": 2}]),
            1 => json!([{"level": "room", "relation": "same", "strength": "soft"}]),
            2 => json!([]),
            _ => json!([{"level": "rack", "relation": "different"},
                        {"relation": "near", "strength": "soft", "weight": 3}]),
        }
    }

    /// Generates random rules of a flavor, and their text in its extra specs.
    pub(crate) fn draw_flavor_rules(&self, choices: &mut RandomChoices) -> (Value, String) {
        let rules = self.draw_rules(choices);
        let texts = rules.as_array().unwrap().iter().map(|rule| {
            let fields = rule.as_object().unwrap().iter();
            let fields = fields.flat_map(|(key, value)| match value {
                Value::Array(items) => items.iter().map(|item| field_text(key, item)).collect(),
                value => vec![field_text(key, value)],
            });
            fields.collect::<Vec<String>>().join(",")
        });
        let text = texts.collect::<Vec<String>>().join(";");
        (rules, text)
    }

    /// Generates a random soft rule about places that it names. Some places are named by the whole name, others by its
    /// end or the UUID.
    fn draw_place_rule(choices: &mut RandomChoices) -> Value {
        let (level, kind, count) = choices.pick(&LEVELS);
        let place = (0..1 + choices.below(2)).map(|_| {
            let number = choices.below(count + 1);
            let name = place_name(usize::try_from(number).unwrap());
            match choices.below(3) {
                0 => name,
                1 => name.trim_start_matches("north/").to_owned(),
                _ => uuid(kind, number).to_string(),
            }
        });
        let place: BTreeSet<String> = place.collect();
        json!({
            "level": level, "relation": choices.pick(&["same", "different"]), "strength": "soft",
            "weight": 1 + choices.below(3), "place": place,
        })
    }

    /// Generates random rules of a request.
    pub(crate) fn draw_rules(&self, choices: &mut RandomChoices) -> Value {
        let mut rules = Vec::new();
        for _ in 0..choices.below(3) {
            if choices.one_in(4) {
                rules.push(Self::draw_place_rule(choices));
                continue;
            }
            let instances: Vec<Uuid> = self.instances.keys().copied().collect();
            let count = if instances.is_empty() {
                0
            } else {
                choices.below(4)
            };
            let to: BTreeSet<Uuid> = (0..count).map(|_| choices.pick(&instances)).collect();
            let relation = choices.pick(&["same", "different", "spread", "near", "far"]);
            let is_about_distance = ["near", "far"].contains(&relation);
            let mut rule = json!({"relation": relation, "to": to});
            let is_soft = is_about_distance || !choices.one_in(3);
            if is_soft {
                rule["strength"] = json!("soft");
                rule["weight"] = json!(1 + choices.below(3));
            }
            if !is_about_distance {
                let is_hard_spread = relation == "spread" && !is_soft;
                let levels: &[&str] = if is_hard_spread {
                    &["rack", "room"]
                } else {
                    &["rack", "room", "host"]
                };
                rule["level"] = json!(choices.pick(levels));
            }
            if relation == "spread" && !is_soft {
                rule["max_skew"] = json!(1 + choices.below(2));
            }
            rules.push(rule);
        }
        json!(rules)
    }

    /// The place of a host at a level: an aggregate, or the host itself at level `host`. `None` if the host is in no
    /// aggregate of the level.
    fn place_at_level(&self, level: &str, host: Uuid) -> Option<Uuid> {
        match LEVELS.iter().position(|(name, ..)| *name == level) {
            Some(level) => self.aggregates_of_host[&host][level],
            None => Some(host),
        }
    }

    /// The hosts of the instances that a rule refers to, one for each instance.
    fn hosts_of_rule(&self, request: &RequestSpec, rule: &TopologyRule) -> Vec<Uuid> {
        let group = request.instance_group.as_ref();
        let members = group.and_then(|group| self.members.get(&group.uuid));
        let instances = if rule.to.is_empty() {
            members.cloned().unwrap_or_default()
        } else {
            rule.to.clone()
        };
        let hosts = instances
            .iter()
            .filter_map(|instance| self.instances.get(instance));
        hosts.copied().collect()
    }

    /// The rules of a request and of its server group that have this strength.
    fn rules(request: &RequestSpec, strength: Strength) -> impl Iterator<Item = &TopologyRule> {
        let group_rules = request
            .instance_group
            .iter()
            .flat_map(|group| &group.topology_rules);
        let rules = request.topology_rules.iter().chain(group_rules);
        rules.filter(move |rule| rule.strength == strength)
    }

    /// How many of these hosts each place of a level has. Places without hosts are left out.
    fn counts(&self, level: &str, other_hosts: &[Uuid]) -> BTreeMap<Uuid, u32> {
        let places = self
            .aggregates_of_host
            .keys()
            .filter_map(|host| self.place_at_level(level, *host));
        let mut counts: BTreeMap<Uuid, u32> = places.map(|place| (place, 0)).collect();
        for place in other_hosts
            .iter()
            .filter_map(|host| self.place_at_level(level, *host))
        {
            *counts.get_mut(&place).unwrap() += 1;
        }
        counts
    }

    /// Whether a host satisfies the hard rules.
    pub(crate) fn satisfies_hard_rules(&self, request: &RequestSpec, host: Uuid) -> bool {
        Self::rules(request, Strength::Hard).all(|rule| {
            let level = rule.level.as_deref().unwrap();
            let other_hosts = self.hosts_of_rule(request, rule);
            let Some(own_place) = self.place_at_level(level, host) else {
                return false;
            };
            let is_in_own_place =
                |other_host: &Uuid| self.place_at_level(level, *other_host) == Some(own_place);
            match rule.relation {
                TopologyRelation::Same => other_hosts.iter().all(is_in_own_place),
                TopologyRelation::Different => !other_hosts.iter().any(is_in_own_place),
                _ => {
                    let mut counts = self.counts(level, &other_hosts);
                    *counts.get_mut(&own_place).unwrap() += 1;
                    // The condition has to hold after the claim.
                    counts[&own_place] - counts.values().min().unwrap()
                        <= rule.max_skew.unwrap_or(1)
                }
            }
        })
    }

    /// The distance between two hosts: the operator's distance between their places at the lowest level that has one,
    /// or otherwise the number of hops up to their lowest common place and down again.
    fn distance(&self, from: Uuid, to: Uuid) -> u32 {
        if from == to {
            return 0;
        }
        for (levels_up, (level, ..)) in (1u32..).zip(LEVELS) {
            let places = (
                self.place_at_level(level, from),
                self.place_at_level(level, to),
            );
            let (Some(a), Some(b)) = places else { continue };
            if let Some(distance) = self.distances.get(&(a, b)) {
                return *distance;
            }
            if a == b {
                return 2 * levels_up;
            }
        }
        HOPS_MAX
    }

    /// The weighted sum of the degrees to which a host satisfies the soft rules.
    pub(crate) fn soft_rules_value(&self, request: &RequestSpec, host: Uuid) -> f64 {
        let rules = Self::rules(request, Strength::Soft);
        rules
            .map(|rule| {
                f64::from(rule.weight.unwrap_or(1)) * self.soft_rule_value(request, rule, host)
            })
            .sum()
    }

    /// The degree to which a host satisfies a soft rule: from 0 for not at all to 1.
    fn soft_rule_value(&self, request: &RequestSpec, rule: &TopologyRule, host: Uuid) -> f64 {
        let other_hosts = self.hosts_of_rule(request, rule);
        // Rules without a level are about distances.
        let Some(level) = rule.level.as_deref() else {
            if other_hosts.is_empty() {
                return 0.0;
            }
            let sum: u32 = other_hosts
                .iter()
                .map(|other_host| self.distance(host, *other_host))
                .sum();
            let max = self.distances.values().copied().max().unwrap_or(0);
            let relative_distance =
                f64::from(sum) / other_hosts.len() as f64 / f64::from(max.max(HOPS_MAX));
            return match rule.relation {
                TopologyRelation::Near => 1.0 - relative_distance,
                _ => relative_distance,
            };
        };
        let Some(own_place) = self.place_at_level(level, host) else {
            return 0.0;
        };
        if !rule.place.is_empty() {
            let (_, kind, count) = LEVELS
                .into_iter()
                .find(|(name, ..)| *name == level)
                .unwrap();
            let number = (0..=count).find(|number| uuid(kind, *number) == own_place);
            let name = place_name(usize::try_from(number.unwrap()).unwrap());
            let names = [
                &name,
                name.trim_start_matches("north/"),
                &own_place.to_string(),
            ];
            let is_named = names.iter().any(|name| rule.place.contains(*name));
            let is_wanted = rule.relation == TopologyRelation::Same;
            return f64::from(u8::from(is_named == is_wanted));
        }
        let counts = self.counts(level, &other_hosts);
        let total: u32 = counts.values().sum();
        let (min, max) = (
            *counts.values().min().unwrap(),
            *counts.values().max().unwrap(),
        );
        match rule.relation {
            TopologyRelation::Same if total == 0 => 0.0,
            TopologyRelation::Same => f64::from(counts[&own_place]) / f64::from(total),
            TopologyRelation::Different => f64::from(u8::from(counts[&own_place] == 0)),
            _ if max == min => 1.0,
            _ => f64::from(max - counts[&own_place]) / f64::from(max - min),
        }
    }
}
