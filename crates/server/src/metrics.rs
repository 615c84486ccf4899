//! What Prometheus can ask about requests, claims and refusals.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Counters of the HTTP service.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    refusals: Family<RefusalLabels, Counter>,
    claims: Family<ClaimLabels, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) followers: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClaimLabels {
    result: &'static str,
}

/// 50 µs to 13 s, doubling: from an answer out of memory to one that waited for a full disk.
fn durations() -> Histogram {
    Histogram::new((0..19).map(|step| 50e-6 * f64::from(1_u32 << step)))
}

impl HttpMetrics {
    /// Registers the metrics of the HTTP service.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            refusals: Family::default(),
            claims: Family::default(),
            connections: Gauge::default(),
            followers: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("placewright");
        registry.register(
            "http_requests",
            "Requests answered, by route and status",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "Time from a request's head to its answer",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register(
            "refusals",
            "Commands that the state did not admit, by reason",
            metrics.refusals.clone(),
        );
        registry.register(
            "claims",
            "Claims of consumers: done, in conflict with a newer generation, or refused",
            metrics.claims.clone(),
        );
        registry.register(
            "http_connections",
            "Connections open now",
            metrics.connections.clone(),
        );
        registry.register(
            "change_followers",
            "Clients that follow the change stream now",
            metrics.followers.clone(),
        );
        metrics
    }

    pub(crate) fn request(
        &self,
        method: &'static str,
        route: &'static str,
        status: u16,
        duration: Duration,
    ) {
        self.requests
            .get_or_create(&RequestLabels {
                method,
                route,
                status,
            })
            .inc();
        self.durations
            .get_or_create(&RouteLabels { method, route })
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn refusal(&self, reason: &'static str) {
        self.refusals.get_or_create(&RefusalLabels { reason }).inc();
    }

    pub(crate) fn claim(&self, result: &'static str) {
        self.claims.get_or_create(&ClaimLabels { result }).inc();
    }
}
