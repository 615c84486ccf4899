//! The scheduler's REST service: it selects hosts for requests, and claims resources there.
//!
//! [`SchedulerService`] runs beside the other REST services, and shares their authentication,
//! policies, limits, metrics and log. `docs/scheduler-api.md` describes the interface.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Uri};
use parking_lot::Mutex;
use placewright_auth::{Identity, Target};
use placewright_control::{Placement, Ranker, now};
use placewright_http::{
    Access, Api, ApiError, ApiResult, Body, Exchange, Gateway, Reply, Routed, latin1_path,
};
use placewright_placement::{Command, Outcome, Refusal, State};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::request::{self, Unreadable};
use placewright_scheduler::select::Scheduler;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::http::routes::Needs;
use crate::http::service::{checks, unavailable};

mod capacity;
mod claims;
mod destinations;
mod fleet;
mod hosts;
mod kept;
mod path;
mod refused;

use kept::Shelf;
use path::{Operation, Path, Route};
use refused::Answer;

/// How many candidates can still be claimed after a response, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepOptions {
    /// The most candidates that are kept; beyond that, the oldest are dropped.
    pub candidates_max: usize,
    /// How long a candidate is kept.
    pub time: Duration,
}

impl Default for KeepOptions {
    fn default() -> Self {
        Self {
            candidates_max: 1_000_000,
            time: Duration::from_secs(300),
        }
    }
}

/// The scheduler's HTTP service without sockets: it takes requests and returns responses.
pub struct SchedulerService {
    core: Arc<Core>,
}

impl fmt::Debug for SchedulerService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SchedulerService")
            .finish_non_exhaustive()
    }
}

/// The data that all requests share.
struct Core {
    gateway: Arc<Gateway>,
    placement: Placement,
    ranker: Ranker,
    keep: KeepOptions,
    /// The candidates of earlier responses. This lock and that of the scheduler are never held
    /// together.
    shelf: Mutex<Shelf>,
    /// A semaphore with one permit for counting, which works on a copy of the state.
    counting: Semaphore,
}

/// The scheduler behind its lock: the host table, the rankings and their caches.
struct Brain<'a> {
    scheduler: &'a mut Scheduler,
}

impl Core {
    /// Computes a value from the scheduler and the state; see [`Ranker::decide`].
    fn decide<T>(&self, compute: impl FnOnce(&mut Brain<'_>, &State) -> T) -> T {
        self.ranker.decide(|scheduler, control| {
            compute(&mut Brain { scheduler }, &control.placement)
        })
    }

    /// Changes the host table; see [`Ranker::with_hosts`].
    fn change_hosts<T>(&self, change: impl FnOnce(&mut HostTable) -> T) -> T {
        self.ranker.with_hosts(change)
    }

    async fn submit(&self, command: Command) -> Answer<Result<Outcome, Refusal>> {
        let answer = self.placement.submit(command).await;
        Ok(answer.map_err(|error| unavailable(&error))?)
    }
}

/// A request after authentication and routing.
struct Call<'a> {
    core: &'a Arc<Core>,
    query: &'a str,
    body: &'a [u8],
}

impl Call<'_> {
    /// Parses the body; an error names the field.
    fn read<T: DeserializeOwned>(&self) -> Answer<T> {
        if let Ok(value) = serde_json::from_slice(self.body) {
            return Ok(value);
        }
        // Parses it again, with a slower parser that finds the field that is wrong.
        let mut json = serde_json::Deserializer::from_slice(self.body);
        let value = request::read(&mut json)?;
        json.end().map_err(|error| Unreadable {
            field: ".".to_owned(),
            message: error.to_string(),
        })?;
        Ok(value)
    }
}

/// A response with a JSON body.
fn json(status: u16, value: &impl Serialize) -> Answer<Reply> {
    Ok(Reply::value(status, value)?)
}

impl SchedulerService {
    /// Creates the service of this placement and this scheduler, which read the same state.
    pub fn new(
        gateway: Arc<Gateway>,
        placement: Placement,
        ranker: Ranker,
        keep: KeepOptions,
    ) -> Self {
        let shelf = Shelf::new(keep.candidates_max, keep.time);
        let core = Arc::new(Core {
            gateway,
            placement,
            ranker,
            keep,
            shelf: Mutex::new(shelf),
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
pub(crate) struct Asked {
    path: Path,
    operation: Operation,
}

impl Api for SchedulerService {
    type Version = ();
    type Request = Asked;

    fn gateway(&self) -> &Gateway {
        &self.core.gateway
    }

    fn admit(&self, _: &Parts, _: &mut Exchange) -> ApiResult<Access> {
        Ok(Access::Identified)
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        exchange: &mut Exchange,
    ) -> ApiResult<Routed<Asked>> {
        let path = Path::find(&latin1_path(parts.uri.path()))?;
        exchange.set_route(path.route.path());
        let operation = path.route.operation(&parts.method)?;
        if let Some(identity) = identity {
            let target = Target::own(identity);
            self.gateway().authorize(operation.rule, identity, &target)?;
        }
        if operation.has_body {
            checks::check_needs(Needs::JsonBody, &parts.headers)?;
        }
        Ok(Routed {
            body_bytes_max: operation.has_body.then_some(usize::MAX),
            request: Asked { path, operation },
        })
    }

    fn is_costly(&self, request: &Asked, body: &[u8]) -> bool {
        request.operation.cost.is_high(body.len())
    }

    async fn run(
        self: &Arc<Self>,
        request: &Asked,
        uri: &Uri,
        _: Option<&Identity>,
        body: &[u8],
    ) -> ApiResult<Reply> {
        let call = Call {
            core: &self.core,
            query: uri.query().unwrap_or(""),
            body,
        };
        Ok(run(&request.path, request.operation.method, &call).await?)
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        exchange: &Exchange,
    ) -> (Vec<u8>, Option<&'static str>) {
        let body = if parts.method == Method::HEAD {
            Vec::new()
        } else {
            refused::body(error, exchange.request_id())
        };
        (body, Some("application/json"))
    }
}

async fn run(path: &Path, method: &str, call: &Call<'_>) -> Answer<Reply> {
    let uuid = path.uuid;
    match (path.route, method) {
        (Route::Destinations, _) => destinations::select(call).await,
        (Route::Capacity, _) => capacity::count(call).await,
        (Route::Claim, "POST") => claims::claim(call, uuid).await,
        (Route::Claim, _) => claims::release(call, uuid).await,
        (Route::Swap, _) => claims::swap(call, uuid).await,
        (Route::Hosts, _) => hosts::list(call),
        (Route::Host, _) => hosts::show(call, uuid),
        (Route::HostState, _) => hosts::update(call, uuid),
        (Route::Aggregates, _) => fleet::list_aggregates(call),
        (Route::Aggregate, "PUT") => fleet::put_aggregate(call, uuid),
        (Route::Aggregate, _) => fleet::remove_aggregate(call, uuid),
        (Route::Topology, "PUT") => fleet::put_topology(call).await,
        (Route::Topology, _) => fleet::show_topology(call).await,
    }
}
