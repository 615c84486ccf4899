//! The compute API's service: it finds the handler of a request, and runs it for the dispatcher.

use std::fmt;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Uri};
use matchit::Router;
use parking_lot::Mutex;
use placewright_auth::Identity;
use placewright_control::Runtime;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Gateway, LaterWork, Reply, RequestContext, Routed, Running,
    json_error_body, static_document,
};
use uuid::Uuid;

use crate::api_state::ApiState;
use crate::options::ComputeOptions;
use crate::query::{Query, decode_path};
use crate::routed_request::RoutedRequest;
use crate::routes::{self, Operation, Route, TABLE};
use crate::version::{self, Version, VersionError};
use crate::{cost, discovery, error, time};

const COMPUTE_REQUEST_ID: HeaderName = HeaderName::from_static("x-compute-request-id");

/// The maximum number of times that the handler of a GET request runs. It runs again if the store fails, and entries
/// whose effects the handler has read are undone.
const GET_TRIES_MAX: usize = 3;

/// The compute API without sockets: it takes requests and returns responses.
pub struct ComputeService {
    api_state: ApiState,
    router: Router<usize>,
}

/// A request whose target was found from its path, method and version.
pub struct MatchedRequest {
    target: RequestTarget,
}

/// The target of a [`MatchedRequest`].
enum RequestTarget {
    /// The list of versions.
    Versions { origin: String, headers: HeaderMap },
    /// The document of the only version, `v2.1`.
    Version { origin: String, headers: HeaderMap },
    /// An operation of a resource.
    Operation(Box<MatchedOperation>),
}

/// An operation with the parameters of its path.
struct MatchedOperation {
    route: &'static Route,
    operation: &'static Operation,
    version: Version,
    request_uuid: Uuid,
    parameters: Vec<(&'static str, String)>,
    /// Scheme and host of the API as the client addresses it, for links.
    origin: String,
    /// The project in the path, with a slash before it; empty if the path has none.
    project_prefix: String,
}

impl fmt::Debug for ComputeService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ComputeService")
            .field("options", &self.api_state.options)
            .finish_non_exhaustive()
    }
}

impl ComputeService {
    /// Creates the compute API of a running control.
    pub fn new(gateway: Arc<Gateway>, runtime: &Runtime, options: ComputeOptions) -> Self {
        Self {
            api_state: ApiState {
                gateway,
                control: runtime.control().clone(),
                scheduler: runtime.scheduler().clone(),
                options,
            },
            router: routes::router(),
        }
    }

    /// Scheme and host of the API as the client addresses it.
    fn origin(&self, parts: &Parts) -> String {
        placewright_http::origin(parts, self.api_state.options.public_url.as_deref())
    }

    /// Finds the operation of a request from its path, method and version, and decodes the parameters of the path.
    fn match_route(
        &self,
        parts: &Parts,
        identity: &Identity,
        version: Version,
        context: &mut RequestContext<Version>,
    ) -> ApiResult<MatchedOperation> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or("");
        let (project_prefix, resource) = split_project(path, identity.project_id())?;
        let router_match = self.router.at(resource);
        let router_match = router_match.map_err(|_| error::path_not_found())?;
        let route: &'static Route = TABLE
            .get(*router_match.value)
            .ok_or_else(error::path_not_found)?;
        context.set_route(route.path);
        let operation = find_operation(route, &parts.method, version)?;
        let mut parameters = Vec::with_capacity(2);
        for (name, (_, value)) in route.parameters().zip(router_match.params.iter()) {
            parameters.push((name, decode_path(value)?));
        }
        if operation.takes_body() {
            check_content_type(parts)?;
        }
        Ok(MatchedOperation {
            route,
            operation,
            version,
            request_uuid: context.request_uuid(),
            parameters,
            origin: self.origin(parts),
            project_prefix: project_prefix.to_owned(),
        })
    }

    /// The option that limits the length of a body, and the limit in bytes.
    fn body_limit(&self, route: &Route) -> (&'static str, usize) {
        let limits = self.api_state.limits();
        if route.may_have_user_data() {
            ("server_body_bytes_max", limits.server_body_bytes_max)
        } else {
            ("body_bytes_max", limits.body_bytes_max)
        }
    }
}

