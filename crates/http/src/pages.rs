//! The pages that every REST service has, without authentication: `/healthz`, `/readyz`, and
//! `/metrics` if the options allow it.

use hyper::http::request::Parts;

use crate::error::{ApiError, ApiResult};
use crate::gateway::Gateway;
use crate::health_source::{HealthSource as _, METRICS_TYPE, metrics_text};
use crate::query::{Query, Syntax};
use crate::reply::Reply;

/// A page that every service serves without authentication: `/healthz`, `/readyz` or `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// The metrics, for Prometheus.
    Metrics,
    /// The liveness check: the process answers.
    Health,
    /// The readiness check: the service works, and is not about to stop.
    Ready,
}

impl Page {
    const ALL: [Page; 3] = [Page::Metrics, Page::Health, Page::Ready];

    /// The page at a path, if there is one.
    pub(crate) fn find(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.path() == path)
    }

    /// The path of the page.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Page::Metrics => "/metrics",
            Page::Health => "/healthz",
            Page::Ready => "/readyz",
        }
    }

    /// Answers a request for the page.
    ///
    /// # Errors
    ///
    /// 405 for another method than GET, 400 for a malformed query, 404 for metrics that the options hide.
    pub(crate) fn show(self, gateway: &Gateway, parts: &Parts) -> ApiResult<Reply> {
        if parts.method.as_str() != "GET" {
            let detail = "The method specified is not allowed for this resource.";
            return Err(ApiError::new(405, detail).with_allow("GET").without_vary());
        }
        let query = parts.uri.query().unwrap_or("");
        Query::parse(query, Syntax::default())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        match self {
            Page::Metrics if gateway.options().metrics_on_apis => metrics(gateway),
            Page::Metrics => Err(ApiError::not_found(
                "Metrics are shown at health.listen; health.metrics_on_apis = true shows them here \
                 too.",
            )
            .without_vary()),
            Page::Health => Ok(plain(200, "ok\n")),
            Page::Ready => Ok(match gateway.why_not_ready() {
                Some(reason) => plain(503, reason),
                None => plain(200, "ready\n"),
            }),
        }
    }
}

fn plain(status: u16, text: &'static str) -> Reply {
    Reply::text(status, "text/plain; charset=utf-8", text)
}

fn metrics(gateway: &Gateway) -> ApiResult<Reply> {
    let text = metrics_text(gateway.registry())
        .map_err(|error| ApiError::new(500, format!("cannot write the metrics: {error}")))?;
    Ok(Reply::text(200, METRICS_TYPE, text))
}
