//! The operations of the Placement API, one file for each resource.

pub(crate) mod aggregates;
pub(crate) mod allocations;
pub(crate) mod candidates;
pub(crate) mod filters;
pub(crate) mod inventories;
pub(crate) mod providers;
pub(crate) mod reshaper;
pub(crate) mod resource_classes;
pub(crate) mod root;
pub(crate) mod traits;
pub(crate) mod usages;

use placewright_http::{ApiError, ApiResult, Reply};

use crate::call::RoutedRequest;
use crate::routes::Route;

/// Calls the handler of a route and method from the table.
pub(crate) async fn run(route: Route, method: &str, call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    match (route, method) {
        (Route::Root, "GET") => Ok(root::get(call)),
        (Route::ResourceClasses, "GET") => resource_classes::list(call).await,
        (Route::ResourceClasses, "POST") => resource_classes::create(call).await,
        (Route::ResourceClass, "GET") => resource_classes::get(call).await,
        (Route::ResourceClass, "PUT") if call.version.since(7) => {
            resource_classes::ensure(call).await
        }
        (Route::ResourceClass, "PUT") => resource_classes::rename(call).await,
        (Route::ResourceClass, "DELETE") => resource_classes::delete(call).await,
        (Route::Providers, "GET") => providers::list(call).await,
        (Route::Providers, "POST") => providers::create(call).await,
        (Route::Provider, "GET") => providers::get(call).await,
        (Route::Provider, "PUT") => providers::update(call).await,
        (Route::Provider, "DELETE") => providers::delete(call).await,
        (Route::Inventories, "GET") => inventories::list(call).await,
        (Route::Inventories, "POST") => inventories::create(call).await,
        (Route::Inventories, "PUT") => inventories::set(call).await,
        (Route::Inventories, "DELETE") => inventories::delete_all(call).await,
        (Route::Inventory, "GET") => inventories::get(call).await,
        (Route::Inventory, "PUT") => inventories::update(call).await,
        (Route::Inventory, "DELETE") => inventories::delete(call).await,
        (Route::ProviderUsages, "GET") => usages::of_provider(call).await,
        (Route::Aggregates, "GET") => aggregates::list(call).await,
        (Route::Aggregates, "PUT") => aggregates::set(call).await,
        (Route::ProviderAllocations, "GET") => allocations::of_provider(call).await,
        (Route::Allocations, "POST") => allocations::set_several(call).await,
        (Route::ConsumerAllocations, "GET") => allocations::of_consumer(call).await,
        (Route::ConsumerAllocations, "PUT") => allocations::set(call).await,
        (Route::ConsumerAllocations, "DELETE") => allocations::delete(call).await,
        // By far the largest future; the others would be as large, and are moved for each request.
        (Route::Candidates, "GET") => Box::pin(candidates::list(call)).await,
        (Route::Traits, "GET") => traits::list(call).await,
        (Route::Trait, "GET") => traits::get(call).await,
        (Route::Trait, "PUT") => traits::ensure(call).await,
        (Route::Trait, "DELETE") => traits::delete(call).await,
        (Route::ProviderTraits, "GET") => traits::of_provider(call).await,
        (Route::ProviderTraits, "PUT") => traits::set_of_provider(call).await,
        (Route::ProviderTraits, "DELETE") => traits::delete_of_provider(call).await,
        (Route::Usages, "GET") => usages::of_project(call).await,
        (Route::Reshaper, "POST") => reshaper::reshape(call).await,
        // The table has no other pair; a test calls each one of it.
        _ => Err(ApiError::not_found("")),
    }
}
