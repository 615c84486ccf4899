//! The scheduler's REST service: it selects hosts for requests, and claims resources there.
//!
//! [`SchedulerService`] runs beside the Placement service, in the same process and on the same
//! engine, and uses its authentication, policies, limits, metrics and log. The soft state that
//! hosts report is kept in memory only. `docs/scheduler-api.md` describes the interface.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use parking_lot::Mutex;
use placewright_auth::Target;
use placewright_placement::{Command, Outcome, Refusal, State, Timestamp};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::request::{self, Unreadable};
use placewright_scheduler::select::Scheduler;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::costly::CostlyError;
use crate::http::body::{Body, Content};
use crate::http::date;
use crate::http::error::ApiError;
use crate::http::own::{self, Page};
use crate::http::reply::Reply;
use crate::http::routes::{self, Needs};
use crate::http::service::{Exchange, Service, answer, checks};
use crate::metrics::HttpMetrics;
use crate::options::ServerOptions;
use crate::placer::Contention;
use crate::server::HttpService;

mod capacity;
mod cause;
mod claims;
mod destinations;
mod fleet;
mod hosts;
mod kept;
mod path;
pub(crate) mod ranker;
mod reasons;
mod refused;
mod why;

use kept::Shelf;
use path::{Path, Route};
use reasons::Reasons;
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
    placement: Arc<Service>,
    keep: KeepOptions,
    brain: Mutex<Brain>,
    /// The candidates of earlier responses. This lock and that of `brain` are never held together.
    shelf: Mutex<Shelf>,
    contention: Mutex<Contention>,
    reasons: Reasons,
    /// A semaphore with one permit for counting, which works on a copy of the state.
    counting: Semaphore,
}

/// The scheduler behind its lock: the host table, the rankings and their caches.
struct Brain {
    scheduler: Scheduler,
}

impl Core {
    /// Computes a value from the scheduler and the state, after the scheduler has caught up with
    /// the state.
    ///
    /// The state may contain changes that are not durable yet: decisions are checked again when
    /// they become commands. Lock order: the scheduler before the state.
    fn decide<T>(&self, compute: impl FnOnce(&mut Brain, &State) -> T) -> T {
        let mut brain = self.brain.lock();
        self.placement.engine.read_now(|machine| {
            brain.scheduler.observe(machine.placement(), now());
            compute(&mut brain, machine.placement())
        })
    }

    /// Changes the host table. New hosts are added to the rankings at once, so that no later
    /// decision has to do that for many of them.
    fn change_hosts<T>(&self, change: impl FnOnce(&mut HostTable) -> T) -> T {
        let mut brain = self.brain.lock();
        let changed = change(brain.scheduler.hosts_mut());
        if brain.scheduler.hosts().has_newcomers() {
            self.placement.engine.read_now(|machine| {
                brain.scheduler.observe(machine.placement(), now());
            });
        }
        changed
    }

    async fn submit(&self, command: Command) -> Answer<Result<Outcome, Refusal>> {
        Ok(self.placement.submit(command).await?)
    }
}

/// The present time of the system clock, for placement's records.
fn now() -> Timestamp {
    Timestamp(date::now_us())
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
    let text = serde_json::to_vec(value)
        .map_err(|error| ApiError::new(500, format!("cannot write the answer: {error}")))?;
    Ok(Reply::text(status, "application/json", text))
}

impl SchedulerService {
    /// Creates the service. It uses the engine, the authentication and the policies of the
    /// Placement service.
    pub fn new(placement: Arc<Service>, scheduler: Scheduler, keep: KeepOptions) -> Self {
        let shelf = Shelf::new(keep.candidates_max, keep.time);
        let core = Arc::new(Core {
            placement,
            keep,
            brain: Mutex::new(Brain { scheduler }),
            shelf: Mutex::new(shelf),
            contention: Mutex::default(),
            reasons: Reasons::default(),
            counting: Semaphore::new(1),
        });
        // The scheduler catches up with placement now, so that the first decision does not have to.
        core.decide(|_, _| ());
        Self { core }
    }

    /// Answers a request. Errors are responses too.
    pub async fn handle<B>(&self, request: Request<B>, remote: Option<SocketAddr>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let (parts, mut body) = request.into_parts();
        let mut exchange = Exchange::new(remote);
        let placement = &self.core.placement;
        let response = if placement.is_preflight(&parts) {
            None
        } else {
            let answer = self.answer(&parts, &mut body, &mut exchange).await;
            Some(match answer {
                Ok(reply) => answer::accepted(&parts, reply, &exchange),
                Err(refused) => refused.respond(&parts, &exchange),
            })
        };
        placement
            .finish(&parts, body, response, &exchange, remote)
            .await
    }

    async fn answer<B>(&self, parts: &Parts, body: &mut B, exchange: &mut Exchange) -> Answer<Reply>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let placement = &self.core.placement;
        let options = &placement.options;
        let path = routes::decode_path(parts.uri.path());
        checks::check_head(parts, options.head_bytes_max)?;
        if let Some(page @ (Page::Metrics | Page::Health | Page::Ready)) = Page::find(&path) {
            exchange.route = page.path();
            return Ok(own::show(placement, page, parts, None).await?);
        }
        let identity = placement.authenticate(&parts.headers, exchange).await?;
        exchange.set_identity(&identity);
        let path = Path::find(&path)?;
        exchange.route = path.route.path();
        let operation = path.route.operation(&parts.method)?;
        let target = Target::own(&identity);
        placement.authorize(operation.rule, &identity, &target)?;
        let content = if operation.has_body {
            checks::check_needs(Needs::JsonBody, &parts.headers)?;
            placement.content(body, Some(&identity), usize::MAX).await?
        } else {
            Content::default()
        };
        let query = parts.uri.query().unwrap_or("");
        if operation.cost.is_high(content.len()) {
            let caller = placement.costly.caller(&identity);
            let (core, method) = (Arc::clone(&self.core), parts.method.clone());
            let query = query.to_owned();
            let work = async move {
                let call = Call {
                    core: &core,
                    query: &query,
                    body: &content,
                };
                run(&path, method.as_str(), &call).await
            };
            let answer = placement.costly.run(caller, work).await;
            return answer.map_err(CostlyError::to_api)?;
        }
        let call = Call {
            core: &self.core,
            query,
            body: &content,
        };
        run(&path, parts.method.as_str(), &call).await
    }
}

async fn run(path: &Path, method: &str, call: &Call<'_>) -> Answer<Reply> {
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
        (Route::Aggregates, _) => fleet::list_aggregates(call),
        (Route::Aggregate, "PUT") => fleet::put_aggregate(call, uuid),
        (Route::Aggregate, _) => fleet::remove_aggregate(call, uuid),
        (Route::Topology, "PUT") => fleet::put_topology(call).await,
        (Route::Topology, _) => fleet::show_topology(call).await,
    }
}

impl HttpService for SchedulerService {
    fn options(&self) -> &ServerOptions {
        &self.core.placement.options
    }

    fn metrics(&self) -> &HttpMetrics {
        &self.core.placement.metrics
    }

    fn stopping(&self) {
        self.core.placement.stopping.send_replace(true);
    }

    fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        remote: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send {
        SchedulerService::handle(self, request, Some(remote))
    }
}