/// The prefix of all paths of the API, except that of the list of versions.
const PREFIX: &str = "/v2.1";

impl Api for ComputeService {
    const NAME: &str = "compute";

    type Version = Version;
    type Request = MatchedRequest;

    fn gateway(&self) -> &Gateway {
        &self.api_state.gateway
    }

    fn required_access(
        &self,
        parts: &Parts,
        context: &mut RequestContext<Version>,
    ) -> ApiResult<Access> {
        let path = parts.uri.path();
        if matches!(path, "" | "/") {
            context.set_route("/");
            return Ok(Access::Open);
        }
        match path.strip_prefix(PREFIX) {
            Some("" | "/") => {
                context.set_route(PREFIX);
                return Ok(Access::Open);
            }
            Some(resource_path) if resource_path.starts_with('/') => {}
            _ => return Err(error::path_not_found()),
        }
        let version = version::negotiate(&parts.headers).map_err(|error| version_error(&error))?;
        context.set_version(version, None);
        Ok(Access::Identified)
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        context: &mut RequestContext<Version>,
    ) -> ApiResult<Routed<MatchedRequest>> {
        let (Some(identity), Some(version)) = (identity, context.version()) else {
            let (origin, headers) = (self.origin(parts), parts.headers.clone());
            return Ok(Routed {
                request: MatchedRequest {
                    target: match parts.uri.path() {
                        "" | "/" => RequestTarget::Versions { origin, headers },
                        _ => RequestTarget::Version { origin, headers },
                    },
                },
                body_bytes_max: None,
            });
        };
        let matched = self.match_route(parts, identity, version, context)?;
        let (_, bytes_max) = self.body_limit(matched.route);
        Ok(Routed {
            body_bytes_max: matched.operation.takes_body().then_some(bytes_max),
            request: MatchedRequest {
                target: RequestTarget::Operation(Box::new(matched)),
            },
        })
    }

    fn body_too_large(&self, request: &MatchedRequest, error: ApiError) -> ApiError {
        let RequestTarget::Operation(matched) = &request.target else {
            return error;
        };
        let (option, bytes_max) = self.body_limit(matched.route);
        error.with_detail(format!(
            "The body is too long; compute.{option} allows {bytes_max} bytes."
        ))
    }

    fn is_costly(&self, request: &MatchedRequest, body: &[u8]) -> bool {
        match &request.target {
            RequestTarget::Operation(matched) => {
                cost::is_costly(matched.route.path, matched.operation.method, body)
            }
            RequestTarget::Versions { .. } | RequestTarget::Version { .. } => false,
        }
    }

    fn later_work(&self, request: &MatchedRequest, body: &[u8]) -> LaterWork {
        match &request.target {
            RequestTarget::Operation(matched) => LaterWork {
                instances: cost::instance_count(matched.route.path, matched.operation.method, body),
                stored_bytes: body.len(),
            },
            RequestTarget::Versions { .. } | RequestTarget::Version { .. } => LaterWork::default(),
        }
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a MatchedRequest,
        uri: &'a Uri,
        identity: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let (matched, identity) = match (&request.target, identity) {
                (RequestTarget::Versions { origin, headers }, _) => {
                    let document = discovery::version_list(origin, &self.api_state.options);
                    return static_document(300, &document, headers);
                }
                (RequestTarget::Version { origin, headers }, _) => {
                    return static_document(200, &discovery::version_details(origin), headers);
                }
                (RequestTarget::Operation(matched), Some(identity)) => (matched, identity),
                // `required_access` lets no request for an operation pass without an identity.
                (RequestTarget::Operation(_), None) => return Err(error::path_not_found()),
            };
            let mut request = RoutedRequest {
                api_state: &self.api_state,
                version: matched.version,
                request_uuid: matched.request_uuid,
                identity,
                parameters: &matched.parameters,
                query: Query::parse(uri.query().unwrap_or(""), self.api_state.limits())?,
                body,
                origin: &matched.origin,
                project_prefix: &matched.project_prefix,
                now: time::now(),
                reading: None,
            };
            run_handler(&mut request, matched.operation).await
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext<Version>,
    ) -> (Vec<u8>, Option<&'static str>) {
        json_error_body(parts, error, context, error::body)
    }

