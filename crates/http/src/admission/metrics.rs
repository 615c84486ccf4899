//! The metrics of admission control, read when Prometheus asks for them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{AdmissionControl, LevelStatus};

/// Collects the metrics of admission control.
#[derive(Debug)]
pub(super) struct AdmissionCollector(pub(super) AdmissionControl);

/// A number that goes up and down: its name, its help, and its value for a level.
type GaugeRow = (&'static str, &'static str, fn(&LevelStatus) -> usize);

/// A number that only grows.
type CounterRow = (&'static str, &'static str, fn(&LevelStatus) -> u64);

const GAUGES: [GaugeRow; 4] = [
    ("seats", "Requests that may run at a time", |status| {
        status.seats
    }),
    ("seats_taken", "Seats taken now", |status| status.taken),
    (
        "seats_held",
        "Of the seats taken, those that are held after a costly request",
        |status| status.held,
    ),
    ("waiting", "Requests that wait for a seat", |status| {
        status.waiting
    }),
];

const COUNTERS: [CounterRow; 2] = [
    (
        "refused",
        "Requests refused because too many waited",
        |status| status.refused,
    ),
    (
        "timed_out",
        "Requests refused because they had waited for too long",
        |status| status.timed_out,
    ),
];

impl Collector for AdmissionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let levels = self.0.status();
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for status in &levels {
                let labels = [("level", status.level)];
                let gauge = ConstGauge::new(i64::try_from(value(status)).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for status in &levels {
                let labels = [("level", status.level)];
                ConstCounter::new(value(status)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
