//! `NumInstancesWeigher`: instances; off unless a multiplier says whether many or few are better.

use super::weigher::{Raw, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "NumInstancesWeigher",
    multiplier_key: "num_instances_weight_multiplier",
    multiplier: |config| config.num_instances_weight_multiplier,
    is_subtracted: false,
    low: None,
    high: None,
    compile: |_| Ok(Raw::Column(column::INSTANCES)),
};
