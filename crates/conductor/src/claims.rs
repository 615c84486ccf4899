//! Translates claims of instances and migrations into placement's changes.
//!
//! The functions add placement's changes to a decision of control; they have no state.

use placewright_placement::change::NewAllocation;
use placewright_placement::{
    Change, Command, Consumer, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Intent,
    IntentCandidate, IntentRule, Outcome, Refusal, State, Timestamp, decide,
};

use crate::ids::{HostId, InstanceId, MigrationId};
use crate::spec::{Amounts, Candidate, Spec};

/// The consumer type of instances.
pub const INSTANCE: &str = "INSTANCE";
/// The consumer type of migrations.
pub const MIGRATION: &str = "MIGRATION";

/// The intent with which placement claims one of the candidates for an instance. The claims
/// `alongside` are made in the same step, for example the claim of a migration for the former allocations.
#[must_use]
pub fn intent(
    state: &State,
    instance: InstanceId,
    spec: &Spec,
    candidates: &[&Candidate],
    alongside: Vec<ConsumerClaim>,
) -> Intent {
    let rules = spec.rules.iter().map(|hard| IntentRule {
        rule: hard.rule.clone(),
        others: hard
            .others
            .iter()
            .copied()
            .map(ConsumerUuid::from_uuid)
            .collect(),
        // A rule that names no instances is about the members of the server group.
        includes_group: hard.others.is_empty(),
    });
    Intent {
        consumer: instance.consumer(),
        generation: ConsumerGeneration::Any,
        project: spec.project.clone(),
        user: spec.user.clone(),
        consumer_type: Some(INSTANCE.into()),
        // The rules of a deleted group no longer apply.
        group: spec.group.filter(|group| state.group(*group).is_some()),
        rules: rules.collect(),
        candidates: candidates
            .iter()
            .map(|candidate| IntentCandidate {
                host: candidate.host.0,
                allocations: candidate.amounts.iter().map(Amounts::request).collect(),
            })
            .collect(),
        alongside,
    }
}

