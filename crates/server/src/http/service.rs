//! One request from head to answer: the checks in their order, the handler, and the headers that
//! all answers share.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use placewright_auth::{AuthError, Authenticator, ForbiddenReason, Identity, Policy, Rule, Target};
use placewright_engine::{Engine, SubmitError};
use placewright_placement::{Command, Outcome, Refusal, SearchOptions, State, Strategy, Timestamp};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::http::accept::Accept;
use crate::http::body::{self, Body};
use crate::http::call::Call;
use crate::http::error::{self, ApiError, ApiResult, ErrorContext};
use crate::http::microversion::{self, Microversion, VersionError};
use crate::http::own::{self, Page};
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::request_id::{self, RequestId};
use crate::http::routes::{self, Entry, Match, Needs, Operation, Route};
use crate::http::{date, placement, refusals};
use crate::machine::Placement;
use crate::metrics::HttpMetrics;
use crate::options::ServerOptions;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");
const API_VERSION: HeaderName = HeaderName::from_static(microversion::HEADER);
const JSON: &str = "application/json";

/// The HTTP service without sockets: a request in, an answer out.
pub struct Service {
    pub(crate) options: ServerOptions,
    pub(crate) engine: Engine<Placement>,
    pub(crate) metrics: HttpMetrics,
    pub(crate) registry: Arc<Registry>,
    /// Whether the service is about to stop: streams end, and it is not ready any more.
    pub(crate) stopping: watch::Sender<bool>,
    authenticator: Authenticator,
    policy: Policy,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Service")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// What is known of a request besides itself while it is answered.
struct Exchange {
    started: Instant,
    request_id: RequestId,
    /// The route's path as in the documentation, for metrics; `other` when there is none.
    route: &'static str,
    /// The microversion, once it is negotiated.
    version: Option<Microversion>,
}

impl Service {
    /// Puts a service together. The metrics must be registered in `registry`, which `/metrics`
    /// shows.
    pub fn new(
        options: ServerOptions,
        engine: Engine<Placement>,
        authenticator: Authenticator,
        policy: Policy,
        metrics: HttpMetrics,
        registry: Arc<Registry>,
    ) -> Self {
        let stopping = watch::Sender::new(false);
        Self {
            options,
            engine,
            metrics,
            registry,
            stopping,
            authenticator,
            policy,
        }
    }

    /// Answers a request. Never fails: what goes wrong is an answer too.
    pub async fn handle<B>(&self, request: Request<B>, remote: Option<SocketAddr>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let mut exchange = Exchange {
            started: Instant::now(),
            request_id: RequestId::new(),
            route: "other",
            version: None,
        };
        let mut response = match &self.options.cors {
            Some(cors) if parts.method == Method::OPTIONS => {
                let mut response = Response::new(Body::Whole(Bytes::new()));
                cors.preflight(&parts.headers, response.headers_mut());
                response
            }
            cors => {
                let answer = self.answer(&parts, body, &mut exchange).await;
                let mut response = match answer {
                    Ok(reply) => accepted(&parts, reply, &exchange),
                    Err(error) => refused(&parts, &error, &exchange),
                };
                if let Some(cors) = cors {
                    cors.decorate(&parts.headers, response.headers_mut());
                }
                response
            }
        };
        if let Ok(value) = HeaderValue::from_bytes(exchange.request_id.as_bytes()) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        self.record(&parts, &response, &exchange, remote);
        response
    }

    async fn answer<B>(&self, parts: &Parts, body: B, exchange: &mut Exchange) -> ApiResult<Reply>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let path = routes::decode_path(parts.uri.path());
        check_head(parts, self.options.head_bytes_max)?;
        let page = Page::find(&path);
        if let Some(page) = page {
            exchange.route = page.path();
        }
        let identity = match (&*path, page) {
            ("/" | "", _) => None,
            (_, Some(page)) if page.is_open() => None,
            _ => Some(self.authenticate(&parts.headers).await?),
        };
        if let Some(page) = page {
            return own::show(self, page, parts, identity.as_deref());
        }
        let version = negotiate(&parts.headers)?;
        exchange.version = Some(version);
        check_content_length(&parts.headers)?;
        let found = routes::find(&path).ok_or_else(|| ApiError::not_found("").at_door())?;
        let entry = Entry::of(found.route);
        exchange.route = entry.path;
        let operation = choose(entry, parts, version)?;
        check_needs(operation.needs, &parts.headers)?;
        self.check_policy(operation, &found, parts, identity.as_deref())?;
        let content = match operation.needs {
            Needs::JsonBody => {
                body::read(body, self.options.body_bytes_max, self.options.body_timeout).await?
            }
            Needs::Nothing | Needs::AcceptJson => Bytes::new(),
        };
        let call = Call {
            service: self,
            version,
            parameters: found.parameters,
            query: parts.uri.query().unwrap_or(""),
            body: &content,
            at: Timestamp(date::now_us()),
        };
        placement::run(found.route, parts.method.as_str(), &call).await
    }

