//! The table of routes: the methods of each path, their range of versions, and their policy rules.
//!
//! The OpenAPI document is made from this table, too.

use std::ops::Range;

use placewright_auth::Rule;
use placewright_http::Cost;

use crate::microversion::Microversion;

/// A path of the Placement API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    Root,
    ResourceClasses,
    ResourceClass,
    Providers,
    Provider,
    Inventories,
    Inventory,
    ProviderUsages,
    Aggregates,
    ProviderAllocations,
    Allocations,
    ConsumerAllocations,
    Candidates,
    Traits,
    Trait,
    ProviderTraits,
    Usages,
    Reshaper,
}

/// A requirement on the headers of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderRequirements {
    /// No header in particular.
    Nothing,
    /// An `Accept` header that allows JSON.
    AcceptJson,
    /// A content type of JSON, because there is a body.
    JsonBody,
}

/// One method of a route within a range of versions.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The HTTP method, in upper case.
    pub(crate) method: &'static str,
    /// The oldest version that has the operation, as the number after the dot.
    pub(crate) since: u8,
    /// The newest version that has the operation, as the number after the dot.
    pub(crate) until: u8,
    /// The requirement on the headers of its requests.
    pub(crate) header_requirements: HeaderRequirements,
    /// Whether the cost of a request grows with the fleet, or only with the body.
    pub(crate) cost: Cost,
    /// The policy rule; none for an operation without authentication.
    pub(crate) rule: Option<Rule>,
    /// A summary for the OpenAPI document.
    pub(crate) summary: &'static str,
}

/// A route and all its operations.
#[derive(Debug)]
pub(crate) struct RouteEntry {
    /// The route that the table lists.
    pub(crate) route: Route,
    /// The path with parameters in braces.
    pub(crate) path: &'static str,
    /// The value of the `Allow` header when a method is refused.
    pub(crate) allow: &'static str,
    /// All operations of the route, in any version.
    pub(crate) operations: &'static [Operation],
}

/// The number after the dot of the newest microversion.
const LATEST: u8 = 39;

const fn unauthenticated(
    method: &'static str,
    header_requirements: HeaderRequirements,
    summary: &'static str,
) -> Operation {
    Operation {
        method,
        since: 0,
        until: LATEST,
        header_requirements,
        cost: Cost::OfBody,
        rule: None,
        summary,
    }
}

/// An operation that the microversions from `1.since` on have.
const fn operation(
    method: &'static str,
    since: u8,
    header_requirements: HeaderRequirements,
    rule: Rule,
    summary: &'static str,
) -> Operation {
    Operation {
        method,
        since,
        until: LATEST,
        header_requirements,
        cost: Cost::OfBody,
        rule: Some(rule),
        summary,
    }
}

/// Marks an operation whose cost grows with the fleet.
const fn costly(operation: Operation) -> Operation {
    Operation {
        cost: Cost::OfFleet,
        ..operation
    }
}

use HeaderRequirements::{AcceptJson, JsonBody, Nothing};

