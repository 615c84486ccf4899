//! The page's own API: its files, who the caller is, the live view of the fleet, states of the past,
//! and the metrics.

use std::fmt;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Uri};
use placewright_auth::{Identity, Rule, Target};
use placewright_control::PastStates;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Gateway, HealthSource as _, Query, Reply, RequestContext,
    Routed, Running, Syntax, json_error_body, keystone_error, latin1_path, metrics_text,
};
use serde_json::json;

use crate::files::File;
use crate::fleet::{FleetHandle, StreamPosition};
use crate::past::PastRequest;

/// How callers prove who they are. The page has to know this before anybody has signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignIn {
    /// With a name and a password, for a token of this installation.
    Identity,
    /// With a token of a Keystone.
    Keystone,
    /// With a name and a password in each request.
    HttpBasic,
    /// Not at all: the identity that a request claims is believed.
    Noauth2,
}

impl SignIn {
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Keystone => "keystone",
            Self::HttpBasic => "http_basic",
            Self::Noauth2 => "noauth2",
        }
    }
}

/// The page without the services that it calls.
pub(crate) struct PageApi {
    gateway: Arc<Gateway>,
    fleet: FleetHandle,
    past: PastStates,
    sign_in: SignIn,
    /// The sections of the services that the page reaches.
    services: Vec<&'static str>,
}

impl fmt::Debug for PageApi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PageApi").finish_non_exhaustive()
    }
}

impl PageApi {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        fleet: FleetHandle,
        sign_in: SignIn,
        services: Vec<&'static str>,
    ) -> Self {
        Self {
            gateway,
            past: fleet.past_states(),
            fleet,
            sign_in,
            services,
        }
    }

    fn may(&self, rule: Rule, identity: &Identity) -> bool {
        let target = Target::own(identity);
        self.gateway.authorize(rule, identity, &target).is_ok()
    }

    /// The identity of the caller, and which parts of the page it may use. This only decides what the page shows; each
    /// request is authorized by its service.
    fn session(&self, identity: &Identity) -> ApiResult<Reply> {
        let may = json!({
            "fleet": self.may(Rule::ResourceProvidersList, identity),
            "capacity": self.may(Rule::AllocationCandidatesList, identity),
            "destinations": self.may(Rule::AllocationsUpdate, identity),
            "all_servers": self.may(Rule::ServersDetailAllProjects, identity),
            "status": self.may(Rule::StatusShow, identity),
            "audit": self.may(Rule::AuditShow, identity),
            "repair": self.may(Rule::AuditRepair, identity),
            "past": self.may(Rule::PastShow, identity),
        });
        let session = json!({
            "user": identity.user_id(),
            "project": identity.project_id(),
            "roles": identity.roles(),
            "may": may,
            "version": env!("CARGO_PKG_VERSION"),
        });
        Reply::value(200, &session)
    }

    fn metrics_reply(&self) -> ApiResult<Reply> {
        let text = metrics_text(self.gateway.registry());
        let text =
            text.map_err(|error| ApiError::new(500, format!("cannot write the metrics: {error}")))?;
        Ok(Reply::text(200, "text/plain; charset=utf-8", text))
    }
}

/// A parsed request to the page's own API.
pub(crate) enum PageRequest {
    /// The path `/` or `/ui`, from which the browser is redirected to the page.
    ToPage,
    /// A file, with the headers that say which version of it the browser has cached.
    File(&'static File, HeaderMap),
    /// How callers sign in, and which services there are.
    Installation,
    /// The identity and the rights of the caller.
    Session,
    /// The stream of the fleet, for a page at this position.
    Fleet(Option<StreamPosition>),
    /// A state of the past.
    Past(PastRequest),
    /// The metrics of this process.
    Metrics,
}

impl PageRequest {
    fn parse(parts: &Parts) -> ApiResult<Self> {
        let path = latin1_path(parts.uri.path());
        match &*path {
            "/" | "/ui" => return Ok(Self::ToPage),
            "/ui/api/installation" => return Ok(Self::Installation),
            "/ui/api/session" => return Ok(Self::Session),
            "/ui/api/fleet" => return Ok(Self::Fleet(position(parts)?)),
            "/ui/api/metrics" => return Ok(Self::Metrics),
            _ => {}
        }
        if let Some(parsed) = path
            .strip_prefix("/ui/api/past")
            .and_then(PastRequest::parse)
        {
            if parts.uri.query().is_some_and(|query| !query.is_empty()) {
                return Err(ApiError::field("query", "there are no parameters"));
            }
            return parsed.map(Self::Past);
        }
        let file = path.strip_prefix("/ui/").and_then(File::find);
        let mut headers = HeaderMap::new();
        for value in parts.headers.get_all(header::IF_NONE_MATCH) {
            headers.append(header::IF_NONE_MATCH, value.clone());
        }
        file.map(|file| Self::File(file, headers))
            .ok_or_else(|| ApiError::not_found("There is nothing at this path."))
    }

