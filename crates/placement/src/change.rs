//! The changes that a decision makes, complete enough to be applied without checking any rule.

use uuid::Uuid;

use crate::group::{Distance, Level, Rule};
use crate::ids::{ClassId, ConsumerUuid, Timestamp, TraitId};
use crate::inventory::Inventory;

/// One change, as stored in the journal.
///
/// `placewright-records` declares its form.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A resource class exists under this number and name.
    ClassCreated {
        /// The number that stands for the class from now on.
        id: ClassId,
        /// The name, unique among resource classes.
        name: String,
        /// The class's time of creation.
        at: Timestamp,
    },
    /// A resource class was renamed.
    ClassRenamed {
        /// The number of the class, which stays the same.
        id: ClassId,
        /// The name that replaces the old one.
        name: String,
        /// The class's new time of modification.
        at: Timestamp,
    },
    /// A resource class was removed.
    ClassRemoved {
        /// The number of the class; a later class may get it again.
        id: ClassId,
    },
    /// A trait exists under this number and name.
    TraitCreated {
        /// The number that stands for the trait from now on.
        id: TraitId,
        /// The name, unique among traits.
        name: String,
        /// The trait's time of creation.
        at: Timestamp,
    },
    /// A trait was removed.
    TraitRemoved {
        /// The number of the trait; a later trait may get it again.
        id: TraitId,
    },
    /// A resource provider exists.
    ProviderCreated {
        /// The UUID, unique among providers.
        uuid: Uuid,
        /// The name, which is also unique among providers.
        name: String,
        /// The parent provider; `None` for a root.
        parent: Option<Uuid>,
        /// The provider's time of creation.
        at: Timestamp,
    },
    /// A resource provider has this name and parent; its whole subtree moves with it.
    ProviderUpdated {
        /// The provider that is updated.
        uuid: Uuid,
        /// The new name, or the old one if only the parent changes.
        name: String,
        /// The new parent; `None` for a root.
        parent: Option<Uuid>,
        /// The provider's new time of update.
        at: Timestamp,
    },
    /// A resource provider was removed, with its inventories, traits and aggregates.
    ProviderRemoved {
        /// The provider that is removed.
        uuid: Uuid,
    },
    /// A resource provider has this generation.
    GenerationSet {
        /// The provider whose generation changes.
        provider: Uuid,
        /// The new generation, which replaces the old one.
        generation: u64,
        /// The provider's new time of update.
        at: Timestamp,
    },
    /// A resource provider has this inventory of a class.
    InventorySet {
        /// The provider that has the inventory.
        provider: Uuid,
        /// The resource class that the inventory is of.
        class: ClassId,
        /// The inventory as the client set it.
        inventory: Inventory,
        /// The inventory's new time of modification.
        at: Timestamp,
    },
    /// A resource provider has no inventory of a class any more.
    InventoryRemoved {
        /// The provider that loses the inventory.
        provider: Uuid,
        /// The resource class of the removed inventory.
        class: ClassId,
    },
    /// A resource provider has exactly these traits.
    TraitsSet {
        /// The provider whose traits are replaced.
        provider: Uuid,
        /// The traits, in rising order.
        traits: Vec<TraitId>,
    },
    /// A resource provider is a member of exactly these aggregates.
    AggregatesSet {
        /// The provider whose membership is replaced.
        provider: Uuid,
        /// The aggregates, in alphabetical order.
        aggregates: Vec<String>,
    },
    /// A consumer exists and holds exactly these allocations.
    ConsumerSet {
        /// The consumer that is written or created.
        consumer: ConsumerUuid,
        /// The new generation, which starts at 1.
        generation: u64,
        /// The project that owns the consumer.
        project: String,
        /// The user that owns the consumer.
        user: String,
        /// The consumer type, if one was ever given.
        consumer_type: Option<String>,
        /// The time at which the allocations were set.
        at: Timestamp,
        /// All allocations of the consumer; never empty.
        allocations: Vec<NewAllocation>,
    },
    /// A consumer was removed, with its allocations.
    ConsumerRemoved {
        /// The consumer that is removed.
        consumer: ConsumerUuid,
    },
    /// A group of consumers exists with these rules.
    GroupSet {
        /// The group that is created or replaced.
        group: Uuid,
        /// The rules between the members of the group.
        rules: Vec<Rule>,
    },
    /// A group of consumers was removed; its members keep their allocations.
    GroupRemoved {
        /// The group that is removed.
        group: Uuid,
    },
    /// The topology has exactly these levels.
    LevelsSet {
        /// From the smallest place to the largest.
        levels: Vec<Level>,
    },
    /// A consumer is on this host and a member of this group.
    ConsumerPlaced {
        /// The consumer that is placed.
        consumer: ConsumerUuid,
        /// The root provider of the host; `None` if the claim did not name one.
        host: Option<Uuid>,
        /// The group; `None` if the consumer is not in one.
        group: Option<Uuid>,
    },
    /// The topology has exactly these distances.
    DistancesSet {
        /// In rising order, each pair of places once.
        distances: Vec<Distance>,
    },
}

/// One amount that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAllocation {
    /// The provider that the amount is taken from.
    pub provider: Uuid,
    /// The resource class of the amount.
    pub class: ClassId,
    /// The amount in units of the resource class.
    pub amount: u32,
}
