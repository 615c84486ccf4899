//! The compute API's service: the way of its requests from the dispatcher to a handler.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Uri};
use matchit::Router;
use parking_lot::Mutex;
use placewright_auth::Identity;
use placewright_control::Runtime;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Body, Gateway, Reply, RequestContext, Routed, Running,
};

use crate::api_state::ApiState;
use crate::options::ComputeOptions;
use crate::query::{Query, decode_path};
use crate::routed_request::RoutedRequest;
use crate::routes::{self, Entry, Operation, TABLE};
use crate::version::{self, NoVersion, Version};
use crate::{cost, error, time, versions};

const COMPUTE_REQUEST_ID: HeaderName = HeaderName::from_static("x-compute-request-id");

/// How often an answer is made anew because the store failed to keep what it was made of.
const READINGS_MAX: usize = 3;

/// The compute API without sockets: it takes requests and returns responses.
pub struct ComputeService {
    core: ApiState,
    router: Router<usize>,
}

/// A request after its routing.
pub struct Asked(Kind);

/// What is asked for.
enum Kind {
    /// The list of versions.
    Versions { origin: String },
    /// The only version.
    Version { origin: String },
    /// An operation of that version.
    Operation(Box<Found>),
}

/// A request for an operation.
struct Found {
    entry: &'static Entry,
    operation: &'static Operation,
    version: Version,
    parameters: Vec<(&'static str, String)>,
    /// Scheme and host of the API as the client addresses it, for links.
    origin: String,
    /// The project in the path, with a slash before it; empty if the path has none.
    prefix: String,
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
    /// The compute API of a running control.
    pub fn new(gateway: Arc<Gateway>, runtime: &Runtime, options: ComputeOptions) -> Self {
        Self {
            core: ApiState {
                gateway,
                conductor: runtime.conductor().clone(),
                ranker: runtime.ranker().clone(),
                options,
            },
            router: routes::router(),
        }
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
        let scheme = placewright_http::scheme(&parts.extensions);
        format!("{scheme}://{}", host.unwrap_or("localhost"))
    }

    fn find(
        &self,
        parts: &Parts,
        identity: &Identity,
        version: Version,
        exchange: &mut RequestContext<Version>,
    ) -> ApiResult<Found> {
        let rest = parts.uri.path().strip_prefix(PREFIX).unwrap_or("");
        let (prefix, resource) = project_prefix(rest, identity.project_id())?;
        let found = self.router.at(resource);
        let found = found.map_err(|_| error::nothing_here())?;
        let entry: &'static Entry = TABLE.get(*found.value).ok_or_else(error::nothing_here)?;
        exchange.set_route(entry.path);
        let operation = operation_of(entry, &parts.method, version)?;
        let mut parameters = Vec::with_capacity(2);
        for (name, (_, value)) in entry.parameters().zip(found.params.iter()) {
            parameters.push((name, decode_path(value)?));
        }
        if operation.takes_body() {
            check_content_type(parts)?;
        }
        Ok(Found {
            entry,
            operation,
            version,
            parameters,
            origin: self.origin(parts),
            prefix: prefix.to_owned(),
        })
    }

    /// The most bytes of a body, and the option that says so.
    fn body_limit(&self, entry: &Entry) -> (&'static str, usize) {
        let limits = self.core.limits();
        if entry.is_about_servers() {
            ("server_body_bytes_max", limits.server_body_bytes_max)
        } else {
            ("body_bytes_max", limits.body_bytes_max)
        }
    }
}

/// What all paths of the API but that of the list of versions begin with.
const PREFIX: &str = "/v2.1";

impl Api for ComputeService {
    const NAME: &str = "compute";

    type Version = Version;
    type Request = Asked;

    fn gateway(&self) -> &Gateway {
        &self.core.gateway
    }

