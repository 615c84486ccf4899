//! Prometheus metrics of requests and connections.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use placewright_net::ConnectionMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::polls::PollTimes;

/// The id of the next [`HttpMetrics`].
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The most kinds of requests whose counters a thread caches.
const CACHED_MAX: usize = 64;

thread_local! {
    /// A cache of the counters that this thread has used. To look them up in a family takes locks that all
    /// threads share, which costs more than counting.
    static CACHED: RefCell<Vec<CachedCounters>> = const { RefCell::new(Vec::new()) };
}

/// The cached counters of one kind of requests.
struct CachedCounters {
    metrics_id: u64,
    labels: RequestLabels,
    count: Counter,
    durations: Histogram,
}

impl CachedCounters {
    fn matches(&self, metrics_id: u64, labels: &RequestLabels) -> bool {
        // Labels are constants, so equal addresses mean equal texts. A text with two addresses is
        // cached twice.
        self.metrics_id == metrics_id
            && self.labels.status == labels.status
            && std::ptr::eq(self.labels.route, labels.route)
            && std::ptr::eq(self.labels.method, labels.method)
    }

    fn count(&self, duration: Duration) {
        self.count.inc();
        self.durations.observe(duration.as_secs_f64());
    }
}

/// Counters of the REST services.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    /// Distinguishes the metrics of several services in one process.
    id: u64,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge,
    pub(crate) limiter: ConnectionMetrics,
    /// How many clients follow the change stream.
    pub followers: Gauge,
    pub(crate) polls: PollTimes,
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

/// Buckets from 50 µs to 13 s, each twice the one before. A response that is made from the state in memory is in one of
/// the first, a response that waited for an overloaded disk in one of the last.
fn durations() -> Histogram {
    Histogram::new((0..19).map(|step| 50e-6 * f64::from(1_u32 << step)))
}

impl HttpMetrics {
    /// Creates the metrics at zero and registers them, most of them as `placewright_http_*`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            connections: Gauge::default(),
            limiter: ConnectionMetrics::default(),
            followers: Gauge::default(),
            polls: PollTimes::default(),
        };
        let registry = registry.sub_registry_with_prefix("placewright");
        metrics.polls.register(registry);
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
            "http_connections",
            "Connections open now",
            metrics.connections.clone(),
        );
        registry.register(
            "http_connections_evicted",
            "Idle connections that were closed because others needed the room",
            metrics.limiter.evicted.clone(),
        );
        registry.register(
            "http_connections_refused",
            "Connections that were refused because their peer had as many as it may",
            metrics.limiter.refused.clone(),
        );
        registry.register(
            "http_accept_failures",
            "Failures to accept a connection",
            metrics.limiter.failed.clone(),
        );
        registry.register(
            "change_followers",
            "Clients that follow the change stream now",
            metrics.followers.clone(),
        );
        metrics
    }

    /// Counts a request that was answered.
    pub(crate) fn count_request(
        &self,
        method: &'static str,
        route: &'static str,
        status: u16,
        duration: Duration,
    ) {
        let labels = RequestLabels {
            method,
            route,
            status,
        };
        CACHED.with_borrow_mut(|all| {
            if let Some(cached) = all.iter().find(|cached| cached.matches(self.id, &labels)) {
                return cached.count(duration);
            }
            let cached = CachedCounters {
                metrics_id: self.id,
                count: self.requests.get_or_create(&labels).clone(),
                durations: self
                    .durations
                    .get_or_create(&RouteLabels { method, route })
                    .clone(),
                labels,
            };
            cached.count(duration);
            if all.len() < CACHED_MAX {
                all.push(cached);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_counts_its_own_requests_however_many_kinds_there_are() {
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        let mut registries = [Registry::default(), Registry::default()];
        let [first, second] = registries.each_mut().map(HttpMetrics::new);
        for _ in 0..2 {
            for status in 200..300 {
                first.count_request("GET", "/a", status, Duration::from_millis(1));
            }
        }
        second.count_request("GET", "/a", 200, Duration::from_millis(1));
        let [first, second] = registries.each_ref().map(text);
        for status in 200..300 {
            let line = format!("route=\"/a\",status=\"{status}\"}} 2");
            assert!(first.contains(&line), "{line} is not in {first}");
        }
        assert!(
            first.contains("_seconds_count{method=\"GET\",route=\"/a\"} 200"),
            "{first}"
        );
        assert!(second.contains("status=\"200\"} 1"), "{second}");
        assert!(!second.contains("status=\"201\""), "{second}");
    }
}
