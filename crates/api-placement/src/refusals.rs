//! The error responses to refusals of the state: status, text and code.
//!
//! The same refusal has different texts for different operations, so a caller names its operation.

use placewright_http::ApiError;
use placewright_placement::Refusal;
use uuid::Uuid;

use crate::render::code;

/// The operation that was refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RefusedOperation<'a> {
    /// A provider is created: `POST /resource_providers`.
    CreateProvider {
        /// The name in the request.
        name: &'a str,
        /// The UUID in the request, or the generated one.
        uuid: Uuid,
    },
    /// The provider with this UUID is updated: `PUT /resource_providers/{uuid}`.
    UpdateProvider(&'a str),
    /// The provider with this UUID is deleted: `DELETE /resource_providers/{uuid}`.
    DeleteProvider(&'a str),
    /// One inventory is added with `POST`.
    AddInventory(&'a str),
    /// One inventory is replaced with `PUT`.
    UpdateInventory(&'a str),
    /// All inventories are replaced with `PUT`.
    SetInventories(&'a str),
    /// The inventory of this class is deleted.
    DeleteInventory(&'a str),
    /// All inventories are deleted.
    DeleteInventories,
    /// A provider's traits are set or deleted.
    SetTraits,
    /// A provider's aggregates are set.
    SetAggregates,
    /// A resource class is created, updated or deleted.
    Class,
    /// A trait is created or deleted.
    Trait,
    /// One consumer's allocations are set: `PUT /allocations/{consumer_uuid}`.
    Allocate(&'a str),
    /// Several consumers' allocations are set: `POST /allocations`.
    AllocateSeveral,
    /// One consumer's allocations are deleted: `DELETE /allocations/{consumer_uuid}`.
    Release,
    /// Inventories and allocations are changed together: `POST /reshaper`.
    Reshape,
}

/// The error response to a refused operation.
pub(crate) fn to_error(refusal: &Refusal, attempt: &RefusedOperation<'_>) -> ApiError {
    match refusal {
        Refusal::ProviderNotFound { uuid } => match attempt {
            RefusedOperation::DeleteProvider(uuid) => ApiError::not_found(format!(
                "No resource provider with uuid {uuid} found for delete"
            )),
            _ => provider_not_found(&uuid.to_string()),
        },
        Refusal::ProviderUuidTaken { .. }
        | Refusal::ProviderNameTaken { .. }
        | Refusal::ParentNotFound { .. }
        | Refusal::ParentIsSelf { .. }
        | Refusal::ReparentingNotAllowed { .. }
        | Refusal::UnparentingNotAllowed { .. }
        | Refusal::ProviderLoop { .. }
        | Refusal::ProviderHasChildren { .. }
        | Refusal::ProviderInUse { .. } => provider(refusal, attempt),
        Refusal::ProviderGenerationConflict { .. } => generation(refusal, attempt),
        Refusal::ClassNotFound { .. }
        | Refusal::ClassExists { .. }
        | Refusal::ClassInUse { .. }
        | Refusal::ClassStandard { .. }
        | Refusal::NamesExhausted
        | Refusal::TraitNotFound { .. }
        | Refusal::TraitInUse { .. }
        | Refusal::TraitStandard { .. } => named(refusal, attempt),
        Refusal::InventoryExists { .. }
        | Refusal::InventoryNotFound { .. }
        | Refusal::InventoryInUse { .. }
        | Refusal::InvalidCapacity { .. } => inventory(refusal, attempt),
        Refusal::ConsumerGenerationConflict { .. }
        | Refusal::AllocationsNotFound { .. }
        | Refusal::AllocationProviderNotFound { .. }
        | Refusal::ReshapeProviderNotFound { .. }
        | Refusal::NoInventory { .. }
        | Refusal::ConstraintsViolated { .. }
        | Refusal::CapacityExceeded { .. } => allocation(refusal),
        // No command of this API is refused for these reasons.
        Refusal::NothingFits { .. }
        | Refusal::RuleBroken { .. }
        | Refusal::GroupNotFound { .. }
        | Refusal::TopologyOverlap { .. }
        | Refusal::LevelName { .. }
        | Refusal::PlaceNotFound { .. }
        | Refusal::DistanceTwice { .. }
        | Refusal::DistanceAcrossLevels { .. } => ApiError::conflict(refusal.to_string()),
    }
}

/// The error response about a provider that does not exist.
pub(crate) fn provider_not_found(uuid: &str) -> ApiError {
    ApiError::not_found(format!("No resource provider with uuid {uuid} found")).before_routing()
}

fn provider(refusal: &Refusal, attempt: &RefusedOperation<'_>) -> ApiError {
    let failed = |action: &str, reason: &str| {
        let what = match attempt {
            RefusedOperation::CreateProvider { name, uuid } => {
                format!("Unable to create resource provider \"{name}\", {uuid}")
            }
            RefusedOperation::UpdateProvider(uuid) => {
                format!("Unable to save resource provider {uuid}")
            }
            _ => "Unable to change the resource provider".to_owned(),
        };
        ApiError::bad_request(format!(
            "{what}: Object action {action} failed because: {reason}"
        ))
    };
    let target = match attempt {
        RefusedOperation::DeleteProvider(uuid) => uuid,
        _ => "",
    };
    match refusal {
        Refusal::ProviderUuidTaken { uuid } => ApiError::conflict(format!(
            "Conflicting resource provider uuid: {uuid} already exists."
        ))
        .with_code(code::DUPLICATE_NAME),
        Refusal::ProviderNameTaken { name } => {
            let field = if matches!(attempt, RefusedOperation::CreateProvider { .. }) {
                "name: "
            } else {
                ""
            };
            ApiError::conflict(format!(
                "Conflicting resource provider {field}{name} already exists."
            ))
            .with_code(code::DUPLICATE_NAME)
        }
        Refusal::ParentNotFound { .. } => failed("create", "parent provider UUID does not exist."),
        Refusal::ParentIsSelf { .. } => failed(
            "create",
            "parent provider UUID cannot be same as UUID. Please set parent provider UUID to None \
             if there is no parent.",
        ),
        Refusal::ReparentingNotAllowed { .. } => failed(
            "update",
            "re-parenting a provider is not currently allowed.",
        ),
        Refusal::UnparentingNotAllowed { .. } => failed(
            "update",
            "un-parenting a provider is not currently allowed.",
        ),
        Refusal::ProviderLoop { .. } => failed(
            "update",
            "creating loop in the provider tree is not allowed.",
        ),
        Refusal::ProviderHasChildren { .. } => ApiError::conflict(format!(
            "Unable to delete parent resource provider {target}: It has child resource providers."
        ))
        .with_code(code::CANNOT_DELETE_PARENT),
        _ => ApiError::conflict(format!(
            "Unable to delete resource provider {target}: Resource provider has allocations."
        ))
        .with_code(code::PROVIDER_IN_USE),
    }
}

fn generation(refusal: &Refusal, attempt: &RefusedOperation<'_>) -> ApiError {
    let error = match (attempt, refusal) {
        (RefusedOperation::SetTraits | RefusedOperation::SetAggregates, _) => ApiError::conflict(
            "Resource provider's generation already changed. Please update the generation and try \
             again.",
        ),
        (
            RefusedOperation::Reshape,
            Refusal::ProviderGenerationConflict {
                uuid,
                actual,
                given,
            },
        ) => {
            // A negative number is stored as its two's complement.
            let given = given.cast_signed();
            ApiError::conflict(format!(
                "resource provider generation conflict for provider {uuid}: actual: {actual}, \
                 given: {given}"
            ))
        }
        _ => ApiError::conflict("resource provider generation conflict"),
    };
    error.with_code(code::CONCURRENT_UPDATE)
}

fn named(refusal: &Refusal, attempt: &RefusedOperation<'_>) -> ApiError {
    match refusal {
        Refusal::ClassNotFound { name } => class_not_found(name, attempt),
        Refusal::ClassExists { name } => {
            ApiError::conflict(format!("Conflicting resource class already exists: {name}"))
        }
        Refusal::ClassInUse { name } => ApiError::conflict(format!(
            "Error in delete resource class: Cannot delete resource class {name}. Class is in use \
             in inventory."
        )),
        Refusal::ClassStandard { name } => ApiError::bad_request(format!(
            "Error in delete resource class: Cannot delete standard resource class {name}."
        )),
        Refusal::NamesExhausted => ApiError::conflict(
            "There is no room for another resource class or trait: all 65,536 numbers are taken.",
        ),
        Refusal::TraitNotFound { names } => {
            let names = names.join(", ");
            match attempt {
                RefusedOperation::SetTraits => {
                    ApiError::bad_request(format!("No such trait {names}"))
                }
                _ => ApiError::not_found(format!("No such trait(s): {names}.")),
            }
        }
        Refusal::TraitStandard { name } => {
            ApiError::bad_request(format!("Cannot delete standard trait {name}."))
        }
        Refusal::TraitInUse { name } => ApiError::conflict(format!(
            "The trait {name} is in use by a resource provider."
        )),
        _ => ApiError::bad_request(refusal.to_string()),
    }
}

fn class_not_found(name: &str, attempt: &RefusedOperation<'_>) -> ApiError {
    let what = format!("No such resource class {name}.");
    match attempt {
        RefusedOperation::AddInventory(uuid) => ApiError::bad_request(format!(
            "Unable to create inventory for resource provider {uuid}: {what}"
        )),
        RefusedOperation::SetInventories(uuid) => ApiError::bad_request(format!(
            "Unknown resource class in inventory for resource provider {uuid}: {what}"
        )),
        RefusedOperation::DeleteInventory(class) => ApiError::not_found(format!(
            "No inventory of class {class} found for delete: {what}"
        )),
        RefusedOperation::Allocate(consumer) => ApiError::bad_request(format!(
            "Unable to allocate inventory for consumer {consumer}: {what}"
        )),
        RefusedOperation::AllocateSeveral => {
            ApiError::bad_request(format!("Unable to allocate inventory {what}"))
        }
        RefusedOperation::Reshape => {
            ApiError::bad_request(format!("malformed reshaper data: {what}"))
        }
        _ => ApiError::not_found(what).before_routing(),
    }
}

fn inventory(refusal: &Refusal, attempt: &RefusedOperation<'_>) -> ApiError {
    match refusal {
        Refusal::InventoryNotFound { class, .. } => {
            let what = format!("No inventory of class {class} found.");
            match attempt {
                RefusedOperation::DeleteInventory(class) => ApiError::not_found(format!(
                    "No inventory of class {class} found for delete: No inventory of class {class} \
                     found for delete"
                )),
                RefusedOperation::UpdateInventory(uuid) => ApiError::bad_request(format!(
                    "No inventory record with resource class for resource provider {uuid}: {what}"
                )),
                _ => ApiError::not_found(what),
            }
        }
        Refusal::InventoryExists { provider, class } => ApiError::conflict(format!(
            "Update conflict: resource provider {provider} has an inventory of {class} already"
        ))
        .with_code(code::CONCURRENT_UPDATE),
        Refusal::InventoryInUse { provider, classes } => {
            let what = format!(
                "Inventory for '{}' on resource provider '{provider}' in use.",
                classes.join(", ")
            );
            match attempt {
                RefusedOperation::DeleteInventory(class) => ApiError::conflict(format!(
                    "Unable to delete inventory of class {class}: {what}"
                ))
                .with_code(code::CONCURRENT_UPDATE),
                RefusedOperation::DeleteInventories => {
                    ApiError::conflict(what).with_code(code::INVENTORY_INUSE)
                }
                _ => ApiError::conflict(format!("update conflict: {what}"))
                    .with_code(code::INVENTORY_INUSE),
            }
        }
        Refusal::InvalidCapacity {
            provider,
            class,
            may_reserve_all,
        } => {
            let verb = if matches!(attempt, RefusedOperation::AddInventory(_)) {
                "create"
            } else {
                "update"
            };
            let than = if *may_reserve_all {
                "greater than"
            } else {
                "greater than or equal to"
            };
            ApiError::bad_request(format!(
                "Unable to {verb} inventory for resource provider {provider}: Invalid inventory \
                 for '{class}' on resource provider '{provider}'. The reserved value is {than} \
                 total."
            ))
        }
        _ => ApiError::bad_request(refusal.to_string()),
    }
}

fn allocation(refusal: &Refusal) -> ApiError {
    let unable = |what: String| ApiError::conflict(format!("Unable to allocate inventory: {what}"));
    let too_much = |class: &str, provider: &Uuid, what: &str| {
        unable(format!(
            "Unable to create allocation for '{class}' on resource provider '{provider}'. The \
             requested amount would {what}."
        ))
    };
    match refusal {
        Refusal::ConsumerGenerationConflict { actual, given, .. } => {
            let given = given.map_or("None".to_owned(), |given| given.cast_signed().to_string());
            let expected = actual.map_or("null".to_owned(), |actual| actual.to_string());
            ApiError::conflict(format!(
                "consumer generation conflict - expected {expected} but got {given}"
            ))
            .with_code(code::CONCURRENT_UPDATE)
        }
        Refusal::AllocationsNotFound { consumer } => {
            ApiError::not_found(format!("No allocations for consumer '{consumer}'"))
        }
        Refusal::AllocationProviderNotFound { uuid } => {
            allocation_provider_not_found(&uuid.to_string())
        }
        Refusal::ReshapeProviderNotFound { uuid } => reshape_provider_not_found(&uuid.to_string()),
        Refusal::NoInventory { provider, class } => unable(format!(
            "Inventory for '{class}' on resource provider '{provider}' invalid."
        )),
        Refusal::ConstraintsViolated {
            provider, class, ..
        } => too_much(class, provider, "violate inventory constraints"),
        Refusal::CapacityExceeded {
            provider, class, ..
        } => too_much(class, provider, "exceed the capacity"),
        _ => ApiError::bad_request(refusal.to_string()),
    }
}

/// The error response for an allocation of a provider that does not exist.
pub(crate) fn allocation_provider_not_found(uuid: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Allocation for resource provider '{uuid}' that does not exist."
    ))
}

/// The error response for a reshape of a provider that does not exist.
pub(crate) fn reshape_provider_not_found(uuid: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Resource provider {uuid} in inventories not found: No resource provider with uuid {uuid} \
         found"
    ))
    .with_code(code::PROVIDER_NOT_FOUND)
}
