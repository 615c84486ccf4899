//! Metrics of this process as one of the replicas of control, for Prometheus.

use std::fmt;

use placewright_engine::Engine;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::machine::ControlMachine;
use crate::replica_report::{ReplicaReport, Role};

/// Registers the metrics of the process with this engine.
pub fn register_replica_metrics(registry: &mut Registry, engine: &Engine<ControlMachine>) {
    let registry = registry.sub_registry_with_prefix("placewright_replica");
    registry.register_collector(Box::new(ReplicaCollector(engine.clone())));
}

/// Reads the metrics from the engine when Prometheus asks for them.
struct ReplicaCollector(Engine<ControlMachine>);

impl fmt::Debug for ReplicaCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReplicaCollector")
            .finish_non_exhaustive()
    }
}

/// The name and the help of a metric, and its value.
type Row = (&'static str, &'static str, fn(&ReplicaReport) -> u64);

const GAUGES: [Row; 5] = [
    (
        "leading",
        "Whether this process decides commands: it leads, or it alone writes the journal",
        |report| u64::from(matches!(report.role, Role::Leads | Role::Alone)),
    ),
    (
        "epoch",
        "The entry with which the replica began to lead that this one follows, or is; 0 without replicas",
        |report| report.leader.as_ref().map_or(0, |leader| leader.epoch),
    ),
    (
        "applied_sequence",
        "The last entry of the journal that this process has applied",
        |report| report.applied,
    ),
    (
        "lag_entries",
        "Entries that this process knows of and has not applied",
        |report| report.lag,
    ),
    (
        "lost_entries",
        "Acknowledged entries that the store has lost: this process takes no requests until they are there again",
        |report| (report.lost.as_ref()).map_or(0, |lost| lost.last.saturating_sub(lost.first) + 1),
    ),
];

const COUNTERS: [Row; 2] = [
    (
        "commands_handed_over",
        "Commands that this process handed to the replica that leads",
        |report| report.commands_handed_over,
    ),
    (
        "takeovers",
        "How often a replica began to lead, as this process saw it",
        |report| report.takeovers,
    ),
];

impl Collector for ReplicaCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let report = ReplicaReport::of(&self.0);
        for (name, help, value) in GAUGES {
            let gauge = ConstGauge::new(i64::try_from(value(&report)).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in COUNTERS {
            let counter = ConstCounter::new(value(&report));
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }
}
