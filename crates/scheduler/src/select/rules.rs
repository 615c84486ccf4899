//! Hard rules between the places of instances, evaluated during a search.
//!
//! Placement enforces the same rules with the claim; here they only avoid candidates that would be
//! refused.

use std::collections::BTreeSet;

use placewright_placement::group::{Group, Place, Relation, Rule, RuleScope};
use placewright_placement::slot_set::{SlotSet, bits};
use placewright_placement::{ConsumerUuid, IntentRule, ProviderId, State};
use uuid::Uuid;

use crate::error::BadRequest;
use crate::request::group::{HOST_LEVEL, Strength, TopologyRelation, check_topology};
use crate::request::{GroupPolicy, RequestSpec, ServerGroup, TopologyRule};

/// A rule bound to the places of the other instances.
#[derive(Debug)]
struct BoundRule {
    scope: RuleScope,
    /// The only places that satisfy a [`Relation::Same`] rule, if there are others.
    only: Option<Vec<Place>>,
    /// The places that cannot take another instance, in rising order.
    full: Vec<Place>,
}

/// The hard rules of one request, bound to the present places.
#[derive(Debug, Default)]
pub struct Rules {
    bound: Vec<BoundRule>,
}

/// The hard rules that hold between the members of a server group.
#[must_use]
pub fn of_group(group: &ServerGroup) -> Vec<Rule> {
    let relation = match group.policy {
        Some(GroupPolicy::Affinity) => Some(Relation::Same),
        Some(GroupPolicy::AntiAffinity) => {
            Some(Relation::FewerThan(group.max_server_per_host.unwrap_or(1)))
        }
        Some(GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity) | None => None,
    };
    let by_policy = relation.map(|relation| Rule {
        scope: RuleScope::Host,
        relation,
    });
    let by_topology = group.topology_rules.iter().filter_map(hard);
    by_policy.into_iter().chain(by_topology).collect()
}

/// The hard topology rules of a request, with the instances that each compares with.
pub fn of_topology(request: &RequestSpec) -> impl Iterator<Item = IntentRule> + '_ {
    request.topology_rules.iter().filter_map(|rule| {
        let group = request.instance_group.as_ref();
        let others: BTreeSet<Uuid> = if rule.to.is_empty() {
            let members = group.iter().flat_map(|group| &group.members);
            members.chain(&request.siblings).copied().collect()
        } else {
            rule.to.clone()
        };
        Some(IntentRule {
            rule: hard(rule)?,
            others: others.into_iter().map(ConsumerUuid::from_uuid).collect(),
            with_group: rule.to.is_empty() && group.is_some(),
        })
    })
}

/// The rule that a claim has to satisfy for a topology rule; `None` for a soft one.
#[must_use]
pub fn hard(rule: &TopologyRule) -> Option<Rule> {
    let relation = match rule.relation {
        TopologyRelation::Same => Relation::Same,
        TopologyRelation::Different => Relation::FewerThan(1),
        TopologyRelation::Spread => Relation::Spread(rule.max_skew.unwrap_or(1)),
        TopologyRelation::Near | TopologyRelation::Far => return None,
    };
    let scope = match rule.level.as_deref()? {
        HOST_LEVEL => RuleScope::Host,
        level => RuleScope::Level(level.to_owned()),
    };
    (rule.strength == Strength::Hard).then_some(Rule { scope, relation })
}

impl Rules {
    /// The rules of a request for an instance, bound to the present places of the others.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for topology rules that contradict themselves or name no level.
    pub fn of(
        state: &State,
        request: &RequestSpec,
        instance: ConsumerUuid,
    ) -> Result<Self, BadRequest> {
        Self::beside(state, request, instance, &[])
    }