/// All routes, in the order of [`Route`].
#[rustfmt::skip]
pub(crate) const TABLE: &[RouteEntry] = &[
    RouteEntry { route: Route::Root, path: "/", allow: "GET", operations: &[
        unauthenticated("GET", Nothing, "List the API versions"),
    ] },
    RouteEntry { route: Route::ResourceClasses, path: "/resource_classes", allow: "GET, POST", operations: &[
        costly(operation("GET", 2, AcceptJson, Rule::ResourceClassesList, "List resource classes")),
        operation("POST", 2, JsonBody, Rule::ResourceClassesCreate, "Create a resource class"),
    ] },
    RouteEntry { route: Route::ResourceClass, path: "/resource_classes/{name}", allow: "GET, PUT, DELETE", operations: &[
        operation("GET", 2, AcceptJson, Rule::ResourceClassesShow, "Show a resource class"),
        Operation { until: 6, ..operation("PUT", 2, JsonBody, Rule::ResourceClassesUpdate, "Rename a resource class") },
        operation("PUT", 7, Nothing, Rule::ResourceClassesUpdate, "Create a resource class unless it exists"),
        operation("DELETE", 2, Nothing, Rule::ResourceClassesDelete, "Delete a resource class"),
    ] },
    RouteEntry { route: Route::Providers, path: "/resource_providers", allow: "GET, POST", operations: &[
        costly(operation("GET", 0, AcceptJson, Rule::ResourceProvidersList, "List resource providers")),
        operation("POST", 0, JsonBody, Rule::ResourceProvidersCreate, "Create a resource provider"),
    ] },
    RouteEntry { route: Route::Provider, path: "/resource_providers/{uuid}", allow: "GET, DELETE, PUT", operations: &[
        operation("GET", 0, AcceptJson, Rule::ResourceProvidersShow, "Show a resource provider"),
        operation("DELETE", 0, Nothing, Rule::ResourceProvidersDelete, "Delete a resource provider"),
        operation("PUT", 0, JsonBody, Rule::ResourceProvidersUpdate, "Update a resource provider"),
    ] },
    RouteEntry { route: Route::Inventories, path: "/resource_providers/{uuid}/inventories", allow: "GET, POST, PUT, DELETE", operations: &[
        operation("GET", 0, AcceptJson, Rule::InventoriesList, "List the inventories of a provider"),
        operation("POST", 0, JsonBody, Rule::InventoriesCreate, "Create an inventory"),
        operation("PUT", 0, JsonBody, Rule::InventoriesUpdate, "Replace the inventories of a provider"),
        operation("DELETE", 5, Nothing, Rule::InventoriesDelete, "Delete the inventories of a provider"),
    ] },
    RouteEntry { route: Route::Inventory, path: "/resource_providers/{uuid}/inventories/{resource_class}", allow: "GET, PUT, DELETE", operations: &[
        operation("GET", 0, AcceptJson, Rule::InventoriesShow, "Show an inventory"),
        operation("PUT", 0, JsonBody, Rule::InventoriesUpdate, "Update an inventory"),
        operation("DELETE", 0, Nothing, Rule::InventoriesDelete, "Delete an inventory"),
    ] },
    RouteEntry { route: Route::ProviderUsages, path: "/resource_providers/{uuid}/usages", allow: "GET", operations: &[
        operation("GET", 0, AcceptJson, Rule::ProviderUsages, "Show what is used of a provider"),
    ] },
    RouteEntry { route: Route::Aggregates, path: "/resource_providers/{uuid}/aggregates", allow: "GET, PUT", operations: &[
        operation("GET", 1, AcceptJson, Rule::AggregatesList, "List the aggregates of a provider"),
        operation("PUT", 1, JsonBody, Rule::AggregatesUpdate, "Replace the aggregates of a provider"),
    ] },
    RouteEntry { route: Route::ProviderAllocations, path: "/resource_providers/{uuid}/allocations", allow: "GET", operations: &[
        costly(operation("GET", 0, AcceptJson, Rule::ProviderAllocationsList, "List what consumers hold of a provider")),
    ] },
    RouteEntry { route: Route::Allocations, path: "/allocations", allow: "POST", operations: &[
        operation("POST", 13, JsonBody, Rule::AllocationsManage, "Replace what several consumers hold"),
    ] },
    RouteEntry { route: Route::ConsumerAllocations, path: "/allocations/{consumer_uuid}", allow: "GET, PUT, DELETE", operations: &[
        operation("GET", 0, AcceptJson, Rule::AllocationsList, "List what a consumer holds"),
        operation("PUT", 0, JsonBody, Rule::AllocationsUpdate, "Replace what a consumer holds"),
        operation("DELETE", 0, Nothing, Rule::AllocationsDelete, "Release what a consumer holds"),
    ] },
    RouteEntry { route: Route::Candidates, path: "/allocation_candidates", allow: "GET", operations: &[
        costly(operation("GET", 10, AcceptJson, Rule::AllocationCandidatesList, "List where a request would fit")),
    ] },
    RouteEntry { route: Route::Traits, path: "/traits", allow: "GET", operations: &[
        costly(operation("GET", 6, AcceptJson, Rule::TraitsList, "List traits")),
    ] },
    RouteEntry { route: Route::Trait, path: "/traits/{name}", allow: "GET, PUT, DELETE", operations: &[
        operation("GET", 6, Nothing, Rule::TraitsShow, "Check that a trait exists"),
        operation("PUT", 6, Nothing, Rule::TraitsUpdate, "Create a trait unless it exists"),
        operation("DELETE", 6, Nothing, Rule::TraitsDelete, "Delete a trait"),
    ] },
    RouteEntry { route: Route::ProviderTraits, path: "/resource_providers/{uuid}/traits", allow: "GET, PUT, DELETE", operations: &[
        operation("GET", 6, AcceptJson, Rule::ProviderTraitsList, "List the traits of a provider"),
        operation("PUT", 6, JsonBody, Rule::ProviderTraitsUpdate, "Replace the traits of a provider"),
        operation("DELETE", 6, Nothing, Rule::ProviderTraitsDelete, "Delete the traits of a provider"),
    ] },
    RouteEntry { route: Route::Usages, path: "/usages", allow: "GET", operations: &[
        costly(operation("GET", 9, AcceptJson, Rule::TotalUsages, "Show what a project uses")),
    ] },
    RouteEntry { route: Route::Reshaper, path: "/reshaper", allow: "POST", operations: &[
        costly(operation("POST", 30, JsonBody, Rule::ReshaperReshape, "Replace inventories and allocations together")),
    ] },
];

