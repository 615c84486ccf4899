//! A table with stable row numbers: a new entry takes the lowest free row.

use std::collections::BTreeSet;

/// Rows that keep their number as long as they live.
///
/// Which row a new entry gets depends only on which rows are taken, so two replicas that applied
/// the same changes, one of them from a snapshot, assign the same numbers.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    rows: Vec<Option<T>>,
    free: BTreeSet<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            free: BTreeSet::new(),
        }
    }
}

impl<T> Slots<T> {
    /// The row that the next entry will get.
    #[must_use]
    pub fn next_row(&self) -> u32 {
        self.free.first().copied().unwrap_or_else(|| {
            u32::try_from(self.rows.len()).expect("fewer than 2^32 rows fit in memory")
        })
    }

    /// Puts an entry into a free row. If the row is beyond the end of the table, the rows before it
    /// are added as free rows.
    pub fn put(&mut self, row: u32, value: T) {
        let index = row as usize;
        while self.rows.len() < index {
            self.free
                .insert(u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
            self.rows.push(None);
        }
        if self.rows.len() == index {
            self.rows.push(Some(value));
        } else {
            self.free.remove(&row);
            self.rows[index] = Some(value);
        }
    }

    /// Removes an entry; `None` if the row is free. Free rows at the end are dropped, so that the table is as it was
    /// before the entry came.
    pub fn take(&mut self, row: u32) -> Option<T> {
        let index = row as usize;
        let value = self.rows.get_mut(index)?.take()?;
        if index + 1 < self.rows.len() {
            self.free.insert(row);
            return Some(value);
        }
        self.rows.pop();
        while self.rows.last().is_some_and(Option::is_none) {
            self.rows.pop();
            self.free
                .remove(&u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
        }
        Some(value)
    }

    /// The entry of a row; `None` if the row is free.
    #[must_use]
    #[inline]
    pub fn get(&self, row: u32) -> Option<&T> {
        self.rows.get(row as usize)?.as_ref()
    }

    /// The entry of a row, for writing.
    #[inline]
    pub fn get_mut(&mut self, row: u32) -> Option<&mut T> {
        self.rows.get_mut(row as usize)?.as_mut()
    }

    /// One past the highest taken row.
    #[must_use]
    pub fn end_row(&self) -> usize {
        self.rows.len()
    }

    /// How many rows are taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Whether no row is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries with their rows, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows.iter().enumerate().filter_map(|(row, value)| {
            Some((u32::try_from(row).unwrap_or(u32::MAX), value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_row_is_next_whatever_was_taken_and_put_back() {
        let mut slots = Slots::default();
        let free_rows = |slots: &Slots<u32>| slots.end_row() - slots.len();
        for row in 0..4 {
            assert_eq!(slots.next_row(), row);
            slots.put(row, row);
        }
        // Rows before a row beyond the end become free.
        slots.put(6, 6);
        assert_eq!((slots.next_row(), free_rows(&slots)), (4, 2));
        assert_eq!(slots.take(1), Some(1));
        assert_eq!(slots.take(1), None);
        assert_eq!((slots.next_row(), free_rows(&slots)), (1, 3));
        // The rows before the last one are dropped with it.
        assert_eq!(slots.take(6), Some(6));
        assert_eq!((slots.end_row(), slots.next_row(), slots.len()), (4, 1, 3));
        slots.put(1, 11);
        assert_eq!((slots.next_row(), free_rows(&slots)), (4, 0));
        let entries: Vec<(u32, u32)> = slots.iter().map(|(row, value)| (row, *value)).collect();
        assert_eq!(entries, [(0, 0), (1, 11), (2, 2), (3, 3)]);
        for row in [0, 1, 2, 3] {
            slots.take(row);
        }
        assert_eq!((slots.end_row(), slots.next_row()), (0, 0));
        assert!(slots.is_empty());
    }
}
