//! The error responses for refused commands: status, text and code.
//!
//! The text for a refusal depends on the operation of the API that was refused.

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
    /// One inventory of the provider with this UUID is added with `POST`.
    AddInventory(&'a str),
    /// One inventory of the provider with this UUID is replaced with `PUT`.
    UpdateInventory(&'a str),
    /// All inventories of the provider with this UUID are replaced with `PUT`.
    SetInventories(&'a str),
    /// A provider's inventory of this resource class is deleted.
    DeleteInventory(&'a str),
    /// All inventories of a provider are deleted.
    DeleteInventories,
    /// A provider's traits are set or deleted.
    SetTraits,
    /// A provider's aggregates are set.
    SetAggregates,
    /// A resource class is created, updated or deleted.
    Class,
    /// A trait is created or deleted.
    Trait,
    /// The allocations of the consumer with this UUID are set: `PUT /allocations/{consumer_uuid}`.
    Allocate(&'a str),
    /// Several consumers' allocations are set: `POST /allocations`.
    AllocateSeveral,
    /// One consumer's allocations are deleted: `DELETE /allocations/{consumer_uuid}`.
    Release,
    /// Inventories and allocations are changed together: `POST /reshaper`.
    Reshape,
}

/// The error response to a refused operation.
pub(crate) fn to_error(refusal: &Refusal, operation: &RefusedOperation<'_>) -> ApiError {
    match refusal {
        Refusal::ProviderNotFound { uuid } => match operation {
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
        | Refusal::ProviderInUse { .. } => provider_error(refusal, operation),
        Refusal::ProviderGenerationConflict { .. } => generation_error(refusal, operation),
        Refusal::ClassNotFound { .. }
        | Refusal::ClassExists { .. }
        | Refusal::ClassInUse { .. }
        | Refusal::ClassStandard { .. }
        | Refusal::NamesExhausted
        | Refusal::TraitNotFound { .. }
        | Refusal::TraitInUse { .. }
        | Refusal::TraitStandard { .. } => name_error(refusal, operation),
        Refusal::InventoryExists { .. }
        | Refusal::InventoryNotFound { .. }
        | Refusal::InventoryInUse { .. }
        | Refusal::InvalidCapacity { .. } => inventory_error(refusal, operation),
        Refusal::ConsumerGenerationConflict { .. }
        | Refusal::AllocationsNotFound { .. }
        | Refusal::AllocationProviderNotFound { .. }
        | Refusal::ReshapeProviderNotFound { .. }
        | Refusal::NoInventory { .. }
        | Refusal::ConstraintsViolated { .. }
        | Refusal::CapacityExceeded { .. } => allocation_error(refusal),
        // Only commands that this API does not submit are refused for these reasons.
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
    ApiError::not_found(format!("No resource provider with uuid {uuid} found")).without_vary()
}

fn provider_error(refusal: &Refusal, operation: &RefusedOperation<'_>) -> ApiError {
    let action_failed = |action: &str, reason: &str| {
        let problem = match operation {
            RefusedOperation::CreateProvider { name, uuid } => {
                format!("Unable to create resource provider \"{name}\", {uuid}")
            }
            RefusedOperation::UpdateProvider(uuid) => {
                format!("Unable to save resource provider {uuid}")
            }
            _ => "Unable to change the resource provider".to_owned(),
        };
        ApiError::bad_request(format!(
            "{problem}: Object action {action} failed because: {reason}"
        ))
    };
    let deleted_uuid = match operation {
        RefusedOperation::DeleteProvider(uuid) => uuid,
        _ => "",
    };
    match refusal {
        Refusal::ProviderUuidTaken { uuid } => ApiError::conflict(format!(
            "Conflicting resource provider uuid: {uuid} already exists."
        ))
        .with_code(code::DUPLICATE_NAME),
        Refusal::ProviderNameTaken { name } => {
            let field = if matches!(operation, RefusedOperation::CreateProvider { .. }) {
                "name: "
            } else {
                ""
            };
            ApiError::conflict(format!(
                "Conflicting resource provider {field}{name} already exists."
            ))
            .with_code(code::DUPLICATE_NAME)
        }
        Refusal::ParentNotFound { .. } => {
            action_failed("create", "parent provider UUID does not exist.")
        }
        Refusal::ParentIsSelf { .. } => action_failed(
            "create",
            "parent provider UUID cannot be same as UUID. Please set parent provider UUID to None \
             if there is no parent.",
        ),
        Refusal::ReparentingNotAllowed { .. } => action_failed(
            "update",
            "re-parenting a provider is not currently allowed.",
        ),
        Refusal::UnparentingNotAllowed { .. } => action_failed(
            "update",
            "un-parenting a provider is not currently allowed.",
        ),
        Refusal::ProviderLoop { .. } => action_failed(
            "update",
            "creating loop in the provider tree is not allowed.",
        ),
        Refusal::ProviderHasChildren { .. } => ApiError::conflict(format!(
            "Unable to delete parent resource provider {deleted_uuid}: It has child resource \
             providers."
        ))
        .with_code(code::CANNOT_DELETE_PARENT),
        _ => ApiError::conflict(format!(
            "Unable to delete resource provider {deleted_uuid}: Resource provider has allocations."
        ))
        .with_code(code::PROVIDER_IN_USE),
    }
}

fn generation_error(refusal: &Refusal, operation: &RefusedOperation<'_>) -> ApiError {
    let error = match (operation, refusal) {
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
            // A negative number was parsed into its two's complement.
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

fn name_error(refusal: &Refusal, operation: &RefusedOperation<'_>) -> ApiError {
    match refusal {
        Refusal::ClassNotFound { name } => class_not_found(name, operation),
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
            match operation {
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

fn class_not_found(name: &str, operation: &RefusedOperation<'_>) -> ApiError {
    let problem = format!("No such resource class {name}.");
    match operation {
        RefusedOperation::AddInventory(uuid) => ApiError::bad_request(format!(
            "Unable to create inventory for resource provider {uuid}: {problem}"
        )),
        RefusedOperation::SetInventories(uuid) => ApiError::bad_request(format!(
            "Unknown resource class in inventory for resource provider {uuid}: {problem}"
        )),
        RefusedOperation::DeleteInventory(class) => ApiError::not_found(format!(
            "No inventory of class {class} found for delete: {problem}"
        )),
        RefusedOperation::Allocate(consumer) => ApiError::bad_request(format!(
            "Unable to allocate inventory for consumer {consumer}: {problem}"
        )),
        RefusedOperation::AllocateSeveral => {
            ApiError::bad_request(format!("Unable to allocate inventory {problem}"))
        }
        RefusedOperation::Reshape => {
            ApiError::bad_request(format!("malformed reshaper data: {problem}"))
        }
        _ => ApiError::not_found(problem).without_vary(),
    }
}

fn inventory_error(refusal: &Refusal, operation: &RefusedOperation<'_>) -> ApiError {
    match refusal {
        Refusal::InventoryNotFound { class, .. } => {
            let problem = format!("No inventory of class {class} found.");
            match operation {
                RefusedOperation::DeleteInventory(class) => ApiError::not_found(format!(
                    "No inventory of class {class} found for delete: No inventory of class {class} \
                     found for delete"
                )),
                RefusedOperation::UpdateInventory(uuid) => ApiError::bad_request(format!(
                    "No inventory record with resource class for resource provider {uuid}: {problem}"
                )),
                _ => ApiError::not_found(problem),
            }
        }
        Refusal::InventoryExists { provider, class } => ApiError::conflict(format!(
            "Update conflict: resource provider {provider} has an inventory of {class} already"
        ))
        .with_code(code::CONCURRENT_UPDATE),
        Refusal::InventoryInUse { provider, classes } => {
            let problem = format!(
                "Inventory for '{}' on resource provider '{provider}' in use.",
                classes.join(", ")
            );
            match operation {
                RefusedOperation::DeleteInventory(class) => ApiError::conflict(format!(
                    "Unable to delete inventory of class {class}: {problem}"
                ))
                .with_code(code::CONCURRENT_UPDATE),
                RefusedOperation::DeleteInventories => {
                    ApiError::conflict(problem).with_code(code::INVENTORY_INUSE)
                }
                _ => ApiError::conflict(format!("update conflict: {problem}"))
                    .with_code(code::INVENTORY_INUSE),
            }
        }
        Refusal::InvalidCapacity {
            provider,
            class,
            may_reserve_all,
        } => {
            let verb = if matches!(operation, RefusedOperation::AddInventory(_)) {
                "create"
            } else {
                "update"
            };
            let comparison = if *may_reserve_all {
                "greater than"
            } else {
                "greater than or equal to"
            };
            ApiError::bad_request(format!(
                "Unable to {verb} inventory for resource provider {provider}: Invalid inventory \
                 for '{class}' on resource provider '{provider}'. The reserved value is {comparison} \
                 total."
            ))
        }
        _ => ApiError::bad_request(refusal.to_string()),
    }
}

fn allocation_error(refusal: &Refusal) -> ApiError {
    let unable_to_allocate =
        |problem: String| ApiError::conflict(format!("Unable to allocate inventory: {problem}"));
    let cannot_create_allocation = |class: &str, provider: &Uuid, violation: &str| {
        unable_to_allocate(format!(
            "Unable to create allocation for '{class}' on resource provider '{provider}'. The \
             requested amount would {violation}."
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
        Refusal::NoInventory { provider, class } => unable_to_allocate(format!(
            "Inventory for '{class}' on resource provider '{provider}' invalid."
        )),
        Refusal::ConstraintsViolated {
            provider, class, ..
        } => cannot_create_allocation(class, provider, "violate inventory constraints"),
        Refusal::CapacityExceeded {
            provider, class, ..
        } => cannot_create_allocation(class, provider, "exceed the capacity"),
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
