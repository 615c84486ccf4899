//! `BuildFailureWeigher`: the number of failed builds; lower is better.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "BuildFailureWeigher",
    multiplier_key: "build_failure_weight_multiplier",
    multiplier: |config| config.build_failure_weight_multiplier,
    negates_multiplier: true,
    declared_low: None,
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::FAILED_BUILDS)),
};
