//! `MetricsWeigher`: the weighted sum of the host's metrics.
//!
//! A host that lacks a metric has the raw value `weight_of_unavailable`. If `[metrics] required` is
//! set, the host is excluded instead, and explanations name the weigher as the filter.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The name in the configuration and in explanations.
pub(crate) const NAME: &str = "MetricsWeigher";

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: NAME,
    multiplier_key: "metrics_weight_multiplier",
    multiplier: |config| config.metrics.weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| {
        let hosts = context.hosts;
        let configured = context.config.metrics.weight_multiplier;
        let overrides = hosts.aggregates().overrides("metrics_weight_multiplier");
        if context.config.metrics.required || (overrides.is_none() && configured != 0.0) {
            return Ok(RawValues::Column(column::METRICS));
        }
        // For a host whose multiplier is 0, missing metrics are ignored.
        Ok(RawValues::Each(Box::new(move |slot| {
            let override_value = overrides.and_then(|overrides| overrides.get(slot));
            if override_value.unwrap_or(configured) == 0.0 {
                hosts.sum_of_metrics(slot)
            } else {
                hosts.columns()[column::METRICS].get(slot)
            }
        })))
    },
};
