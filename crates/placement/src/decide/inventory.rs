//! Sets inventories. An inventory may be lowered below its usage, as in the reference: then there are
//! no new allocations, and the old ones stay.

use uuid::Uuid;

use super::{Outcome, check_generation, find_provider};
use crate::change::Change;
use crate::hash::Map;
use crate::ids::{ClassId, Timestamp};
use crate::inventory::Inventory;
use crate::refusal::Refusal;
use crate::rows::Provider;
use crate::state::State;

/// A change of one provider's inventories.
pub(super) struct Edit<'a> {
    pub(super) state: &'a State,
    pub(super) provider: Uuid,
    /// Whether `reserved` may equal `total` (microversion 1.26), so that nothing can be allocated.
    pub(super) may_reserve_all: bool,
    pub(super) at: Timestamp,
}

impl Edit<'_> {
    pub(super) fn add(
        &self,
        class: &str,
        inventory: &Inventory,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let provider = find_provider(self.state, self.provider)?;
        self.check_capacity(class, inventory)?;
        let id = find_class(self.state, class)?;
        if provider.inventory(id).is_some() {
            return Err(Refusal::InventoryExists {
                provider: self.provider,
                class: class.to_owned(),
            });
        }
        changes.push(self.inventory_set(id, inventory));
        Ok(self.increment_generation(provider, changes))
    }

    pub(super) fn update(
        &self,
        generation: u64,
        class: &str,
        inventory: &Inventory,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let provider = find_provider(self.state, self.provider)?;
        check_generation(provider, Some(generation))?;
        self.check_capacity(class, inventory)?;
        let id = find_class(self.state, class)?;
        if provider.inventory(id).is_none() {
            return Err(self.not_found(class));
        }
        changes.push(self.inventory_set(id, inventory));
        Ok(self.increment_generation(provider, changes))
    }

    pub(super) fn replace(
        &self,
        generation: Option<u64>,
        inventories: &[(String, Inventory)],
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let provider = find_provider(self.state, self.provider)?;
        check_generation(provider, generation)?;
        for (class, inventory) in inventories {
            self.check_capacity(class, inventory)?;
        }
        let mut wanted = resolve(self.state, inventories)?;
        let kept_classes: Map<ClassId, ()> = wanted.iter().map(|(class, _)| (*class, ())).collect();
        let removed_rows = || {
            let held = provider.inventories.iter();
            held.filter(|row| !kept_classes.contains_key(&row.class))
        };
        let in_use: Vec<String> = removed_rows()
            .filter(|row| row.used > 0)
            .map(|row| self.state.class_name(row.class).to_owned())
            .collect();
        if !in_use.is_empty() {
            return Err(Refusal::InventoryInUse {
                provider: self.provider,
                classes: in_use,
            });
        }
        // From the last row to the first, so that no removal moves rows that are removed later.
        changes.extend(
            removed_rows()
                .rev()
                .map(|row| self.inventory_removed(row.class)),
        );
        wanted.sort_by_key(|(class, _)| *class);
        let wanted = wanted.iter();
        changes.extend(wanted.map(|(class, inventory)| self.inventory_set(*class, inventory)));
        Ok(self.increment_generation(provider, changes))
    }

    pub(super) fn delete(
        &self,
        class: &str,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        let provider = find_provider(self.state, self.provider)?;
        let id = find_class(self.state, class)?;
        let row = provider
            .inventory(id)
            .ok_or_else(|| self.not_found(class))?;
        if row.used > 0 {
            return Err(Refusal::InventoryInUse {
                provider: self.provider,
                classes: vec![class.to_owned()],
            });
        }
        changes.push(self.inventory_removed(id));
        Ok(self.increment_generation(provider, changes))
    }

    fn inventory_set(&self, class: ClassId, inventory: &Inventory) -> Change {
        let (provider, at) = (self.provider, self.at);
        Change::InventorySet {
            provider,
            class,
            inventory: *inventory,
            at,
        }
    }

    fn inventory_removed(&self, class: ClassId) -> Change {
        Change::InventoryRemoved {
            provider: self.provider,
            class,
        }
    }

    fn increment_generation(&self, provider: &Provider, changes: &mut Vec<Change>) -> Outcome {
        let generation = provider.generation + 1;
        changes.push(Change::GenerationSet {
            provider: self.provider,
            generation,
            at: self.at,
        });
        Outcome::Generation(generation)
    }

    /// Refuses an inventory whose capacity is negative, or 0 where the whole inventory may not be reserved.
    fn check_capacity(&self, class: &str, inventory: &Inventory) -> Result<(), Refusal> {
        let capacity = inventory.capacity();
        let lowest = i64::from(!self.may_reserve_all);
        if capacity >= lowest {
            return Ok(());
        }
        Err(Refusal::InvalidCapacity {
            provider: self.provider,
            class: class.to_owned(),
            may_reserve_all: self.may_reserve_all,
        })
    }

    fn not_found(&self, class: &str) -> Refusal {
        Refusal::InventoryNotFound {
            provider: self.provider,
            class: class.to_owned(),
        }
    }
}

/// Resolves the names of resource classes to numbers.
pub(super) fn resolve<'a>(
    state: &State,
    inventories: &'a [(String, Inventory)],
) -> Result<Vec<(ClassId, &'a Inventory)>, Refusal> {
    inventories
        .iter()
        .map(|(class, inventory)| Ok((find_class(state, class)?, inventory)))
        .collect()
}

pub(super) fn find_class(state: &State, name: &str) -> Result<ClassId, Refusal> {
    state.class_id(name).ok_or_else(|| Refusal::ClassNotFound {
        name: name.to_owned(),
    })
}
