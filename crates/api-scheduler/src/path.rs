//! The paths of the scheduler API, with their operations and policy rules.

use hyper::Method;
use placewright_auth::Rule;
use placewright_http::{ApiError, Cost};
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult};

/// A path of the scheduler API, without its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Versions,
    Version,
    Destinations,
    Capacity,
    Decisions,
    Claim,
    Swap,
    Hosts,
    Host,
    HostState,
    Aggregates,
    Aggregate,
    Topology,
}

/// A method of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// The policy rule of the corresponding operation of the Placement API.
    pub(crate) rule: Rule,
    pub(crate) has_body: bool,
    /// Whether the cost grows with the fleet, or only with the body.
    pub(crate) cost: Cost,
}

const fn without_body(method: &'static str, rule: Rule) -> Operation {
    Operation {
        method,
        rule,
        has_body: false,
        cost: Cost::OfBody,
    }
}

const fn with_body(method: &'static str, rule: Rule) -> Operation {
    Operation {
        method,
        rule,
        has_body: true,
        cost: Cost::OfBody,
    }
}

/// Marks an operation whose cost grows with the fleet.
const fn costly(operation: Operation) -> Operation {
    Operation {
        cost: Cost::OfFleet,
        ..operation
    }
}

impl Route {
    /// The paths that the API names as its resources. The swap of a claim is not among them: it is an older name of
    /// `PUT` on the claim.
    pub(crate) const RESOURCES: [Self; 10] = [
        Self::Destinations,
        Self::Capacity,
        Self::Decisions,
        Self::Claim,
        Self::Hosts,
        Self::Host,
        Self::HostState,
        Self::Aggregates,
        Self::Aggregate,
        Self::Topology,
    ];

    /// Whether everybody may read the document at this path, without authentication.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Versions | Self::Version)
    }

    /// The path with its parameter in braces, as the documentation has it.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Versions => "/",
            Self::Version => "/v1",
            Self::Destinations => "/v1/destinations",
            Self::Capacity => "/v1/capacity",
            Self::Decisions => "/v1/decisions/{instance}",
            Self::Claim => "/v1/claims/{consumer}",
            Self::Swap => "/v1/claims/{consumer}/swap",
            Self::Hosts => "/v1/hosts",
            Self::Host => "/v1/hosts/{uuid}",
            Self::HostState => "/v1/hosts/{uuid}/state",
            Self::Aggregates => "/v1/aggregates",
            Self::Aggregate => "/v1/aggregates/{uuid}",
            Self::Topology => "/v1/topology",
        }
    }

    /// The operations of the path, and the value of the header `Allow`.
    fn operations(self) -> (&'static [Operation], &'static str) {
        // The selection of destinations is not costly, because an indexed search evaluates few hosts of the fleet.
        const UPDATE_ALLOCATIONS: &[Operation] = &[with_body("POST", Rule::AllocationsUpdate)];
        const CAPACITY: &[Operation] = &[costly(with_body("POST", Rule::AllocationCandidatesList))];
        const DECISIONS: &[Operation] = &[without_body("GET", Rule::AllocationsList)];
        const CLAIM: &[Operation] = &[
            with_body("POST", Rule::AllocationsUpdate),
            with_body("PUT", Rule::AllocationsUpdate),
            without_body("DELETE", Rule::AllocationsDelete),
        ];
        // Everybody may read these documents, so the rule is not checked.
        const DISCOVERY: &[Operation] = &[without_body("GET", Rule::AllocationCandidatesList)];
        const HOSTS: &[Operation] = &[costly(without_body("GET", Rule::ResourceProvidersList))];
        const HOST: &[Operation] = &[without_body("GET", Rule::ResourceProvidersShow)];
        const STATE: &[Operation] = &[with_body("POST", Rule::ResourceProvidersUpdate)];
        const AGGREGATES: &[Operation] = &[costly(without_body("GET", Rule::AggregatesList))];
        const AGGREGATE: &[Operation] = &[
            with_body("PUT", Rule::AggregatesUpdate),
            without_body("DELETE", Rule::AggregatesUpdate),
        ];
        const TOPOLOGY: &[Operation] = &[
            costly(without_body("GET", Rule::AggregatesList)),
            costly(with_body("PUT", Rule::AggregatesUpdate)),
        ];
        match self {
            Self::Destinations | Self::Swap => (UPDATE_ALLOCATIONS, "POST"),
            Self::Capacity => (CAPACITY, "POST"),
            Self::Decisions => (DECISIONS, "GET"),
            Self::Claim => (CLAIM, "DELETE, POST, PUT"),
            Self::Versions | Self::Version => (DISCOVERY, "GET"),
            Self::Hosts => (HOSTS, "GET"),
            Self::Host => (HOST, "GET"),
            Self::HostState => (STATE, "POST"),
            Self::Aggregates => (AGGREGATES, "GET"),
            Self::Aggregate => (AGGREGATE, "DELETE, PUT"),
            Self::Topology => (TOPOLOGY, "GET, PUT"),
        }
    }

    /// The operation of a method.
    ///
    /// # Errors
    ///
    /// 405 if the path does not have the method.
    pub(crate) fn operation(self, method: &Method) -> HandlerResult<Operation> {
        let (operations, allowed_methods) = self.operations();
        let operation = operations
            .iter()
            .find(|operation| operation.method == method.as_str());
        operation.copied().ok_or_else(|| {
            let detail = format!("{} takes {allowed_methods} only.", self.path());
            ApiError::new(405, detail)
                .with_allow(allowed_methods)
                .into()
        })
    }
}

