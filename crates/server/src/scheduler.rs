//! The scheduler's own REST service: where requests should go, and the claims that put them there.
//!
//! [`SchedulerService`] runs beside the Placement service, in the same process and on the same
//! engine: it takes authentication, policies, limits, metrics and the log from it. What hosts say
//! of themselves is kept in memory only. `docs/scheduler-api.md` describes the interface.

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
use placewright_scheduler::contention::Contention;
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

/// How many candidates are kept for how long after they were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepOptions {
    /// The most; the oldest ones go first.
    pub candidates_max: usize,
    /// For how long.
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

/// The scheduler's HTTP service without sockets: a request in, an answer out.
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

/// What the requests share.
struct Core {
    placement: Arc<Service>,
    keep: KeepOptions,
    brain: Mutex<Brain>,
    /// Never locked together with the brain.
    shelf: Mutex<Shelf>,
    contention: Mutex<Contention>,
    reasons: Reasons,
    /// Whose turn it is to count on a copy of everything.
    counting: Semaphore,
}

/// What decides.
struct Brain {
    scheduler: Scheduler,
}

impl Core {
    /// Computes something from the scheduler and the state, the scheduler up to date with it.
    ///
    /// The state may hold what is not durable yet: decisions are checked again when they become
    /// commands. The order of the two locks is always this one.
    fn decide<T>(&self, compute: impl FnOnce(&mut Brain, &State) -> T) -> T {
        let mut brain = self.brain.lock();
        self.placement.engine.read_now(|machine| {
            brain.scheduler.observe(machine.placement(), now());
            compute(&mut brain, machine.placement())
        })
    }

    /// Changes what is known of hosts. New ones get their places at once: no decision has to make up
    /// for many of them.
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

/// Now, for placement's records.
fn now() -> Timestamp {
    Timestamp(date::now_us())
}

/// A request whose door is behind it.
struct Call<'a> {
    core: &'a Arc<Core>,
    query: &'a str,
    body: &'a [u8],
}

impl Call<'_> {
    /// The body; an error names the field.
    fn read<T: DeserializeOwned>(&self) -> Answer<T> {
        if let Ok(value) = serde_json::from_slice(self.body) {
            return Ok(value);
        }
        // Once more, slower, to learn where it is wrong.
        let mut json = serde_json::Deserializer::from_slice(self.body);
        let value = request::read(&mut json)?;
        json.end().map_err(|error| Unreadable {
            field: ".".to_owned(),
            message: error.to_string(),
        })?;
        Ok(value)
    }
}

/// JSON as an answer.
fn json(status: u16, value: &impl Serialize) -> Answer<Reply> {
    let text = serde_json::to_vec(value)
        .map_err(|error| ApiError::new(500, format!("cannot write the answer: {error}")))?;
    Ok(Reply::text(status, "application/json", text))
}

impl SchedulerService {
    /// The scheduler's service on the engine, and behind the same authentication and policies, as
    /// the Placement service.
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
        // What placement knows of the hosts is taken over now, not by the first decision.
        core.decide(|_, _| ());
        Self { core }
    }

    /// Answers a request. Never fails: what goes wrong is an answer too.
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
