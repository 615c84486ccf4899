//! How the Placement API handles requests of the dispatcher: it routes them, checks headers and
//! policies, calls handlers, and writes the headers and error bodies of responses.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Uri};
use placewright_auth::{Identity, Target};
use placewright_control::now;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Gateway, RequestContext, Routed, Running, WorkLength,
    content_type, latin1_path,
};

use crate::microversion::{self, Microversion};
use crate::pages::{self, Page, PageRequest};
use crate::render::{self, ErrorContext};
use crate::routed_request::RoutedRequest;
use crate::routes::{self, HeaderRequirements, Operation, Route, RouteEntry, RouteMatch};
use crate::shared::PlacementService;
use crate::{checks, query, resources};

const API_VERSION: HeaderName = HeaderName::from_static(microversion::HEADER);

/// An authorized and routed request, for an operation of the Placement API or for a page.
pub struct ServiceRequest(RequestKind);

/// The target of a request.
enum RequestKind {
    /// One of Placewright's own pages.
    Page(PageRequest),
    /// An operation of the Placement API.
    Operation {
        version: Microversion,
        operation: &'static Operation,
        route_match: RouteMatch,
        /// The decoded path, if it differs from the path in the URI.
        path: Option<Box<str>>,
    },
}

impl PlacementService {
    fn check_policy(
        &self,
        operation: &Operation,
        route_match: &RouteMatch,
        parts: &Parts,
        identity: Option<&Identity>,
    ) -> ApiResult<()> {
        let (Some(rule), Some(identity)) = (operation.rule, identity) else {
            return Ok(());
        };
        if route_match.route == Route::Usages {
            // The rule applies to the project in the query, not to the caller's project.
            let query = query::parse(parts.uri.query().unwrap_or("")).map_err(|reason| {
                ApiError::bad_request(format!("Invalid query string parameters: {reason}"))
            })?;
            return self.authorize(rule, identity, &Target::project(query.get("project_id")));
        }
        self.authorize(rule, identity, &Target::own(identity))
    }
}

impl Api for PlacementService {
    const NAME: &str = "placement";

    type Version = Microversion;
    type Request = ServiceRequest;

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    fn required_access(
        &self,
        parts: &Parts,
        context: &mut RequestContext<Microversion>,
    ) -> ApiResult<Access> {
        let path = latin1_path(parts.uri.path());
        if let Some(page) = Page::find(&path) {
            context.set_route(page.path());
            return Ok(page.access());
        }
        Ok(match &*path {
            "/" | "" => Access::Open,
            _ => Access::Identified,
        })
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        context: &mut RequestContext<Microversion>,
    ) -> ApiResult<Routed<ServiceRequest>> {
        let path = latin1_path(parts.uri.path());
        if let Some(page) = Page::find(&path) {
            return Ok(Routed {
                request: ServiceRequest(RequestKind::Page(pages::route(
                    self, page, parts, identity,
                )?)),
                body_bytes_max: None,
            });
        }
        let version = checks::negotiate_version(&parts.headers)?;
        context.set_version(version, Some(version.number()));
        checks::check_content_type_of_body(&parts.headers)?;
        let route_match =
            routes::find(&path).ok_or_else(|| ApiError::not_found("").without_vary())?;
        let entry = RouteEntry::of(route_match.route);
        context.set_route(entry.path);
        let operation = checks::choose_operation(entry, parts, version)?;
        checks::check_header_requirements(operation.header_requirements, &parts.headers)?;
        self.check_policy(operation, &route_match, parts, identity)?;
        let request = ServiceRequest(RequestKind::Operation {
            version,
            operation,
            route_match,
            path: (path != parts.uri.path()).then(|| path.into()),
        });
        Ok(Routed {
            request,
            // If the operation takes a body, only `HttpOptions::body_bytes_max` limits the body.
            body_bytes_max: (operation.header_requirements == HeaderRequirements::JsonBody)
                .then_some(usize::MAX),
        })
    }

    fn is_costly(&self, request: &ServiceRequest, body: &[u8]) -> bool {
        match &request.0 {
            RequestKind::Page(page_request) => page_request.page.is_costly(),
            RequestKind::Operation { operation, .. } => operation.cost.is_high(body.len()),
        }
    }

    fn work_length(&self, request: &ServiceRequest, uri: &Uri) -> WorkLength {
        match &request.0 {
            RequestKind::Operation { route_match, .. }
                if route_match.route == Route::Candidates =>
            {
                resources::candidates::work_length(uri.query().unwrap_or(""))
            }
            RequestKind::Operation { .. } | RequestKind::Page(_) => WorkLength::Long,
        }
    }

    fn reads_newest(&self, request: &ServiceRequest) -> bool {
        match &request.0 {
            RequestKind::Page(page_request) => page_request.page.reads_newest(),
            RequestKind::Operation {
                operation,
                route_match,
                ..
            } => !route_match.route.is_claim(operation.method),
        }
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a ServiceRequest,
        uri: &'a Uri,
        _: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let query = uri.query().unwrap_or("");
            match &request.0 {
                // In a box, because it is large and rare.
                RequestKind::Page(page_request) => {
                    Box::pin(pages::show(self, page_request, query)).await
                }
                RequestKind::Operation {
                    version,
                    operation,
                    route_match,
                    path,
                } => {
                    let path = path.as_deref().unwrap_or(uri.path());
                    let request = RoutedRequest {
                        service: self,
                        version: *version,
                        path_parameters: route_match.parameters(path),
                        query,
                        body,
                        received_at: now(),
                    };
                    resources::run(route_match.route, operation.method, &request).await
                }
            }
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext<Microversion>,
    ) -> (Vec<u8>, Option<&'static str>) {
        if parts.method == Method::HEAD {
            return (Vec::new(), Some("text/html; charset=UTF-8"));
        }
        let accept = checks::accept_text(&parts.headers);
        let content_type_sent = content_type(&parts.headers);
        let error_context = ErrorContext {
            method: parts.method.as_str(),
            accept: &accept,
            content_type: if content_type_sent.is_empty() {
                "None"
            } else {
                content_type_sent
            },
            version: context.version(),
            request_id: context.request_id(),
        };
        let (body, content_type) = render::render(error, &error_context);
        (body, Some(content_type))
    }

    fn put_headers(
        &self,
        headers: &mut HeaderMap,
        error: Option<&ApiError>,
        context: &RequestContext<Microversion>,
    ) {
        let Some(version) = context.version() else {
            return;
        };
        let value = HeaderValue::from_static(version.header_value());
        headers.insert(API_VERSION, value);
        if error.is_none_or(ApiError::has_vary) {
            headers.insert(header::VARY, HeaderValue::from_static(microversion::HEADER));
        }
    }
}
