//! The scheduler API's service: it finds the handler of a request, and runs it for the dispatcher.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Uri};
use placewright_auth::{Identity, Target};
use placewright_control::destinations::{DestinationsHandle, KeepOptions};
use placewright_control::{OtherReplicas, Placement, SchedulerHandle};
use placewright_http::{
    Access, Api, ApiError, ApiResult, Gateway, Reply, RequestContext, Routed, Running, latin1_path,
    require_json,
};

use crate::count_permits::CountPermits;
use crate::error_response::{self, HandlerResult};
use crate::path::{Operation, Path, Route};
use crate::shared::{ApiState, RoutedRequest};
use crate::{aggregates, capacity, claims, decisions, destinations, discovery, hosts};

/// The scheduler API without sockets: it takes requests and returns responses.
pub struct SchedulerService {
    api_state: Arc<ApiState>,
}

impl fmt::Debug for SchedulerService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SchedulerService")
            .finish_non_exhaustive()
    }
}

impl SchedulerService {
    /// Creates the service. `placement` and `scheduler` have to belong to the same engine.
    pub fn new(
        gateway: Arc<Gateway>,
        placement: Placement,
        scheduler: SchedulerHandle,
        keep_options: KeepOptions,
    ) -> Self {
        let destinations =
            DestinationsHandle::new(placement.clone(), scheduler.clone(), keep_options);
        let api_state = Arc::new(ApiState {
            gateway,
            placement,
            scheduler,
            destinations,
            other_replicas: OnceLock::new(),
            count_permits: CountPermits::new(),
        });
        Self { api_state }
    }

    /// The handle that selects hosts, and keeps the candidates that were offered.
    #[must_use]
    pub fn destinations(&self) -> &DestinationsHandle {
        &self.api_state.destinations
    }

    /// Makes this process one of several replicas, which exchange what is only in the memory of each one: offered
    /// candidates, and updates of hosts. Called once, before the first request.
    pub fn set_other_replicas(&self, others: Arc<dyn OtherReplicas>) {
        (self.api_state.destinations).set_other_replicas(Arc::clone(&others));
        // There is no other value yet.
        let _ = self.api_state.other_replicas.set(others);
    }
}

/// The target of a request, found from its path and method.
pub struct MatchedRequest {
    path: Path,
    operation: Operation,
    /// The headers of a request for a static document, which say which version of it the client has cached; empty for
    /// any other request.
    headers: HeaderMap,
}

impl Api for SchedulerService {
    const NAME: &str = "scheduler";

    type Version = ();
    type Request = MatchedRequest;

    fn gateway(&self) -> &Gateway {
        &self.api_state.gateway
    }

    fn required_access(&self, parts: &Parts, context: &mut RequestContext) -> ApiResult<Access> {
        match Path::parse(&latin1_path(parts.uri.path())) {
            Ok(path) if path.route.is_open() => {
                context.set_route(path.route.path());
                Ok(Access::Open)
            }
            _ => Ok(Access::Identified),
        }
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        context: &mut RequestContext,
    ) -> ApiResult<Routed<MatchedRequest>> {
        let path = Path::parse(&latin1_path(parts.uri.path()))?;
        context.set_route(path.route.path());
        let operation = path.route.operation(&parts.method)?;
        if let Some(identity) = identity {
            let target = Target::own(identity);
            self.gateway()
                .authorize(operation.rule, identity, &target)?;
        }
        if operation.has_body {
            require_json(&parts.headers)?;
        }
        Ok(Routed {
            body_bytes_max: operation.has_body.then_some(usize::MAX),
            request: MatchedRequest {
                headers: match path.route.is_open() {
                    true => parts.headers.clone(),
                    false => HeaderMap::new(),
                },
                path,
                operation,
            },
        })
    }

    fn is_costly(&self, request: &MatchedRequest, body: &[u8]) -> bool {
        request.operation.cost.is_high(body.len())
    }

    fn reads_newest(&self, request: &MatchedRequest) -> bool {
        // Destinations are ranked by the state of this process, which may be behind that of the leader. A claim of them
        // is decided on the newest state all the same.
        request.path.route != Route::Destinations && !request.path.route.is_open()
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a MatchedRequest,
        uri: &'a Uri,
        _: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            if request.path.route.is_open() {
                return discovery::show(request.path.route, &request.headers);
            }
            let routed_request = RoutedRequest {
                api_state: &self.api_state,
                query: uri.query().unwrap_or(""),
                body,
            };
            Ok(run_handler(&request.path, request.operation.method, &routed_request).await?)
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext,
    ) -> (Vec<u8>, Option<&'static str>) {
        let body = if parts.method == Method::HEAD {
            Vec::new()
        } else {
            error_response::body(error, context.request_id())
        };
        (body, Some("application/json"))
    }
}

async fn run_handler(
    path: &Path,
    method: &str,
    request: &RoutedRequest<'_>,
) -> HandlerResult<Reply> {
    let uuid = path.uuid;
    // Routing has checked that the path has the method, so the last method of a path needs no pattern.
    match (path.route, method) {
        (Route::Destinations, _) => destinations::select(request).await,
        (Route::Capacity, _) => capacity::count(request).await,
        (Route::Decisions, _) => decisions::show(request, uuid).await,
        // The service has answered these already.
        (Route::Versions | Route::Version, _) => Ok(Reply::empty(404)),
        (Route::Claim, "POST") => claims::claim_offered(request, uuid).await,
        (Route::Claim, "PUT") => claims::swap(request, uuid).await,
        (Route::Claim, _) => claims::release(request, uuid).await,
        (Route::Swap, _) => claims::swap(request, uuid).await,
        (Route::Hosts, _) => hosts::list(request),
        (Route::Host, _) => hosts::show(request, uuid),
        (Route::HostState, _) => hosts::update(request, uuid).await,
        (Route::Aggregates, _) => aggregates::list_aggregates(request),
        (Route::Aggregate, "PUT") => aggregates::put_aggregate(request, uuid),
        (Route::Aggregate, _) => aggregates::remove_aggregate(request, uuid),
        (Route::Topology, "PUT") => aggregates::put_topology(request).await,
        (Route::Topology, _) => aggregates::show_topology(request).await,
    }
}
