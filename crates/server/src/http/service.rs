//! One request from its head to its response: the checks in their order, the handler, and the
//! headers that all responses share.

mod access;
pub(crate) mod answer;
pub(crate) mod checks;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use parking_lot::RwLock;
use placewright_auth::{AuthError, Authenticator, ForbiddenReason, Identity, Policy, Rule, Target};
use placewright_engine::{Engine, SubmitError};
use placewright_placement::{Command, Outcome, Refusal, SearchOptions, State, Strategy, Timestamp};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::costly::{CostlyError, CostlyWork};
use crate::http::body::{self, Body, Content};
use crate::http::call::Call;
use crate::http::error::{ApiError, ApiResult};
use crate::http::large::LargeAnswers;
use crate::http::microversion::Microversion;
use crate::http::own::{self, Page, changes};
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::request_id::RequestId;
use crate::http::room::Room;
use crate::http::routes::{self, Entry, Match, Needs, Operation, Route};
use crate::http::{date, placement, refusals};
use crate::machine::{ControlMachine, submit_placement};
use crate::metrics::HttpMetrics;
use crate::options::ServerOptions;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// The HTTP service without sockets: it takes requests and returns responses.
pub struct Service {
    pub(crate) options: ServerOptions,
    pub(crate) engine: Engine<ControlMachine>,
    pub(crate) metrics: HttpMetrics,
    pub(crate) registry: Arc<Registry>,
    /// Whether the service is about to stop: change streams end, and it is not ready any more.
    pub(crate) stopping: watch::Sender<bool>,
    /// The limits for readers of the change stream.
    pub(crate) followers: changes::Room,
    /// The audit, in a process that has something to audit.
    pub(crate) audit: OnceLock<Arc<dyn Audit>>,
    /// A cache of recent responses with candidates.
    pub(crate) candidates: placement::candidates::Kept,
    /// The threads and queues for costly requests.
    pub(crate) costly: CostlyWork,
    /// The limit of memory for large responses.
    pub(crate) large_answers: LargeAnswers,
    /// What bodies may hold until their requests are answered.
    pub(crate) bodies: Room,
    authenticator: Authenticator,
    policy: RwLock<Policy>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Service")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The context of a request while it is handled.
#[derive(Debug)]
pub struct Exchange {
    started: Instant,
    /// The client's address, if the request came over a network.
    remote: Option<SocketAddr>,
    pub(crate) request_id: RequestId,
    /// The route's path as in the documentation, for metrics; `other` if there is none.
    pub(crate) route: &'static str,
    /// The microversion, once it is negotiated.
    version: Option<Microversion>,
    /// The caller, once it is authenticated.
    identity: Option<Arc<Identity>>,
}

impl Exchange {
    /// The context of a new request from this address.
    pub fn new(remote: Option<SocketAddr>) -> Self {
        Self {
            started: Instant::now(),
            remote,
            request_id: RequestId::new(),
            route: "other",
            version: None,
            identity: None,
        }
    }

    /// The request id that the response will carry.
    pub fn request_id(&self) -> &str {
        self.request_id.as_str()
    }

    /// Sets the caller, for the access log.
    pub fn set_identity(&mut self, identity: &Arc<Identity>) {
        self.identity = Some(Arc::clone(identity));
    }

    /// Sets the route as in the documentation, for metrics.
    pub fn set_route(&mut self, route: &'static str) {
        self.route = route;
    }
}

/// Options of an audit's repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Whether hosts destroy guests that no cell knows. They may belong to somebody.
    pub destroy_unknown_guests: bool,
}

/// Audits what is beyond placement: instances, cells and hosts.
pub trait Audit: Send + Sync {
    /// The inconsistencies as JSON; with `repair`, they are repaired where possible.
    fn audit(
        &self,
        repair: Option<RepairOptions>,
    ) -> Pin<Box<dyn Future<Output = String> + Send + '_>>;
}

impl Service {
    /// Sets the audit behind `/placewright/v1/audit`. Only the first call has an effect.
    pub fn set_audit(&self, audit: Arc<dyn Audit>) {
        // If there is one already, it stays.
        let _ = self.audit.set(audit);
    }

