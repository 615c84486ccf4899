//! Claiming the first candidate that fits.
//!
//! A scheduler ranks candidates on a state that may be out of date. The decision is made on the present state: it takes
//! the first candidate that still fits and satisfies every hard rule. If two schedulers want the same room, the second
//! one gets its next candidate; callers do not notice.

use smallvec::SmallVec;
use uuid::Uuid;

use super::Outcome;
use super::claim::{ClaimView, add_claims, check_consumer_generation, increment_generations};
use super::ledger::{self, CurrentInventories, Ledger, OrderedProviders};
use crate::change::Change;
use crate::command::{Intent, IntentCandidate};
use crate::group::{Group, Relation, Rule};
use crate::ids::{ConsumerId, ConsumerUuid, ProviderId, Timestamp};
use crate::refusal::Refusal;
use crate::state::State;

/// The decisions made so far for the intents of one command.
struct IntentBatch<'a> {
    state: &'a State,
    at: Timestamp,
    ledger: Ledger,
    /// The providers whose generations are incremented at the end.
    affected: OrderedProviders,
    placed: Vec<PlacedConsumer>,
}

/// A consumer for which a candidate was taken.
struct PlacedConsumer {
    consumer: ConsumerUuid,
    group: Option<Uuid>,
    host: ProviderId,
}

pub(super) fn claim_first(
    state: &State,
    intents: &[Intent],
    least: usize,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let mut batch = IntentBatch::new(state, at);
    let mut chosen = Vec::with_capacity(intents.len());
    let mut first_refusal = None;
    for intent in intents {
        match batch.claim(intent, changes)? {
            Ok(index) => chosen.push(Some(index)),
            Err(refusal) => {
                first_refusal = first_refusal.or(refusal);
                chosen.push(None);
            }
        }
    }
    let fitting = chosen.iter().flatten().count();
    if fitting < least || fitting == 0 {
        return Err(Refusal::NothingFits {
            fitting,
            required: least,
            first: first_refusal.map(Box::new),
        });
    }
    increment_generations(state, &batch.affected, at, changes);
    Ok(Outcome::Claimed(chosen))
}

/// A command with many intents, tried on a state before it is submitted.
///
/// It shows which candidate of each intent still fits after the intents before it. So the caller
/// can leave out candidates for which the command would be refused.
pub struct Rehearsal<'a> {
    batch: IntentBatch<'a>,
    changes: Vec<Change>,
}

impl<'a> Rehearsal<'a> {
    /// A command without intents.
    #[must_use]
    pub fn new(state: &'a State) -> Self {
        Self {
            batch: IntentBatch::new(state, Timestamp::default()),
            changes: Vec::new(),
        }
    }

    /// Adds an intent to the command. Returns the index of the candidate that it would get, after the intents before it
    /// got theirs; `None` if it would get none.
    pub fn add(&mut self, intent: &Intent) -> Option<u32> {
        // Only the ledger and the hosts of placed consumers matter: these changes are not applied.
        self.changes.clear();
        self.batch.claim(intent, &mut self.changes).ok()?.ok()
    }
}

impl<'a> IntentBatch<'a> {
    fn new(state: &'a State, at: Timestamp) -> Self {
        Self {
            state,
            at,
            ledger: Ledger::default(),
            affected: OrderedProviders::default(),
            placed: Vec::new(),
        }
    }
}

