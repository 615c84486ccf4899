//! The HTTP service: one request from its head to its response.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use matchit::Router;
use placewright_auth::Identity;
use placewright_control::{Conductor, Runtime};
use placewright_scheduler::translate::TranslateOptions;
use placewright_server::{
    Body, Content, Exchange, HttpMetrics, HttpService, Ranker, ServerOptions, Service,
};

use crate::call::{Call, Reply};
use crate::error::{ApiError, ApiResult};
use crate::images::Images;
use crate::options::{ComputeOptions, Limits};
use crate::query::{Query, decode_path};
use crate::routes::{self, Entry, Operation, TABLE};
use crate::version::{self, NoVersion, Version};
use crate::{cost, time, versions};

const COMPUTE_REQUEST_ID: HeaderName = HeaderName::from_static("x-compute-request-id");

/// The compute API without sockets: it takes requests and returns responses.
pub struct ComputeService {
    core: Arc<Core>,
}

/// The data that all requests share.
pub(crate) struct Core {
    pub(crate) placement: Arc<Service>,
    pub(crate) conductor: Conductor,
    pub(crate) ranker: Ranker,
    options: ComputeOptions,
    router: Router<usize>,
}

impl Core {
    pub(crate) fn translate(&self) -> &TranslateOptions {
        &self.options.translate
    }

    pub(crate) fn images(&self) -> &Images {
        &self.options.images
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }
}

impl fmt::Debug for ComputeService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ComputeService")
            .field("options", &self.core.options)
            .finish_non_exhaustive()
    }
}

impl ComputeService {
    /// The compute API of a running control, with the authentication, policies and limits of the
    /// placement service.
    pub fn new(placement: Arc<Service>, runtime: &Runtime, options: ComputeOptions) -> Self {
        Self {
            core: Arc::new(Core {
                placement,
                conductor: runtime.conductor().clone(),
                ranker: runtime.ranker().clone(),
                options,
                router: routes::router(),
            }),
        }
    }

