//! The metrics of a cell for Prometheus.

use std::fmt;
use std::sync::{Arc, Weak};

use placewright_cell::Cell;
use placewright_http::HealthSource;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::control::panics;
use crate::control::signals::Stops;

/// Registers a cell's metrics.
pub(super) fn register(registry: &mut Registry, cell: &Arc<Cell>) {
    panics::register(registry);
    let registry = registry.sub_registry_with_prefix("placewright_cell");
    registry.register_collector(Box::new(CellMetrics(Arc::downgrade(cell))));
}

/// Collects a cell's metrics when Prometheus requests them.
#[derive(Debug)]
struct CellMetrics(Weak<Cell>);

impl Collector for CellMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(cell) = self.0.upgrade() else {
            return Ok(());
        };
        let metrics = cell.metrics();
        for (name, help, value) in gauges(&metrics) {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, value) in counters(&metrics) {
            let counter = ConstCounter::new(value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

/// The name, the help text and the value of each gauge.
fn gauges(metrics: &placewright_cell::CellMetrics) -> [(&'static str, &'static str, u64); 6] {
    [
        (
            "instances",
            "Instances that the cell has",
            metrics.instances,
        ),
        (
            "hosts",
            "Hosts that have reported to the cell and were not removed",
            metrics.hosts,
        ),
        (
            "hosts_up",
            "Hosts whose agents are not silent",
            metrics.hosts_up,
        ),
        ("followers", "Followers", metrics.followers),
        (
            "leading",
            "1 if this process works as the cell; 0 if it stands by",
            metrics.leading,
        ),
        (
            "queued_events",
            "Events that wait to be decided",
            metrics.queued,
        ),
    ]
}

/// The name, the help text and the value of each counter.
fn counters(metrics: &placewright_cell::CellMetrics) -> [(&'static str, &'static str, u64); 7] {
    [
        ("connections", "Connections of agents", metrics.connections),
        ("orders", "Orders sent to agents", metrics.orders),
        (
            "orders_dropped",
            "Orders that found no connection or a full one, and are repeated",
            metrics.orders_dropped,
        ),
        (
            "asks",
            "Claim requests that placement answered",
            metrics.claim_requests,
        ),
        (
            "asks_failed",
            "Claim requests that placement did not answer, and that are repeated",
            metrics.claim_requests_failed,
        ),
        (
            "repeated",
            "Orders and claim requests that were repeated because no answer came",
            metrics.effects_repeated,
        ),
        (
            "followers_cut_off",
            "Followers that were disconnected because they read nothing for too long",
            metrics.followers_cut_off,
        ),
    ]
}

/// The state of a cell for its health checks.
pub(super) struct CellHealth {
    registry: Registry,
    stops: Stops,
    cell: Weak<Cell>,
}

impl CellHealth {
    pub(super) fn new(registry: Registry, stops: Stops, cell: &Arc<Cell>) -> Arc<Self> {
        let cell = Arc::downgrade(cell);
        Arc::new(Self {
            registry,
            stops,
            cell,
        })
    }
}

impl HealthSource for CellHealth {
    fn why_not_ready(&self) -> Option<&'static str> {
        self.stops.is_stopping().then_some("stopping\n")
    }

    /// A standby counts as ready, too, because it can take over at any time. Callers need no health check to tell it
    /// from the leader: control and agents find the replica that leads by themselves.
    fn ready_text(&self) -> &'static str {
        match self.cell.upgrade() {
            Some(cell) if !cell.is_leading() => "standing by: another replica leads\n",
            _ => "ready\n",
        }
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}
