//! The hard rules between the places of instances, evaluated during a search.
//!
//! Placement enforces the same rules when it decides a claim. Here the rules only exclude hosts for
//! which a claim would be refused.

use std::collections::BTreeSet;

use placewright_placement::group::{Group, Place, Relation, Rule, RuleScope};
use placewright_placement::place_names::FoundPlace;
use placewright_placement::slot_set::{SlotSet, bits};
use placewright_placement::{ConsumerUuid, IntentRule, ProviderId, State};
use uuid::Uuid;

use crate::error::BadRequest;
use crate::request::group::{HOST_LEVEL, Strength, TopologyRelation, check_topology};
use crate::request::{GroupPolicy, RequestSpec, ServerGroup, TopologyRule};

/// A rule, with the places of the other instances that it compares with.
#[derive(Debug)]
struct BoundRule {
    scope: RuleScope,
    /// If set, only these places satisfy the rule.
    allowed: Option<Vec<Place>>,
    /// The places that cannot take another instance, in rising order.
    full: Vec<Place>,
}

/// The hard rules of one request, bound to the present places of the other instances.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<BoundRule>,
}

/// The hard rules between the members of a server group.
#[must_use]
pub fn hard_group_rules(group: &ServerGroup) -> Vec<Rule> {
    let relation = match group.policy {
        Some(GroupPolicy::Affinity) => Some(Relation::Same),
        Some(GroupPolicy::AntiAffinity) => {
            Some(Relation::FewerThan(group.max_server_per_host.unwrap_or(1)))
        }
        Some(GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity) | None => None,
    };
    let policy_rule = relation.map(|relation| Rule {
        scope: RuleScope::Host,
        relation,
    });
    let between_members = group
        .topology_rules
        .iter()
        .filter(|rule| rule.to.is_empty());
    let topology_rules = between_members.filter_map(hard_rule);
    policy_rule.into_iter().chain(topology_rules).collect()
}

/// The hard topology rules of a request, each with the instances that it compares with.
pub fn hard_topology_rules(request: &RequestSpec) -> impl Iterator<Item = IntentRule> + '_ {
    request.topology_rules.iter().filter_map(|rule| {
        let group = request.instance_group.as_ref();
        let others: BTreeSet<Uuid> = if rule.to.is_empty() {
            let members = group.iter().flat_map(|group| &group.members);
            members.chain(&request.siblings).copied().collect()
        } else {
            rule.to.clone()
        };
        Some(IntentRule {
            rule: hard_rule(rule)?,
            others: others.into_iter().map(ConsumerUuid::from_uuid).collect(),
            includes_group: rule.to.is_empty() && group.is_some(),
        })
    })
}