    fn put_headers(
        &self,
        headers: &mut HeaderMap,
        _: Option<&ApiError>,
        context: &RequestContext<Version>,
    ) {
        let mut put = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        if let Some(version) = context.version() {
            put(version::HEADER, &format!("compute {version}"));
            put(version::OLD_HEADER, &version.to_string());
            put(
                header::VARY,
                "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
            );
        }
        put(COMPUTE_REQUEST_ID, context.request_id());
    }
}

/// Runs the handler of an operation. The state that its response shows is durable when this returns.
async fn run_handler(request: &mut RoutedRequest<'_>, operation: &Operation) -> ApiResult<Reply> {
    if operation.method != "GET" {
        request.api_state.refresh_files().await;
        return (operation.handler)(request).await;
    }
    for _ in 0..GET_TRIES_MAX {
        request.reading = Some(Mutex::default());
        let response = (operation.handler)(request).await;
        let reading = request.reading.take().map(Mutex::into_inner);
        let control = &request.api_state.control;
        let is_durable = control.wait_durable(reading.unwrap_or_default()).await;
        if is_durable {
            return response;
        }
    }
    Err(error::unavailable(
        "The store fails to keep changes: try again later.",
    ))
}

/// The operation of a route for a method and version; the error is 404 or 405.
fn find_operation(
    route: &'static Route,
    method: &Method,
    version: Version,
) -> ApiResult<&'static Operation> {
    let (operation, has_method) = route.operation(method.as_str(), version);
    // As in Nova, a method that only other versions have is answered as if the path did not exist.
    operation.ok_or_else(|| match has_method {
        true => error::path_not_found(),
        false => ApiError::new(405, "The method is not allowed here."),
    })
}

/// The response to a request whose version header is malformed or names a version that is not offered.
fn version_error(error: &VersionError) -> ApiError {
    match error {
        VersionError::Malformed(text) => ApiError::bad_request(format!(
            "{text:?} is no version: it must be two numbers with a dot between them, or latest."
        )),
        VersionError::NotOffered(text) => ApiError::new(
            406,
            format!(
                "Version {text} is not offered: the oldest is {}, the newest {}.",
                Version(version::OLDEST),
                Version(version::NEWEST)
            ),
        ),
    }
}

/// Splits a path into the project, with a slash before it, and the path of the resource. Old clients put
/// their project into every path.
fn split_project<'p>(path: &'p str, own_project: Option<&str>) -> ApiResult<(&'p str, &'p str)> {
    let first_segment = path.get(1..).unwrap_or("").split('/').next().unwrap_or("");
    if routes::is_resource(first_segment) {
        return Ok(("", path));
    }
    let (prefix, resource) = path.split_at(1 + first_segment.len());
    if resource.is_empty() {
        return Err(error::path_not_found());
    }
    if own_project != Some(first_segment) {
        return Err(ApiError::bad_request(format!(
            "The path names project {first_segment}, but the request is one of another project."
        )));
    }
    Ok((prefix, resource))
}

fn check_content_type(parts: &Parts) -> ApiResult<()> {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    match content_type.split(';').next().unwrap_or("").trim() {
        "" | "application/json" => Ok(()),
        other => Err(ApiError::new(
            415,
            format!("The content type is {other}; it must be application/json."),
        )),
    }
}
