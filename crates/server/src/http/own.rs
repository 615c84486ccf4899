//! Placewright's own pages beside the Placement API.
//!
//! Open to all: `/metrics`, `/healthz`, `/readyz`, `/placewright/v1/openapi.json`. For those whom a
//! policy rule lets: `/placewright/v1/changes`, `/placewright/v1/explain`,
//! `/placewright/v1/audit`, `/placewright/v1/audit/repair`.

mod change_json;
pub(crate) mod changes;
pub(crate) mod explain;
mod openapi;

use std::time::Duration;

use hyper::http::request::Parts;
use placewright_auth::{Identity, Rule, Target};

use crate::http::error::{ApiError, ApiResult};
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::service::{RepairOptions, Service};

/// One of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// For Prometheus.
    Metrics,
    /// The process answers.
    Health,
    /// The process does its work, and is not about to stop.
    Ready,
    /// The API's description.
    OpenApi,
    /// Every durable change in order.
    Changes,
    /// Why a request for candidates finds what it finds.
    Explain,
    /// What does not add up.
    Audit,
    /// Mends what does not add up.
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

    /// Its path.
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

    /// Who may see it; none for everybody, without authentication.
    fn rule(self) -> Option<Rule> {
        match self {
            Page::Metrics | Page::Health | Page::Ready | Page::OpenApi => None,
            Page::Changes => Some(Rule::ChangesFollow),
            Page::Explain => Some(Rule::ExplainShow),
            Page::Audit => Some(Rule::AuditShow),
            Page::Repair => Some(Rule::AuditRepair),
        }
    }

    /// Whether callers have to say who they are.
    pub(crate) fn is_open(self) -> bool {
        self.rule().is_none()
    }
}

/// Answers a request for a page.
///
/// # Errors
/// What the client is told instead.
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
        Page::Metrics => metrics(service),
        Page::Health => Ok(plain(200, "ok\n")),
        Page::Ready if *service.stopping.borrow() => Ok(plain(503, "stopping\n")),
        Page::Ready if store_fails(service) => Ok(plain(503, "the store fails\n")),
        Page::Ready => Ok(plain(200, "ready\n")),
        Page::OpenApi => openapi::show(&query),
        Page::Changes => changes::follow(service, &query, &parts.headers),
        Page::Explain => explain::show(service, parts).await,
        Page::Audit => audit(service, None).await,
        Page::Repair => audit(service, Some(repair_options(&query)?)).await,
    }
}

/// For so long after a failed append the service says that it is not ready. Then it asks for
/// requests again: only a change can show whether the store works.
const STORE_FAILED: Duration = Duration::from_secs(15);

fn store_fails(service: &Service) -> bool {
    let ago = service.engine.store_failed_ago();
    ago.is_some_and(|ago| ago < STORE_FAILED)
}

async fn audit(service: &Service, repair: Option<RepairOptions>) -> ApiResult<Reply> {
    let audit = service.audit.get().ok_or_else(|| {
        ApiError::not_found("Here is no conductor, so there is nothing to audit.")
    })?;
    let json = audit.audit(repair).await;
    Ok(Reply::text(200, "application/json", json))
}

/// What a request for repairs allows.
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
    let mut text = String::with_capacity(16 << 10);
    prometheus_client::encoding::text::encode(&mut text, &service.registry)
        .map_err(|error| ApiError::new(500, format!("cannot write the metrics: {error}")))?;
    Ok(Reply::text(
        200,
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        text,
    ))
}

/// The only parameters that a page takes.
///
/// # Errors
/// 400 for any other.
fn check_parameters(query: &Query<'_>, known: &[&str]) -> ApiResult<()> {
    match query.iter().find(|(key, _)| !known.contains(key)) {
        None => Ok(()),
        Some((key, _)) => Err(ApiError::bad_request(format!(
            "There is no parameter '{key}' here, only: {}.",
            known.join(", ")
        ))),
    }
}
