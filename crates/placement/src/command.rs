//! What can be asked of the state. Times and new UUIDs come with the command.

use uuid::Uuid;

use crate::group::{Distance, Level, Rule};
use crate::ids::{ConsumerUuid, Timestamp};
use crate::inventory::Inventory;

/// A request to change the state, checked for form but not against the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Creates what is missing of the standard resource classes and traits of this release.
    SyncStandardNames {
        /// Now.
        at: Timestamp,
    },
    /// Creates a resource provider.
    CreateProvider {
        /// Its UUID.
        uuid: Uuid,
        /// Its name.
        name: String,
        /// The provider that it is a part of.
        parent: Option<Uuid>,
        /// Now.
        at: Timestamp,
    },
    /// Renames a resource provider, and moves it in its tree.
    UpdateProvider {
        /// Which.
        uuid: Uuid,
        /// Its new name.
        name: String,
        /// What becomes of its parent.
        parent: ParentChange,
        /// Now.
        at: Timestamp,
    },
    /// Deletes a resource provider that has neither children nor allocations.
    DeleteProvider {
        /// Which.
        uuid: Uuid,
    },
    /// Gives a provider one more inventory (`POST`, no generation check).
    AddInventory {
        /// Which provider.
        provider: Uuid,
        /// The resource class.
        class: String,
        /// The inventory.
        inventory: Inventory,
        /// Whether everything may be reserved (microversion 1.26).
        may_reserve_all: bool,
        /// Now.
        at: Timestamp,
    },
    /// Changes one inventory that a provider has.
    UpdateInventory {
        /// Which provider.
        provider: Uuid,
        /// The generation that the client saw.
        generation: u64,
        /// The resource class.
        class: String,
        /// The inventory.
        inventory: Inventory,
        /// Whether everything may be reserved (microversion 1.26).
        may_reserve_all: bool,
        /// Now.
        at: Timestamp,
    },
    /// Replaces all inventories of a provider.
    SetInventories {
        /// Which provider.
        provider: Uuid,
        /// The generation that the client saw; `DELETE` of all has none.
        generation: Option<u64>,
        /// The inventories by resource class.
        inventories: Vec<(String, Inventory)>,
        /// Whether everything may be reserved (microversion 1.26).
        may_reserve_all: bool,
        /// Now.
        at: Timestamp,
    },
    /// Takes one inventory from a provider.
    DeleteInventory {
        /// Which provider.
        provider: Uuid,
        /// The resource class.
        class: String,
        /// Now.
        at: Timestamp,
    },
    /// Replaces the traits of a provider.
    SetTraits {
        /// Which provider.
        provider: Uuid,
        /// The generation that the client saw; `DELETE` of all has none.
        generation: Option<u64>,
        /// The traits.
        traits: Vec<String>,
        /// Now.
        at: Timestamp,
    },
    /// Replaces the aggregates of a provider.
    SetAggregates {
        /// Which provider.
        provider: Uuid,
        /// The generation that the client saw. Without one (before microversion 1.19) none is
        /// checked and none is counted up.
        generation: Option<u64>,
        /// The aggregates.
        aggregates: Vec<String>,
        /// Now.
        at: Timestamp,
    },
    /// Creates a custom resource class. One that exists is a refusal, or, with `ensure`, fine.
    CreateClass {
        /// Its name.
        name: String,
        /// Whether it may exist.
        ensure: bool,
        /// Now.
        at: Timestamp,
    },
    /// Renames a custom resource class (microversions 1.2 to 1.6).
    RenameClass {
        /// Its name.
        name: String,
        /// Its new name.
        new_name: String,
        /// Now.
        at: Timestamp,
    },
    /// Deletes a custom resource class that no inventory uses.
    DeleteClass {
        /// Its name.
        name: String,
    },
    /// Creates a custom trait, unless it exists.
    EnsureTrait {
        /// Its name.
        name: String,
        /// Now.
        at: Timestamp,
    },
    /// Deletes a custom trait that no provider has.
    DeleteTrait {
        /// Its name.
        name: String,
    },
    /// Replaces what each of some consumers holds, all or nothing.
    Claim {
        /// The consumers; each once.
        consumers: Vec<ConsumerClaim>,
        /// Now.
        at: Timestamp,
    },
    /// Claims for each intent the first of its candidates that fits and keeps the rules.
    ClaimFirst {
        /// The intents, each of another consumer; decided in this order.
        intents: Vec<Intent>,
        /// How many must find a place; with fewer, nothing is claimed at all.
        least: usize,
        /// Now.
        at: Timestamp,
    },
    /// Creates a group of consumers, or replaces its rules; those hold for later claims.
    SetGroup {
        /// The group.
        group: Uuid,
        /// The rules between its members.
        rules: Vec<Rule>,
    },
    /// Forgets a group; its members stay where they are.
    DeleteGroup {
        /// The group.
        group: Uuid,
    },
    /// Replaces the levels of the topology, and the distances.
    SetLevels {
        /// From the smallest place to the largest.
        levels: Vec<Level>,
        /// Between places of one level; each pair once, whichever comes first.
        distances: Vec<Distance>,
    },
    /// Releases all that a consumer holds. Provider generations stay.
    Release {
        /// Which consumer.
        consumer: ConsumerUuid,
    },
    /// Replaces inventories and allocations together, so that a provider can become a tree with
    /// everything on it held without a gap.
    Reshape {
        /// The inventories by provider.
        inventories: Vec<InventoryReplacement>,
        /// The consumers; each once.
        consumers: Vec<ConsumerClaim>,
        /// Now.
        at: Timestamp,
    },
}

