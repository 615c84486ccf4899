//! What a host physically has, for the check before a build that placement cannot make.
//!
//! Placement counts what is promised. A guest that is still there although what it held was given
//! to others (its host was thought dead, say) holds it all the same, and only the host knows.

use std::fmt::Write as _;

use placewright_conductor::Amounts;
use uuid::Uuid;

use crate::description::HostDescription;

/// How much there is of what is never promised twice, and how much guests have of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    shelves: Vec<Shelf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shelf {
    provider: Uuid,
    class: String,
    total: i64,
    taken: i64,
}

impl Room {
    /// What a host has of the classes with an allocation ratio of 1.
    #[must_use]
    pub fn of(host: &HostDescription) -> Self {
        let mut shelves = Vec::new();
        for provider in host.providers() {
            for (class, inventory) in provider.inventories {
                if inventory.allocation_ratio == Some(1.0) {
                    shelves.push(Shelf {
                        provider: provider.uuid,
                        class: class.clone(),
                        total: i64::from(inventory.total) - i64::from(inventory.reserved),
                        taken: 0,
                    });
                }
            }
        }
        Self { shelves }
    }

    /// Whether amounts fit.
    ///
    /// # Errors
    ///
    /// What lacks, in a sentence.
    pub(super) fn check(&self, amounts: &[Amounts]) -> Result<(), String> {
        let mut lack = String::new();
        for (provider, class, amount) in flat(amounts) {
            let Some(shelf) = self.find(provider, class) else {
                continue;
            };
            let free = shelf.total.saturating_sub(shelf.taken);
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
            let mut shelves = self.shelves.iter_mut();
            if let Some(shelf) = shelves.find(|one| one.provider == provider && one.class == class)
            {
                shelf.taken = shelf.taken.saturating_add(amount.saturating_mul(sign));
            }
        }
    }

    fn find(&self, provider: Uuid, class: &str) -> Option<&Shelf> {
        let mut shelves = self.shelves.iter();
        shelves.find(|one| one.provider == provider && one.class == class)
    }
}

fn flat(amounts: &[Amounts]) -> impl Iterator<Item = (Uuid, &str, i64)> {
    amounts.iter().flat_map(|of| {
        let resources = of.resources.iter();
        resources.map(move |(class, amount)| (of.provider, class.as_str(), *amount))
    })
}
