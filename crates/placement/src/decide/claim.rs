//! Claiming and releasing resources that the client named.

use uuid::Uuid;

use super::Outcome;
use super::ledger::{
    self, CurrentInventories, Inventories, Ledger, OrderedProviders, RequestedAmount,
};
use crate::change::Change;
use crate::command::{AllocationRequest, ConsumerClaim, ConsumerGeneration};
use crate::ids::{ConsumerUuid, Timestamp};
use crate::refusal::Refusal;
use crate::rows::Consumer;
use crate::state::State;

/// The parts of a command from which the changes of a claim are made.
#[derive(Clone, Copy)]
pub(super) struct ClaimView<'a> {
    pub(super) consumer: ConsumerUuid,
    pub(super) project: &'a str,
    pub(super) user: &'a str,
    pub(super) consumer_type: Option<&'a str>,
    pub(super) allocations: &'a [AllocationRequest],
}

impl<'a> From<&'a ConsumerClaim> for ClaimView<'a> {
    fn from(claim: &'a ConsumerClaim) -> Self {
        Self {
            consumer: claim.consumer,
            project: &claim.project,
            user: &claim.user,
            consumer_type: claim.consumer_type.as_deref(),
            allocations: &claim.allocations,
        }
    }
}

pub(super) fn claim(
    state: &State,
    consumers: &[ConsumerClaim],
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let affected = decide_claims(state, consumers, at, &CurrentInventories, changes)?;
    increment_generations(state, &affected, at, changes);
    Ok(Outcome::Done)
}

/// Decides the new allocations of consumers, and adds the changes of the consumers to `changes`.
/// Returns the providers whose generations the caller has to increment, in order of first mention.
pub(super) fn decide_claims(
    state: &State,
    consumers: &[ConsumerClaim],
    at: Timestamp,
    inventories: &impl Inventories,
    changes: &mut Vec<Change>,
) -> Result<OrderedProviders, Refusal> {
    for claim in consumers {
        check_consumer_generation(state, claim.consumer, claim.generation)?;
    }
    let requested =
        ledger::resolve_requests(state, consumers.iter().flat_map(|claim| &claim.allocations))?;
    let mut ledger = Ledger::default();
    for consumer in consumers
        .iter()
        .filter_map(|claim| state.consumer(claim.consumer))
    {
        ledger.release(consumer);
    }
    ledger.claim(state, &requested, inventories)?;
    let mut affected = OrderedProviders::default();
    let claims = consumers.iter().map(ClaimView::from);
    add_claims(state, claims, &requested, at, &mut affected, changes);
    Ok(affected)
}

pub(super) fn check_consumer_generation(
    state: &State,
    consumer: ConsumerUuid,
    generation: ConsumerGeneration,
) -> Result<(), Refusal> {
    let ConsumerGeneration::Is(given) = generation else {
        return Ok(());
    };
    let actual = state.consumer(consumer).map(|consumer| consumer.generation);
    if actual == given {
        return Ok(());
    }
    Err(Refusal::ConsumerGenerationConflict {
        consumer,
        actual,
        given,
    })
}

/// Adds the changes of claims that fit. `requested` has the amounts of all of them, in order.
pub(super) fn add_claims<'a>(
    state: &State,
    claims: impl Iterator<Item = ClaimView<'a>>,
    requested: &[RequestedAmount],
    at: Timestamp,
    affected: &mut OrderedProviders,
    changes: &mut Vec<Change>,
) {
    let mut unprocessed = requested;
    for claim in claims {
        let requests = claim.allocations.iter();
        let count = requests.map(|request| request.resources.len()).sum();
        let (of_claim, others) = unprocessed.split_at(count);
        add_claim(state, claim, of_claim, at, affected, changes);
        unprocessed = others;
    }
}

fn add_claim(
    state: &State,
    claim: ClaimView<'_>,
    requested: &[RequestedAmount],
    at: Timestamp,
    affected: &mut OrderedProviders,
    changes: &mut Vec<Change>,
) {
    let existing = state.consumer(claim.consumer);
    if requested.is_empty() {
        if let Some(existing) = existing {
            existing
                .allocations
                .iter()
                .for_each(|held| affected.insert(held.provider));
            changes.push(Change::ConsumerRemoved {
                consumer: claim.consumer,
            });
        }
        return;
    }
    requested
        .iter()
        .for_each(|item| affected.insert(item.provider));
    changes.push(Change::ConsumerSet {
        consumer: claim.consumer,
        generation: existing.map_or(0, |consumer| consumer.generation) + 1,
        project: claim.project.to_owned(),
        user: claim.user.to_owned(),
        consumer_type: consumer_type(state, claim, existing),
        at,
        allocations: requested.iter().map(RequestedAmount::allocation).collect(),
    });
    if let Some(removal) = removal_of_host_assignment(state, existing, requested) {
        changes.push(removal);
    }
}

/// The change that removes a consumer's host assignment. `None` if the consumer has no assignment, or is to keep
/// allocations in the tree of its host.
fn removal_of_host_assignment(
    state: &State,
    existing: Option<&Consumer>,
    requested: &[RequestedAmount],
) -> Option<Change> {
    let existing = existing?;
    let host = existing.host_assignment?.host;
    let is_on_host = |item: &RequestedAmount| {
        state
            .provider(item.provider)
            .is_some_and(|provider| provider.root == host)
    };
    if requested.iter().any(is_on_host) {
        return None;
    }
    Some(Change::ConsumerPlaced {
        consumer: existing.uuid,
        host: None,
        group: None,
    })
}

/// The type that a claim names, else the present type of the consumer; `None` if there is neither.
fn consumer_type(
    state: &State,
    claim: ClaimView<'_>,
    existing: Option<&Consumer>,
) -> Option<String> {
    claim.consumer_type.map(str::to_owned).or_else(|| {
        let type_id = existing?.consumer_type?;
        Some(state.consumer_type_name(type_id).to_owned())
    })
}

/// Increments the generations of providers.
pub(super) fn increment_generations(
    state: &State,
    affected: &OrderedProviders,
    at: Timestamp,
    changes: &mut Vec<Change>,
) {
    for provider in affected.iter().filter_map(|id| state.provider(id)) {
        let (uuid, generation): (Uuid, u64) = (provider.uuid, provider.generation + 1);
        changes.push(Change::GenerationSet {
            provider: uuid,
            generation,
            at,
        });
    }
}

pub(super) fn release(
    state: &State,
    consumer: ConsumerUuid,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    if state.consumer(consumer).is_none() {
        return Err(Refusal::AllocationsNotFound { consumer });
    }
    changes.push(Change::ConsumerRemoved { consumer });
    Ok(Outcome::Done)
}
