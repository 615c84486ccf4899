//! The scheduler's paths with their operations and policy rules.

use hyper::Method;
use placewright_auth::Rule;
use placewright_http::{ApiError, Cost};
use uuid::Uuid;

use crate::error_response::{Answer, ErrorResponse};

/// One of the scheduler's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Destinations,
    Capacity,
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
    /// The policy rule: the one of the corresponding operation in Placement's API.
    pub(crate) rule: Rule,
    pub(crate) has_body: bool,
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
    /// The path as in the documentation.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Destinations => "/v1/destinations",
            Self::Capacity => "/v1/capacity",
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

    fn operations(self) -> (&'static [Operation], &'static str) {
        const CLAIM: &[Operation] = &[with_body("POST", Rule::AllocationsUpdate)];
        const COUNT: &[Operation] = &[costly(with_body("POST", Rule::AllocationCandidatesList))];
        const HELD: &[Operation] = &[
            with_body("POST", Rule::AllocationsUpdate),
            without_body("DELETE", Rule::AllocationsDelete),
        ];
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
            Self::Destinations | Self::Swap => (CLAIM, "POST"),
            Self::Capacity => (COUNT, "POST"),
            Self::Claim => (HELD, "DELETE, POST"),
            Self::Hosts => (HOSTS, "GET"),
            Self::Host => (HOST, "GET"),
            Self::HostState => (STATE, "POST"),
            Self::Aggregates => (AGGREGATES, "GET"),
            Self::Aggregate => (AGGREGATE, "DELETE, PUT"),
            Self::Topology => (TOPOLOGY, "GET, PUT"),
        }
    }

    /// The operation of a method, or 405.
    pub(crate) fn operation(self, method: &Method) -> Answer<Operation> {
        let (operations, allow) = self.operations();
        let found = operations.iter().find(|one| one.method == method.as_str());
        found.copied().ok_or_else(|| {
            let detail = format!("{} takes {allow} only.", self.path());
            ApiError::new(405, detail).with_allow(allow).into()
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
    /// Parses a path, or 404.
    pub(crate) fn find(path: &str) -> Answer<Self> {
        let unknown = || ErrorResponse::not_found(format!("There is nothing at {path}."));
        let mut parts = path.strip_prefix("/v1/").ok_or_else(unknown)?.split('/');
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        let route = match (first.unwrap_or(""), second, third) {
            ("destinations", None, None) => Route::Destinations,
            ("capacity", None, None) => Route::Capacity,
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
        if parts.next().is_some() {
            return Err(unknown());
        }
        let uuid = match second {
            None => Uuid::nil(),
            Some(text) => text.parse().map_err(|_| {
                ErrorResponse::field("path", format!("{text:?} in the path is not a UUID"))
            })?,
        };
        Ok(Self { route, uuid })
    }
}