    fn route(&self) -> &'static str {
        match self {
            Self::ToPage => "/",
            Self::File(..) => "/ui/{file}",
            Self::Installation => "/ui/api/installation",
            Self::Session => "/ui/api/session",
            Self::Fleet(_) => "/ui/api/fleet",
            Self::Past(request) => request.route(),
            Self::Metrics => "/ui/api/metrics",
        }
    }

    /// Who may send the request: `None` for everybody, `Some(None)` for every authenticated caller, and else those whom
    /// the rule allows.
    fn rule(&self) -> Option<Option<Rule>> {
        match self {
            Self::ToPage | Self::File(..) | Self::Installation => None,
            Self::Session => Some(None),
            Self::Past(_) => Some(Some(Rule::PastShow)),
            Self::Fleet(_) | Self::Metrics => Some(Some(Rule::ResourceProvidersList)),
        }
    }
}

/// The position from which a page continues the stream: the parameter `after`, or the id of the last event that it
/// received.
fn position(parts: &Parts) -> ApiResult<Option<StreamPosition>> {
    let query = Query::parse(parts.uri.query().unwrap_or(""), Syntax::default())
        .map_err(|error| ApiError::field("query", error))?;
    if let Some((key, _)) = query.iter().find(|(key, _)| *key != "after") {
        return Err(ApiError::field(key, "there is only after"));
    }
    let last_event = parts.headers.get("last-event-id");
    let last_event = last_event.and_then(|value| value.to_str().ok());
    let Some(text) = query.get("after").or(last_event) else {
        return Ok(None);
    };
    let position = StreamPosition::parse(text);
    let invalid = || ApiError::field("after", "the id of an event of this stream");
    position.map(Some).ok_or_else(invalid)
}

impl Api for PageApi {
    const NAME: &str = "ui";

    type Version = ();
    type Request = PageRequest;

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    fn required_access(&self, parts: &Parts, context: &mut RequestContext) -> ApiResult<Access> {
        let request = PageRequest::parse(parts)?;
        context.set_route(request.route());
        Ok(match request.rule() {
            None => Access::Open,
            Some(_) => Access::Identified,
        })
    }

    fn route(
        &self,
        parts: &Parts,
        identity: Option<&Identity>,
        context: &mut RequestContext,
    ) -> ApiResult<Routed<PageRequest>> {
        let request = PageRequest::parse(parts)?;
        context.set_route(request.route());
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(ApiError::new(405, "There is only GET here.").with_allow("GET, HEAD"));
        }
        if let (Some(Some(rule)), Some(identity)) = (request.rule(), identity) {
            let target = Target::own(identity);
            self.gateway.authorize(rule, identity, &target)?;
        }
        let has_large_answer = matches!(request, PageRequest::Fleet(_) | PageRequest::Past(_));
        if parts.method == Method::HEAD && has_large_answer {
            return Err(ApiError::new(405, "There is only GET here.").with_allow("GET"));
        }
        Ok(Routed {
            request,
            body_bytes_max: None,
        })
    }

    fn is_costly(&self, request: &PageRequest, _: &[u8]) -> bool {
        matches!(request, PageRequest::Metrics)
    }

    fn reads_newest(&self, _: &PageRequest) -> bool {
        // The stream shows the fleet as this process knows it, and all other answers are about this process.
        false
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a PageRequest,
        _: &'a Uri,
        identity: Option<&'a Identity>,
        _: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            match (request, identity) {
                (PageRequest::ToPage, _) => {
                    // A path, not an address: a proxy may be between the browser and this process.
                    let page = HeaderValue::from_static("/ui/");
                    Ok(Reply::empty(302).with_header(header::LOCATION, page))
                }
                (PageRequest::File(file, headers), _) => Ok(file.reply(headers)),
                (PageRequest::Installation, _) => {
                    let installation =
                        json!({"sign_in": self.sign_in.name(), "services": self.services});
                    Reply::value(200, &installation)
                }
                (PageRequest::Session, Some(identity)) => self.session(identity),
                (PageRequest::Fleet(after), Some(_)) => {
                    let stopping = self.gateway.stopping();
                    Ok(Reply::events(self.fleet.follow(*after, stopping)?))
                }
                (PageRequest::Past(request), Some(identity)) => {
                    let mut stopping = self.gateway.stopping();
                    let work = request.run(&self.past, &self.gateway, identity);
                    tokio::select! {
                        reply = work => reply,
                        // A rebuild must not hold up the end of the process.
                        _ = stopping.wait_for(|stopping| *stopping) => {
                            Err(ApiError::unavailable("stopping"))
                        }
                    }
                }
                (PageRequest::Metrics, Some(_)) => self.metrics_reply(),
                (_, None) => Err(ApiError::new(401, "")),
            }
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext,
    ) -> (Vec<u8>, Option<&'static str>) {
        json_error_body(parts, error, context, keystone_error)
    }
}
