//! Placewright's own pages on the port of the Placement API.
//!
//! Without authentication: `/placewright/v1/openapi.json`, `/placewright/v1/capabilities`. Under a policy rule:
//! `/placewright/v1/changes`, `/placewright/v1/explain`, `/placewright/v1/audit`,
//! `/placewright/v1/audit/repair`, `/placewright/v1/status`, `/placewright/v1/hand-over`,
//! `/placewright/v1/lost-entries/append`.

mod capabilities;
mod change_json;
pub(crate) mod changes;
pub(crate) mod explain;
mod openapi;
mod replicas;

use hyper::HeaderMap;
use hyper::http::request::Parts;
use placewright_auth::{Identity, Rule, Target};
use placewright_control::RepairOptions;
use placewright_http::{Access, ApiError, ApiResult, Query, Reply};

use crate::microversion::Microversion;
use crate::query;
use crate::shared::PlacementService;

/// One of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// The OpenAPI document of the Placement API.
    OpenApi,
    /// The capabilities of the service.
    Capabilities,
    /// The stream of all durable changes in order.
    Changes,
    /// An explanation of a query for candidates: which hosts each of its constraints excludes.
    Explain,
    /// The inconsistencies that an audit finds.
    Audit,
    /// An audit that repairs inconsistencies.
    Repair,
    /// The status of this process as one of the replicas of control.
    Status,
    /// A request to let another replica lead.
    HandOver,
    /// A request to append again the entries that the store has lost.
    AppendLost,
}

/// An authorized request for a page.
#[derive(Debug)]
pub(crate) struct PageRequest {
    /// Which page is requested, as found from its path.
    pub(crate) page: Page,
    /// The microversion of an explained query.
    version: Microversion,
    /// The `Last-Event-ID` header: the id of the last event that a client of the change stream received.
    last_event_id: Option<String>,
    /// The headers of a request for the capabilities, which say which version of them the client has cached; empty for
    /// any other page.
    headers: HeaderMap,
}

impl Page {
    const ALL: [Page; 9] = [
        Page::OpenApi,
        Page::Capabilities,
        Page::Changes,
        Page::Explain,
        Page::Audit,
        Page::Repair,
        Page::Status,
        Page::HandOver,
        Page::AppendLost,
    ];

    /// The page at a path, if there is one.
    pub(crate) fn find(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.path() == path)
    }

    /// The path of the page.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Page::OpenApi => "/placewright/v1/openapi.json",
            Page::Capabilities => "/placewright/v1/capabilities",
            Page::Changes => "/placewright/v1/changes",
            Page::Explain => "/placewright/v1/explain",
            Page::Audit => "/placewright/v1/audit",
            Page::Repair => "/placewright/v1/audit/repair",
            Page::Status => "/placewright/v1/status",
            Page::HandOver => "/placewright/v1/hand-over",
            Page::AppendLost => "/placewright/v1/lost-entries/append",
        }
    }

    /// The policy rule that protects the page; none for a page without authentication.
    fn rule(self) -> Option<Rule> {
        match self {
            Page::OpenApi | Page::Capabilities => None,
            Page::Changes => Some(Rule::ChangesFollow),
            Page::Explain => Some(Rule::ExplainShow),
            Page::Audit => Some(Rule::AuditShow),
            Page::Repair => Some(Rule::AuditRepair),
            Page::Status => Some(Rule::StatusShow),
            Page::HandOver | Page::AppendLost => Some(Rule::ReplicasManage),
        }
    }

    /// Whether the cost of the page grows with the fleet.
    pub(crate) fn is_costly(self) -> bool {
        matches!(self, Page::Explain | Page::Audit | Page::Repair)
    }

    /// Whether a request for the page waits until the store has confirmed that this process has the newest state.
    pub(crate) fn reads_newest(self) -> bool {
        // The capabilities do not depend on the state. The pages for operators of replicas are needed most when the
        // store does not answer.
        !matches!(
            self,
            Page::Capabilities | Page::Status | Page::HandOver | Page::AppendLost
        )
    }

    /// The method of the page.
    fn method(self) -> &'static str {
        match self {
            Page::Repair | Page::HandOver | Page::AppendLost => "POST",
            Page::OpenApi
            | Page::Capabilities
            | Page::Changes
            | Page::Explain
            | Page::Audit
            | Page::Status => "GET",
        }
    }

    /// The callers who may request the page.
    pub(crate) fn access(self) -> Access {
        match self.rule() {
            None => Access::Open,
            Some(_) => Access::Identified,
        }
    }
}

