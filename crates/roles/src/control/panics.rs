//! A counter of panics for Prometheus.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

/// Registers the counter of panics in the process.
pub(crate) fn register(registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("placewright");
    registry.register_collector(Box::new(Panics));
}

/// Collects the number of panics when Prometheus requests it.
#[derive(Debug)]
struct Panics;

impl Collector for Panics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counter = ConstCounter::new(placewright_tasks::panics());
        let kind = counter.metric_type();
        let help = "Panics since the start: bugs, each with a line in the log";
        counter.encode(encoder.encode_descriptor("panics", help, None, kind)?)
    }
}