/// Claims the first candidate that fits, which replaces the instance's allocations. Returns the index of the candidate.
/// In a move, the migration takes over the former allocations in the same step.
///
/// # Errors
///
/// If no candidate fits: why the first one does not, or `None` if there are no candidates.
pub fn claim_first(
    state: &State,
    (instance, spec): (InstanceId, &Spec),
    candidates: &[Candidate],
    handed_to_migration: Option<(MigrationId, &[Amounts])>,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<u32, Option<Refusal>> {
    let start = changes.len();
    let mut first_reason = None;
    for (index, candidate) in (0u32..).zip(candidates) {
        let alongside = handed_to_migration.map(|(migration, held)| ConsumerClaim {
            consumer: migration.consumer(),
            generation: ConsumerGeneration::Any,
            project: spec.project.clone(),
            user: spec.user.clone(),
            consumer_type: Some(MIGRATION.into()),
            allocations: allocations_of_migration(state, held, candidate)
                .iter()
                .map(Amounts::request)
                .collect(),
        });
        let intents = vec![intent(
            state,
            instance,
            spec,
            &[candidate],
            alongside.into_iter().collect(),
        )];
        let command = Command::ClaimFirst {
            intents,
            least: 1,
            at,
        };
        match decide(state, &command, changes) {
            Ok(_) => return Ok(index),
            Err(Refusal::NothingFits { first, .. }) => {
                changes.truncate(start);
                first_reason = first_reason.or(first.map(|first| *first));
            }
            Err(refusal) => {
                changes.truncate(start);
                first_reason = first_reason.or(Some(refusal));
            }
        }
    }
    Err(first_reason)
}

/// The allocations that a migration keeps so that the instance can go back from a candidate.
///
/// These are all allocations from trees of hosts. From a sharing provider, such as shared storage, the migration keeps
/// only the amounts that the candidate does not claim there too: the instance has one disk, not two.
fn allocations_of_migration(
    state: &State,
    held: &[Amounts],
    candidate: &Candidate,
) -> Vec<Amounts> {
    let is_in_tree_of_host = |provider| {
        let provider = state.provider_by_uuid(provider);
        let root = provider.and_then(|provider| state.provider(provider.root));
        let sharing = state.sharing_trait();
        root.is_some_and(|root| !sharing.is_some_and(|sharing| root.has_trait(sharing)))
    };
    let claimed_by_candidate = |provider, class: &str| -> i64 {
        let of_provider = candidate
            .amounts
            .iter()
            .filter(|amounts| amounts.provider == provider);
        let resources = of_provider.flat_map(|amounts| &amounts.resources);
        let of_class = resources.filter(|(name, _)| name == class);
        of_class.map(|(_, amount)| amount).sum()
    };
    let mut kept = Vec::with_capacity(held.len());
    for amounts in held {
        let provider = amounts.provider;
        if is_in_tree_of_host(provider) {
            kept.push(amounts.clone());
            continue;
        }
        let resources = amounts.resources.iter().map(|(class, amount)| {
            let excess = amount.saturating_sub(claimed_by_candidate(provider, class));
            (class.clone(), excess)
        });
        let resources: Vec<(String, i64)> = resources.filter(|(_, excess)| *excess > 0).collect();
        if !resources.is_empty() {
            kept.push(Amounts {
                provider,
                resources,
            });
        }
    }
    kept
}

/// The allocations of an instance, by provider.
#[must_use]
pub fn held_allocations(state: &State, instance: InstanceId) -> Vec<Amounts> {
    let mut held: Vec<Amounts> = Vec::new();
    let consumer = state.consumer(instance.consumer());
    for allocation in consumer.iter().flat_map(|consumer| &consumer.allocations) {
        let Some(provider) = state.provider(allocation.provider) else {
            continue;
        };
        let class = state.class_name(allocation.class).to_owned();
        let amount = (class, i64::from(allocation.amount));
        match held
            .iter_mut()
            .find(|amounts| amounts.provider == provider.uuid)
        {
            Some(amounts) => amounts.resources.push(amount),
            None => held.push(Amounts {
                provider: provider.uuid,
                resources: vec![amount],
            }),
        }
    }
    held
}

/// Whether an instance has allocations from a host or its descendants.
#[must_use]
pub fn has_allocations_on(state: &State, instance: InstanceId, host: HostId) -> bool {
    let consumer = state.consumer(instance.consumer());
    let mut held = consumer.iter().flat_map(|consumer| &consumer.allocations);
    held.any(|allocation| {
        let root = state.provider(allocation.provider).map(|found| found.root);
        let root = root.and_then(|root| state.provider(root));
        root.is_some_and(|root| root.uuid == host.0)
    })
}

/// The host that was recorded with the claim of an instance.
#[must_use]
pub fn host_of(state: &State, instance: InstanceId) -> Option<HostId> {
    let assignment = state.consumer(instance.consumer())?.host_assignment?;
    state
        .provider(assignment.host)
        .map(|host| HostId(host.uuid))
}

/// Releases all allocations of a consumer, if it has any.
pub fn release(state: &State, consumer: ConsumerUuid, changes: &mut Vec<Change>) {
    if state.consumer(consumer).is_some() {
        changes.push(Change::ConsumerRemoved { consumer });
    }
}

/// Gives an instance back the allocations that it had before a move, and releases all others of the
/// instance and the migration.
///
/// Capacity is not checked: instance and migration already hold at least as much, and inventories
/// may have shrunk meanwhile. A move must always be able to end.
pub fn restore_allocations(
    state: &State,
    (instance, spec): (InstanceId, &Spec),
    (migration, source, held): (MigrationId, Option<HostId>, &[Amounts]),
    at: Timestamp,
    changes: &mut Vec<Change>,
) {
    release(state, migration.consumer(), changes);
    let mut allocations = Vec::new();
    for amounts in held {
        if state.provider_id(amounts.provider).is_none() {
            continue;
        }
        for (class, amount) in &amounts.resources {
            if let Some(class) = state.class_id(class) {
                allocations.push(NewAllocation {
                    provider: amounts.provider,
                    class,
                    amount: u32::try_from(*amount).unwrap_or(u32::MAX),
                });
            }
        }
    }
    if allocations.is_empty() {
        release(state, instance.consumer(), changes);
        return;
    }
    let existing = state.consumer(instance.consumer());
    increment_generations(state, existing, &allocations, at, changes);
    changes.push(Change::ConsumerSet {
        consumer: instance.consumer(),
        generation: existing.map_or(0, |consumer| consumer.generation) + 1,
        project: spec.project.clone(),
        user: spec.user.clone(),
        consumer_type: Some(INSTANCE.into()),
        at,
        allocations,
    });
    changes.push(Change::ConsumerPlaced {
        consumer: instance.consumer(),
        host: source.map(|host| host.0),
        group: spec.group,
    });
}

/// Increments the generations of providers whose allocations change.
fn increment_generations(
    state: &State,
    existing: Option<&Consumer>,
    allocations: &[NewAllocation],
    at: Timestamp,
    changes: &mut Vec<Change>,
) {
    let before = existing.iter().flat_map(|consumer| &consumer.allocations);
    let mut providers: Vec<_> = before.map(|held| held.provider).collect();
    let after = allocations.iter();
    providers.extend(after.filter_map(|allocation| state.provider_id(allocation.provider)));
    providers.sort_unstable();
    providers.dedup();
    for provider in providers.iter().filter_map(|id| state.provider(*id)) {
        changes.push(Change::GenerationSet {
            provider: provider.uuid,
            generation: provider.generation + 1,
            at,
        });
    }
}

/// Claims for several instances at once. Returns the index of the candidate that each got.
///
/// # Errors
///
/// The refusal of placement: for example that fewer than `least` instances found a host.
pub fn claim_many(
    state: &State,
    intents: Vec<Intent>,
    least: usize,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Vec<Option<u32>>, Refusal> {
    let command = Command::ClaimFirst { intents, least, at };
    match decide(state, &command, changes)? {
        Outcome::Claimed(chosen) => Ok(chosen),
        // `ClaimFirst` has no other outcome.
        Outcome::Done
        | Outcome::Provider(_)
        | Outcome::Generation(_)
        | Outcome::Traits { .. }
        | Outcome::Named { .. } => Ok(Vec::new()),
    }
}
