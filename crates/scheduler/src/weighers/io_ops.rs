//! `IoOpsWeigher`: the number of busy instances; lower is better by default.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "IoOpsWeigher",
    multiplier_key: "io_ops_weight_multiplier",
    multiplier: |config| config.io_ops_weight_multiplier,
    negates_multiplier: false,
    declared_low: Some(0.0),
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::IO_OPS)),
};
