//! A log of recently changed trees, by which a reader that caches search results knows what to
//! evaluate again; and of consumers that released what they held.

use uuid::Uuid;

use crate::ids::{ConsumerUuid, ProviderId};
use crate::ring::Ring;

/// The kind of a change, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Capacity was only taken: hosts can become infeasible, never feasible.
    CapacityLoss,
    /// Capacity was taken or given back; nothing else changed.
    CapacityChange,
    /// Inventories, traits, aggregates or the tree itself may have changed.
    Anything,
}

/// A change in the tree of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeChange {
    /// The root of the tree that changed.
    pub root: ProviderId,
    /// The strongest kind of change that happened.
    pub kind: ChangeKind,
}

/// Ring buffers of the roots that changed, and of the consumers that released allocations, in order and with running
/// counts.
///
/// No snapshot and no digest contains it, because it does not describe the state. Undoing a change
/// adds to the roots that changed.
#[derive(Clone, Debug, Default)]
pub struct TreeChangeLog {
    changes: Ring<TreeChange>,
    /// By root slot: the position after its last change.
    last_changes: Vec<u64>,
    releases: Ring<Uuid>,
    /// How often names or the topology changed; see [`Self::structure_version`].
    structure_version: u64,
    /// How often sharing providers changed; see [`Self::sharing_version`].
    sharing_version: u64,
}

impl TreeChangeLog {
    /// The position after the latest change; each change advances it by 1.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.changes.position()
    }

    /// The position after the latest release; each release advances it by 1.
    #[must_use]
    pub fn release_position(&self) -> u64 {
        self.releases.position()
    }

    /// The version of names and of the topology: incremented when either changes.
    #[must_use]
    pub fn structure_version(&self) -> u64 {
        self.structure_version
    }

    /// The version of the sharing providers, which matter to trees other than their own.
    #[must_use]
    pub fn sharing_version(&self) -> u64 {
        self.sharing_version
    }

    /// The position after the last change of a root; 0 if it never changed.
    #[must_use]
    #[inline]
    pub fn last_change(&self, root: ProviderId) -> u64 {
        self.last_changes.get(root.index()).copied().unwrap_or(0)
    }

    /// The changes since a position, in order; a root can occur several times. `None` if the ring
    /// no longer holds all of them.
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = TreeChange> + '_> {
        self.changes.since(position)
    }

    /// The consumers whose allocations were removed or replaced since a position among the releases, in order; a
    /// consumer can occur several times, and may hold the same as before. `None` if the ring no longer holds all of
    /// them. Consumers that are not named by a UUID are left out. Undoing a change adds no release, and removes none.
    pub fn released_since(&self, position: u64) -> Option<impl Iterator<Item = Uuid> + '_> {
        self.releases.since(position)
    }

    /// Moves all positions and versions beyond those of the log of a former state, so that every reader of that log
    /// starts over.
    pub(crate) fn move_beyond(&mut self, former: &Self) {
        self.changes = Ring::beyond(self.position().max(former.position()));
        self.releases = Ring::beyond(self.release_position().max(former.release_position()));
        let roots = self.last_changes.len().max(former.last_changes.len());
        self.last_changes = vec![self.changes.position(); roots];
        let beyond = |own: u64, former: u64| own.max(former) + 1;
        self.structure_version = beyond(self.structure_version, former.structure_version);
        self.sharing_version = beyond(self.sharing_version, former.sharing_version);
    }

    /// Records a change in the tree of a root.
    pub(crate) fn push(&mut self, root: ProviderId, kind: ChangeKind) {
        self.changes.push(TreeChange { root, kind });
        if root.index() >= self.last_changes.len() {
            self.last_changes.resize(root.index() + 1, 0);
        }
        self.last_changes[root.index()] = self.changes.position();
    }

    /// Records that the allocations of a consumer were removed or replaced.
    pub(crate) fn push_release(&mut self, consumer: ConsumerUuid) {
        if let Ok(uuid) = Uuid::try_parse(consumer.as_str()) {
            self.releases.push(uuid);
        }
    }

    /// Records a change of names or of the topology.
    pub(crate) fn increment_structure(&mut self) {
        self.structure_version += 1;
    }

    /// Records a change of a sharing provider.
    pub(crate) fn increment_sharing(&mut self) {
        self.sharing_version += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_root_is_known_however_many_followed() {
        let mut log = TreeChangeLog::default();
        for number in 0..100_000 {
            log.push(ProviderId(number), ChangeKind::Anything);
        }
        assert_eq!(log.last_change(ProviderId(0)), 1);
        assert_eq!(log.last_change(ProviderId(99_999)), 100_000);
        assert_eq!(log.last_change(ProviderId(100_000)), 0);
    }
}