    /// Answers a request. Errors are responses too.
    pub async fn handle<B>(&self, request: Request<B>, remote: Option<SocketAddr>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Unpin + Send,
        B::Error: fmt::Display,
    {
        let (parts, mut body) = request.into_parts();
        let mut exchange = Exchange::new(remote);
        let placement = &self.core.placement;
        let response = if placement.is_preflight(&parts) {
            None
        } else if let Some(page) = placement.common_page(&parts, &mut exchange).await {
            Some(page)
        } else {
            let mut version = None;
            let answer = self
                .answer(&parts, &mut body, &mut exchange, &mut version)
                .await;
            Some(self.respond(answer, version, &exchange))
        };
        placement
            .finish(&parts, body, response, &exchange, remote)
            .await
    }

    async fn answer<B>(
        &self,
        parts: &Parts,
        body: &mut B,
        exchange: &mut Exchange,
        version: &mut Option<Version>,
    ) -> ApiResult<Reply>
    where
        B: HttpBody<Data = Bytes> + Unpin + Send,
        B::Error: fmt::Display,
    {
        let core = &*self.core;
        core.placement.check_head(parts)?;
        let origin = self.origin(parts);
        let path = parts.uri.path();
        if matches!(path, "" | "/") {
            exchange.set_route("/");
            return Reply::json(300, &versions::list(&origin));
        }
        let rest = match path.strip_prefix("/v2.1") {
            Some("" | "/") => {
                exchange.set_route("/v2.1");
                return Reply::json(200, &versions::one(&origin));
            }
            Some(rest) if rest.starts_with('/') => rest,
            _ => return Err(ApiError::nothing_here()),
        };
        let negotiated = version::negotiate(&parts.headers).map_err(|error| no_version(&error))?;
        *version = Some(negotiated);
        let identity = core.placement.identify(parts, exchange).await?;
        exchange.set_identity(&identity);
        let (prefix, resource) = project_prefix(rest, identity.project_id())?;
        let found = core.router.at(resource);
        let found = found.map_err(|_| ApiError::nothing_here())?;
        let entry: &'static Entry = TABLE.get(*found.value).ok_or_else(ApiError::nothing_here)?;
        exchange.set_route(entry.path);
        let operation = operation_of(entry, &parts.method, negotiated)?;
        let mut parameters = Vec::with_capacity(2);
        for (name, value) in found.params.iter() {
            parameters.push((name, decode_path(value)?));
        }
        let content = if matches!(parts.method, Method::POST | Method::PUT) {
            check_content_type(parts)?;
            read_body(core, entry, &identity, body).await?
        } else {
            Content::default()
        };
        let query = Query::parse(parts.uri.query().unwrap_or(""), core.limits())?;
        if cost::is_high(entry.path, operation.method, &content) {
            let work = Work {
                core: Arc::clone(&self.core),
                operation,
                version: negotiated,
                parameters: own(parameters),
                query,
                content,
                origin,
                prefix: prefix.to_owned(),
                identity: Arc::clone(&identity),
            };
            let mut reply = core.placement.run_costly(&identity, work.run()).await??;
            let bytes = reply.pieces.iter().map(Bytes::len).sum();
            reply.held = core.placement.hold_answer(&identity, bytes)?;
            return Ok(reply);
        }
        let mut call = Call {
            core,
            version: negotiated,
            identity: &identity,
            parameters,
            query,
            body: &content,
            origin,
            prefix,
            at: time::now(),
            reading: None,
        };
        call.answer(operation).await
    }

    /// Scheme and host of the API as the client addresses it.
    fn origin(&self, parts: &Parts) -> String {
        if let Some(url) = &self.core.options.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let text = |name: HeaderName| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let host = text(header::HOST)
            .or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
        format!("http://{}", host.unwrap_or("localhost"))
    }

    fn respond(
        &self,
        answer: ApiResult<Reply>,
        version: Option<Version>,
        exchange: &Exchange,
    ) -> Response<Body> {
        let (reply, error) = match answer {
            Ok(reply) => (reply, None),
            Err(error) => {
                let body = error.body().to_string().into_bytes();
                let reply = Reply {
                    body: Some(body),
                    ..Reply::empty(error.status)
                };
                (reply, Some(error))
            }
        };
        let has_body = reply.body.is_some() || !reply.pieces.is_empty();
        let body = match reply.body {
            Some(body) => Body::Whole(body.into()),
            None => Body::of_pieces(reply.pieces, reply.held),
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if has_body {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        let mut put = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        if let Some(location) = &reply.location {
            put(header::LOCATION, location);
        }
        if let Some(version) = version {
            put(version::HEADER, &format!("compute {version}"));
            put(version::OLD_HEADER, &version.to_string());
            put(
                header::VARY,
                "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
            );
        }
        if let Some(error) = error {
            if let Some(challenge) = &error.challenge {
                put(header::WWW_AUTHENTICATE, challenge);
            }
            if let Some(seconds) = error.retry_after_s {
                put(header::RETRY_AFTER, &seconds.to_string());
            }
        }
        put(COMPUTE_REQUEST_ID, exchange.request_id());
        response
    }
}

fn operation_of(
    entry: &'static Entry,
    method: &Method,
    version: Version,
) -> ApiResult<&'static Operation> {
    let (operation, is_known) = entry.operation(method.as_str(), version);
    operation.ok_or_else(|| match is_known {
        true => ApiError::nothing_here(),
        false => ApiError::new(405, "The method is not allowed here."),
    })
}

/// An authenticated and parsed request with its handler, owned so that it can run on another
/// thread.
struct Work {
    core: Arc<Core>,
    operation: &'static Operation,
    version: Version,
    parameters: Vec<(String, String)>,
    query: Query,
    content: Content,
    origin: String,
    prefix: String,
    identity: Arc<Identity>,
}

impl Work {
    async fn run(self) -> ApiResult<Reply> {
        let parameters = self.parameters.iter();
        let mut call = Call {
            core: &self.core,
            version: self.version,
            identity: &self.identity,
            parameters: parameters
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect(),
            query: self.query,
            body: &self.content,
            origin: self.origin,
            prefix: &self.prefix,
            at: time::now(),
            reading: None,
        };
        call.answer(self.operation).await
    }
}

fn own(parameters: Vec<(&str, String)>) -> Vec<(String, String)> {
    let owned = parameters.into_iter();
    owned
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn no_version(error: &NoVersion) -> ApiError {
    match error {
        NoVersion::Malformed(text) => ApiError::bad_request(format!(
            "{text:?} is no version: it must be two numbers with a dot between them, or latest."
        )),
        NoVersion::NotOffered(text) => ApiError::new(
            406,
            format!(
                "Version {text} is not offered: the oldest is {}, the newest {}.",
                Version(version::OLDEST),
                Version(version::NEWEST)
            ),
        ),
    }
}

/// Splits a path into the project, with a slash before it, and the resource. Old clients put their
/// project into every path.
fn project_prefix<'p>(path: &'p str, own: Option<&str>) -> ApiResult<(&'p str, &'p str)> {
    let first = path.get(1..).unwrap_or("").split('/').next().unwrap_or("");
    if routes::is_resource(first) {
        return Ok(("", path));
    }
    let (prefix, rest) = path.split_at(1 + first.len());
    if rest.is_empty() {
        return Err(ApiError::nothing_here());
    }
    if own != Some(first) {
        return Err(ApiError::bad_request(format!(
            "The path names project {first}, but the request is one of another project."
        )));
    }
    Ok((prefix, rest))
}

/// The body of a request, which must not be longer than its route needs.
async fn read_body<B>(
    core: &Core,
    entry: &Entry,
    identity: &Identity,
    body: &mut B,
) -> ApiResult<Content>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    let limits = core.limits();
    let (option, most) = if entry.is_about_servers() {
        ("server_body_bytes_max", limits.server_body_bytes_max)
    } else {
        ("body_bytes_max", limits.body_bytes_max)
    };
    let read = core.placement.read_body_up_to(body, identity, most).await;
    read.map_err(|denied| {
        let mut error = ApiError::from(denied);
        if error.status == 413 {
            error.message =
                format!("The body is too long; compute.{option} allows {most} bytes.").into();
        }
        error
    })
}

fn check_content_type(parts: &Parts) -> ApiResult<()> {
    let sent = parts.headers.get(header::CONTENT_TYPE);
    let sent = sent.and_then(|value| value.to_str().ok()).unwrap_or("");
    match sent.split(';').next().unwrap_or("").trim() {
        "" | "application/json" => Ok(()),
        other => Err(ApiError::new(
            415,
            format!("The content type is {other}; it must be application/json."),
        )),
    }
}

impl HttpService for ComputeService {
    fn options(&self) -> &ServerOptions {
        HttpService::options(&*self.core.placement)
    }

    fn metrics(&self) -> &HttpMetrics {
        HttpService::metrics(&*self.core.placement)
    }

    fn stopping(&self) {
        HttpService::stopping(&*self.core.placement);
    }

    fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        remote: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send {
        ComputeService::handle(self, request, Some(remote))
    }
}