    /// As [`Self::of`], where other instances of the request are about to be claimed on some hosts,
    /// together with this one.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub fn beside(
        state: &State,
        request: &RequestSpec,
        instance: ConsumerUuid,
        placed: &[(ConsumerUuid, ProviderId)],
    ) -> Result<Self, BadRequest> {
        check_topology(request, |name| {
            state.levels().iter().any(|level| level.name == name)
        })?;
        let mut rules = Self::default();
        let mut members = Vec::new();
        if let Some(group) = &request.instance_group {
            let kept = state.group(group.uuid);
            let hosts = if group.members.is_empty() && request.topology_rules.is_empty() {
                // Only the hosts of the members matter here, and placement stores them in the group.
                let itself = state.consumer_id(instance);
                kept.map_or_else(Vec::new, |kept| kept.hosts(itself).collect())
            } else {
                members = siblings(state, kept, &group.members, instance);
                state.hosts_of(&members).collect()
            };
            let mut hosts: Vec<ProviderId> = hosts;
            hosts.extend(placed.iter().map(|(_, host)| *host));
            let of_request = || of_group(group);
            for rule in kept.map_or_else(of_request, |kept| kept.rules.clone()) {
                rules.add(state, &rule, &hosts);
            }
        }
        for rule in &request.topology_rules {
            let Some(hard) = hard(rule) else { continue };
            let mut others: Vec<ConsumerUuid>;
            if rule.to.is_empty() {
                let siblings = request.siblings.iter().copied();
                others = members.clone();
                others.extend(siblings.map(ConsumerUuid::from_uuid));
                others.sort_unstable();
                others.dedup();
            } else {
                let named = rule.to.iter().copied();
                others = named.map(ConsumerUuid::from_uuid).collect();
            }
            others.retain(|other| *other != instance);
            let mut hosts: Vec<ProviderId> = state.hosts_of(&others).collect();
            let with_group = rule.to.is_empty() && request.instance_group.is_some();
            let concerned = placed
                .iter()
                .filter(|(other, _)| with_group || others.binary_search(other).is_ok());
            hosts.extend(concerned.map(|(_, host)| *host));
            rules.add(state, &hard, &hosts);
        }
        Ok(rules)
    }

    fn add(&mut self, state: &State, rule: &Rule, others: &[ProviderId]) {
        let mut places: Vec<Option<Place>> = others
            .iter()
            .map(|host| state.place(*host, &rule.scope))
            .collect();
        places.sort_unstable();
        let mut bound = BoundRule {
            scope: rule.scope.clone(),
            only: None,
            full: Vec::new(),
        };
        match rule.relation {
            Relation::Same => {
                places.dedup();
                // If the others are in different places, or one is nowhere, no host satisfies the
                // rule.
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
            Relation::Spread(skew) => {
                let skew = usize::try_from(skew).unwrap_or(usize::MAX);
                let places: Vec<Place> = places.into_iter().flatten().collect();
                let least = state.least(&places, &rule.scope);
                for run in places.chunk_by(|a, b| a == b) {
                    if run.len() >= skew.saturating_add(least) {
                        bound.full.push(run[0]);
                    }
                }
                // With a skew of 0 no place is allowed, because any would exceed the emptiest.
                if skew == 0 {
                    bound.only = Some(Vec::new());
                }
            }
        }
        self.bound.push(bound);
    }

    /// The hosts that a rule allows, if some rule allows only explicitly listed places.
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

    /// The hosts of a mask that satisfy all rules at host scope. `word` is the index of the mask.
    #[must_use]
    pub fn word(&self, word: usize, mask: u64) -> u64 {
        let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
        let about_hosts = self
            .bound
            .iter()
            .filter(|bound| bound.scope == RuleScope::Host);
        about_hosts.fold(mask, |mask, bound| mask & bound.host_word(base))
    }

    /// The hosts of a mask that satisfy all rules. `word` is the index of the mask.
    #[must_use]
    pub fn left_of(&self, state: &State, word: usize, mask: u64) -> u64 {
        let left = bits(self.word(word, mask), word);
        let keeping = left.filter(|slot| self.keeps(state, ProviderId(*slot)));
        keeping.fold(0, |mask, slot| mask | 1 << (slot % 64))
    }

    /// Whether a host that [`Self::word`] admits satisfies the rules at level scope.
    #[must_use]
    pub fn keeps(&self, state: &State, host: ProviderId) -> bool {
        let mut others = self
            .bound
            .iter()
            .filter(|bound| bound.scope != RuleScope::Host);
        others.all(|bound| bound.keeps(state.place(host, &bound.scope)))
    }
}

impl BoundRule {
    fn keeps(&self, place: Option<Place>) -> bool {
        let Some(place) = place else { return false };
        self.only.as_ref().is_none_or(|only| only.contains(&place))
            && self.full.binary_search(&place).is_err()
    }

    /// The hosts of a word that satisfy a rule at host scope; most words contain no relevant
    /// place.
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

/// A group's other members, as known to placement and as given by the request.
fn siblings(
    state: &State,
    kept: Option<&Group>,
    named: &BTreeSet<Uuid>,
    instance: ConsumerUuid,
) -> Vec<ConsumerUuid> {
    let kept = kept.iter().flat_map(|group| &group.members);
    let kept = kept.filter_map(|member| state.consumer_by_id(member.consumer));
    let mut members: Vec<ConsumerUuid> = kept.map(|consumer| consumer.uuid).collect();
    members.extend(named.iter().copied().map(ConsumerUuid::from_uuid));
    members.sort_unstable();
    members.dedup();
    members.retain(|member| *member != instance);
    members
}
