//! Filters of Nova whose work placement does, so they let every host pass. Placement counts CPUs, memory and disk, and
//! the query requests pinned CPUs, NUMA nodes and PCI devices as suffixed groups over nested providers. The filters'
//! names are accepted with a warning.

use super::filter::Filter;
use crate::hosts::verdict::Verdict;

/// `NUMATopologyFilter`: accepted for compatibility, lets every host pass.
pub(super) const NUMA_TOPOLOGY: Filter = Filter {
    name: "NUMATopologyFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |_| Ok(Verdict::All),
};

/// `PciPassthroughFilter`: accepted for compatibility, lets every host pass.
pub(super) const PCI_PASSTHROUGH: Filter = Filter {
    name: "PciPassthroughFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |_| Ok(Verdict::All),
};

/// `CoreFilter`: placement counts processors. Configurations of older clouds still name it.
pub(super) const CORE: Filter = amounts("CoreFilter");
/// `RamFilter`: placement counts memory.
pub(super) const RAM: Filter = amounts("RamFilter");
/// `DiskFilter`: placement counts disks.
pub(super) const DISK: Filter = amounts("DiskFilter");

/// A filter for an amount of which placement knows how much is free; it lets every host pass.
const fn amounts(name: &'static str) -> Filter {
    Filter {
        name,
        is_once_per_request: false,
        runs_on_rebuild: false,
        compile: |_| Ok(Verdict::All),
    }
}
