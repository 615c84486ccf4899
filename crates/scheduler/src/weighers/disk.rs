//! `DiskWeigher`: free disk, without the allocation ratio.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "DiskWeigher",
    multiplier_key: "disk_weight_multiplier",
    multiplier: |config| config.disk_weight_multiplier,
    negates_multiplier: false,
    declared_low: Some(0.0),
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::DISK_FREE_MB)),
};
