//! Commands: the requests to change the state. Times and new UUIDs are part of the command.

use std::sync::Arc;

use uuid::Uuid;

use crate::group::{Distance, Level, Rule};
use crate::ids::{ConsumerUuid, Timestamp};
use crate::inventory::Inventory;

/// A request to change the state, checked for form but not against the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Creates the missing standard resource classes and traits of this release.
    SyncStandardNames {
        /// The time of the decision; created names get it.
        at: Timestamp,
    },
    /// Creates a resource provider.
    CreateProvider {
        /// The UUID of the new provider.
        uuid: Uuid,
        /// The name of the new provider, unique among providers.
        name: String,
        /// The parent provider; `None` for a root.
        parent: Option<Uuid>,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Renames a resource provider, and may change its parent.
    UpdateProvider {
        /// The UUID of the provider.
        uuid: Uuid,
        /// The new name, unique among providers.
        name: String,
        /// The change of the parent that the request demands.
        parent: ParentChange,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Deletes a resource provider that has neither children nor allocations.
    DeleteProvider {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// Adds an inventory to a provider (`POST`, no generation check).
    AddInventory {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
        /// The inventory that is added.
        inventory: Inventory,
        /// Whether `reserved` may equal `total` (microversion 1.26).
        may_reserve_all: bool,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Changes one inventory that a provider has.
    UpdateInventory {
        /// The UUID of the provider.
        provider: Uuid,
        /// The generation that the client saw.
        generation: u64,
        /// The name of the resource class.
        class: String,
        /// The inventory that replaces the present one.
        inventory: Inventory,
        /// Whether `reserved` may equal `total` (microversion 1.26).
        may_reserve_all: bool,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Replaces all inventories of a provider.
    SetInventories {
        /// The UUID of the provider.
        provider: Uuid,
        /// The generation that the client saw; `None` for `DELETE` of all.
        generation: Option<u64>,
        /// The inventories by resource class.
        inventories: Vec<(String, Inventory)>,
        /// Whether `reserved` may equal `total` (microversion 1.26).
        may_reserve_all: bool,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Removes one inventory of a provider.
    DeleteInventory {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Replaces the traits of a provider.
    SetTraits {
        /// The UUID of the provider.
        provider: Uuid,
        /// The generation that the client saw; `None` for `DELETE` of all.
        generation: Option<u64>,
        /// The names of the traits.
        traits: Vec<String>,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Replaces the aggregates of a provider.
    SetAggregates {
        /// The UUID of the provider.
        provider: Uuid,
        /// The generation that the client saw. Without one (before microversion 1.19) it is
        /// neither checked nor incremented.
        generation: Option<u64>,
        /// The UUIDs of the aggregates, as the client wrote them.
        aggregates: Vec<String>,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Creates a custom resource class. If it exists, the command is refused, unless `exist_ok`.
    CreateClass {
        /// The name of the new class, with the custom prefix.
        name: String,
        /// Whether an existing class is accepted.
        exist_ok: bool,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Renames a custom resource class (microversions 1.2 to 1.6).
    RenameClass {
        /// The name of an existing custom class.
        name: String,
        /// The name that replaces the present one.
        new_name: String,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Deletes a custom resource class that no inventory uses.
    DeleteClass {
        /// The name of the class.
        name: String,
    },
    /// Creates a custom trait, unless it exists.
    EnsureTrait {
        /// The name of the trait, with the custom prefix.
        name: String,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Deletes a custom trait that no provider has.
    DeleteTrait {
        /// The name of the trait.
        name: String,
    },
    /// Replaces the allocations of some consumers, all or nothing.
    Claim {
        /// The consumers; each once.
        consumers: Vec<ConsumerClaim>,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Claims for each intent the first of its candidates that fits and satisfies the hard rules.
    ClaimFirst {
        /// The intents, each of a different consumer; decided in this order.
        intents: Vec<Intent>,
        /// How many intents must succeed; with fewer, nothing is claimed at all.
        least: usize,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Creates a group of consumers, or replaces its rules. Only later claims are checked against
    /// them.
    SetGroup {
        /// The UUID of the group.
        group: Uuid,
        /// The rules between the members of the group.
        rules: Vec<Rule>,
    },
    /// Deletes a group; its members keep their allocations.
    DeleteGroup {
        /// The UUID of the group.
        group: Uuid,
    },
    /// Replaces the levels of the topology, and the distances.
    SetLevels {
        /// The levels, the one with the smallest places first.
        levels: Vec<Level>,
        /// The distances between places of one level; each pair once, in either order.
        distances: Vec<Distance>,
    },
    /// Releases all allocations of a consumer. Provider generations do not change.
    Release {
        /// The consumer whose allocations are released.
        consumer: ConsumerUuid,
    },
    /// Replaces inventories and allocations in one step, so that a provider can become a tree
    /// while everything on it stays allocated.
    Reshape {
        /// The inventories by provider.
        inventories: Vec<InventoryReplacement>,
        /// The consumers; each once.
        consumers: Vec<ConsumerClaim>,
        /// The time of the decision.
        at: Timestamp,
    },
}

/// A claim for one consumer with several candidates, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// The consumer. Its present allocations are released in the same step.
    pub consumer: ConsumerUuid,
    /// The generation that the client expects the consumer to have.
    pub generation: ConsumerGeneration,
    /// The project that owns the consumer.
    pub project: String,
    /// The user that owns the consumer.
    pub user: String,
    /// The consumer type. Without one (before microversion 1.38) an existing consumer keeps its type.
    pub consumer_type: Option<String>,
    /// The group that the consumer joins, whose rules apply to it; `None` if it joins none.
    pub group: Option<Uuid>,
    /// Hard rules relative to other consumers.
    pub rules: Vec<IntentRule>,
    /// The candidates, best first.
    pub candidates: Vec<IntentCandidate>,
    /// The claims of other consumers that are made in the same step, such as that of the migration
    /// that holds the allocations of the old host during a move.
    pub alongside: Vec<ConsumerClaim>,
}

/// A hard rule of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRule {
    /// The relation that the chosen host must satisfy.
    pub rule: Rule,
    /// The consumers whose hosts the rule compares with.
    pub others: Vec<ConsumerUuid>,
    /// Whether the rule also compares with the members that the intent's group has at the time of
    /// the claim.
    pub includes_group: bool,
}

/// One candidate of an intent.
#[derive(Clone, Debug, PartialEq)]
pub struct IntentCandidate {
    /// The host: the root of the tree that the consumer is put on.
    pub host: Uuid,
    /// The amounts, also from descendants of the host and from sharing providers. An `Arc`, so that
    /// a candidate of the scheduler and the claims that are made of it use the same list.
    pub allocations: Arc<[AllocationRequest]>,
}

/// The change of a provider's parent that an update demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentChange {
    /// The request does not mention the parent (before microversion 1.14).
    Keep,
    /// A provider without a parent may get one; every other change is refused.
    SetOnce(Option<Uuid>),
    /// Any move is allowed, also to become a root (microversion 1.37).
    Move(Option<Uuid>),
}

/// All inventories of one provider within a reshape.
#[derive(Clone, Debug, PartialEq)]
pub struct InventoryReplacement {
    /// The UUID of the provider.
    pub provider: Uuid,
    /// The generation that the client saw.
    pub generation: u64,
    /// The inventories by resource class.
    pub inventories: Vec<(String, Inventory)>,
}

/// The allocations that one consumer holds from now on; with none the consumer is removed.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerClaim {
    /// The consumer whose allocations are replaced.
    pub consumer: ConsumerUuid,
    /// The generation that the client expects the consumer to have.
    pub generation: ConsumerGeneration,
    /// The project that owns the consumer.
    pub project: String,
    /// The user that owns the consumer.
    pub user: String,
    /// The type of the consumer; without one (before microversion 1.38) an existing consumer keeps its type.
    pub consumer_type: Option<String>,
    /// The allocations that the consumer gets.
    pub allocations: Vec<AllocationRequest>,
}

/// The generation that a client expects a consumer to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerGeneration {
    /// Nothing is checked (before microversion 1.28).
    Any,
    /// The consumer must have this generation, or, for `None`, must not exist.
    Is(Option<u64>),
}

/// Amounts requested from one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationRequest {
    /// The UUID of the provider.
    pub provider: Uuid,
    /// Amounts by resource class, each at least 1.
    pub resources: Vec<(String, i64)>,
}
