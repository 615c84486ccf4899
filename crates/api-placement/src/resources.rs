//! The operations of the Placement API, one file for each resource.

pub(crate) mod aggregates;
pub(crate) mod allocations;
pub(crate) mod candidates;
pub(crate) mod filters;
pub(crate) mod inventories;
pub(crate) mod provider_allocations;
pub(crate) mod providers;
pub(crate) mod reshaper;
pub(crate) mod resource_classes;
pub(crate) mod root;
pub(crate) mod traits;
pub(crate) mod usages;

use placewright_http::{ApiError, ApiResult, Reply};

use crate::routed_request::RoutedRequest;
use crate::routes::Route;

/// Calls the handler of a route and method from the table.
pub(crate) async fn run(
    route: Route,
    method: &str,
    request: &RoutedRequest<'_>,
) -> ApiResult<Reply> {
    match (route, method) {
        (Route::Root, "GET") => Ok(root::get(request)),
        (Route::ResourceClasses, "GET") => resource_classes::list(request).await,
        (Route::ResourceClasses, "POST") => resource_classes::create(request).await,
        (Route::ResourceClass, "GET") => resource_classes::get(request).await,
        (Route::ResourceClass, "PUT") if request.version.since(7) => {
            resource_classes::ensure(request).await
        }
        (Route::ResourceClass, "PUT") => resource_classes::rename(request).await,
        (Route::ResourceClass, "DELETE") => resource_classes::delete(request).await,
        (Route::Providers, "GET") => providers::list(request).await,
        (Route::Providers, "POST") => providers::create(request).await,
        (Route::Provider, "GET") => providers::get(request).await,
        (Route::Provider, "PUT") => providers::update(request).await,
        (Route::Provider, "DELETE") => providers::delete(request).await,
        (Route::Inventories, "GET") => inventories::list(request).await,
        (Route::Inventories, "POST") => inventories::create(request).await,
        (Route::Inventories, "PUT") => inventories::set(request).await,
        (Route::Inventories, "DELETE") => inventories::delete_all(request).await,
        (Route::Inventory, "GET") => inventories::get(request).await,
        (Route::Inventory, "PUT") => inventories::update(request).await,
        (Route::Inventory, "DELETE") => inventories::delete(request).await,
        (Route::ProviderUsages, "GET") => usages::of_provider(request).await,
        (Route::Aggregates, "GET") => aggregates::list(request).await,
        (Route::Aggregates, "PUT") => aggregates::set(request).await,
        (Route::ProviderAllocations, "GET") => provider_allocations::list(request).await,
        (Route::Allocations, "POST") => allocations::set_several(request).await,
        (Route::ConsumerAllocations, "GET") => allocations::of_consumer(request).await,
        (Route::ConsumerAllocations, "PUT") => allocations::set(request).await,
        (Route::ConsumerAllocations, "DELETE") => allocations::delete(request).await,
        // The future of this handler is by far the largest. Without the box, the future of this function would be as
        // large, and that future is moved for each request.
        (Route::Candidates, "GET") => Box::pin(candidates::list(request)).await,
        (Route::Traits, "GET") => traits::list(request).await,
        (Route::Trait, "GET") => traits::get(request).await,
        (Route::Trait, "PUT") => traits::ensure(request).await,
        (Route::Trait, "DELETE") => traits::delete(request).await,
        (Route::ProviderTraits, "GET") => traits::of_provider(request).await,
        (Route::ProviderTraits, "PUT") => traits::set_of_provider(request).await,
        (Route::ProviderTraits, "DELETE") => traits::delete_of_provider(request).await,
        (Route::Usages, "GET") => usages::of_project(request).await,
        (Route::Reshaper, "POST") => reshaper::reshape(request).await,
        // The table has no other pair of route and method.
        _ => Err(ApiError::not_found("")),
    }
}
