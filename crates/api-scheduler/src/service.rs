//! The scheduler API's service: the way of its requests from the dispatcher to a handler.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Uri};
use placewright_auth::{Identity, Target};
use placewright_control::destinations::{DestinationsHandle, KeepOptions};
use placewright_control::{Placement, SchedulerHandle};
use placewright_http::{
    Access, Api, ApiError, ApiResult, Body, Gateway, Reply, RequestContext, Routed, Running,
    latin1_path, require_json,
};
use tokio::sync::Semaphore;

use crate::error_response::{self, Answer};
use crate::path::{Operation, Path, Route};
use crate::shared::{ApiState, RoutedRequest};
use crate::{aggregates, capacity, claims, destinations, hosts};

/// The scheduler's HTTP service without sockets: it takes requests and returns responses.
pub struct SchedulerService {
    core: Arc<ApiState>,
}

impl fmt::Debug for SchedulerService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SchedulerService")
            .finish_non_exhaustive()
    }
}

impl SchedulerService {
    /// Creates the service of this placement and this scheduler, which read the same state.
    pub fn new(
        gateway: Arc<Gateway>,
        placement: Placement,
        ranker: SchedulerHandle,
        keep: KeepOptions,
    ) -> Self {
        let destinations = DestinationsHandle::new(placement.clone(), ranker.clone(), keep);
        let core = Arc::new(ApiState {
            gateway,
            placement,
            ranker,
            destinations,
            counting: Semaphore::new(1),
        });
        Self { core }
    }

    /// Answers a request. Errors are responses too.
    pub async fn handle<B>(
        self: &Arc<Self>,
        request: Request<B>,
        remote: Option<SocketAddr>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        placewright_http::handle(self, request, remote).await
    }
}

/// A request after its routing.
pub struct Asked {
    path: Path,
    operation: Operation,
}

impl Api for SchedulerService {
    const NAME: &str = "scheduler";

    type Version = ();
    type Request = Asked;

    fn gateway(&self) -> &Gateway {
        &self.core.gateway
    }

    fn admit(&self, _: &Parts, _: &mut RequestContext) -> ApiResult<Access> {
        Ok(Access::Identified)
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        exchange: &mut RequestContext,
    ) -> ApiResult<Routed<Asked>> {
        let path = Path::find(&latin1_path(parts.uri.path()))?;
        exchange.set_route(path.route.path());
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
            request: Asked { path, operation },
        })
    }

    fn is_costly(&self, request: &Asked, body: &[u8]) -> bool {
        request.operation.cost.is_high(body.len())
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a Asked,
        uri: &'a Uri,
        _: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let call = RoutedRequest {
                core: &self.core,
                query: uri.query().unwrap_or(""),
                body,
            };
            Ok(run(&request.path, request.operation.method, &call).await?)
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        exchange: &RequestContext,
    ) -> (Vec<u8>, Option<&'static str>) {
        let body = if parts.method == Method::HEAD {
            Vec::new()
        } else {
            error_response::body(error, exchange.request_id())
        };
        (body, Some("application/json"))
    }
}

async fn run(path: &Path, method: &str, call: &RoutedRequest<'_>) -> Answer<Reply> {
    let uuid = path.uuid;
    match (path.route, method) {
        (Route::Destinations, _) => destinations::select(call).await,
        (Route::Capacity, _) => capacity::count(call).await,
        (Route::Claim, "POST") => claims::claim_kept(call, uuid).await,
        (Route::Claim, _) => claims::release(call, uuid).await,
        (Route::Swap, _) => claims::swap(call, uuid).await,
        (Route::Hosts, _) => hosts::list(call),
        (Route::Host, _) => hosts::show(call, uuid),
        (Route::HostState, _) => hosts::update(call, uuid),
        (Route::Aggregates, _) => aggregates::list_aggregates(call),
        (Route::Aggregate, "PUT") => aggregates::put_aggregate(call, uuid),
        (Route::Aggregate, _) => aggregates::remove_aggregate(call, uuid),
        (Route::Topology, "PUT") => aggregates::put_topology(call).await,
        (Route::Topology, _) => aggregates::show_topology(call).await,
    }
}
