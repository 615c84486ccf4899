//! The changes of hosts that the table reports to caches.

use placewright_placement::tree_changes::ChangeKind;

/// A change of a host, for caches of results that depend on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostChange {
    /// The slot of the host.
    pub slot: u32,
    /// The kind of the change, which says what may have changed.
    pub kind: ChangeKind,
}

impl HostChange {
    /// A change that may concern anything about the host.
    pub(super) fn anything(slot: u32) -> Self {
        Self {
            slot,
            kind: ChangeKind::Anything,
        }
    }
}
