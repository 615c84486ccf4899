//! The physical capacity of a host, which the agent checks before it builds a guest. Placement cannot make this check.
//!
//! Placement counts claims. A guest may still exist on the host after its claim was released (for
//! instance because the host was declared dead), and goes on using its resources. Only the host
//! knows of such guests.

use std::fmt::Write as _;

use placewright_conductor::Amounts;
use uuid::Uuid;

use crate::description::HostDescription;

/// The physical capacity of a host for the resources that are not overcommitted, and how much of it
/// its guests use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhysicalCapacity {
    class_capacities: Vec<ClassCapacity>,
}

/// The capacity and usage of one resource class of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClassCapacity {
    provider: Uuid,
    class: String,
    /// The total amount without the reserved amount.
    usable: i64,
    used: i64,
}

impl PhysicalCapacity {
    /// The capacity of a host: the resource classes that are described with an allocation ratio of 1. Classes that are
    /// described without a ratio are left out, because placement has theirs.
    #[must_use]
    pub fn new(host: &HostDescription) -> Self {
        let mut class_capacities = Vec::new();
        for provider in host.providers() {
            for (class, inventory) in provider.inventories {
                if inventory.allocation_ratio == Some(1.0) {
                    class_capacities.push(ClassCapacity {
                        provider: provider.uuid,
                        class: class.clone(),
                        usable: i64::from(inventory.total) - i64::from(inventory.reserved),
                        used: 0,
                    });
                }
            }
        }
        Self { class_capacities }
    }

    /// Checks whether amounts fit into the free capacity.
    ///
    /// # Errors
    ///
    /// Sentences that name the resource classes with too little free.
    pub(super) fn check(&self, amounts: &[Amounts]) -> Result<(), String> {
        let mut shortfalls = String::new();
        for (provider, class, amount) in flatten(amounts) {
            let Some(class_capacity) = self.find(provider, class) else {
                continue;
            };
            let free = class_capacity.usable.saturating_sub(class_capacity.used);
            if amount > free {
                let _ = write!(shortfalls, " {class}: {amount} asked for, {free} free.");
            }
        }
        if shortfalls.is_empty() {
            return Ok(());
        }
        Err(format!(
            "Guests that are still on the host leave no room.{shortfalls}"
        ))
    }

    pub(super) fn allocate(&mut self, amounts: &[Amounts]) {
        self.add(amounts, 1);
    }

    pub(super) fn release(&mut self, amounts: &[Amounts]) {
        self.add(amounts, -1);
    }

    fn add(&mut self, amounts: &[Amounts], sign: i64) {
        for (provider, class, amount) in flatten(amounts) {
            let mut class_capacities = self.class_capacities.iter_mut();
            if let Some(class_capacity) = class_capacities
                .find(|capacity| capacity.provider == provider && capacity.class == class)
            {
                class_capacity.used = class_capacity
                    .used
                    .saturating_add(amount.saturating_mul(sign));
            }
        }
    }

    fn find(&self, provider: Uuid, class: &str) -> Option<&ClassCapacity> {
        let mut class_capacities = self.class_capacities.iter();
        class_capacities.find(|capacity| capacity.provider == provider && capacity.class == class)
    }
}

/// Each amount with its provider and resource class.
fn flatten(amounts: &[Amounts]) -> impl Iterator<Item = (Uuid, &str, i64)> {
    amounts.iter().flat_map(|amounts| {
        let resources = amounts.resources.iter();
        resources.map(move |(class, amount)| (amounts.provider, class.as_str(), *amount))
    })
}
