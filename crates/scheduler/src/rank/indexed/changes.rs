//! A log of changed hosts, from which each reader continues where it stopped.

use placewright_placement::tree_changes::ChangeKind;

use crate::hosts::table::HostChange;

/// The minimum number of changes that are remembered. A reader that is further behind starts over.
const REMEMBERED: usize = 1 << 16;

/// The changed hosts in order; a host can occur several times.
#[derive(Debug, Default)]
pub struct ChangeLog {
    all: Recent,
    /// The changes that can give a host more free capacity. The others are claims, about half of
    /// all: they make no host feasible that was not, so most readers skip them. (Filters that read
    /// free amounts are asked in each search.)
    capacity_gains: Recent,
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
    /// Records changed hosts; the columns must already have their new values.
    pub fn note(&mut self, changes: impl Iterator<Item = HostChange>) {
        for one in changes {
            self.all.changes.push(one);
            if one.what != ChangeKind::LessRoom {
                self.capacity_gains.changes.push(one);
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

    /// The changes since a position; `None` if they are no longer remembered.
    #[must_use]
    pub fn since(&self, position: Position) -> Option<Changes<'_>> {
        Some(Changes {
            all: self.all.since(position.all)?,
            capacity_gains: self.capacity_gains.since(position.capacity_gains)?,
        })
    }
}

/// A bounded log of one kind of changes.
#[derive(Debug, Default)]
struct Recent {
    changes: Vec<HostChange>,
    /// The position of the first entry of `changes`.
    first: u64,
}

impl Recent {
    fn trim(&mut self) {
        if self.changes.len() > 2 * REMEMBERED {
            let gone = self.changes.len() - REMEMBERED;
            self.changes.drain(..gone);
            self.first += gone as u64;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    fn since(&self, position: u64) -> Option<&[HostChange]> {
        let start = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.changes.get(start..)
    }
}