impl IntentBatch<'_> {
    /// The index of the claimed candidate, or why the first candidate was rejected.
    ///
    /// The outer error refuses the whole command, because the request itself is wrong; the inner
    /// one only says that no candidate fits.
    fn claim(
        &mut self,
        intent: &Intent,
        changes: &mut Vec<Change>,
    ) -> Result<Result<u32, Option<Refusal>>, Refusal> {
        check_consumer_generation(self.state, intent.consumer, intent.generation)?;
        for other in &intent.alongside {
            check_consumer_generation(self.state, other.consumer, other.generation)?;
        }
        let group = match intent.group {
            Some(uuid) => Some(
                self.state
                    .group(uuid)
                    .ok_or(Refusal::GroupNotFound { group: uuid })?,
            ),
            None => None,
        };
        let mut first_refusal = None;
        for (index, candidate) in (0u32..).zip(&intent.candidates) {
            match self.try_candidate(intent, candidate, group, changes) {
                Ok(()) => return Ok(Ok(index)),
                Err(refusal) => drop(first_refusal.get_or_insert(refusal)),
            }
        }
        Ok(Err(first_refusal))
    }

    /// Claims a candidate for an intent. The error is the reason why the candidate is rejected.
    fn try_candidate(
        &mut self,
        intent: &Intent,
        candidate: &IntentCandidate,
        group: Option<&Group>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let uuid = candidate.host;
        let host = self.state.provider_id(uuid);
        let host = host.ok_or(Refusal::AllocationProviderNotFound { uuid })?;
        self.check_rules(intent, host, group)?;
        let claim = ClaimView {
            consumer: intent.consumer,
            project: &intent.project,
            user: &intent.user,
            consumer_type: intent.consumer_type.as_deref(),
            allocations: &candidate.allocations,
        };
        let alongside = intent.alongside.iter().map(ClaimView::from);
        let claims: SmallVec<[ClaimView<'_>; 2]> =
            std::iter::once(claim).chain(alongside).collect();
        let requests = claims.iter().flat_map(|claim| claim.allocations);
        let requested = ledger::resolve_requests(self.state, requests)?;
        self.ledger.mark();
        for consumer in claims
            .iter()
            .filter_map(|claim| self.state.consumer(claim.consumer))
        {
            self.ledger.release(consumer);
        }
        if let Err(refusal) = self
            .ledger
            .claim(self.state, &requested, &CurrentInventories)
        {
            self.ledger.roll_back();
            return Err(refusal);
        }
        add_claims(
            self.state,
            claims.iter().copied(),
            &requested,
            self.at,
            &mut self.affected,
            changes,
        );
        changes.push(Change::ConsumerPlaced {
            consumer: intent.consumer,
            host: Some(candidate.host),
            group: intent.group,
        });
        self.placed.push(PlacedConsumer {
            consumer: intent.consumer,
            group: intent.group,
            host,
        });
        Ok(())
    }

    /// Refuses a host that breaks a rule of the intent, or of its group.
    fn check_rules(
        &self,
        intent: &Intent,
        host: ProviderId,
        group: Option<&Group>,
    ) -> Result<(), Refusal> {
        let rule_broken = |rule: &Rule| Refusal::RuleBroken {
            host: self
                .state
                .provider(host)
                .map_or(Uuid::nil(), |provider| provider.uuid),
            rule: describe(rule),
        };
        if let Some(group) = group {
            for rule in &group.rules {
                if !self
                    .state
                    .satisfies_rule(host, rule, self.group_hosts(intent, group))
                {
                    return Err(rule_broken(rule));
                }
            }
        }
        for intent_rule in &intent.rules {
            let group = group.filter(|_| intent_rule.includes_group);
            // If the rule names no consumers, the hosts are read from the members of the group, without
            // a look-up of each consumer by UUID.
            let is_satisfied = match group {
                Some(group) if intent_rule.others.is_empty() => {
                    let hosts = self.group_hosts(intent, group);
                    self.state.satisfies_rule(host, &intent_rule.rule, hosts)
                }
                _ => {
                    let hosts = self.hosts_of_others(intent, group, &intent_rule.others);
                    self.state
                        .satisfies_rule(host, &intent_rule.rule, hosts.into_iter())
                }
            };
            if !is_satisfied {
                return Err(rule_broken(&intent_rule.rule));
            }
        }
        Ok(())
    }

    /// The hosts of some consumers and of a group's other members, each consumer once, including
    /// those placed by this command.
    fn hosts_of_others(
        &self,
        intent: &Intent,
        group: Option<&Group>,
        others: &[ConsumerUuid],
    ) -> Vec<ProviderId> {
        let members = group.iter().flat_map(|group| &group.members);
        let members = members.filter_map(|member| self.state.consumer_by_id(member.consumer));
        let placed = self.placed.iter();
        let placed = placed.filter(|placed| group.is_some() && placed.group == intent.group);
        let mut consumers: Vec<ConsumerUuid> = others.to_vec();
        consumers.extend(members.map(|member| member.uuid));
        consumers.extend(placed.map(|placed| placed.consumer));
        consumers.sort_unstable();
        consumers.dedup();
        consumers.retain(|consumer| *consumer != intent.consumer);
        let host_of = |consumer: &ConsumerUuid| {
            let placed = self
                .placed
                .iter()
                .find(|placed| placed.consumer == *consumer);
            let existing_host = || Some(self.state.consumer(*consumer)?.host_assignment?.host);
            placed.map(|placed| placed.host).or_else(existing_host)
        };
        consumers.iter().filter_map(host_of).collect()
    }

    /// The hosts of the group's other members, including those placed by this command.
    fn group_hosts<'b>(
        &'b self,
        intent: &'b Intent,
        group: &'b Group,
    ) -> impl Iterator<Item = ProviderId> + 'b {
        let itself = self.state.consumer_id(intent.consumer);
        let placed_ids = self.placed.iter();
        let placed_ids = placed_ids.filter_map(|placed| self.state.consumer_id(placed.consumer));
        // The state does not have the new hosts of consumers that this command placed. For the intent's consumer it has
        // the host that the claim replaces.
        let outdated: SmallVec<[ConsumerId; 4]> = placed_ids.chain(itself).collect();
        let others = group.members.iter();
        let others = others.filter(move |member| !outdated.contains(&member.consumer));
        let existing_hosts = others.map(|member| member.host);
        let placed_in_group = self
            .placed
            .iter()
            .filter(move |placed| placed.group == intent.group);
        existing_hosts.chain(placed_in_group.map(|placed| placed.host))
    }
}

/// Describes a rule for people.
fn describe(rule: &Rule) -> String {
    let place = match &rule.scope {
        crate::group::RuleScope::Host => "host",
        crate::group::RuleScope::Level(name) => name,
    };
    match rule.relation {
        Relation::Same => format!("the same {place} as the others"),
        Relation::FewerThan(limit) => format!("a {place} with fewer than {limit} of the others"),
        Relation::Spread(skew) => {
            format!("a {place} with at most {skew} more than the emptiest {place}")
        }
    }
}