/// A wish to hold one of several candidates, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// Who is to hold it. What it holds already is given back in the same step.
    pub consumer: ConsumerUuid,
    /// Which generation the client expects of it.
    pub generation: ConsumerGeneration,
    /// Its project.
    pub project: String,
    /// Its user.
    pub user: String,
    /// Its type.
    pub consumer_type: Option<String>,
    /// The group that it joins, whose rules hold for it.
    pub group: Option<Uuid>,
    /// Hard rules towards other consumers.
    pub rules: Vec<IntentRule>,
    /// What it may hold, best first.
    pub candidates: Vec<IntentCandidate>,
    /// What others hold from the same step on (a migration that keeps the old host, say).
    pub alongside: Vec<ConsumerClaim>,
}

/// A hard rule of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRule {
    /// What must hold.
    pub rule: Rule,
    /// Towards these.
    pub others: Vec<ConsumerUuid>,
    /// And towards the members that the intent's group has when the claim is made.
    pub with_group: bool,
}

/// One way to serve an intent.
#[derive(Clone, Debug, PartialEq)]
pub struct IntentCandidate {
    /// The host: the root of the tree that the consumer is put on.
    pub host: Uuid,
    /// The amounts, also from parts of the host and from sharing providers.
    pub allocations: Vec<AllocationRequest>,
}

/// What an update does to the parent of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentChange {
    /// The request did not speak of it (before microversion 1.14).
    Keep,
    /// A parent may be given to a provider that has none; nothing else.
    SetOnce(Option<Uuid>),
    /// Any move, and none, is fine (microversion 1.37).
    Move(Option<Uuid>),
}

/// All inventories of one provider within a reshape.
#[derive(Clone, Debug, PartialEq)]
pub struct InventoryReplacement {
    /// Which provider.
    pub provider: Uuid,
    /// The generation that the client saw.
    pub generation: u64,
    /// The inventories by resource class.
    pub inventories: Vec<(String, Inventory)>,
}

/// What one consumer is to hold from now on; nothing at all means that it is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerClaim {
    /// Which consumer.
    pub consumer: ConsumerUuid,
    /// Which generation the client expects of it.
    pub generation: ConsumerGeneration,
    /// Its project.
    pub project: String,
    /// Its user.
    pub user: String,
    /// Its type; without one an existing consumer keeps what it has (before microversion 1.38).
    pub consumer_type: Option<String>,
    /// What it is to hold.
    pub allocations: Vec<AllocationRequest>,
}

/// What a client knows about a consumer's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerGeneration {
    /// Nothing is checked (before microversion 1.28).
    Any,
    /// The consumer must have this generation, or, for none, must not exist.
    Is(Option<u64>),
}

/// Amounts wanted from one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationRequest {
    /// Which provider.
    pub provider: Uuid,
    /// Amounts by resource class, each at least 1.
    pub resources: Vec<(String, i64)>,
}
