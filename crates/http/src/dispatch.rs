//! The dispatcher: takes a request through the gateway to a service, and the response back.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Uri};
use placewright_admission::{Kind, LaterWork};
use placewright_audit_log::{Note, with_note};
use placewright_auth::Identity;
use placewright_spans::{SpanContext, with_context};

use crate::access_log::method_label;
use crate::admission::{Admission, Permit, RETRY_AFTER, Waiting, measure};
use crate::audit::{self, AuditEntry, AuditResult};
use crate::body::{self, Body, RequestBody};
use crate::costly::WorkLength;
use crate::date;
use crate::error::{ApiError, ApiResult};
use crate::gateway::Gateway;
use crate::metrics::HttpMetrics;
use crate::options::HttpOptions;
use crate::pages::Page;
use crate::peer_watch::PeerWatch;
use crate::percent::latin1_path;
use crate::reply::{Reply, absolute_url};
use crate::request_context::RequestContext;
use crate::request_id::REQUEST_ID;
use crate::request_span::RequestSpan;
use crate::server::{Client, HttpService, Responding};
use crate::streamed::{self, BodySink};

/// The largest body that does not by itself make its request costly. A larger one takes milliseconds to parse and to
/// validate.
const LIGHT_BODY_BYTES_MAX: usize = 16 << 10;

/// The cost of a request, which decides on which threads it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// The cost grows with the body: microseconds, unless the body is large.
    OfBody,
    /// The cost grows with the fleet.
    OfFleet,
}

impl Cost {
    /// Whether a request with a body of this size is handled on the threads for costly requests.
    #[must_use]
    pub fn is_high(self, body_bytes: usize) -> bool {
        self == Self::OfFleet || body_bytes > LIGHT_BODY_BYTES_MAX
    }
}

/// Who may send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody may: the request is carried out without an identity.
    Open,
    /// Every authenticated caller may send the request, as far as the policies of the operation allow.
    Identified,
}

/// A request whose operation is found and allowed.
#[derive(Debug)]
pub struct Routed<R> {
    /// The data with which the service carries out the request, besides its body and query.
    pub request: R,
    /// The maximum size of its body in bytes, `usize::MAX` where only [`HttpOptions::body_bytes_max`] limits it;
    /// `None` if the operation takes no body.
    pub body_bytes_max: Option<usize>,
}

/// The future that carries out a routed request. It is boxed, so that its code, which is large, is compiled once
/// and not wherever a request may be carried out.
pub type Running<'a> = Pin<Box<dyn Future<Output = ApiResult<Reply>> + Send + 'a>>;

/// A REST service: the parts in which an API differs from the other APIs.
pub trait Api: Send + Sync + 'static {
    /// A microversion of the API.
    type Version: Copy + Send + Sync + 'static;
    /// The name of the API in the audit log.
    const NAME: &'static str;

    /// A routed request. It borrows nothing, so that it can be carried out on another thread.
    type Request: Send + Sync + 'static;

    /// The gateway, which the services of a process share.
    fn gateway(&self) -> &Gateway;

    /// Checks the head of a request before its caller is authenticated, and returns who may send it.
    ///
    /// # Errors
    ///
    /// The request is refused, whoever its caller is.
    fn required_access(
        &self,
        parts: &Parts,
        context: &mut RequestContext<Self::Version>,
    ) -> ApiResult<Access>;

    /// Finds the operation that a request asks for, and checks all that can be checked without a
    /// body. `identity` is there unless the access is [`Access::Open`].
    ///
    /// # Errors
    ///
    /// There is no such operation, or it is not allowed.
    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        context: &mut RequestContext<Self::Version>,
    ) -> ApiResult<Routed<Self::Request>>;

    /// Whether the body of a request may be too large for memory. Such a body is passed to the sink of
    /// [`Self::body_sink`], and [`Self::run`] gets an empty one.
    fn streams_body(&self, request: &Self::Request) -> bool {
        let _ = request;
        false
    }

    /// The sink that takes the body of a request piece by piece, if [`Self::streams_body`] returns true. `declared` is
    /// the length of the body in bytes, if the client declares it.
    ///
    /// # Errors
    ///
    /// The request is refused before its body is read.
    fn body_sink(
        &self,
        request: &Self::Request,
        identity: &Identity,
        declared: Option<u64>,
    ) -> ApiResult<Box<dyn BodySink>> {
        let _ = (request, identity, declared);
        Err(ApiError::new(500, "No body is expected."))
    }

    /// The error when a body is longer than its route allows. `error` is the usual one, which a service may replace.
    fn body_too_large(&self, request: &Self::Request, error: ApiError) -> ApiError {
        let _ = request;
        error
    }

    /// Whether a request may take milliseconds, so that it has to be carried out on the threads for costly requests.
    fn is_costly(&self, request: &Self::Request, body: &[u8]) -> bool;

    /// How long a costly request is expected to run.
    fn work_length(&self, request: &Self::Request, uri: &Uri) -> WorkLength {
        let _ = (request, uri);
        WorkLength::Long
    }

    /// Whether a request has to see all changes that were acknowledged before it, by this process or another one. False
    /// for a request that only submits a command, which is decided on the newest state anyway, and for one that is
    /// about this process itself.
    fn reads_newest(&self, request: &Self::Request) -> bool {
        let _ = request;
        true
    }

    /// The work that a request causes outside its handler, such as builds. Admission control adds an estimate of its
    /// cost, because it can measure only the processor time of the handler.
    fn later_work(&self, request: &Self::Request, body: &[u8]) -> LaterWork {
        let _ = (request, body);
        LaterWork::default()
    }

    /// Carries out a routed request.
    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a Self::Request,
        uri: &'a Uri,
        identity: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a>;

    /// The body of an error response and its content type.
    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext<Self::Version>,
    ) -> (Vec<u8>, Option<&'static str>);

    /// Adds the API's own headers to a response, or to that of an error.
    fn put_headers(
        &self,
        headers: &mut HeaderMap,
        error: Option<&ApiError>,
        context: &RequestContext<Self::Version>,
    ) {
        let _ = (headers, error, context);
    }
}

