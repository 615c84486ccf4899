//! Replacing inventories and allocations of several providers in one step.
//!
//! The reference takes three steps: the union of old and new inventories, then the allocations,
//! then the new inventories alone. Clients see these steps in the refusals and in the generations.

use super::claim::{check_consumer_generation, decide_claims};
use super::ledger::{CurrentInventories, Inventories, OrderedProviders};
use super::{Outcome, check_generation, inventory};
use crate::change::Change;
use crate::command::{ConsumerClaim, InventoryReplacement};
use crate::hash::Map;
use crate::ids::{ClassId, ProviderId, Timestamp};
use crate::inventory::Inventory;
use crate::refusal::Refusal;
use crate::rows::Provider;
use crate::state::State;

/// The new inventories of one provider.
struct NewInventories<'a> {
    id: ProviderId,
    provider: &'a Provider,
    inventories: Vec<(ClassId, &'a Inventory)>,
}

/// The new inventories of all providers, indexed because a tree may have thousands.
struct NewInventoryIndex<'a> {
    all: Vec<NewInventories<'a>>,
    /// The index in `all` of each provider's first entry: a command may name a provider several times.
    by_provider: Map<ProviderId, usize>,
    /// By an index in `all` and a class: the first inventory of this class in that entry.
    by_class: Map<(usize, ClassId), &'a Inventory>,
}

impl<'a> NewInventoryIndex<'a> {
    fn new(all: Vec<NewInventories<'a>>) -> Self {
        let mut by_provider = Map::default();
        let mut by_class = Map::default();
        for (index, entry) in all.iter().enumerate() {
            by_provider.entry(entry.id).or_insert(index);
            for (class, inventory) in &entry.inventories {
                by_class.entry((index, *class)).or_insert(*inventory);
            }
        }
        Self {
            all,
            by_provider,
            by_class,
        }
    }

    fn entry_of(&self, provider: ProviderId) -> Option<&NewInventories<'a>> {
        self.all.get(*self.by_provider.get(&provider)?)
    }
}

/// The union of old and new inventories.
impl Inventories for NewInventoryIndex<'_> {
    fn inventory(
        &self,
        state: &State,
        provider: ProviderId,
        class: ClassId,
    ) -> Option<(Inventory, i64)> {
        let index = self.by_provider.get(&provider);
        let new = index.and_then(|index| self.by_class.get(&(*index, class)));
        let inventory = match new {
            Some(new) => **new,
            None => state.provider(provider)?.inventory(class)?.inventory,
        };
        Some((inventory, inventory.capacity()))
    }

    fn has_any(&self, state: &State, provider: ProviderId, classes: &Map<ClassId, ()>) -> bool {
        let new = self.entry_of(provider).map(|entry| &entry.inventories);
        new.into_iter()
            .flatten()
            .any(|(class, _)| classes.contains_key(class))
            || CurrentInventories.has_any(state, provider, classes)
    }
}

pub(super) fn reshape(
    state: &State,
    replacements: &[InventoryReplacement],
    consumers: &[ConsumerClaim],
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let new_inventories =
        NewInventoryIndex::new(resolve_inventories(state, replacements, consumers)?);
    // New inventories come first, so that a replay never allocates from an inventory that does not
    // exist yet.
    for entry in &new_inventories.all {
        for (class, inventory) in &entry.inventories {
            changes.push(Change::InventorySet {
                provider: entry.provider.uuid,
                class: *class,
                inventory: **inventory,
                at,
            });
        }
    }
    let affected = decide_claims(state, consumers, at, &new_inventories, changes)?;
    let differences = allocation_differences(state, consumers);
    for (index, entry) in new_inventories.all.iter().enumerate() {
        let is_named = |class| new_inventories.by_class.contains_key(&(index, class));
        remove_unnamed(state, entry, is_named, &differences, changes)?;
    }
    increment_generations(state, &new_inventories, &affected, at, changes);
    Ok(Outcome::Done)
}

