//! Claiming and releasing resources: the decision that everything else exists for.

use smallvec::SmallVec;
use uuid::Uuid;

use super::Outcome;
use super::inventory::find_class;
use crate::change::{AllocationFact, Change};
use crate::command::{ConsumerClaim, ConsumerGeneration};
use crate::ids::{ClassId, ConsumerUuid, ProviderId, Timestamp};
use crate::inventory::Inventory;
use crate::refusal::Refusal;
use crate::state::{Consumer, State};

/// One amount that somebody wants, with its provider and class looked up.
struct Wanted {
    consumer: usize,
    provider: ProviderId,
    uuid: Uuid,
    class: ClassId,
    amount: i64,
}

/// The sum of what is given back to and wanted from one inventory.
struct Balance {
    provider: ProviderId,
    class: ClassId,
    given_back: i64,
    wanted: i64,
}

/// Most claims are of one consumer on one provider for a handful of classes.
type Few<T> = SmallVec<[T; 6]>;

/// The inventory against which an allocation is checked, with its capacity.
pub(super) type InventoryOf<'a> =
    &'a dyn Fn(&State, ProviderId, ClassId) -> Option<(Inventory, i64)>;

pub(super) fn claim(
    state: &State,
    consumers: &[ConsumerClaim],
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let current = |state: &State, provider, class| {
        let record = state.provider(provider)?.inventory(class)?;
        Some((record.inventory, record.capacity))
    };
    let visited = decide_claims(state, consumers, at, &current, changes)?;
    for id in visited {
        let Some(provider) = state.provider(id) else {
            continue;
        };
        let generation = provider.generation + 1;
        changes.push(Change::GenerationSet {
            provider: provider.uuid,
            generation,
            at,
        });
    }
    Ok(Outcome::Done)
}

/// Decides what the consumers hold from now on. The facts about the consumers go to `changes`; the
/// result are the providers whose generation counts up, in order of first mention.
pub(super) fn decide_claims(
    state: &State,
    consumers: &[ConsumerClaim],
    at: Timestamp,
    inventory_of: InventoryOf<'_>,
    changes: &mut Vec<Change>,
) -> Result<Few<ProviderId>, Refusal> {
    for claim in consumers {
        check_consumer_generation(state, claim)?;
    }
    let wanted = look_up(state, consumers)?;
    let mut balances = give_back(state, consumers);
    check_classes_present(state, &wanted, inventory_of)?;
    for item in &wanted {
        check_item(state, item, &mut balances, inventory_of)?;
    }
    let mut visited = Few::new();
    let mut next = 0;
    for (index, claim) in consumers.iter().enumerate() {
        let first = next;
        while wanted.get(next).is_some_and(|item| item.consumer == index) {
            next += 1;
        }
        record_consumer(
            state,
            claim,
            &wanted[first..next],
            at,
            &mut visited,
            changes,
        );
    }
    Ok(visited)
}

fn check_consumer_generation(state: &State, claim: &ConsumerClaim) -> Result<(), Refusal> {
    let ConsumerGeneration::Is(given) = claim.generation else {
        return Ok(());
    };
    let actual = state
        .consumer(claim.consumer)
        .map(|consumer| consumer.generation);
    if actual == given {
        return Ok(());
    }
    Err(Refusal::ConsumerGenerationConflict {
        consumer: claim.consumer,
        actual,
        given,
    })
}

/// Finds providers and classes; unknown providers are refused before unknown classes.
fn look_up(state: &State, consumers: &[ConsumerClaim]) -> Result<Few<Wanted>, Refusal> {
    let mut providers: Few<ProviderId> = Few::new();
    for request in consumers.iter().flat_map(|claim| &claim.allocations) {
        let uuid = request.provider;
        let found = state.provider_id(uuid);
        providers.push(found.ok_or(Refusal::AllocationProviderNotFound { uuid })?);
    }
    let mut providers = providers.into_iter();
    let mut wanted = Few::new();
    for (consumer, claim) in consumers.iter().enumerate() {
        for request in &claim.allocations {
            let Some(provider) = providers.next() else {
                break;
            };
            for (class, amount) in &request.resources {
                wanted.push(Wanted {
                    consumer,
                    provider,
                    uuid: request.provider,
                    class: find_class(state, class)?,
                    amount: *amount,
                });
            }
        }
    }
    Ok(wanted)
}

