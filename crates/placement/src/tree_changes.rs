//! A log of recently changed trees, by which a reader that caches search results knows what to
//! evaluate again.

use crate::ids::ProviderId;

/// The capacity of the ring. A reader that is further behind starts over.
const CHANGES_MAX: usize = 1 << 16;

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

/// A ring buffer of the roots that changed, in order, with a running count.
///
/// No snapshot and no digest contains it, because it does not describe the state. Undoing a change
/// adds to it.
#[derive(Clone, Debug, Default)]
pub struct TreeChangeLog {
    ring: Vec<TreeChange>,
    /// By root slot: the position after its last change.
    last_changes: Vec<u64>,
    count: u64,
    /// How often names or the topology changed; see [`Self::structure_version`].
    structure_version: u64,
    /// How often sharing providers changed; see [`Self::sharing_version`].
    sharing_version: u64,
}

impl TreeChangeLog {
    /// The position: the number of changes so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.count
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
        let missed = usize::try_from(self.count.checked_sub(position)?).ok()?;
        if missed > self.ring.len() {
            return None;
        }
        let end = usize::try_from(self.count).unwrap_or(0) % CHANGES_MAX;
        let length = self.ring.len();
        // The ring is full or starts at 0, so counting back from its end wraps at most once.
        Some((0..missed).map(move |number| {
            let distance = missed - number;
            let index = if end >= distance {
                end - distance
            } else {
                end + length - distance
            };
            self.ring[index]
        }))
    }

    /// Records a change in the tree of a root.
    pub(crate) fn push(&mut self, root: ProviderId, kind: ChangeKind) {
        let change = TreeChange { root, kind };
        let index = usize::try_from(self.count).unwrap_or(0) % CHANGES_MAX;
        if index == self.ring.len() {
            // Allocated at once: growing step by step would briefly need twice the memory.
            self.ring.reserve_exact(CHANGES_MAX - index);
            self.ring.push(change);
        } else {
            self.ring[index] = change;
        }
        self.count += 1;
        if root.index() >= self.last_changes.len() {
            self.last_changes.resize(root.index() + 1, 0);
        }
        self.last_changes[root.index()] = self.count;
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
    fn a_reader_sees_what_it_missed_or_learns_that_it_is_too_late() {
        let mut log = TreeChangeLog::default();
        let total = CHANGES_MAX as u64 + 10;
        for number in 0..total {
            log.push(
                ProviderId(u32::try_from(number).expect("small")),
                ChangeKind::Anything,
            );
        }
        let seen: Vec<u32> = log
            .since(total - 3)
            .expect("recent")
            .map(|change| change.root.0)
            .collect();
        let last = u32::try_from(total).expect("small");
        assert_eq!(seen, [last - 3, last - 2, last - 1]);
        assert_eq!(log.since(10).expect("just remembered").count(), CHANGES_MAX);
        assert_eq!(
            log.since(10)
                .and_then(|mut changes| changes.next())
                .map(|change| change.root),
            Some(ProviderId(10))
        );
        assert!(log.since(9).is_none());
        assert_eq!(log.last_change(ProviderId(0)), 1);
        assert_eq!(log.last_change(ProviderId(last - 1)), total);
        assert_eq!(log.last_change(ProviderId(last)), 0);
        assert_eq!(log.since(total).expect("now").count(), 0);
    }
}