    async fn authenticate(&self, headers: &HeaderMap) -> ApiResult<Arc<Identity>> {
        self.authenticator
            .authenticate(headers)
            .await
            .map_err(|error| match error {
                AuthError::Unauthorized { challenge } => {
                    ApiError::new(401, "").with_challenge(challenge).at_door()
                }
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
            // The project that is asked about, not the caller's own, is what readers need.
            let query = Query::parse(parts.uri.query().unwrap_or("")).map_err(|reason| {
                ApiError::bad_request(format!("Invalid query string parameters: {reason}"))
            })?;
            return self.authorize(rule, identity, &Target::project(query.get("project_id")));
        }
        self.authorize(rule, identity, &Target::own(identity))
    }

    /// Checks that a caller may do what a policy rule protects.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn authorize(
        &self,
        rule: Rule,
        identity: &Identity,
        target: &Target<'_>,
    ) -> ApiResult<()> {
        self.policy
            .authorize(rule, identity, target)
            .map_err(|forbidden| {
                let detail = match forbidden.reason {
                    ForbiddenReason::Rule => forbidden.to_string(),
                    // The reference says no more than this about a wrong scope.
                    ForbiddenReason::Scope(_) => rule.to_string(),
                };
                ApiError::new(403, detail).at_door()
            })
    }

    /// Computes something from the state; it is durable when this returns.
    pub(crate) async fn read<T: Send>(&self, compute: impl Fn(&State) -> T + Send) -> T {
        self.engine
            .read(move |machine: &Placement| compute(&machine.0))
            .await
    }

    /// Carries a command out, and counts what became of it.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let is_claim = matches!(command, Command::Claim { .. });
        let result = self
            .engine
            .submit(command)
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

    /// How candidates are searched; a random sample has another seed each time.
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

    fn record(
        &self,
        parts: &Parts,
        response: &Response<Body>,
        exchange: &Exchange,
        remote: Option<SocketAddr>,
    ) {
        let status = response.status().as_u16();
        let elapsed = exchange.started.elapsed();
        self.metrics
            .request(method_label(&parts.method), exchange.route, status, elapsed);
        if !tracing::enabled!(target: "placewright_server::access", tracing::Level::INFO) {
            return;
        }
        let global = parts
            .headers
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok());
        let version = exchange.version.map(|version| version.to_string());
        tracing::info!(
            target: "placewright_server::access",
            request_id = exchange.request_id.as_str(),
            global_request_id = request_id::global(global),
            remote = remote.map(tracing::field::display),
            method = %parts.method,
            uri = %parts.uri,
            status,
            bytes = response.body().size_hint().exact(),
            microversion = version,
            duration_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

/// Metrics know only the methods of the table, so that clients cannot invent labels.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "PUT" => "PUT",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// The connection's buffer bounds a head only roughly.
fn check_head(parts: &Parts, bytes_max: usize) -> ApiResult<()> {
    let line = parts.uri.path().len() + parts.uri.query().map_or(0, str::len);
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4);
    if line + headers.sum::<usize>() > bytes_max {
        return Err(ApiError::new(431, format!("The limit is {bytes_max} bytes.")).at_door());
    }
    Ok(())
}

fn negotiate(headers: &HeaderMap) -> ApiResult<Microversion> {
    microversion::negotiate(headers).map_err(|error| {
        let status = match error {
            VersionError::Malformed { .. } => 400,
            VersionError::Unacceptable(_) => 406,
        };
        ApiError::new(status, format!("Invalid microversion: {error}")).at_door()
    })
}

/// A body has to say what it is, also where nobody reads it.
fn check_content_length(headers: &HeaderMap) -> ApiResult<()> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let has_body = length.is_some_and(|length| length.trim().parse::<u64>() != Ok(0));
    if has_body && content_type(headers).is_empty() {
        return Err(
            ApiError::bad_request("content-type header required when content-length > 0").at_door(),
        );
    }
    Ok(())
}

fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
}

