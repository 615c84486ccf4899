//! `HypervisorVersionWeigher`: the hypervisor's version; newer is better by default.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "HypervisorVersionWeigher",
    multiplier_key: "hypervisor_version_weight_multiplier",
    multiplier: |config| config.hypervisor_version_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::HYPERVISOR_VERSION)),
};
