//! `CPUWeigher`: free CPUs, with the allocation ratio.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "CPUWeigher",
    multiplier_key: "cpu_weight_multiplier",
    multiplier: |config| config.cpu_weight_multiplier,
    negates_multiplier: false,
    declared_low: Some(0.0),
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::CPUS_FREE)),
};
