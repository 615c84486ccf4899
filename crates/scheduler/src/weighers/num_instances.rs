//! `NumInstancesWeigher`: the number of instances. By default the multiplier is 0, which disables
//! the weigher.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "NumInstancesWeigher",
    multiplier_key: "num_instances_weight_multiplier",
    multiplier: |config| config.num_instances_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::INSTANCES)),
};