fn choose(
    entry: &'static Entry,
    parts: &Parts,
    version: Microversion,
) -> ApiResult<&'static Operation> {
    let method = parts.method.as_str();
    let (operation, known) = entry.operation(method, version);
    if let Some(operation) = operation {
        return Ok(operation);
    }
    if !known {
        let detail = "The method specified is not allowed for this resource.";
        return Err(ApiError::new(405, detail).with_allow(entry.allow));
    }
    if entry.route == Route::Aggregates {
        // Here the reference looks at the headers before the version.
        let operation = entry
            .operations
            .iter()
            .find(|operation| operation.method == method);
        check_needs(
            operation.map_or(Needs::Nothing, |one| one.needs),
            &parts.headers,
        )?;
    }
    let status = match (entry.route, method) {
        (Route::Inventories, "DELETE") => 405,
        _ => 404,
    };
    Err(ApiError::new(status, ""))
}

fn check_needs(needs: Needs, headers: &HeaderMap) -> ApiResult<()> {
    match needs {
        Needs::Nothing => Ok(()),
        Needs::AcceptJson => {
            if Accept::parse(Some(&accept_text(headers))).takes(JSON) {
                return Ok(());
            }
            Err(ApiError::new(406, "Only application/json is provided"))
        }
        Needs::JsonBody => match content_type(headers).split(';').next().unwrap_or("") {
            JSON => Ok(()),
            other => {
                let other = if other.is_empty() { "None" } else { other };
                Err(ApiError::new(
                    415,
                    format!("The media type {other} is not supported, use {JSON}"),
                ))
            }
        },
    }
}

/// The `Accept` header as one text; none, an empty one and `*/*` stand for JSON.
fn accept_text(headers: &HeaderMap) -> String {
    let mut values = headers
        .get_all(header::ACCEPT)
        .iter()
        .map(|value| value.to_str());
    let text = match (values.next(), values.next()) {
        (None, _) => return JSON.to_owned(),
        (Some(one), None) => one.unwrap_or("?").to_owned(),
        (Some(first), Some(second)) => {
            let rest = [first, second].into_iter().chain(values);
            rest.map(|value| value.unwrap_or("?"))
                .collect::<Vec<_>>()
                .join(",")
        }
    };
    if text.is_empty() || text == "*/*" {
        JSON.to_owned()
    } else {
        text
    }
}

/// What a client is told when the engine could not carry a command out.
fn unavailable(error: &SubmitError) -> ApiError {
    let mut text = format!("The change was not made: {error}");
    let mut source = error.source();
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    match error {
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

fn accepted(parts: &Parts, reply: Reply, exchange: &Exchange) -> Response<Body> {
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    let headers = response.headers_mut();
    if let Some(content_type) = reply.content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(path) = reply.location
        && let Ok(location) = HeaderValue::from_str(&absolute(parts, &path))
    {
        headers.insert(header::LOCATION, location);
    }
    if reply.no_cache {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    if let Some(seconds) = reply.last_modified
        && let Ok(value) = HeaderValue::from_str(&date::http_date(seconds))
    {
        headers.insert(header::LAST_MODIFIED, value);
    }
    put_version(headers, exchange.version, true);
    response
}

fn put_version(headers: &mut HeaderMap, version: Option<Microversion>, varies: bool) {
    let Some(version) = version else { return };
    headers.insert(
        API_VERSION,
        HeaderValue::from_static(version.header_value()),
    );
    if varies {
        headers.insert(header::VARY, HeaderValue::from_static(microversion::HEADER));
    }
}

/// A path with the scheme and host that the client used, as far as it is known.
fn absolute(parts: &Parts, path: &str) -> String {
    let host = parts
        .headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    match host.or_else(|| parts.uri.authority().map(|authority| authority.as_str())) {
        Some(host) => format!("http://{host}{path}"),
        None => path.to_owned(),
    }
}

fn refused(parts: &Parts, error: &ApiError, exchange: &Exchange) -> Response<Body> {
    let accept = accept_text(&parts.headers);
    let sent = content_type(&parts.headers);
    let context = ErrorContext {
        method: parts.method.as_str(),
        accept: &accept,
        content_type: if sent.is_empty() { "None" } else { sent },
        version: exchange.version,
        request_id: exchange.request_id.as_str(),
    };
    let (body, content_type) = if parts.method == Method::HEAD {
        (Vec::new(), "text/html; charset=UTF-8")
    } else {
        error::render(error, &context)
    };
    let mut response = Response::new(Body::Whole(body.into()));
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(methods) = error.allow() {
        headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    }
    if let Some(challenge) = error.challenge()
        && let Ok(value) = HeaderValue::from_str(challenge)
    {
        headers.insert(header::WWW_AUTHENTICATE, value);
    }
    if let Some(seconds) = error.retry_after_s() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    put_version(headers, exchange.version, error.varies());
    response
}