/// Answers a request from the address `remote`; `None` if it came without a connection. Errors are responses
/// too.
pub async fn handle<A: Api, B>(
    api: &Arc<A>,
    request: Request<B>,
    remote: Option<SocketAddr>,
) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    handle_from(Arc::clone(api), request, remote, None).await
}

/// As [`handle`]. `watch` notices when the client closes its connection.
fn handle_from<A: Api, B>(
    api: Arc<A>,
    request: Request<B>,
    remote: Option<SocketAddr>,
    watch: Option<Arc<PeerWatch>>,
) -> impl Future<Output = Response<Body>>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let mut context = RequestContext::new(remote, watch);
    let (parts, mut body) = request.into_parts();
    // A block that captures these: the future of an `async fn` would have room for each of them twice.
    async move {
        let gateway = api.gateway();
        context.span = RequestSpan::begin(&parts, method_label(&parts.method));
        if audit::is_write(&parts.method) {
            context.audit = gateway.audit_entry(&parts, A::NAME);
        }
        let is_preflight = gateway.is_preflight(&parts);
        let mut response = if is_preflight {
            Response::new(Body::Whole(Bytes::new()))
        } else {
            match answer(&api, &parts, &mut body, &mut context).await {
                Ok(reply) => {
                    if context.audit.is_some() {
                        context.result =
                            AuditResult::accepted(reply.status, reply.location.as_ref());
                    }
                    success_response(&*api, &parts, reply, &context)
                }
                Err(error) => {
                    if context.audit.is_none() && audit::is_access_denied(error.status()) {
                        context.audit = gateway.audit_entry(&parts, A::NAME);
                    }
                    if context.audit.is_some() {
                        context.result = AuditResult::refused(&error);
                    }
                    error_response(&*api, &parts, &error, &context)
                }
            }
        };
        match &gateway.options().cors {
            Some(cors) if is_preflight => {
                cors.add_preflight_headers(&parts.headers, response.headers_mut());
            }
            Some(cors) => cors.add_headers(&parts.headers, response.headers_mut()),
            None => {}
        }
        if !body::drain(&mut body, &parts.headers).await {
            // The rest of the body would be read as the next request.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if let Ok(value) = HeaderValue::from_bytes(context.request_id.as_bytes()) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        gateway.record(&parts, &response, &context);
        let (route, status) = (context.route(), response.status().as_u16());
        let RequestContext {
            span, request_id, ..
        } = &mut context;
        span.end(route, request_id.as_str(), Some(status));
        response
    }
}

async fn answer<A: Api, B>(
    api: &Arc<A>,
    parts: &Parts,
    body: &mut B,
    context: &mut RequestContext<A::Version>,
) -> ApiResult<Reply>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let gateway = api.gateway();
    gateway.check_head(parts)?;
    if let Some(page) = Page::find(&latin1_path(parts.uri.path())) {
        context.is_page = true;
        context.span.forget();
        context.set_route(page.path());
        return page.show(gateway, parts);
    }
    let identity = match api.required_access(parts, context)? {
        Access::Open => None,
        Access::Identified => {
            let remote = context.remote.map(|remote| remote.ip());
            let identity = gateway.identify(&parts.headers, remote).await?;
            context.set_identity(&identity);
            Some(identity)
        }
    };
    let routed = api.route(parts, identity.as_deref(), context)?;
    let request = routed.request;
    let content = match routed.body_bytes_max {
        None => RequestBody::default(),
        Some(limit) => read_content(&**api, &request, body, (identity.as_deref(), limit)).await?,
    };
    let note = context.audit.as_ref().map(AuditEntry::note);
    let span = context.span.context();
    let Some(identity) = identity else {
        // No permit: such a request costs next to nothing, or signs in, and password checks have a queue of their own.
        let running = api.run(&request, &parts.uri, None, &content);
        return with_span_and_note(span, note, running).await;
    };
    if api.reads_newest(&request) {
        gateway.confirm_state().await?;
    }
    let is_costly = api.is_costly(&request, &content);
    let kind = kind_of::<A>(parts, context, is_costly);
    let mut permit = match gateway.admit(&identity, kind, || api.later_work(&request, &content)) {
        Admission::Now(permit) => permit,
        Admission::Later(waiting) => wait_for_permit(waiting, context.watch.as_deref()).await?,
    };
    let running: Running<'_> = if is_costly {
        let length = api.work_length(&request, &parts.uri);
        let (api, uri, caller) = (Arc::clone(api), parts.uri.clone(), Arc::clone(&identity));
        let work = async move { api.run(&request, &uri, Some(&caller), &content).await };
        let work = with_context(span, with_note(note, measure(permit.busy_time(), work)));
        Box::pin(gateway.run_costly(&identity, length, work))
    } else {
        let running = api.run(&request, &parts.uri, Some(&identity), &content);
        let running = match permit.busy_time() {
            None => running,
            measured => Box::pin(measure(measured, running)),
        };
        with_span_and_note(span, note, running)
    };
    permit.run(running).await
}

