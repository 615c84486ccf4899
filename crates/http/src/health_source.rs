//! The facts that a running service reports without authentication: whether it is ready, and its metrics.

use std::fmt;

use prometheus_client::registry::Registry;

/// The content type of the metrics page.
pub(crate) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A service whose health can be checked.
pub trait HealthSource: Send + Sync {
    /// Why the service should get no requests at present, as a line with its line end; none if it is ready.
    fn why_not_ready(&self) -> Option<&'static str>;

    /// The line, with its line end, with which the check of readiness answers for a service that is ready.
    fn ready_text(&self) -> &'static str {
        "ready\n"
    }

    /// The registry of the service's metrics.
    fn registry(&self) -> &Registry;
}

/// All metrics in Prometheus's text format.
pub fn metrics_text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(16 << 10);
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}