    /// Replaces the policies. Requests that were authorised before continue.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write() = policy;
    }

    /// The authenticator of the service.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Creates a service. The metrics must be registered in `registry`, which `/metrics` shows.
    pub fn new(
        options: ServerOptions,
        engine: Engine<ControlMachine>,
        authenticator: Authenticator,
        policy: Policy,
        metrics: HttpMetrics,
        registry: Arc<Registry>,
    ) -> Self {
        let stopping = watch::Sender::new(false);
        Self {
            large_answers: LargeAnswers::new(&options),
            bodies: Room::new(options.bodies_bytes_max),
            followers: changes::Room::new(options.followers_max),
            options,
            engine,
            metrics,
            registry,
            stopping,
            audit: OnceLock::new(),
            candidates: placement::candidates::Kept::default(),
            costly: CostlyWork::default(),
            authenticator,
            policy: RwLock::new(policy),
        }
    }

    /// Runs costly requests on other threads.
    #[must_use]
    pub fn with_costly_work(mut self, costly: CostlyWork) -> Self {
        self.costly = costly;
        self
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
        let (parts, mut body) = request.into_parts();
        let mut exchange = Exchange::new(remote);
        let response = if self.is_preflight(&parts) {
            None
        } else {
            let answer = self.answer(&parts, &mut body, &mut exchange).await;
            Some(match answer {
                Ok(reply) => answer::accepted(&parts, reply, &exchange),
                Err(error) => answer::refused(&parts, &error, &exchange),
            })
        };
        self.finish(&parts, &mut body, response, &exchange, remote)
            .await
    }

    /// Whether a request is a CORS preflight request of a browser.
    pub fn is_preflight(&self, parts: &Parts) -> bool {
        self.options.cors.is_some() && parts.method == Method::OPTIONS
    }

    /// Completes a response: CORS, unread request bodies, the request id, metrics and the access
    /// log. Without a response, a [preflight](Self::is_preflight) request is answered.
    pub async fn finish<B>(
        &self,
        parts: &Parts,
        mut body: B,
        response: Option<Response<Body>>,
        exchange: &Exchange,
        remote: Option<SocketAddr>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let is_preflight = response.is_none();
        let mut response = response.unwrap_or_else(|| Response::new(Body::Whole(Bytes::new())));
        match &self.options.cors {
            Some(cors) if is_preflight => cors.preflight(&parts.headers, response.headers_mut()),
            Some(cors) => cors.decorate(&parts.headers, response.headers_mut()),
            None => {}
        }
        if !body::drain(&mut body, &parts.headers).await {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if let Ok(value) = HeaderValue::from_bytes(exchange.request_id.as_bytes()) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        self.record(parts, &response, exchange, remote);
        response
    }

    async fn answer<B>(
        self: &Arc<Self>,
        parts: &Parts,
        body: &mut B,
        exchange: &mut Exchange,
    ) -> ApiResult<Reply>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let path = routes::decode_path(parts.uri.path());
        checks::check_head(parts, self.options.head_bytes_max)?;
        let page = Page::find(&path);
        if let Some(page) = page {
            exchange.route = page.path();
        }
        let identity = match (&*path, page) {
            ("/" | "", _) => None,
            (_, Some(page)) if page.is_open() => None,
            _ => Some(self.authenticate(&parts.headers, exchange).await?),
        };
        exchange.identity.clone_from(&identity);
        if let Some(page) = page {
            return match identity {
                Some(identity) if page.is_costly() => self.show_costly(page, parts, identity).await,
                identity => own::show(self, page, parts, identity.as_deref()).await,
            };
        }
        let version = checks::negotiate(&parts.headers)?;
        exchange.version = Some(version);
        checks::check_content_length(&parts.headers)?;
        let found = routes::find(&path).ok_or_else(|| ApiError::not_found("").at_door())?;
        let entry = Entry::of(found.route);
        exchange.route = entry.path;
        let operation = checks::choose(entry, parts, version)?;
        checks::check_needs(operation.needs, &parts.headers)?;
        self.check_policy(operation, &found, parts, identity.as_deref())?;
        let content = match operation.needs {
            Needs::JsonBody => {
                let identity = identity.as_deref();
                self.content(body, identity, usize::MAX).await?
            }
            Needs::Nothing | Needs::AcceptJson => Content::default(),
        };
        let query = parts.uri.query().unwrap_or("");
        if let Some(identity) = &identity
            && operation.cost.is_high(content.len())
        {
            let work = Work {
                service: Arc::clone(self),
                version,
                path: path.as_ref().to_owned(),
                method: parts.method.clone(),
                query: query.to_owned(),
                content,
            };
            let caller = self.costly.caller(identity);
            let answer = self.costly.run(caller, work.run()).await;
            return answer.map_err(CostlyError::to_api)?;
        }
        let call = Call {
            service: self,
            version,
            parameters: found.parameters,
            query,
            body: &content,
            at: Timestamp(date::now_us()),
        };
        placement::run(found.route, parts.method.as_str(), &call).await
    }

    async fn show_costly(
        self: &Arc<Self>,
        page: Page,
        parts: &Parts,
        identity: Arc<Identity>,
    ) -> ApiResult<Reply> {
        let (service, parts) = (Arc::clone(self), parts.clone());
        let caller = self.costly.caller(&identity);
        let shown = async move { own::show(&service, page, &parts, Some(&identity)).await };
        let shown = self.costly.run(caller, shown).await;
        shown.map_err(CostlyError::to_api)?
    }

    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        exchange: &Exchange,
    ) -> ApiResult<Arc<Identity>> {
        self.authenticator
            .authenticate(headers, exchange.remote.map(|remote| remote.ip()))
            .await
            .map_err(|error| match error {
                AuthError::Unauthorized { challenge } => {
                    ApiError::new(401, "").with_challenge(challenge).at_door()
                }
                AuthError::TooLarge { reason } => ApiError::new(431, reason).at_door(),
                AuthError::TooMany {
                    reason,
                    retry_after,
                } => ApiError::new(429, reason)
                    .with_retry_after(retry_after)
                    .at_door(),
                AuthError::Unavailable {
                    reason,
                    retry_after,
                } => ApiError::unavailable(reason)
                    .with_retry_after(retry_after)
                    .at_door(),
            })
    }

    fn check_policy(
        &self,
        operation: &Operation,
        found: &Match<'_>,
        parts: &Parts,
        identity: Option<&Identity>,
    ) -> ApiResult<()> {
        let (Some(rule), Some(identity)) = (operation.rule, identity) else {
            return Ok(());
        };
        if found.route == Route::Usages {
            // The rule applies to the project in the query, not to that of the caller.
            let query = Query::parse(parts.uri.query().unwrap_or("")).map_err(|reason| {
                ApiError::bad_request(format!("Invalid query string parameters: {reason}"))
            })?;
            return self.authorize(rule, identity, &Target::project(query.get("project_id")));
        }
        self.authorize(rule, identity, &Target::own(identity))
    }

    /// Checks a policy rule for a caller.
    ///
    /// # Errors
    ///
    /// 403.
    pub(crate) fn authorize(
        &self,
        rule: Rule,
        identity: &Identity,
        target: &Target<'_>,
    ) -> ApiResult<()> {
        self.policy
            .read()
            .authorize(rule, identity, target)
            .map_err(|forbidden| {
                let detail = match forbidden.reason {
                    ForbiddenReason::Rule => forbidden.to_string(),
                    // The reference gives no more detail about a wrong scope.
                    ForbiddenReason::Scope(_) => rule.to_string(),
                };
                ApiError::new(403, detail).at_door()
            })
    }

    /// Computes a value from the state, which is durable when this returns.
    pub(crate) async fn read<T: Send>(&self, compute: impl Fn(&State) -> T + Send) -> T {
        self.engine
            .read(move |machine: &ControlMachine| compute(machine.placement()))
            .await
    }

    /// As [`Self::read`], in slices between which the state may change.
    pub(crate) async fn read_in_slices<S: Send, T: Send>(
        &self,
        begin: impl Fn() -> S + Send,
        go_on: impl Fn(&State, &mut S) -> Option<T> + Send,
    ) -> T {
        let go_on =
            move |machine: &ControlMachine, slices: &mut S| go_on(machine.placement(), slices);
        self.engine.read_in_slices(begin, go_on).await
    }

    /// Submits a command, and counts its outcome in the metrics.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let is_claim = matches!(command, Command::Claim { .. } | Command::ClaimFirst { .. });
        let result = submit_placement(&self.engine, command)
            .await
            .map_err(|error| unavailable(&error))?;
        if let Err(refusal) = &result {
            self.metrics.refusal(refusals::reason(refusal));
        }
        if is_claim {
            self.metrics.claim(match &result {
                Ok(_) => "done",
                Err(refusal) if refusals::is_conflict(refusal) => "conflict",
                Err(_) => "refused",
            });
        }
        Ok(result)
    }

    /// The options of a candidate search, with a new seed if the sample is random.
    pub(crate) fn search_options(&self) -> SearchOptions {
        let options = &self.options.candidates;
        SearchOptions {
            strategy: if options.breadth_first {
                Strategy::BreadthFirst
            } else {
                Strategy::DepthFirst
            },
            max_candidates: options
                .candidates_max
                .map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            seed: options
                .randomize
                .then(|| uuid::Uuid::new_v4().as_u64_pair().0),
        }
    }
}