impl Route {
    /// Whether an operation is a claim or a release. Its command is made from the request alone, without reading the
    /// state.
    pub(crate) fn is_claim(self, method: &str) -> bool {
        matches!(self, Self::Allocations | Self::ConsumerAllocations) && method != "GET"
    }
}

impl RouteEntry {
    /// The entry of a route.
    pub(crate) fn of(route: Route) -> &'static RouteEntry {
        // The table has the order of the enum, which a test checks.
        &TABLE[route as usize]
    }

    /// The operation of a method in a version, and whether any version of the route has the method.
    pub(crate) fn operation(
        &self,
        method: &str,
        version: Microversion,
    ) -> (Option<&'static Operation>, bool) {
        let mut method_exists = false;
        for operation in self.operations {
            if operation.method == method {
                method_exists = true;
                if (operation.since..=operation.until).contains(&version.minor()) {
                    return (Some(operation), true);
                }
            }
        }
        (None, method_exists)
    }
}

/// A route that matched a path. It has the ranges of the parameters, so it does not borrow the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteMatch {
    pub(crate) route: Route,
    /// The ranges of the parameters in the path, in order; empty for a parameter that the route lacks.
    ranges: [Range<usize>; 2],
}

impl RouteMatch {
    /// The parameters of the path that matched.
    pub(crate) fn parameters<'p>(&self, path: &'p str) -> [&'p str; 2] {
        self.ranges
            .each_ref()
            .map(|range| path.get(range.clone()).unwrap_or(""))
    }
}