/// Resolves the new inventories, after the checks that come first in the reference.
fn resolve_inventories<'a>(
    state: &'a State,
    replacements: &'a [InventoryReplacement],
    consumers: &[ConsumerClaim],
) -> Result<Vec<NewInventories<'a>>, Refusal> {
    let mut new_inventories = Vec::with_capacity(replacements.len());
    for replacement in replacements {
        let uuid = replacement.provider;
        let (Some(id), Some(provider)) = (state.provider_id(uuid), state.provider_by_uuid(uuid))
        else {
            return Err(Refusal::ReshapeProviderNotFound { uuid });
        };
        check_generation(provider, Some(replacement.generation))?;
        new_inventories.push(NewInventories {
            id,
            provider,
            inventories: Vec::new(),
        });
    }
    // An unknown class is reported after all errors of consumers and their providers.
    for claim in consumers {
        check_consumer_generation(state, claim.consumer, claim.generation)?;
    }
    for request in consumers.iter().flat_map(|claim| &claim.allocations) {
        let uuid = request.provider;
        if state.provider_id(uuid).is_none() {
            return Err(Refusal::AllocationProviderNotFound { uuid });
        }
    }
    for (entry, replacement) in new_inventories.iter_mut().zip(replacements) {
        entry.inventories = inventory::resolve(state, &replacement.inventories)?;
        // A provider keeps its inventory rows sorted by class. If new rows are set in this order, each is inserted
        // after the new rows before it, and does not move them.
        entry.inventories.sort_by_key(|(class, _)| *class);
    }
    Ok(new_inventories)
}

/// By provider and class: the new allocations of the consumers minus their present ones.
type Differences = Map<(ProviderId, ClassId), i64>;

fn allocation_differences(state: &State, consumers: &[ConsumerClaim]) -> Differences {
    let mut differences = Differences::default();
    let mut add = |provider, class, amount: i64| {
        let sum = differences.entry((provider, class)).or_insert(0_i64);
        *sum = sum.saturating_add(amount);
    };
    for claim in consumers {
        for held in
            (state.consumer(claim.consumer).iter()).flat_map(|consumer| &consumer.allocations)
        {
            add(held.provider, held.class, -i64::from(held.amount));
        }
        for request in &claim.allocations {
            let Some(provider) = state.provider_id(request.provider) else {
                continue;
            };
            for (name, amount) in &request.resources {
                if let Some(class) = state.class_id(name) {
                    add(provider, class, *amount);
                }
            }
        }
    }
    differences
}

/// Removes the inventories of a provider that the request does not name. Refuses the request if allocations would
/// remain on one of them.
fn remove_unnamed(
    state: &State,
    entry: &NewInventories<'_>,
    is_named: impl Fn(ClassId) -> bool,
    differences: &Differences,
    changes: &mut Vec<Change>,
) -> Result<(), Refusal> {
    let mut in_use = Vec::new();
    // From the last row to the first, so that no removal moves rows that are removed later.
    for row in entry.provider.inventories.iter().rev() {
        if is_named(row.class) {
            continue;
        }
        let difference = differences.get(&(entry.id, row.class)).copied();
        if row.used.saturating_add(difference.unwrap_or(0)) > 0 {
            in_use.push(state.class_name(row.class).to_owned());
        }
        changes.push(Change::InventoryRemoved {
            provider: entry.provider.uuid,
            class: row.class,
        });
    }
    if in_use.is_empty() {
        return Ok(());
    }
    in_use.reverse();
    Err(Refusal::InventoryInUse {
        provider: entry.provider.uuid,
        classes: in_use,
    })
}

/// Increments a provider's generation as the three steps of the reference do: once for the union (unless the provider's
/// new inventories are empty), once for the allocations, and once for the new inventories.
fn increment_generations(
    state: &State,
    new_inventories: &NewInventoryIndex<'_>,
    affected: &OrderedProviders,
    at: Timestamp,
    changes: &mut Vec<Change>,
) {
    let replaced = new_inventories.all.iter().map(|entry| entry.id);
    let others = affected.iter();
    let others = others.filter(|id| !new_inventories.by_provider.contains_key(id));
    for id in replaced.chain(others) {
        let Some(provider) = state.provider(id) else {
            continue;
        };
        let increments = new_inventories
            .entry_of(id)
            .map_or(0, |entry| 1 + u64::from(!entry.inventories.is_empty()))
            + u64::from(affected.contains(id));
        let generation = provider.generation + increments;
        changes.push(Change::GenerationSet {
            provider: provider.uuid,
            generation,
            at,
        });
    }
}
