//! Facts: what a decision changed, complete enough to be carried out without any rule.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::group::{Distance, Level, Rule};
use crate::ids::{ClassId, ConsumerUuid, Timestamp, TraitId};
use crate::inventory::Inventory;

/// One fact, as the journal keeps it.
///
/// The order of variants and fields is the journal's format: append new variants at the end and
/// never change an old one (`tests/golden.rs` guards it).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A resource class exists under this number and name.
    ClassCreated {
        /// Its number.
        id: ClassId,
        /// Its name.
        name: String,
        /// When.
        at: Timestamp,
    },
    /// A resource class has another name.
    ClassRenamed {
        /// Its number.
        id: ClassId,
        /// Its new name.
        name: String,
        /// When.
        at: Timestamp,
    },
    /// A resource class is gone.
    ClassRemoved {
        /// Its number.
        id: ClassId,
    },
    /// A trait exists under this number and name.
    TraitCreated {
        /// Its number.
        id: TraitId,
        /// Its name.
        name: String,
        /// When.
        at: Timestamp,
    },
    /// A trait is gone.
    TraitRemoved {
        /// Its number.
        id: TraitId,
    },
    /// A resource provider exists.
    ProviderCreated {
        /// Its UUID.
        uuid: Uuid,
        /// Its name.
        name: String,
        /// The provider that it is a part of.
        parent: Option<Uuid>,
        /// When.
        at: Timestamp,
    },
    /// A resource provider has this name and parent; its whole subtree moves with it.
    ProviderUpdated {
        /// Its UUID.
        uuid: Uuid,
        /// Its name.
        name: String,
        /// The provider that it is a part of.
        parent: Option<Uuid>,
        /// When.
        at: Timestamp,
    },
    /// A resource provider is gone, with its inventories, traits and aggregates.
    ProviderRemoved {
        /// Its UUID.
        uuid: Uuid,
    },
    /// A resource provider has this generation.
    GenerationSet {
        /// The provider.
        provider: Uuid,
        /// Its generation.
        generation: u64,
        /// When.
        at: Timestamp,
    },
    /// A resource provider has this inventory of a class.
    InventorySet {
        /// The provider.
        provider: Uuid,
        /// The class.
        class: ClassId,
        /// The inventory.
        inventory: Inventory,
        /// When.
        at: Timestamp,
    },
    /// A resource provider has no inventory of a class any more.
    InventoryRemoved {
        /// The provider.
        provider: Uuid,
        /// The class.
        class: ClassId,
    },
    /// A resource provider has exactly these traits.
    TraitsSet {
        /// The provider.
        provider: Uuid,
        /// The traits, in rising order.
        traits: Vec<TraitId>,
    },
    /// A resource provider is a member of exactly these aggregates.
    AggregatesSet {
        /// The provider.
        provider: Uuid,
        /// The aggregates, in alphabetical order.
        aggregates: Vec<String>,
    },
    /// A consumer exists and holds exactly these resources.
    ConsumerSet {
        /// The consumer.
        consumer: ConsumerUuid,
        /// Its generation.
        generation: u64,
        /// Its project.
        project: String,
        /// Its user.
        user: String,
        /// Its type, if one was ever said.
        consumer_type: Option<String>,
        /// When.
        at: Timestamp,
        /// What it holds; never empty.
        allocations: Vec<AllocationFact>,
    },
    /// A consumer is gone and holds nothing.
    ConsumerRemoved {
        /// The consumer.
        consumer: ConsumerUuid,
    },
    /// A group of consumers exists with these rules.
    GroupSet {
        /// The group.
        group: Uuid,
        /// The rules between its members.
        rules: Vec<Rule>,
    },
    /// A group of consumers is gone; its members stay where they are.
    GroupRemoved {
        /// The group.
        group: Uuid,
    },
    /// The topology has exactly these levels.
    LevelsSet {
        /// From the smallest place to the largest.
        levels: Vec<Level>,
    },
    /// A consumer is on this host and a member of this group.
    ConsumerPlaced {
        /// The consumer.
        consumer: ConsumerUuid,
        /// The host, if it is known.
        host: Option<Uuid>,
        /// The group, if it is in one.
        group: Option<Uuid>,
    },
    /// The topology has exactly these distances.
    DistancesSet {
        /// In rising order.
        distances: Vec<Distance>,
    },
}

/// One amount that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationFact {
    /// From which provider.
    pub provider: Uuid,
    /// Of which resource class.
    pub class: ClassId,
    /// How much.
    pub amount: u32,
}
