//! Why a command was not carried out. A refused command changes nothing.

use thiserror::Error;
use uuid::Uuid;

use crate::ids::ConsumerUuid;

/// A typed refusal, with the details by which a client understands it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No provider has this UUID.
    #[error("no resource provider {uuid}")]
    ProviderNotFound {
        /// The UUID that is unknown.
        uuid: Uuid,
    },
    /// Another provider has this UUID.
    #[error("a resource provider with UUID {uuid} exists")]
    ProviderUuidTaken {
        /// The UUID that is taken.
        uuid: Uuid,
    },
    /// Another provider has this name.
    #[error("a resource provider named {name} exists")]
    ProviderNameTaken {
        /// The name that is taken.
        name: String,
    },
    /// The parent does not exist.
    #[error("the parent provider {uuid} does not exist")]
    ParentNotFound {
        /// The UUID of the missing parent.
        uuid: Uuid,
    },
    /// A provider cannot be its own parent.
    #[error("provider {uuid} cannot be its own parent")]
    ParentIsSelf {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// The provider has a parent, and this microversion does not allow moving it.
    #[error("provider {uuid} has another parent already")]
    ReparentingNotAllowed {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// The provider has a parent, and this microversion does not allow removing it.
    #[error("provider {uuid} cannot lose its parent")]
    UnparentingNotAllowed {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// The new parent lies in the provider's own subtree.
    #[error("provider {uuid} would become its own ancestor")]
    ProviderLoop {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// The provider has children.
    #[error("provider {uuid} has child providers")]
    ProviderHasChildren {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// The provider has allocations.
    #[error("provider {uuid} has allocations")]
    ProviderInUse {
        /// The UUID of the provider.
        uuid: Uuid,
    },
    /// The client saw another generation of the provider.
    #[error("provider {uuid} is at generation {actual}, not {given}")]
    ProviderGenerationConflict {
        /// The UUID of the provider.
        uuid: Uuid,
        /// The generation that the provider has.
        actual: u64,
        /// The generation that the client gave.
        given: u64,
    },
    /// No resource class has this name.
    #[error("no resource class {name}")]
    ClassNotFound {
        /// The name that is unknown.
        name: String,
    },
    /// A resource class with this name exists.
    #[error("resource class {name} exists")]
    ClassExists {
        /// The name that is taken.
        name: String,
    },
    /// There are inventories of the class.
    #[error("resource class {name} is in use")]
    ClassInUse {
        /// The name of the class.
        name: String,
    },
    /// Standard classes cannot be renamed or deleted.
    #[error("resource class {name} is a standard one")]
    ClassStandard {
        /// The name of the class.
        name: String,
    },
    /// All numbers for custom resource classes or traits are taken; the highest number is 65,534.
    #[error("there is no room for another resource class or trait")]
    NamesExhausted,
    /// No trait has one of these names.
    #[error("no trait {}", names.join(", "))]
    TraitNotFound {
        /// The unknown names, in alphabetical order.
        names: Vec<String>,
    },
    /// A provider has the trait.
    #[error("trait {name} is in use")]
    TraitInUse {
        /// The name of the trait.
        name: String,
    },
    /// Standard traits cannot be deleted.
    #[error("trait {name} is a standard one")]
    TraitStandard {
        /// The name of the trait.
        name: String,
    },
    /// The provider has an inventory of the class.
    #[error("provider {provider} has an inventory of {class}")]
    InventoryExists {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
    },
    /// The provider has no inventory of the class.
    #[error("provider {provider} has no inventory of {class}")]
    InventoryNotFound {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
    },
    /// Allocations exist for these classes of the provider.
    #[error("inventory of {} on provider {provider} is in use", classes.join(", "))]
    InventoryInUse {
        /// The UUID of the provider.
        provider: Uuid,
        /// The names of the classes, in rising order of their numbers.
        classes: Vec<String>,
    },
    /// The capacity, `(total - reserved) * allocation_ratio` cut to a whole number, is negative; or it is 0 and the
    /// whole inventory may not be reserved.
    #[error("inventory of {class} on provider {provider} leaves no capacity")]
    InvalidCapacity {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
        /// Whether the whole inventory may be reserved.
        may_reserve_all: bool,
    },
    /// The client expected another generation of the consumer.
    #[error("consumer {consumer} is at generation {actual:?}, not {given:?}")]
    ConsumerGenerationConflict {
        /// The consumer that the claim names.
        consumer: ConsumerUuid,
        /// The consumer's present generation; `None` if the consumer does not exist.
        actual: Option<u64>,
        /// The generation that the client gave; `None` if it expected that the consumer does not exist.
        given: Option<u64>,
    },
    /// The consumer has no allocations.
    #[error("consumer {consumer} has no allocations")]
    AllocationsNotFound {
        /// The consumer without allocations.
        consumer: ConsumerUuid,
    },
    /// An allocation names a provider that does not exist.
    #[error("an allocation names provider {uuid}, which does not exist")]
    AllocationProviderNotFound {
        /// The UUID that is unknown.
        uuid: Uuid,
    },
    /// A reshape names a provider that does not exist.
    #[error("an inventory names provider {uuid}, which does not exist")]
    ReshapeProviderNotFound {
        /// The UUID that is unknown.
        uuid: Uuid,
    },
    /// An allocation is of a class of which the provider has no inventory.
    #[error("provider {provider} has no inventory of {class} to allocate from")]
    NoInventory {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
    },
    /// An allocation is below the smallest unit, above the largest, or off the step.
    #[error("{amount} {class} of provider {provider} violates its units or step")]
    ConstraintsViolated {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
        /// The amount of the refused allocation.
        amount: i64,
    },
    /// Fewer intents than required have a feasible candidate.
    #[error("{fitting} of at least {required} found a place")]
    NothingFits {
        /// The number of intents that would have succeeded.
        fitting: usize,
        /// The number that was required.
        required: usize,
        /// Why the first candidate of a failed intent was rejected, for the first failed intent that has candidates;
        /// `None` if none of them has any.
        first: Option<Box<Refusal>>,
    },
    /// A candidate would break a hard rule.
    #[error("host {host} breaks the rule: {rule}")]
    RuleBroken {
        /// The UUID of the host's root provider.
        host: Uuid,
        /// A description of the rule for people.
        rule: String,
    },
    /// No group has this UUID.
    #[error("no group {group}")]
    GroupNotFound {
        /// The UUID that is unknown.
        group: Uuid,
    },
    /// An aggregate would be in the topology twice, or two levels would have one name.
    #[error("{name} is in the topology twice")]
    TopologyOverlap {
        /// The aggregate, or the name of the level.
        name: String,
    },
    /// A level of the topology has an empty name, or the name `host`, which stands for single hosts.
    #[error("{name:?} is no name for a level")]
    LevelName {
        /// The name that is not allowed.
        name: String,
    },
    /// A distance names a place that is in no level of the topology.
    #[error("{name} is in no level of the topology")]
    PlaceNotFound {
        /// The place that no level contains.
        name: String,
    },
    /// The request gives the distance between two places twice.
    #[error("the distance from {from} to {to} is there twice")]
    DistanceTwice {
        /// The smaller of the two places.
        from: String,
        /// The larger of the two places.
        to: String,
    },
    /// A distance is between places of two levels.
    #[error("{from} and {to} are not of one level")]
    DistanceAcrossLevels {
        /// The place that the request names first.
        from: String,
        /// The place that the request names second.
        to: String,
    },
    /// The provider has less free capacity than requested.
    #[error("provider {provider} lacks {missing} {class}")]
    CapacityExceeded {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        class: String,
        /// The amount by which the request exceeds the free capacity.
        missing: i64,
    },
}