/// Checks the method, headers and query of a request for a page, and its caller's rights.
///
/// # Errors
///
/// 405 for another method than the page's, 403 if the caller may not request the page, 400 for a
/// malformed query or version, 406 for a version that is not supported.
pub(crate) fn route(
    service: &PlacementService,
    page: Page,
    parts: &Parts,
    identity: Option<&Identity>,
) -> ApiResult<PageRequest> {
    let method = page.method();
    if parts.method.as_str() != method {
        let detail = "The method specified is not allowed for this resource.";
        return Err(ApiError::new(405, detail).with_allow(method).without_vary());
    }
    if let (Some(rule), Some(identity)) = (page.rule(), identity) {
        service.authorize(rule, identity, &Target::own(identity))?;
    }
    query::parse(parts.uri.query().unwrap_or("")).map_err(ApiError::bad_request)?;
    let version = match page {
        Page::Explain => explain::version(&parts.headers)?,
        // Other pages do not depend on the version.
        _ => Microversion::MAX,
    };
    let last_event_id = parts
        .headers
        .get("last-event-id")
        .map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    Ok(PageRequest {
        page,
        version,
        last_event_id,
        headers: match page {
            Page::Capabilities => parts.headers.clone(),
            _ => HeaderMap::new(),
        },
    })
}

/// Answers a request for a page.
///
/// # Errors
///
/// The error response.
pub(crate) async fn show(
    service: &PlacementService,
    page_request: &PageRequest,
    query_string: &str,
) -> ApiResult<Reply> {
    let query = query::parse(query_string).map_err(ApiError::bad_request)?;
    match page_request.page {
        Page::OpenApi => openapi::show(&query),
        Page::Capabilities => {
            let pages = Page::ALL.map(Page::path);
            capabilities::show(&query, &page_request.headers, (&service.options, &pages))
        }
        Page::Changes => changes::follow(service, &query, page_request.last_event_id.as_deref()),
        Page::Explain => explain::show(service, page_request.version, query_string).await,
        Page::Audit => audit(service, None).await,
        Page::Repair => audit(service, Some(repair_options(&query)?)).await,
        Page::Status => replicas::status(service),
        Page::HandOver => replicas::hand_over(service).await,
        Page::AppendLost => replicas::append_lost(service).await,
    }
}

/// Answers with the findings of an audit. If `repair` is given, the audit also repairs them.
async fn audit(service: &PlacementService, repair: Option<RepairOptions>) -> ApiResult<Reply> {
    let auditor = service.auditor.get().ok_or_else(|| {
        ApiError::not_found("Here is no conductor, so there is nothing to audit.")
    })?;
    Reply::value(200, &auditor.audit(repair).await)
}

/// Parses the options of a request for repairs.
fn repair_options(query: &Query<'_>) -> ApiResult<RepairOptions> {
    let key = "destroy_unknown_guests";
    let destroy_unknown_guests = match query.get(key) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            let message = format!("{key}: it must be true or false");
            return Err(ApiError::bad_request(message));
        }
    };
    Ok(RepairOptions {
        destroy_unknown_guests,
    })
}

/// Rejects query parameters that a page does not have.
///
/// # Errors
///
/// 400 for any other parameter.
fn check_parameters(query: &Query<'_>, allowed_keys: &[&str]) -> ApiResult<()> {
    match query.iter().find(|(key, _)| !allowed_keys.contains(key)) {
        None => Ok(()),
        Some((key, _)) => Err(ApiError::bad_request(format!(
            "There is no parameter '{key}' here, only: {}.",
            allowed_keys.join(", ")
        ))),
    }
}
