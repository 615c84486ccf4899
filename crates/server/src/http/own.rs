//! Placewright's own pages beside the Placement API.
//!
//! Open to all: `/metrics`, `/healthz`, `/readyz`, `/placewright/v1/openapi.json`. For who may see
//! everything: `/placewright/v1/changes` and `/placewright/v1/explain`.

use hyper::http::request::Parts;
use placewright_auth::Identity;

use crate::http::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::http::service::Service;

/// A page that needs no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenPage {
    /// For Prometheus.
    Metrics,
    /// The process answers.
    Health,
    /// The process can do its work.
    Ready,
}

impl OpenPage {
    pub(crate) fn path(self) -> &'static str {
        match self {
            OpenPage::Metrics => "/metrics",
            OpenPage::Health => "/healthz",
            OpenPage::Ready => "/readyz",
        }
    }
}

/// A page for those who may see everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClosedPage {
    /// Every durable change in order.
    Changes,
}

impl ClosedPage {
    pub(crate) fn path(self) -> &'static str {
        match self {
            ClosedPage::Changes => "/placewright/v1/changes",
        }
    }
}

/// The open page at a path.
pub(crate) fn open_page(path: &str) -> Option<OpenPage> {
    [OpenPage::Metrics, OpenPage::Health, OpenPage::Ready]
        .into_iter()
        .find(|page| page.path() == path)
}

/// The closed page at a path.
pub(crate) fn closed_page(path: &str) -> Option<ClosedPage> {
    [ClosedPage::Changes]
        .into_iter()
        .find(|page| page.path() == path)
}

pub(crate) async fn show(_service: &Service, _page: OpenPage, _parts: &Parts) -> ApiResult<Reply> {
    Ok(Reply::text(200, "text/plain; charset=utf-8", "ok\n"))
}

pub(crate) async fn serve(
    _service: &Service,
    _page: ClosedPage,
    _parts: &Parts,
    _identity: &Identity,
) -> ApiResult<Reply> {
    Err(ApiError::not_found(""))
}
