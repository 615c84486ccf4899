//! A ring buffer of what happened last, from which each reader takes what it has missed.

/// The capacity of a ring. A reader that is further behind starts over.
const ENTRIES_MAX: usize = 1 << 16;

/// The last entries of a sequence, in order, with a running count.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    entries: Vec<T>,
    /// The position of the next entry: the position at which the ring began, plus the number of entries added since.
    count: u64,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            count: 0,
        }
    }
}

impl<T: Copy> Ring<T> {
    /// An empty ring whose position is beyond this one, so that a reader that was there has missed something.
    pub(crate) fn beyond(position: u64) -> Self {
        let capacity = ENTRIES_MAX as u64;
        Self {
            entries: Vec::new(),
            // A multiple of the capacity, so that the first entry is put at index 0.
            count: (position / capacity + 1) * capacity,
        }
    }

    /// The position: that of the next entry. It only grows.
    pub(crate) fn position(&self) -> u64 {
        self.count
    }

    /// The entries since a position, in order. `None` if the ring no longer holds all of them, or if it has not reached
    /// the position.
    pub(crate) fn since(&self, position: u64) -> Option<impl Iterator<Item = T> + '_> {
        let missed = usize::try_from(self.count.checked_sub(position)?).ok()?;
        if missed > self.entries.len() {
            return None;
        }
        let end = usize::try_from(self.count).unwrap_or(0) % ENTRIES_MAX;
        let length = self.entries.len();
        // The ring is full or starts at 0, so counting back from its end wraps at most once.
        Some((0..missed).map(move |number| {
            let distance = missed - number;
            let index = if end >= distance {
                end - distance
            } else {
                end + length - distance
            };
            self.entries[index]
        }))
    }

    /// Adds an entry, in place of the oldest one if the ring is full.
    pub(crate) fn push(&mut self, entry: T) {
        let index = usize::try_from(self.count).unwrap_or(0) % ENTRIES_MAX;
        if index == self.entries.len() {
            // Allocated at once: growing step by step would briefly need twice the memory.
            self.entries.reserve_exact(ENTRIES_MAX - index);
            self.entries.push(entry);
        } else {
            self.entries[index] = entry;
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_it_missed_or_learns_that_it_is_too_late() {
        let mut ring = Ring::default();
        let total = ENTRIES_MAX as u64 + 10;
        for number in 0..total {
            ring.push(number);
        }
        let seen: Vec<u64> = ring.since(total - 3).expect("recent").collect();
        assert_eq!(seen, [total - 3, total - 2, total - 1]);
        assert_eq!(
            ring.since(10).expect("just remembered").count(),
            ENTRIES_MAX
        );
        assert_eq!(ring.since(10).and_then(|mut seen| seen.next()), Some(10));
        assert!(ring.since(9).is_none());
        assert_eq!(ring.since(total).expect("now").count(), 0);

        let mut beyond = Ring::beyond(total);
        assert!(beyond.since(total).is_none());
        let position = beyond.position();
        for number in 0..total {
            beyond.push(number);
            assert!(beyond.since(total).is_none());
        }
        let seen = beyond.since(position + 10).expect("just remembered");
        assert!(seen.eq(10..total));
    }
}
