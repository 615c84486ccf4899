//! Which hosts changed lately: each reader takes up where it left off.

use crate::host_table::Touched;

/// How many changes are remembered at least. A reader that is further behind starts over.
const REMEMBERED: usize = 1 << 16;

/// The hosts that changed, in order, some several times.
#[derive(Debug, Default)]
pub struct ChangeLog {
    changed: Vec<Touched>,
    /// The position of the first entry of `changed`.
    first: u64,
}

impl ChangeLog {
    /// Takes note of hosts that changed; their values are in the columns already.
    pub fn note(&mut self, touched: impl Iterator<Item = Touched>) {
        self.changed.extend(touched);
        if self.changed.len() > 2 * REMEMBERED {
            let gone = self.changed.len() - REMEMBERED;
            self.changed.drain(..gone);
            self.first += gone as u64;
        }
    }

    /// How many changes there were so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.changed.len() as u64
    }

    /// The changes since a position; nothing if that is too long ago.
    #[must_use]
    pub fn since(&self, position: u64) -> Option<&[Touched]> {
        let start = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.changed.get(start..)
    }
}