    fn admit(&self, parts: &Parts, exchange: &mut RequestContext<Version>) -> ApiResult<Access> {
        let path = parts.uri.path();
        if matches!(path, "" | "/") {
            exchange.set_route("/");
            return Ok(Access::Open);
        }
        match path.strip_prefix(PREFIX) {
            Some("" | "/") => {
                exchange.set_route(PREFIX);
                return Ok(Access::Open);
            }
            Some(rest) if rest.starts_with('/') => {}
            _ => return Err(error::nothing_here()),
        }
        let version = version::negotiate(&parts.headers).map_err(|error| no_version(&error))?;
        exchange.set_version(version, None);
        Ok(Access::Identified)
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        exchange: &mut RequestContext<Version>,
    ) -> ApiResult<Routed<Asked>> {
        let (Some(identity), Some(version)) = (identity, exchange.version()) else {
            let origin = self.origin(parts);
            return Ok(Routed {
                request: Asked(match parts.uri.path() {
                    "" | "/" => Kind::Versions { origin },
                    _ => Kind::Version { origin },
                }),
                body_bytes_max: None,
            });
        };
        let found = self.find(parts, identity, version, exchange)?;
        let (_, most) = self.body_limit(found.entry);
        Ok(Routed {
            body_bytes_max: found.operation.takes_body().then_some(most),
            request: Asked(Kind::Operation(Box::new(found))),
        })
    }

    fn body_too_large(&self, request: &Asked, error: ApiError) -> ApiError {
        let Kind::Operation(found) = &request.0 else {
            return error;
        };
        let (option, most) = self.body_limit(found.entry);
        error.with_detail(format!(
            "The body is too long; compute.{option} allows {most} bytes."
        ))
    }

    fn is_costly(&self, request: &Asked, body: &[u8]) -> bool {
        match &request.0 {
            Kind::Operation(found) => cost::is_high(found.entry.path, found.operation.method, body),
            Kind::Versions { .. } | Kind::Version { .. } => false,
        }
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a Asked,
        uri: &'a Uri,
        identity: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let (found, identity) = match (&request.0, identity) {
                (Kind::Versions { origin }, _) => {
                    return Reply::value(300, &discovery::list(origin));
                }
                (Kind::Version { origin }, _) => return Reply::value(200, &discovery::one(origin)),
                (Kind::Operation(found), Some(identity)) => (found, identity),
                // A request for an operation is never admitted as open.
                (Kind::Operation(_), None) => return Err(error::nothing_here()),
            };
            let mut call = RoutedRequest {
                core: &self.core,
                version: found.version,
                identity,
                parameters: &found.parameters,
                query: Query::parse(uri.query().unwrap_or(""), self.core.limits())?,
                body,
                origin: &found.origin,
                prefix: &found.prefix,
                at: time::now(),
                reading: None,
            };
            carry_out(&mut call, found.operation).await
        })
    }

    fn error_body(
        &self,
        _: &Parts,
        error: &ApiError,
        exchange: &RequestContext<Version>,
    ) -> (Vec<u8>, Option<&'static str>) {
        if exchange.is_page() {
            return (error.detail().as_bytes().to_vec(), None);
        }
        let body = error::body(error).to_string().into_bytes();
        (body, Some("application/json"))
    }

    fn put_headers(
        &self,
        headers: &mut HeaderMap,
        _: Option<&ApiError>,
        exchange: &RequestContext<Version>,
    ) {
        let mut put = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        if let Some(version) = exchange.version() {
            put(version::HEADER, &format!("compute {version}"));
            put(version::OLD_HEADER, &version.to_string());
            put(
                header::VARY,
                "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
            );
        }
        put(COMPUTE_REQUEST_ID, exchange.request_id());
    }
}

/// Calls a handler. What it shows is durable when this returns.
async fn carry_out(call: &mut RoutedRequest<'_>, operation: &Operation) -> ApiResult<Reply> {
    if operation.method != "GET" {
        return (operation.answer)(call).await;
    }
    for _ in 0..READINGS_MAX {
        call.reading = Some(Mutex::default());
        let answer = (operation.answer)(call).await;
        let reading = call.reading.take().map(Mutex::into_inner);
        if call.core.conductor.end(reading.unwrap_or_default()).await {
            return answer;
        }
    }
    Err(error::unavailable(
        "The store fails to keep changes: try again later.",
    ))
}

fn operation_of(
    entry: &'static Entry,
    method: &Method,
    version: Version,
) -> ApiResult<&'static Operation> {
    let (operation, is_known) = entry.operation(method.as_str(), version);
    operation.ok_or_else(|| match is_known {
        true => error::nothing_here(),
        false => ApiError::new(405, "The method is not allowed here."),
    })
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
        return Err(error::nothing_here());
    }
    if own != Some(first) {
        return Err(ApiError::bad_request(format!(
            "The path names project {first}, but the request is one of another project."
        )));
    }
    Ok((prefix, rest))
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
