//! Replacing inventories and allocations of several providers in one step.
//!
//! The reference gets there in three: the union of old and new inventories, then the allocations,
//! then the new inventories alone. Which refusals come, and by how much generations grow, follows
//! from that, and clients can see both.

use smallvec::SmallVec;
use uuid::Uuid;

use super::claim::{check_consumer_generation, decide_claims};
use super::{Outcome, check_generation, inventory};
use crate::change::Change;
use crate::command::{ConsumerClaim, InventoryReplacement};
use crate::ids::{ClassId, ProviderId, Timestamp};
use crate::inventory::Inventory;
use crate::refusal::Refusal;
use crate::state::{Provider, State};

/// What one provider is to have.
struct Plan<'a> {
    id: ProviderId,
    provider: &'a Provider,
    inventories: Vec<(ClassId, &'a Inventory)>,
}

pub(super) fn reshape(
    state: &State,
    replacements: &[InventoryReplacement],
    consumers: &[ConsumerClaim],
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let plans = plan(state, replacements, consumers)?;
    // New inventories come first, so that a replay never allocates from what is not there yet.
    for plan in &plans {
        for (class, inventory) in &plan.inventories {
            changes.push(Change::InventorySet {
                provider: plan.provider.uuid,
                class: *class,
                inventory: **inventory,
                at,
            });
        }
    }
    let union = |state: &State, provider: ProviderId, class: ClassId| {
        let planned = plans.iter().find(|plan| plan.id == provider);
        let new = planned.and_then(|plan| {
            plan.inventories
                .iter()
                .find(|(planned, _)| *planned == class)
                .map(|(_, new)| **new)
        });
        let inventory = match new {
            Some(new) => new,
            None => state.provider(provider)?.inventory(class)?.inventory,
        };
        Some((inventory, inventory.capacity()))
    };
    let visited = decide_claims(state, consumers, at, &union, changes)?;
    for plan in &plans {
        remove_rest(state, plan, consumers, changes)?;
    }
    count_up(state, &plans, &visited, at, changes);
    Ok(Outcome::Done)
}

fn plan<'a>(
    state: &'a State,
    replacements: &'a [InventoryReplacement],
    consumers: &[ConsumerClaim],
) -> Result<Vec<Plan<'a>>, Refusal> {
    let mut plans = Vec::with_capacity(replacements.len());
    for replacement in replacements {
        let uuid = replacement.provider;
        let (Some(id), Some(provider)) = (state.provider_id(uuid), state.provider_by_uuid(uuid))
        else {
            return Err(Refusal::ReshapeProviderNotFound { uuid });
        };
        check_generation(provider, Some(replacement.generation))?;
        plans.push(Plan {
            id,
            provider,
            inventories: Vec::new(),
        });
    }
    // An unknown class is told after all that is wrong with consumers and their providers.
    for claim in consumers {
        check_consumer_generation(state, claim.consumer, claim.generation)?;
    }
    for request in consumers.iter().flat_map(|claim| &claim.allocations) {
        let uuid = request.provider;
        if state.provider_id(uuid).is_none() {
            return Err(Refusal::AllocationProviderNotFound { uuid });
        }
    }
    for (plan, replacement) in plans.iter_mut().zip(replacements) {
        plan.inventories = inventory::resolve(state, &replacement.inventories)?;
    }
    Ok(plans)
}

/// Removes the inventories that the request does not name, unless somebody would still hold
/// something of them.
fn remove_rest(
    state: &State,
    plan: &Plan<'_>,
    consumers: &[ConsumerClaim],
    changes: &mut Vec<Change>,
) -> Result<(), Refusal> {
    let mut in_use = Vec::new();
    for record in &plan.provider.inventories {
        if plan
            .inventories
            .iter()
            .any(|(class, _)| *class == record.class)
        {
            continue;
        }
        let used = record.used - given_back(state, plan.id, record.class, consumers)
            + wanted(state, plan.provider.uuid, record.class, consumers);
        if used > 0 {
            in_use.push(state.class_name(record.class).to_owned());
        }
        changes.push(Change::InventoryRemoved {
            provider: plan.provider.uuid,
            class: record.class,
        });
    }
    if in_use.is_empty() {
        return Ok(());
    }
    Err(Refusal::InventoryInUse {
        provider: plan.provider.uuid,
        classes: in_use,
    })
}

fn given_back(
    state: &State,
    provider: ProviderId,
    class: ClassId,
    consumers: &[ConsumerClaim],
) -> i64 {
    consumers
        .iter()
        .filter_map(|claim| state.consumer(claim.consumer))
        .flat_map(|consumer| &consumer.allocations)
        .filter(|held| held.provider == provider && held.class == class)
        .map(|held| i64::from(held.amount))
        .sum()
}

fn wanted(state: &State, provider: Uuid, class: ClassId, consumers: &[ConsumerClaim]) -> i64 {
    consumers
        .iter()
        .flat_map(|claim| &claim.allocations)
        .filter(|request| request.provider == provider)
        .flat_map(|request| &request.resources)
        .filter(|(name, _)| state.class_id(name) == Some(class))
        .map(|(_, amount)| *amount)
        .sum()
}

/// A provider counts up once for the union (unless its new inventories are none at all), once for
/// the allocations, once for the new inventories.
fn count_up(
    state: &State,
    plans: &[Plan<'_>],
    visited: &[ProviderId],
    at: Timestamp,
    changes: &mut Vec<Change>,
) {
    let planned = plans.iter().map(|plan| plan.id);
    let mut all: SmallVec<[ProviderId; 8]> = planned.collect();
    all.extend(
        visited
            .iter()
            .copied()
            .filter(|id| !plans.iter().any(|plan| plan.id == *id)),
    );
    for id in all {
        let Some(provider) = state.provider(id) else {
            continue;
        };
        let plan = plans.iter().find(|plan| plan.id == id);
        let steps = plan.map_or(0, |plan| 1 + u64::from(!plan.inventories.is_empty()))
            + u64::from(visited.contains(&id));
        let generation = provider.generation + steps;
        changes.push(Change::GenerationSet {
            provider: provider.uuid,
            generation,
            at,
        });
    }
}