/// What the consumers hold now, summed up by inventory: it is free for what they want instead.
fn give_back(state: &State, consumers: &[ConsumerClaim]) -> Few<Balance> {
    let mut balances = Few::new();
    for consumer in consumers
        .iter()
        .filter_map(|claim| state.consumer(claim.consumer))
    {
        for held in &consumer.allocations {
            balance(&mut balances, held.provider, held.class).given_back += i64::from(held.amount);
        }
    }
    balances
}

fn balance(balances: &mut Few<Balance>, provider: ProviderId, class: ClassId) -> &mut Balance {
    let known = balances
        .iter()
        .position(|one| one.provider == provider && one.class == class);
    let place = known.unwrap_or_else(|| {
        balances.push(Balance {
            provider,
            class,
            given_back: 0,
            wanted: 0,
        });
        balances.len() - 1
    });
    &mut balances[place]
}

/// A provider that has none of the classes wanted anywhere in the command is refused first.
fn check_classes_present(
    state: &State,
    wanted: &[Wanted],
    inventory_of: InventoryOf<'_>,
) -> Result<(), Refusal> {
    for item in wanted {
        let has = |class| inventory_of(state, item.provider, class).is_some();
        if !has(item.class) && !wanted.iter().any(|other| has(other.class)) {
            return Err(no_inventory(state, item));
        }
    }
    Ok(())
}

fn check_item(
    state: &State,
    item: &Wanted,
    balances: &mut Few<Balance>,
    inventory_of: InventoryOf<'_>,
) -> Result<(), Refusal> {
    let Some((inventory, capacity)) = inventory_of(state, item.provider, item.class) else {
        return Err(no_inventory(state, item));
    };
    let class = || state.class_name(item.class).to_owned();
    if !inventory.admits_amount(item.amount) {
        return Err(Refusal::ConstraintsViolated {
            provider: item.uuid,
            class: class(),
            amount: item.amount,
        });
    }
    let record = state
        .provider(item.provider)
        .and_then(|provider| provider.inventory(item.class));
    let used_before = record.map_or(0, |record| record.used);
    let balance = balance(balances, item.provider, item.class);
    balance.wanted = balance.wanted.saturating_add(item.amount);
    let used_after = (used_before - balance.given_back).saturating_add(balance.wanted);
    // An overcommitted provider may stay so as long as it does not get worse.
    let no_worse = used_before > 0 && used_after <= used_before;
    if used_after <= capacity || no_worse {
        return Ok(());
    }
    Err(Refusal::CapacityExceeded {
        provider: item.uuid,
        class: class(),
        missing: used_after.saturating_sub(capacity),
    })
}

fn no_inventory(state: &State, item: &Wanted) -> Refusal {
    let class = state.class_name(item.class).to_owned();
    Refusal::NoInventory {
        provider: item.uuid,
        class,
    }
}

fn record_consumer(
    state: &State,
    claim: &ConsumerClaim,
    wanted: &[Wanted],
    at: Timestamp,
    visited: &mut Few<ProviderId>,
    changes: &mut Vec<Change>,
) {
    let mut visit = |id: ProviderId| {
        if !visited.contains(&id) {
            visited.push(id);
        }
    };
    let existing = state.consumer(claim.consumer);
    if wanted.is_empty() {
        if let Some(existing) = existing {
            existing
                .allocations
                .iter()
                .for_each(|held| visit(held.provider));
            changes.push(Change::ConsumerRemoved {
                consumer: claim.consumer,
            });
        }
        return;
    }
    wanted.iter().for_each(|item| visit(item.provider));
    changes.push(Change::ConsumerSet {
        consumer: claim.consumer,
        generation: existing.map_or(0, |consumer| consumer.generation) + 1,
        project: claim.project.clone(),
        user: claim.user.clone(),
        consumer_type: consumer_type(state, claim, existing),
        at,
        allocations: wanted
            .iter()
            .map(|item| AllocationFact {
                provider: item.uuid,
                class: item.class,
                // Never more than the largest unit, which is an i32.
                amount: u32::try_from(item.amount).unwrap_or(u32::MAX),
            })
            .collect(),
    });
}

fn consumer_type(
    state: &State,
    claim: &ConsumerClaim,
    existing: Option<&Consumer>,
) -> Option<String> {
    claim.consumer_type.clone().or_else(|| {
        let kept = existing?.consumer_type?;
        Some(state.consumer_type_name(kept).to_owned())
    })
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
