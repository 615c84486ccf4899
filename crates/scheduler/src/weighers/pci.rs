//! `PCIWeigher`: prefers hosts with few free PCI devices, so that hosts with many are kept for
//! requests that need many.

use super::weigher::{RawValues, Weigher};
use crate::hosts::column;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "PCIWeigher",
    multiplier_key: "pci_weight_multiplier",
    multiplier: |config| config.pci_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |_| Ok(RawValues::Column(column::FEW_DEVICES)),
};
