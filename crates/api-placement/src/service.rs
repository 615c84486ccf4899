//! The Placement API's service: the way of its requests from the dispatcher to a handler.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Uri};
use placewright_auth::{Identity, Target};
use placewright_control::now;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Body, Gateway, RequestContext, Routed, Running, content_type,
    latin1_path,
};

use crate::call::RoutedRequest;
use crate::microversion::{self, Microversion};
use crate::own::{self, Page, PageRequest};
use crate::render::{self, ErrorContext};
use crate::routes::{self, Entry, HeaderRequirements, Match, Operation, Route};
use crate::shared::PlacementService;
use crate::{checks, query, resources};

const API_VERSION: HeaderName = HeaderName::from_static(microversion::HEADER);

/// A request after its routing.
pub struct Asked(Kind);

/// What is asked for.
enum Kind {
    /// One of Placewright's own pages.
    Page(PageRequest),
    /// An operation of the Placement API.
    Operation {
        version: Microversion,
        operation: &'static Operation,
        found: Match,
        /// The decoded path, if it is another than that in the URI.
        path: Option<Box<str>>,
    },
}

impl PlacementService {
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

    fn check_policy(
        &self,
        operation: &Operation,
        found: &Match,
        parts: &Parts,
        identity: Option<&Identity>,
    ) -> ApiResult<()> {
        let (Some(rule), Some(identity)) = (operation.rule, identity) else {
            return Ok(());
        };
        if found.route == Route::Usages {
            // The rule applies to the project in the query, not to that of the caller.
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
    type Request = Asked;

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    fn admit(
        &self,
        parts: &Parts,
        exchange: &mut RequestContext<Microversion>,
    ) -> ApiResult<Access> {
        let path = latin1_path(parts.uri.path());
        if let Some(page) = Page::find(&path) {
            exchange.set_route(page.path());
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
        exchange: &mut RequestContext<Microversion>,
    ) -> ApiResult<Routed<Asked>> {
        let path = latin1_path(parts.uri.path());
        if let Some(page) = Page::find(&path) {
            return Ok(Routed {
                request: Asked(Kind::Page(own::route(self, page, parts, identity)?)),
                body_bytes_max: None,
            });
        }
        let version = checks::negotiate(&parts.headers)?;
        exchange.set_version(version, Some(version.number()));
        checks::check_content_length(&parts.headers)?;
        let found = routes::find(&path).ok_or_else(|| ApiError::not_found("").before_routing())?;
        let entry = Entry::of(found.route);
        exchange.set_route(entry.path);
        let operation = checks::choose(entry, parts, version)?;
        checks::check_needs(operation.needs, &parts.headers)?;
        self.check_policy(operation, &found, parts, identity)?;
        let request = Asked(Kind::Operation {
            version,
            operation,
            found,
            path: (path != parts.uri.path()).then(|| path.into()),
        });
        Ok(Routed {
            request,
            body_bytes_max: (operation.needs == HeaderRequirements::JsonBody).then_some(usize::MAX),
        })
    }

    fn is_costly(&self, request: &Asked, body: &[u8]) -> bool {
        match &request.0 {
            Kind::Page(asked) => asked.page.is_costly(),
            Kind::Operation { operation, .. } => operation.cost.is_high(body.len()),
        }
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a Asked,
        uri: &'a Uri,
        _: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let query = uri.query().unwrap_or("");
            match &request.0 {
                Kind::Page(asked) => own::show(self, asked, query).await,
                Kind::Operation {
                    version,
                    operation,
                    found,
                    path,
                } => {
                    let path = path.as_deref().unwrap_or(uri.path());
                    let call = RoutedRequest {
                        service: self,
                        version: *version,
                        parameters: found.parameters(path),
                        query,
                        body,
                        at: now(),
                    };
                    resources::run(found.route, operation.method, &call).await
                }
            }
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        exchange: &RequestContext<Microversion>,
    ) -> (Vec<u8>, Option<&'static str>) {
        if parts.method == Method::HEAD {
            return (Vec::new(), Some("text/html; charset=UTF-8"));
        }
        let accept = checks::accept_text(&parts.headers);
        let sent = content_type(&parts.headers);
        let context = ErrorContext {
            method: parts.method.as_str(),
            accept: &accept,
            content_type: if sent.is_empty() { "None" } else { sent },
            version: exchange.version(),
            request_id: exchange.request_id(),
        };
        let (body, content_type) = render::render(error, &context);
        (body, Some(content_type))
    }

    fn put_headers(
        &self,
        headers: &mut HeaderMap,
        error: Option<&ApiError>,
        exchange: &RequestContext<Microversion>,
    ) {
        let Some(version) = exchange.version() else {
            return;
        };
        let value = HeaderValue::from_static(version.header_value());
        headers.insert(API_VERSION, value);
        if error.is_none_or(ApiError::varies) {
            headers.insert(header::VARY, HeaderValue::from_static(microversion::HEADER));
        }
    }
}
