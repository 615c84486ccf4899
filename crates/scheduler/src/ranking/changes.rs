//! Which hosts changed lately: each reader takes up where it left off.

use placewright_placement::touch::What;

use crate::host_table::Touched;

/// How many changes are remembered at least. A reader that is further behind starts over.
const REMEMBERED: usize = 1 << 16;

/// The hosts that changed, in order, some several times.
#[derive(Debug, Default)]
pub struct ChangeLog {
    all: Recent,
    /// Those of them that may have more room than before. Half of what happens to a fleet are
    /// claims, and most readers need not look at those.
    gains: Recent,
}

/// How much of a log a reader knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    all: u64,
    gains: u64,
}

/// What a reader does not know yet.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Every change.
    pub all: &'a [Touched],
    /// The changes but those of hosts that have less room than before, and nothing else.
    pub gains: &'a [Touched],
}

impl ChangeLog {
    /// Takes note of hosts that changed; their values are in the columns already.
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

    /// How much there is to know so far.
    #[must_use]
    pub fn end(&self) -> Position {
        Position {
            all: self.all.end(),
            gains: self.gains.end(),
        }
    }

    /// The changes since a position; nothing if that is too long ago.
    #[must_use]
    pub fn since(&self, position: Position) -> Option<Changes<'_>> {
        Some(Changes {
            all: self.all.since(position.all)?,
            gains: self.gains.since(position.gains)?,
        })
    }
}

/// The last changes of a kind.
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
