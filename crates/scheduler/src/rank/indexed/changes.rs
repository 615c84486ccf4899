//! The change log of hosts. Each reader has a position of its own, from which it reads on.

use placewright_placement::tree_changes::ChangeKind;

use crate::hosts::table::HostChange;

/// The number of changes that the log holds at least. A reader that lags behind by more changes computes its
/// data anew.
const LOGGED_CHANGES_MIN: usize = 1 << 16;

/// The changed hosts in order; a host can occur several times.
#[derive(Debug, Default)]
pub struct ChangeLog {
    all: BoundedLog,
    /// The changes that may give a host more free capacity. The others, about half of all, are
    /// claims. A claim makes no host feasible, so most readers skip claims. (A filter that reads free amounts may
    /// admit a host because less is free, but such filters are evaluated in every search.)
    capacity_gains: BoundedLog,
}

/// A reader's position in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    all: u64,
    capacity_gains: u64,
}

/// The changes that a reader has not seen.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Every change since the position.
    pub all: &'a [HostChange],
    /// The changes except those that only reduced capacity.
    pub capacity_gains: &'a [HostChange],
}

impl ChangeLog {
    /// Appends changes of hosts. The columns must already have the new values.
    pub fn append(&mut self, changes: impl Iterator<Item = HostChange>) {
        for change in changes {
            self.all.changes.push(change);
            if change.kind != ChangeKind::CapacityLoss {
                self.capacity_gains.changes.push(change);
            }
        }
        self.all.trim();
        self.capacity_gains.trim();
    }

    /// The position after the newest change.
    #[must_use]
    pub fn end(&self) -> Position {
        Position {
            all: self.all.end(),
            capacity_gains: self.capacity_gains.end(),
        }
    }

    /// The changes since a position; `None` if some of them are no longer in the log.
    #[must_use]
    pub fn since(&self, position: Position) -> Option<Changes<'_>> {
        Some(Changes {
            all: self.all.since(position.all)?,
            capacity_gains: self.capacity_gains.since(position.capacity_gains)?,
        })
    }
}

/// A log of bounded length.
#[derive(Debug, Default)]
struct BoundedLog {
    changes: Vec<HostChange>,
    /// The position of the first entry of `changes`.
    first: u64,
}

impl BoundedLog {
    /// Drops the oldest changes if there are too many.
    fn trim(&mut self) {
        if self.changes.len() > 2 * LOGGED_CHANGES_MIN {
            let dropped = self.changes.len() - LOGGED_CHANGES_MIN;
            self.changes.drain(..dropped);
            self.first += dropped as u64;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// The changes since a position; `None` if some of them are no longer in the log.
    fn since(&self, position: u64) -> Option<&[HostChange]> {
        let start = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.changes.get(start..)
    }
}