/// Placement's form of a hard topology rule; `None` for a soft one.
#[must_use]
pub fn hard_rule(rule: &TopologyRule) -> Option<Rule> {
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

/// Checks that the topology has each place that a rule names.
///
/// A request is checked when it arrives. Later on a place that is gone has no effect, because only soft rules name
/// places.
///
/// # Errors
///
/// [`BadRequest`] names the field. `path` is the rule's position.
pub fn check_places(
    state: &State,
    rule: &TopologyRule,
    path: &dyn Fn() -> String,
) -> Result<(), BadRequest> {
    let mut levels = state.levels().iter().zip(state.place_names());
    let level = levels.find(|(level, _)| rule.level.as_ref() == Some(&level.name));
    for name in &rule.place {
        let found = level.map_or(FoundPlace::None, |(_, names)| names.find(name));
        let reason = match found {
            FoundPlace::One(_) => continue,
            FoundPlace::None => format!("the level has no place {name:?}"),
            FoundPlace::Several => format!(
                "the level has several places {name:?}: put the names of the larger places before it, as in north/{name}"
            ),
        };
        return Err(BadRequest::invalid(format!("{}.place", path()), reason));
    }
    Ok(())
}

impl Rules {
    /// Binds the rules of a request to the present places of the instances other than `instance`.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for topology rules that contradict themselves or name no level.
    pub fn bind(
        state: &State,
        request: &RequestSpec,
        instance: ConsumerUuid,
    ) -> Result<Self, BadRequest> {
        Self::bind_with_placed(state, request, instance, &[])
    }

    /// As [`Self::bind`]. `placed` are other instances of the request that will be claimed together with `instance`,
    /// and their hosts.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    pub fn bind_with_placed(
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
            let stored = state.group(group.uuid);
            let hosts = if group.members.is_empty() && request.topology_rules.is_empty() {
                // Only the hosts of the members matter here, and placement stores these in the group.
                let consumer = state.consumer_id(instance);
                stored.map_or_else(Vec::new, |stored| stored.hosts(consumer).collect())
            } else {
                members = other_members(state, stored, &group.members, instance);
                state.hosts_of(&members).collect()
            };
            let mut hosts: Vec<ProviderId> = hosts;
            hosts.extend(placed.iter().map(|(_, host)| *host));
            let requested_rules = || hard_group_rules(group);
            for rule in stored.map_or_else(requested_rules, |stored| stored.rules.clone()) {
                rules.add(state, &rule, &hosts);
            }
        }
        for rule in &request.topology_rules {
            let Some(hard) = hard_rule(rule) else {
                continue;
            };
            let mut others: Vec<ConsumerUuid>;
            if rule.to.is_empty() {
                let siblings = request.siblings.iter().copied();
                others = members.clone();
                others.extend(siblings.map(ConsumerUuid::from_uuid));
                others.sort_unstable();
                others.dedup();
            } else {
                let targets = rule.to.iter().copied();
                others = targets.map(ConsumerUuid::from_uuid).collect();
            }
            others.retain(|other| *other != instance);
            let mut hosts: Vec<ProviderId> = state.hosts_of(&others).collect();
            let includes_group = rule.to.is_empty() && request.instance_group.is_some();
            let compared = placed
                .iter()
                .filter(|(other, _)| includes_group || others.binary_search(other).is_ok());
            hosts.extend(compared.map(|(_, host)| *host));
            rules.add(state, &hard, &hosts);
        }
        Ok(rules)
    }

    /// Adds a rule that compares with instances on these hosts.
    fn add(&mut self, state: &State, rule: &Rule, others: &[ProviderId]) {
        let mut places: Vec<Option<Place>> = others
            .iter()
            .map(|host| state.place(*host, &rule.scope))
            .collect();
        places.sort_unstable();
        let mut bound_rule = BoundRule {
            scope: rule.scope.clone(),
            allowed: None,
            full: Vec::new(),
        };
        match rule.relation {
            Relation::Same => {
                places.dedup();
                // If the other instances are in different places, or one of them is in no place of the
                // scope, no host satisfies the rule.
                let are_in_one_place = places.len() == 1 && places[0].is_some();
                if !places.is_empty() {
                    let allowed = if are_in_one_place {
                        places.into_iter().flatten().collect()
                    } else {
                        vec![]
                    };
                    bound_rule.allowed = Some(allowed);
                }
            }
            Relation::FewerThan(limit) => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                for run in places.chunk_by(|a, b| a == b) {
                    if run.len() >= limit {
                        bound_rule.full.extend(run[0]);
                    }
                }
                // With a limit of 0 no place is allowed, not even an empty one.
                if limit == 0 {
                    bound_rule.allowed = Some(Vec::new());
                }
            }
            Relation::Spread(skew) => {
                let skew = usize::try_from(skew).unwrap_or(usize::MAX);
                let places: Vec<Place> = places.into_iter().flatten().collect();
                let minimum = state.emptiest_place_count(&places, &rule.scope);
                for run in places.chunk_by(|a, b| a == b) {
                    if run.len() >= skew.saturating_add(minimum) {
                        bound_rule.full.push(run[0]);
                    }
                }
                // With a skew of 0 no place is allowed: one more instance makes any place exceed
                // the minimum.
                if skew == 0 {
                    bound_rule.allowed = Some(Vec::new());
                }
            }
        }
        self.rules.push(bound_rule);
    }

    /// The hosts in the places that are allowed by the first rule that lists its allowed places; `None` if no rule
    /// does.
    #[must_use]
    pub fn listed_hosts(&self, state: &State) -> Option<SlotSet> {
        let allowed = self.rules.iter().find_map(|rule| rule.allowed.as_ref())?;
        let mut hosts = SlotSet::default();
        for place in allowed {
            match place {
                Place::Host(host) => {
                    hosts.insert(host.0);
                }
                Place::Aggregate(aggregate) => {
                    for slot in state.aggregate_members(*aggregate).iter() {
                        hosts.insert(slot);
                    }
                }
            }
        }
        Some(hosts)
    }

    /// The hosts of a mask that satisfy all rules at host scope. `word` is the index of the mask:
    /// its slots begin at `64 * word`.
    #[must_use]
    pub fn satisfying_host_rules(&self, word: usize, mask: u64) -> u64 {
        let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
        let host_rules = self
            .rules
            .iter()
            .filter(|rule| rule.scope == RuleScope::Host);
        host_rules.fold(mask, |mask, rule| mask & rule.host_word(base))
    }

    /// The hosts of a mask that satisfy all rules. `word` is as in [`Self::satisfying_host_rules`].
    #[must_use]
    pub fn satisfying(&self, state: &State, word: usize, mask: u64) -> u64 {
        let slots = bits(self.satisfying_host_rules(word, mask), word);
        let satisfying = slots.filter(|slot| self.level_rules_allow(state, ProviderId(*slot)));
        satisfying.fold(0, |mask, slot| mask | 1 << (slot % 64))
    }

    /// Whether a host satisfies the rules at level scope.
    #[must_use]
    pub fn level_rules_allow(&self, state: &State, host: ProviderId) -> bool {
        let mut level_rules = self
            .rules
            .iter()
            .filter(|rule| rule.scope != RuleScope::Host);
        level_rules.all(|rule| rule.allows(state.place(host, &rule.scope)))
    }
}

impl BoundRule {
    /// Whether another instance may be in a place.
    fn allows(&self, place: Option<Place>) -> bool {
        let Some(place) = place else { return false };
        self.allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(&place))
            && self.full.binary_search(&place).is_err()
    }

    /// The mask of the hosts from slot `base` on that satisfy the rule, which has host scope.
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
        let allowed = self
            .allowed
            .as_ref()
            .map_or(u64::MAX, |allowed| bits(allowed));
        allowed & !bits(&self.full)
    }
}

/// The members of a group other than the instance: those that placement stores, and those that the
/// request names.
fn other_members(
    state: &State,
    stored: Option<&Group>,
    requested: &BTreeSet<Uuid>,
    instance: ConsumerUuid,
) -> Vec<ConsumerUuid> {
    let stored = stored.iter().flat_map(|group| &group.members);
    let consumers = stored.filter_map(|member| state.consumer_by_id(member.consumer));
    let mut members: Vec<ConsumerUuid> = consumers.map(|consumer| consumer.uuid).collect();
    members.extend(requested.iter().copied().map(ConsumerUuid::from_uuid));
    members.sort_unstable();
    members.dedup();
    members.retain(|member| *member != instance);
    members
}
