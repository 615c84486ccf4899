//! Counters of the hosts that builds and moves get, for Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The counters. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct PlacementMetrics {
    placements: Family<ResultLabel, Counter>,
    conflicts: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl PlacementMetrics {
    /// Registers the metrics with Prometheus's registry.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("placewright");
        registry.register(
            "placements",
            "Builds and moves that got a host (claimed), or for which there was none (no_host)",
            metrics.placements.clone(),
        );
        registry.register(
            "placement_conflicts",
            "Hosts that builds and moves did not get because other claims were faster",
            metrics.conflicts.clone(),
        );
        // So that both are shown from the start, as 0.
        for result in ["claimed", "no_host"] {
            drop(metrics.placements.get_or_create(&ResultLabel { result }));
        }
        metrics
    }

    /// Counts the result of a claim: how many instances got a host (`claimed_count`), how many hosts the claim tried
    /// before and found full (`fallen_count`), and for how many instances all named hosts were full (`lost_count`).
    pub(crate) fn count_claim(&self, claimed_count: usize, fallen_count: usize, lost_count: usize) {
        self.add("claimed", claimed_count);
        self.conflicts.inc_by((fallen_count + lost_count) as u64);
    }

    /// Counts builds or moves that fail because there is no host for them.
    pub(crate) fn count_without_host(&self, count: usize) {
        self.add("no_host", count);
    }

    fn add(&self, result: &'static str, count: usize) {
        if count > 0 {
            let label = ResultLabel { result };
            self.placements.get_or_create(&label).inc_by(count as u64);
        }
    }
}
