//! Hard rules between the places of instances, as a search sees them.
//!
//! Placement checks the same rules once more with the claim; here they only keep hosts from being
//! offered in vain.

use placewright_placement::group::{Place, Relation, Rule, Scope};
use placewright_placement::slot_set::{SlotSet, bits};
use placewright_placement::{ConsumerUuid, ProviderId, State};

use crate::request::group::{Strength, TopologyRelation};
use crate::request::{GroupPolicy, RequestSpec, ServerGroup};

/// A rule with the places that matter to it.
#[derive(Debug)]
struct Bound {
    scope: Scope,
    /// With others somewhere and [`Relation::Same`]: the only places that will do.
    only: Option<Vec<Place>>,
    /// The places that are full, in rising order.
    full: Vec<Place>,
}

/// The hard rules of one request.
#[derive(Debug, Default)]
pub struct Rules {
    bound: Vec<Bound>,
}

/// The rules that a server group's policy stands for.
#[must_use]
pub fn of_policy(group: &ServerGroup) -> Vec<Rule> {
    let relation = match group.policy {
        GroupPolicy::Affinity => Relation::Same,
        GroupPolicy::AntiAffinity => Relation::FewerThan(group.max_server_per_host.unwrap_or(1)),
        GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity => return Vec::new(),
    };
    vec![Rule {
        scope: Scope::Host,
        relation,
    }]
}

/// The hard topology rules of a request and whom each is about; nobody means the group's members.
pub fn of_topology(request: &RequestSpec) -> impl Iterator<Item = (Rule, Vec<ConsumerUuid>)> + '_ {
    let hard = request
        .topology_rules
        .iter()
        .filter(|rule| rule.strength == Strength::Hard);
    hard.filter_map(|rule| {
        let relation = match rule.relation {
            TopologyRelation::Same => Relation::Same,
            TopologyRelation::Different => Relation::FewerThan(1),
            // "As evenly as possible" has no place that is wrong.
            TopologyRelation::Spread => return None,
        };
        let scope = Scope::Level(rule.level.clone());
        let others = rule
            .to
            .iter()
            .map(|uuid| ConsumerUuid::from_uuid(*uuid))
            .collect();
        Some((Rule { scope, relation }, others))
    })
}

impl Rules {
    /// The rules of a request for an instance, given where the others are now.
    #[must_use]
    pub fn of(state: &State, request: &RequestSpec, instance: ConsumerUuid) -> Self {
        let mut rules = Self::default();
        let mates = request
            .instance_group
            .as_ref()
            .map(|group| mates(state, group, instance));
        if let (Some(group), Some(mates)) = (&request.instance_group, &mates) {
            let kept = state.group(group.uuid).map(|kept| kept.rules.clone());
            for rule in kept.unwrap_or_else(|| of_policy(group)) {
                rules.add(state, &rule, mates);
            }
        }
        for (rule, others) in of_topology(request) {
            if others.is_empty() {
                rules.add(state, &rule, mates.as_deref().unwrap_or_default());
            } else {
                let hosts: Vec<ProviderId> = state.hosts_of(&others).collect();
                rules.add(state, &rule, &hosts);
            }
        }
        rules
    }

    fn add(&mut self, state: &State, rule: &Rule, others: &[ProviderId]) {
        let mut places: Vec<Option<Place>> = others
            .iter()
            .map(|host| state.place(*host, &rule.scope))
            .collect();
        places.sort_unstable();
        let mut bound = Bound {
            scope: rule.scope.clone(),
            only: None,
            full: Vec::new(),
        };
        match rule.relation {
            Relation::Same => {
                places.dedup();
                // Others in two places, or nowhere: no host is where all of them are.
                let all_there = places.len() == 1 && places[0].is_some();
                if !places.is_empty() {
                    let only = if all_there {
                        places.into_iter().flatten().collect()
                    } else {
                        vec![]
                    };
                    bound.only = Some(only);
                }
            }
            Relation::FewerThan(most) => {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                for run in places.chunk_by(|a, b| a == b) {
                    if run.len() >= most {
                        bound.full.extend(run[0]);
                    }
                }
                if most == 0 {
                    bound.only = Some(Vec::new());
                }
            }
        }
        self.bound.push(bound);
    }

    /// The hosts that a rule leaves, if one leaves only those of some places.
    #[must_use]
    pub fn named(&self, state: &State) -> Option<SlotSet> {
        let only = self.bound.iter().find_map(|bound| bound.only.as_ref())?;
        let mut named = SlotSet::default();
        for place in only {
            match place {
                Place::Host(host) => {
                    named.insert(host.0);
                }
                Place::Aggregate(aggregate) => {
                    for slot in state.aggregate_members(*aggregate).iter() {
                        named.insert(slot);
                    }
                }
            }
        }
        Some(named)
    }

    /// The hosts of a mask that keep all rules about hosts. `word` is the place of the mask.
    #[must_use]
    pub fn word(&self, word: usize, mask: u64) -> u64 {
        let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
        let about_hosts = self.bound.iter().filter(|bound| bound.scope == Scope::Host);
        about_hosts.fold(mask, |mask, bound| mask & bound.host_word(base))
    }

    /// The hosts of a mask that keep all rules. `word` is the place of the mask.
    #[must_use]
    pub fn left_of(&self, state: &State, word: usize, mask: u64) -> u64 {
        let left = bits(self.word(word, mask), word);
        let keeping = left.filter(|slot| self.keeps(state, ProviderId(*slot)));
        keeping.fold(0, |mask, slot| mask | 1 << (slot % 64))
    }

    /// Whether a host of which [`Self::word`] said yes keeps the rules about other places.
    #[must_use]
    pub fn keeps(&self, state: &State, host: ProviderId) -> bool {
        let mut others = self.bound.iter().filter(|bound| bound.scope != Scope::Host);
        others.all(|bound| bound.keeps(state.place(host, &bound.scope)))
    }
}

impl Bound {
    fn keeps(&self, place: Option<Place>) -> bool {
        let Some(place) = place else { return false };
        self.only.as_ref().is_none_or(|only| only.contains(&place))
            && self.full.binary_search(&place).is_err()
    }

    /// The hosts of a word that keep a rule about hosts: most words have none that matters.
    fn host_word(&self, base: u32) -> u64 {
        let bits = |places: &[Place]| {
            let start = places.partition_point(|place| *place < Place::Host(ProviderId(base)));
            places[start..]
                .iter()
                .map_while(|place| match place {
                    Place::Host(host) if host.0 - base < 64 => Some(1u64 << (host.0 - base)),
                    Place::Host(_) | Place::Aggregate(_) => None,
                })
                .fold(0, |mask, bit| mask | bit)
        };
        let only = self.only.as_ref().map_or(u64::MAX, |only| bits(only));
        only & !bits(&self.full)
    }
}

/// The hosts of a group's other members: as placement keeps them, or as the request says.
fn mates(state: &State, group: &ServerGroup, instance: ConsumerUuid) -> Vec<ProviderId> {
    let mut members: Vec<ConsumerUuid> = match state.group(group.uuid) {
        Some(kept) => {
            let consumers = kept
                .members
                .iter()
                .filter_map(|id| state.consumer_by_id(*id));
            consumers.map(|consumer| consumer.uuid).collect()
        }
        None => Vec::new(),
    };
    members.extend(
        group
            .members
            .iter()
            .map(|uuid| ConsumerUuid::from_uuid(*uuid)),
    );
    members.sort_unstable();
    members.dedup();
    members.retain(|member| *member != instance);
    state.hosts_of(&members).collect()
}
