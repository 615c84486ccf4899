//! The rows of the state: providers with their inventories, consumers with their allocations, and
//! names.

use smallvec::SmallVec;
use uuid::Uuid;

use crate::group::HostAssignment;
use crate::ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, ProjectId, ProviderId, Timestamp, TraitId,
    TypeId, UserId,
};
use crate::inventory::Inventory;

/// A resource provider: a host, or a part of one, or something that several hosts share.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The UUID by which clients name the provider.
    pub uuid: Uuid,
    /// The name, unique among providers.
    pub name: Box<str>,
    /// The parent provider; `None` for a root.
    pub parent: Option<ProviderId>,
    /// The root of the provider's tree; for a root the provider itself.
    pub root: ProviderId,
    /// The children of the provider in rising order of slot.
    pub children: Vec<ProviderId>,
    /// The generation: incremented by most changes of the provider's inventories, traits, aggregates and allocations. A
    /// client that changes the provider names the generation that it saw.
    pub generation: u64,
    /// When the provider was created.
    pub created_at: Timestamp,
    /// When the provider was last written; `None` for a child that was never written since its creation.
    pub updated_at: Option<Timestamp>,
    /// The inventories of the provider in rising order of class.
    pub inventories: Vec<InventoryRow>,
    /// The traits of the provider, in rising order.
    pub traits: Vec<TraitId>,
    /// The aggregates of the provider, in rising order of number.
    pub aggregates: Vec<AggregateId>,
    /// The consumers that hold allocations from the provider, in rising order of slot.
    pub consumers: Vec<ConsumerId>,
}

impl Provider {
    /// The inventory of a class, if the provider has one.
    #[must_use]
    #[inline]
    pub fn inventory(&self, class: ClassId) -> Option<&InventoryRow> {
        self.inventories
            .get(inventory_index(&self.inventories, class)?)
    }

    /// The inventory of a class to write to, if the provider has one.
    #[inline]
    pub(crate) fn inventory_mut(&mut self, class: ClassId) -> Option<&mut InventoryRow> {
        let index = inventory_index(&self.inventories, class)?;
        self.inventories.get_mut(index)
    }

    /// Whether the provider has a trait.
    #[must_use]
    pub fn has_trait(&self, id: TraitId) -> bool {
        self.traits.binary_search(&id).is_ok()
    }

    /// Whether the provider is a member of an aggregate.
    #[must_use]
    pub fn in_aggregate(&self, id: AggregateId) -> bool {
        self.aggregates.binary_search(&id).is_ok()
    }
}

/// Up to this many inventories are scanned linearly: nearly all providers have a handful, and a
/// scan is then faster than a binary search.
const FEW_INVENTORIES: usize = 8;

/// The index of the inventory of a class among those of a provider.
#[inline]
fn inventory_index(inventories: &[InventoryRow], class: ClassId) -> Option<usize> {
    if inventories.len() <= FEW_INVENTORIES {
        return inventories.iter().position(|row| row.class == class);
    }
    let found = inventories.binary_search_by_key(&class, |row| row.class);
    found.ok()
}

/// An inventory of a provider with its usage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InventoryRow {
    /// The resource class that the inventory is of.
    pub class: ClassId,
    /// The inventory as the client set it.
    pub inventory: Inventory,
    /// `inventory.capacity()`, cached because every claim compares with it.
    pub capacity: i64,
    /// The sum of all allocations of the class.
    pub used: i64,
    /// When the inventory was last set.
    pub modified_at: Timestamp,
}

/// A consumer of resources: an instance, a migration, anything with a UUID.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    /// The UUID by which clients name the consumer.
    pub uuid: ConsumerUuid,
    /// The generation: 1 at first, and incremented by each change.
    pub generation: u64,
    /// The project that owns the consumer.
    pub project: ProjectId,
    /// The user that owns the consumer.
    pub user: UserId,
    /// The consumer's type, if one was ever given.
    pub consumer_type: Option<TypeId>,
    /// When the consumer's allocations were last set.
    pub allocated_at: Timestamp,
    /// The consumer's host and group, if the claim that placed the consumer named them.
    pub host_assignment: Option<HostAssignment>,
    /// The consumer's allocations in the order of the request; never empty.
    pub allocations: SmallVec<[Allocation; 3]>,
}

/// One amount that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// The provider that the amount is taken from.
    pub provider: ProviderId,
    /// The resource class of the amount.
    pub class: ClassId,
    /// The amount in units of the resource class.
    pub amount: u32,
}

/// A resource class or trait that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name, unique among classes or among traits.
    pub name: Box<str>,
    /// When the class or trait was created or last renamed.
    pub modified_at: Timestamp,
}