/// Finds the route of a decoded path; none if there is no such route.
pub(crate) fn find(path: &str) -> Option<RouteMatch> {
    let route_match = |route, ranges| Some(RouteMatch { route, ranges });
    let Some(relative_path) = path.strip_prefix('/') else {
        return if path.is_empty() {
            route_match(Route::Root, [0..0, 0..0])
        } else {
            None
        };
    };
    let mut parts = relative_path.split('/');
    let first = parts.next().unwrap_or("");
    let second = parts.next();
    let third = parts.next();
    let fourth = parts.next();
    if parts.next().is_some() || [second, third, fourth].contains(&Some("")) {
        return None;
    }
    let route = match (first, second, third, fourth) {
        ("", None, ..) => Route::Root,
        ("resource_classes", None, ..) => Route::ResourceClasses,
        ("resource_classes", Some(_), None, _) => Route::ResourceClass,
        ("resource_providers", None, ..) => Route::Providers,
        ("resource_providers", Some(_), None, _) => Route::Provider,
        ("resource_providers", Some(_), Some("inventories"), None) => Route::Inventories,
        ("resource_providers", Some(_), Some("inventories"), Some(_)) => Route::Inventory,
        ("resource_providers", Some(_), Some("usages"), None) => Route::ProviderUsages,
        ("resource_providers", Some(_), Some("aggregates"), None) => Route::Aggregates,
        ("resource_providers", Some(_), Some("allocations"), None) => Route::ProviderAllocations,
        ("resource_providers", Some(_), Some("traits"), None) => Route::ProviderTraits,
        ("allocations", None, ..) => Route::Allocations,
        ("allocations", Some(_), None, _) => Route::ConsumerAllocations,
        ("allocation_candidates", None, ..) => Route::Candidates,
        ("traits", None, ..) => Route::Traits,
        ("traits", Some(_), None, _) => Route::Trait,
        ("usages", None, ..) => Route::Usages,
        ("reshaper", None, ..) => Route::Reshaper,
        _ => return None,
    };
    // The range of a part of the path. Each part begins one byte, a slash, after the end of the previous one.
    // Parameters are only at the second and at the fourth position.
    let range = |start: usize, part: Option<&str>| start..start + part.map_or(0, str::len);
    let second_range = range(first.len() + 2, second);
    let third_range = range(second_range.end + 1, third);
    let fourth_range = range(third_range.end + 1, fourth);
    route_match(route, [second_range, fourth_range])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_follows_the_enum_and_its_paths_are_found() {
        for (index, entry) in TABLE.iter().enumerate() {
            assert_eq!(entry.route as usize, index, "{}", entry.path);
            assert_eq!(
                find(entry.path).map(|route_match| route_match.route),
                Some(entry.route)
            );
            let mut methods: Vec<_> = entry
                .operations
                .iter()
                .map(|operation| operation.method)
                .collect();
            methods.dedup();
            assert_eq!(methods.join(", "), entry.allow);
        }
    }

    #[test]
    fn only_exact_paths_match() {
        for path in [
            "/resource_classes/",
            "//resource_classes",
            "/resource_classes/a/b",
            "/nope",
            "/traits//",
            "/resource_providers/u/cows",
            "/resource_providers/u/inventories/",
            "x",
            "/resource_providers/u/traits/x",
            "/resource_providers/u/inventories/c/d",
        ] {
            assert_eq!(find(path), None, "{path}");
        }
        for (path, parameters) in [
            ("/resource_providers/u/inventories/VCPU", ["u", "VCPU"]),
            ("/allocations/c", ["c", ""]),
            ("/usages", ["", ""]),
            ("/", ["", ""]),
            ("", ["", ""]),
        ] {
            assert_eq!(find(path).unwrap().parameters(path), parameters, "{path}");
        }
        assert_eq!(find("").unwrap().route, Route::Root);
    }

    #[test]
    fn the_version_selects_the_operation() {
        let entry = RouteEntry::of(Route::ResourceClass);
        let version = |minor| Microversion::from_minor(minor).unwrap();
        assert_eq!(
            entry
                .operation("PUT", version(6))
                .0
                .unwrap()
                .header_requirements,
            JsonBody
        );
        assert_eq!(
            entry
                .operation("PUT", version(7))
                .0
                .unwrap()
                .header_requirements,
            Nothing
        );
        assert!(matches!(entry.operation("PUT", version(1)), (None, true)));
        assert!(matches!(
            entry.operation("POST", version(39)),
            (None, false)
        ));
    }
}
