//! Placewright's own pages beside the Placement API.
//!
//! Without authentication: `/healthz`, `/readyz`, `/placewright/v1/openapi.json`, and `/metrics` if
//! the options allow it. Under a policy rule: `/placewright/v1/changes`, `/placewright/v1/explain`,
//! `/placewright/v1/audit`, `/placewright/v1/audit/repair`.

mod change_json;
pub(crate) mod changes;
pub(crate) mod explain;
mod openapi;

use std::time::Duration;

use hyper::http::request::Parts;
use placewright_auth::{Identity, Rule, Target};
use prometheus_client::registry::Registry;

use crate::health::{self, Vital};
use crate::http::error::{ApiError, ApiResult};
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::service::{RepairOptions, Service};

/// One of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// The metrics, for Prometheus.
    Metrics,
    /// The liveness check: the process answers.
    Health,
    /// The readiness check: the service works, and is not about to stop.
    Ready,
    /// The OpenAPI document of the Placement API.
    OpenApi,
    /// The stream of all durable changes in order.
    Changes,
    /// An explanation of why a query for candidates finds what it finds.
    Explain,
    /// The inconsistencies that an audit finds.
    Audit,
    /// An audit that repairs inconsistencies.
    Repair,
}

impl Page {
    const ALL: [Page; 8] = [
        Page::Metrics,
        Page::Health,
        Page::Ready,
        Page::OpenApi,
        Page::Changes,
        Page::Explain,
        Page::Audit,
        Page::Repair,
    ];

    /// The page at a path.
    pub(crate) fn find(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.path() == path)
    }

    /// The path of the page.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Page::Metrics => "/metrics",
            Page::Health => "/healthz",
            Page::Ready => "/readyz",
            Page::OpenApi => "/placewright/v1/openapi.json",
            Page::Changes => "/placewright/v1/changes",
            Page::Explain => "/placewright/v1/explain",
            Page::Audit => "/placewright/v1/audit",
            Page::Repair => "/placewright/v1/audit/repair",
        }
    }

    /// The policy rule that protects it; none for a page without authentication.
    fn rule(self) -> Option<Rule> {
        match self {
            Page::Metrics | Page::Health | Page::Ready | Page::OpenApi => None,
            Page::Changes => Some(Rule::ChangesFollow),
            Page::Explain => Some(Rule::ExplainShow),
            Page::Audit => Some(Rule::AuditShow),
            Page::Repair => Some(Rule::AuditRepair),
        }
    }

    /// Whether its cost grows with the fleet.
    pub(crate) fn is_costly(self) -> bool {
        matches!(self, Page::Explain | Page::Audit | Page::Repair)
    }

    /// Whether the page is served without authentication.
    pub(crate) fn is_open(self) -> bool {
        self.rule().is_none()
    }
}

/// Answers a request for a page.
///
/// # Errors
///
/// The error response.
pub(crate) async fn show(
    service: &Service,
    page: Page,
    parts: &Parts,
    identity: Option<&Identity>,
) -> ApiResult<Reply> {
    let method = if page == Page::Repair { "POST" } else { "GET" };
    if parts.method.as_str() != method {
        let detail = "The method specified is not allowed for this resource.";
        return Err(ApiError::new(405, detail).with_allow(method).at_door());
    }
    if let (Some(rule), Some(identity)) = (page.rule(), identity) {
        service.authorize(rule, identity, &Target::own(identity))?;
    }
    let query = Query::parse(parts.uri.query().unwrap_or("")).map_err(ApiError::bad_request)?;
    match page {
        Page::Metrics if service.options.metrics_on_apis => metrics(service),
        Page::Metrics => Err(ApiError::not_found(
            "Metrics are shown at health.listen; health.metrics_on_apis = true shows them here too.",
        )
        .at_door()),
        Page::Health => Ok(plain(200, "ok\n")),
        Page::Ready => Ok(match service.why_not_ready() {
            Some(reason) => plain(503, reason),
            None => plain(200, "ready\n"),
        }),
        Page::OpenApi => openapi::show(&query),
        Page::Changes => changes::follow(service, &query, &parts.headers),
        Page::Explain => explain::show(service, parts).await,
        Page::Audit => audit(service, None).await,
        Page::Repair => audit(service, Some(repair_options(&query)?)).await,
    }
}

/// How long the service reports that it is not ready after a failed append. Afterwards it accepts
/// requests again, because only a change can show whether the store works.
const STORE_FAILED: Duration = Duration::from_secs(15);

impl Vital for Service {
    fn why_not_ready(&self) -> Option<&'static str> {
        if *self.stopping.borrow() {
            return Some("stopping\n");
        }
        let ago = self.engine.store_failed_ago();
        let fails = ago.is_some_and(|ago| ago < STORE_FAILED);
        fails.then_some("the store fails\n")
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}

async fn audit(service: &Service, repair: Option<RepairOptions>) -> ApiResult<Reply> {
    let audit = service.audit.get().ok_or_else(|| {
        ApiError::not_found("Here is no conductor, so there is nothing to audit.")
    })?;
    let json = audit.audit(repair).await;
    Ok(Reply::text(200, "application/json", json))
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

fn plain(status: u16, text: &'static str) -> Reply {
    Reply::text(status, "text/plain; charset=utf-8", text)
}

fn metrics(service: &Service) -> ApiResult<Reply> {
    let text = health::metrics_text(&service.registry)
        .map_err(|error| ApiError::new(500, format!("cannot write the metrics: {error}")))?;
    Ok(Reply::text(200, health::METRICS_TYPE, text))
}

/// Rejects parameters that a page does not have.
///
/// # Errors
///
/// 400 for any other parameter.
fn check_parameters(query: &Query<'_>, known: &[&str]) -> ApiResult<()> {
    match query.iter().find(|(key, _)| !known.contains(key)) {
        None => Ok(()),
        Some((key, _)) => Err(ApiError::bad_request(format!(
            "There is no parameter '{key}' here, only: {}.",
            known.join(", ")
        ))),
    }
}
