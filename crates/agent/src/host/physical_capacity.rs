//! The physical capacity of a host, for a check before a build that placement cannot make.
//!
//! Placement counts claims. A guest may still exist although its claim was given to others (for
//! instance because its host was taken for dead). It uses its resources all the same, and only the
//! host knows.

use std::fmt::Write as _;

use placewright_conductor::Amounts;
use uuid::Uuid;

use crate::description::HostDescription;

/// The physical amounts of resources that are never overcommitted, and how much guests use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhysicalCapacity {
    class_capacities: Vec<ClassCapacity>,
}

/// The capacity and usage of one resource class of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClassCapacity {
    provider: Uuid,
    class: String,
    total: i64,
    taken: i64,
}

impl PhysicalCapacity {
    /// The capacity of a host: its resource classes with an allocation ratio of 1.
    #[must_use]
    pub fn of(host: &HostDescription) -> Self {
        let mut class_capacities = Vec::new();
        for provider in host.providers() {
            for (class, inventory) in provider.inventories {
                if inventory.allocation_ratio == Some(1.0) {
                    class_capacities.push(ClassCapacity {
                        provider: provider.uuid,
                        class: class.clone(),
                        total: i64::from(inventory.total) - i64::from(inventory.reserved),
                        taken: 0,
                    });
                }
            }
        }
        Self { class_capacities }
    }

    /// Checks whether amounts fit.
    ///
    /// # Errors
    ///
    /// Names the classes with too little left, in a sentence.
    pub(super) fn check(&self, amounts: &[Amounts]) -> Result<(), String> {
        let mut lack = String::new();
        for (provider, class, amount) in flat(amounts) {
            let Some(class_capacity) = self.find(provider, class) else {
                continue;
            };
            let free = class_capacity.total.saturating_sub(class_capacity.taken);
            if amount > free {
                let _ = write!(lack, " {class}: {amount} asked for, {free} free.");
            }
        }
        if lack.is_empty() {
            return Ok(());
        }
        Err(format!(
            "Guests that are still on the host leave no room.{lack}"
        ))
    }

    pub(super) fn take(&mut self, amounts: &[Amounts]) {
        self.add(amounts, 1);
    }

    pub(super) fn give_back(&mut self, amounts: &[Amounts]) {
        self.add(amounts, -1);
    }

    fn add(&mut self, amounts: &[Amounts], sign: i64) {
        for (provider, class, amount) in flat(amounts) {
            let mut class_capacities = self.class_capacities.iter_mut();
            if let Some(class_capacity) =
                class_capacities.find(|one| one.provider == provider && one.class == class)
            {
                class_capacity.taken = class_capacity
                    .taken
                    .saturating_add(amount.saturating_mul(sign));
            }
        }
    }

    fn find(&self, provider: Uuid, class: &str) -> Option<&ClassCapacity> {
        let mut class_capacities = self.class_capacities.iter();
        class_capacities.find(|one| one.provider == provider && one.class == class)
    }
}

fn flat(amounts: &[Amounts]) -> impl Iterator<Item = (Uuid, &str, i64)> {
    amounts.iter().flat_map(|of| {
        let resources = of.resources.iter();
        resources.map(move |(class, amount)| (of.provider, class.as_str(), *amount))
    })
}