/// Wraps a request's work so that it finds the span and the note as the current ones. Without either, the work is
/// returned as it is, because each layer moves the work and its response once more.
fn with_span_and_note<'a>(
    span: Option<SpanContext>,
    note: Option<Arc<Note>>,
    work: Running<'a>,
) -> Running<'a> {
    if span.is_none() && note.is_none() {
        return work;
    }
    Box::pin(with_context(span, with_note(note, work)))
}

/// The kind of a request, by which admission control knows its cost.
fn kind_of<A: Api>(
    parts: &Parts,
    context: &RequestContext<A::Version>,
    is_declared_costly: bool,
) -> Kind {
    Kind {
        service: A::NAME,
        route: context.route(),
        method: method_label(&parts.method),
        is_declared_costly,
    }
}

/// Reads the body of a request, or hands it to the service's sink; then the returned body is empty.
async fn read_content<A: Api, B>(
    api: &A,
    request: &A::Request,
    body: &mut B,
    (caller, limit): (Option<&Identity>, usize),
) -> ApiResult<RequestBody>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let gateway = api.gateway();
    match caller {
        Some(caller) if api.streams_body(request) => {
            // The object to which the body belongs may have been created by another process.
            gateway.confirm_state().await?;
            let sink = api.body_sink(request, caller, body.size_hint().exact())?;
            let timeout = gateway.options().body_timeout;
            Box::pin(streamed::receive(body, sink, timeout)).await?;
            Ok(RequestBody::default())
        }
        caller => {
            let read = gateway.read_body(body, caller, limit).await;
            read.map_err(|error| match error.status() {
                413 => api.body_too_large(request, error),
                _ => error,
            })
        }
    }
}

/// Waits for a permit as long as the client keeps its connection open.
async fn wait_for_permit<'a>(
    waiting: Waiting<'a>,
    watch: Option<&PeerWatch>,
) -> ApiResult<Permit<'a>> {
    let Some(watch) = watch else {
        return waiting.await;
    };
    tokio::select! {
        biased;
        permit = waiting => permit,
        // A client that has closed only its sending direction still gets this response.
        () = watch.wait_until_closed() => Err(ApiError::new(
            429,
            "The connection was closed while the request waited: it was not carried out.",
        )
        .with_retry_after(RETRY_AFTER)),
    }
}

/// The capacity for a response's headers, including those that are added later.
const HEADERS_CAPACITY: usize = 12;

fn success_response<A: Api>(
    api: &A,
    parts: &Parts,
    reply: Reply,
    context: &RequestContext<A::Version>,
) -> Response<Body> {
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    let headers = response.headers_mut();
    headers.reserve(HEADERS_CAPACITY);
    if let Some(content_type) = reply.content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(location) = reply.location
        && let Ok(location) = HeaderValue::from_str(&absolute_url(parts, location))
    {
        headers.insert(header::LOCATION, location);
    }
    if reply.no_cache {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    if let Some(value) = reply.last_modified.and_then(date::header) {
        headers.insert(header::LAST_MODIFIED, value);
    }
    headers.extend(reply.headers);
    if !context.is_page {
        api.put_headers(headers, None, context);
    }
    response
}

fn error_response<A: Api>(
    api: &A,
    parts: &Parts,
    error: &ApiError,
    context: &RequestContext<A::Version>,
) -> Response<Body> {
    let (body, content_type) = api.error_body(parts, error, context);
    let mut response = Response::new(Body::Whole(body.into()));
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    error.put_headers(headers);
    if !context.is_page {
        api.put_headers(headers, Some(error), context);
    }
    response
}

impl<A: Api> HttpService for A {
    fn options(&self) -> &HttpOptions {
        self.gateway().options()
    }

    fn metrics(&self) -> &HttpMetrics {
        self.gateway().metrics()
    }

    fn begin_stop(&self) {
        self.gateway().stop();
    }

    fn handle(self: Arc<Self>, request: Request<Incoming>, client: Client) -> Responding {
        let (remote, watch) = (client.remote, client.watch);
        Box::pin(handle_from(self, request, Some(remote), Some(watch)))
    }
}