/// An authorised request with its body, owned so that it can run on another thread.
struct Work {
    service: Arc<Service>,
    version: Microversion,
    path: String,
    method: Method,
    query: String,
    content: Content,
}

impl Work {
    async fn run(self) -> ApiResult<Reply> {
        // The path matched before.
        let found = routes::find(&self.path).ok_or_else(|| ApiError::not_found(""))?;
        let call = Call {
            service: &self.service,
            version: self.version,
            parameters: found.parameters,
            query: &self.query,
            body: &self.content,
            at: Timestamp(date::now_us()),
        };
        placement::run(found.route, self.method.as_str(), &call).await
    }
}

/// The error response when the engine could not carry out a command.
pub(crate) fn unavailable(error: &SubmitError) -> ApiError {
    let mut text = format!("The change was not made: {error}");
    let mut source = error.source();
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    match error {
        // The request is too large, which is not a failure of the store.
        SubmitError::TooLarge { .. } => ApiError::new(413, text),
        SubmitError::Panicked => {
            tracing::error!("{text}");
            ApiError::new(500, text)
        }
        SubmitError::Unavailable(_) | SubmitError::ShuttingDown | SubmitError::Overloaded => {
            tracing::warn!("{text}");
            ApiError::unavailable(text)
        }
    }
}