/// A path of the scheduler API, after parsing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) route: Route,
    /// The UUID in the path; nil if it has none.
    pub(crate) uuid: Uuid,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// 404 if the API has no such path, 400 if a segment is not a UUID.
    pub(crate) fn parse(path: &str) -> HandlerResult<Self> {
        let unknown = || ErrorResponse::not_found(format!("There is nothing at {path}."));
        let discovered = match path {
            "/" => Some(Route::Versions),
            "/v1" | "/v1/" => Some(Route::Version),
            _ => None,
        };
        if let Some(route) = discovered {
            return Ok(Self {
                route,
                uuid: Uuid::nil(),
            });
        }
        let mut segments = path.strip_prefix("/v1/").ok_or_else(unknown)?.split('/');
        let (resource, id, part) = (segments.next(), segments.next(), segments.next());
        let route = match (resource.unwrap_or(""), id, part) {
            ("destinations", None, None) => Route::Destinations,
            ("capacity", None, None) => Route::Capacity,
            ("decisions", Some(_), None) => Route::Decisions,
            ("claims", Some(_), None) => Route::Claim,
            ("claims", Some(_), Some("swap")) => Route::Swap,
            ("hosts", None, None) => Route::Hosts,
            ("hosts", Some(_), None) => Route::Host,
            ("hosts", Some(_), Some("state")) => Route::HostState,
            ("aggregates", None, None) => Route::Aggregates,
            ("aggregates", Some(_), None) => Route::Aggregate,
            ("topology", None, None) => Route::Topology,
            _ => return Err(unknown()),
        };
        if segments.next().is_some() {
            return Err(unknown());
        }
        let uuid = match id {
            None => Uuid::nil(),
            Some(text) => text.parse().map_err(|_| {
                ErrorResponse::field("path", format!("{text:?} in the path is not a UUID"))
            })?,
        };
        Ok(Self { route, uuid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_found_at_its_path() {
        let uuid = Uuid::from_u128(1);
        for route in Route::RESOURCES {
            let segments = route.path().split('/').map(|segment| match segment {
                segment if segment.starts_with('{') => uuid.to_string(),
                segment => segment.to_owned(),
            });
            let path = segments.collect::<Vec<_>>().join("/");
            let Ok(found) = Path::parse(&path) else {
                panic!("{path} is not found");
            };
            assert_eq!(found.route, route, "{path}");
        }
    }
}
