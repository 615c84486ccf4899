//! A log of changed hosts, from which each reader continues where it stopped.

use placewright_placement::touch::What;

use crate::hosts::table::Touched;

/// The minimum number of changes that are remembered. A reader that is further behind starts over.
const REMEMBERED: usize = 1 << 16;

/// The changed hosts in order; a host can occur several times.
#[derive(Debug, Default)]
pub struct ChangeLog {
    all: Recent,
    /// The changes that can give a host more capacity. Half of all changes are claims, which most
    /// readers can skip.
    gains: Recent,
}

/// A reader's position in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    all: u64,
    gains: u64,
}

/// The changes that a reader has not seen.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Every change since the position.
    pub all: &'a [Touched],
    /// The changes except those that only reduced capacity.
    pub gains: &'a [Touched],
}

impl ChangeLog {
    /// Records changed hosts; the columns must already have their new values.
    pub fn note(&mut self, touched: impl Iterator<Item = Touched>) {
        for one in touched {
            self.all.changed.push(one);
            if one.what != What::LessRoom {
                self.gains.changed.push(one);
            }
        }
        self.all.trim();
        self.gains.trim();
    }

    /// The position after the newest change.
    #[must_use]
    pub fn end(&self) -> Position {
        Position {
            all: self.all.end(),
            gains: self.gains.end(),
        }
    }

    /// The changes since a position; `None` if they are no longer remembered.
    #[must_use]
    pub fn since(&self, position: Position) -> Option<Changes<'_>> {
        Some(Changes {
            all: self.all.since(position.all)?,
            gains: self.gains.since(position.gains)?,
        })
    }
}

/// A bounded log of one kind of changes.
#[derive(Debug, Default)]
struct Recent {
    changed: Vec<Touched>,
    /// The position of the first entry of `changed`.
    first: u64,
}

impl Recent {
    fn trim(&mut self) {
        if self.changed.len() > 2 * REMEMBERED {
            let gone = self.changed.len() - REMEMBERED;
            self.changed.drain(..gone);
            self.first += gone as u64;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.changed.len() as u64
    }

    fn since(&self, position: u64) -> Option<&[Touched]> {
        let start = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.changed.get(start..)
    }
}
