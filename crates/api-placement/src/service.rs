//! The Placement API's service: what its requests share, and their way from the dispatcher to a
//! handler.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Uri};
use placewright_auth::{Identity, Rule, Target};
use placewright_control::{Auditor, NotMade, Placement, now};
use placewright_http::{
    Access, Api, ApiError, ApiResult, Body, Exchange, Gateway, Reply, Routed, content_type,
    latin1_path,
};
use placewright_placement::{Command, Outcome, Refusal, SearchOptions, Strategy};

use crate::call::Call;
use crate::checks;
use crate::microversion::{self, Microversion};
use crate::own::{self, Page, PageRequest, changes};
use crate::render::{self, ErrorContext};
use crate::routes::{self, Entry, Match, Needs, Operation, Route};
use crate::{query, resources};
use crate::options::PlacementOptions;

const API_VERSION: HeaderName = HeaderName::from_static(microversion::HEADER);

/// The Placement API without sockets: it takes requests and returns responses.
pub struct PlacementService {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) options: PlacementOptions,
    pub(crate) placement: Placement,
    /// The limits for readers of the change stream.
    pub(crate) followers: changes::Room,
    /// The audit, in a process that has something to audit.
    pub(crate) audit: OnceLock<Arc<Auditor>>,
    /// A cache of recent responses with candidates.
    pub(crate) candidates: resources::candidates::Kept,
}

impl fmt::Debug for PlacementService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PlacementService")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A request after its routing.
pub(crate) enum Asked {
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
    /// Creates a service of this placement.
    pub fn new(gateway: Arc<Gateway>, placement: Placement, options: PlacementOptions) -> Self {
        Self {
            followers: changes::Room::new(options.followers_max),
            gateway,
            options,
            placement,
            audit: OnceLock::new(),
            candidates: resources::candidates::Kept::default(),
        }
    }

    /// Sets the audit behind `/placewright/v1/audit`. Only the first call has an effect.
    pub fn set_audit(&self, audit: Arc<Auditor>) {
        // If there is one already, it stays.
        let _ = self.audit.set(audit);
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
        self.gateway.authorize(rule, identity, target)
    }

    /// Submits a command, and counts its outcome in the metrics.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let answer = self.placement.submit(command).await;
        answer.map_err(not_made)
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

impl Api for PlacementService {
    type Version = Microversion;
    type Request = Asked;

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    fn admit(&self, parts: &Parts, exchange: &mut Exchange<Microversion>) -> ApiResult<Access> {
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
        exchange: &mut Exchange<Microversion>,
    ) -> ApiResult<Routed<Asked>> {
        let path = latin1_path(parts.uri.path());
        if let Some(page) = Page::find(&path) {
            return Ok(Routed {
                request: Asked::Page(own::route(self, page, parts, identity)?),
                body_bytes_max: None,
            });
        }
        let version = checks::negotiate(&parts.headers)?;
        exchange.set_version(version, Some(version.number()));
        checks::check_content_length(&parts.headers)?;
        let found = routes::find(&path).ok_or_else(|| ApiError::not_found("").at_door())?;
        let entry = Entry::of(found.route);
        exchange.set_route(entry.path);
        let operation = checks::choose(entry, parts, version)?;
        checks::check_needs(operation.needs, &parts.headers)?;
        self.check_policy(operation, &found, parts, identity)?;
        let request = Asked::Operation {
            version,
            operation,
            found,
            path: (path != parts.uri.path()).then(|| path.into()),
        };
        Ok(Routed {
            request,
            body_bytes_max: (operation.needs == Needs::JsonBody).then_some(usize::MAX),
        })
    }

    fn is_costly(&self, request: &Asked, body: &[u8]) -> bool {
        match request {
            Asked::Page(asked) => asked.page.is_costly(),
            Asked::Operation { operation, .. } => operation.cost.is_high(body.len()),
        }
    }

    async fn run(
        self: &Arc<Self>,
        request: &Asked,
        uri: &Uri,
        _: Option<&Identity>,
        body: &[u8],
    ) -> ApiResult<Reply> {
        let query = uri.query().unwrap_or("");
        match request {
            Asked::Page(asked) => own::show(self, asked, query).await,
            Asked::Operation {
                version,
                operation,
                found,
                path,
            } => {
                let path = path.as_deref().unwrap_or(uri.path());
                let call = Call {
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
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        exchange: &Exchange<Microversion>,
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
        exchange: &Exchange<Microversion>,
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

/// The error response when a change was not made.
fn not_made(why: NotMade) -> ApiError {
    match why {
        NotMade::TooLarge(text) => ApiError::too_large(text),
        NotMade::Bug(text) => ApiError::new(500, text),
        NotMade::Unavailable(text) => ApiError::unavailable(text),
    }
}
