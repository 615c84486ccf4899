//! Bounded caches with one policy of eviction: the clock algorithm, also called second chance.
//!
//! Every use of an entry sets its mark. When the cache is full, a hand moves over the entries in a
//! circle: it clears the marks that it finds, and the first entry without a mark is replaced. So
//! entries in use stay in the cache, at the cost of one bit each.

use std::hash::Hash;

use hashbrown::HashMap;

/// A bounded list of few entries, which are searched one by one.
#[derive(Clone, Debug)]
pub(crate) struct Clock<T> {
    entries: Vec<Entry<T>>,
    /// The entry that is considered first when one has to be replaced.
    hand: usize,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    /// The mark: set by every use, cleared when the hand passes.
    is_used: bool,
}

impl<T> Default for Clock<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            hand: 0,
        }
    }
}

impl<T> Clock<T> {
    /// The index of the first entry that satisfies a condition, if one does. Does not count as a use of it.
    pub(crate) fn position(&self, is_wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| is_wanted(&entry.value))
    }

    /// An entry by its index. Does not count as a use of it.
    pub(crate) fn peek(&self, index: usize) -> &T {
        &self.entries[index].value
    }

    /// An entry by its index. Counts as a use of it.
    pub(crate) fn get(&mut self, index: usize) -> &mut T {
        let entry = &mut self.entries[index];
        entry.is_used = true;
        &mut entry.value
    }

    /// Adds an entry and returns its index. If there are `capacity` entries already, it replaces
    /// the first that the hand finds without a mark.
    /// `make` gets the entry that is replaced, so that its memory can be used again.
    pub(crate) fn insert(&mut self, capacity: usize, make: impl FnOnce(Option<T>) -> T) -> usize {
        if self.entries.len() < capacity || self.entries.is_empty() {
            self.entries.push(Entry {
                value: make(None),
                is_used: true,
            });
            return self.entries.len() - 1;
        }
        let index = self.victim();
        let old = self.entries.swap_remove(index);
        self.entries.push(Entry {
            value: make(Some(old.value)),
            is_used: true,
        });
        let last = self.entries.len() - 1;
        self.entries.swap(index, last);
        index
    }

    /// The index of the first entry that was not used since the hand passed it.
    fn victim(&mut self) -> usize {
        loop {
            let index = self.hand % self.entries.len();
            self.hand = index + 1;
            if !std::mem::take(&mut self.entries[index].is_used) {
                return index;
            }
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.hand = 0;
    }
}

/// A bounded cache of entries by key.
#[derive(Debug)]
pub(crate) struct ClockCache<K, V> {
    entries: Clock<(K, V)>,
    index_of: HashMap<K, usize, foldhash::quality::FixedState>,
}

impl<K, V> Default for ClockCache<K, V> {
    fn default() -> Self {
        Self {
            entries: Clock::default(),
            index_of: HashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, V> ClockCache<K, V> {
    /// The value of a key; `None` if it is not cached. Does not count as a use of it.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        let index = self.index_of.get(key)?;
        let (_, value) = self.entries.peek(*index);
        Some(value)
    }

    /// The value of a key; `None` if it is not cached. Counts as a use of it.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        let index = self.index_of.get(key)?;
        let (_, value) = self.entries.get(*index);
        Some(value)
    }

    /// The value of a key. A missing key is added, in place of another one if there are `capacity` entries already.
    /// Counts as a use of the entry. `make` gets the value that is replaced, so that its memory can be used again.
    pub(crate) fn get_or_insert(
        &mut self,
        key: K,
        capacity: usize,
        make: impl FnOnce(Option<V>) -> V,
    ) -> &mut V {
        let index = match self.index_of.get(&key) {
            Some(index) => *index,
            None => {
                let index_of = &mut self.index_of;
                let index = self.entries.insert(capacity, |old| {
                    let old = old.map(|(key, value)| {
                        index_of.remove(&key);
                        value
                    });
                    (key, make(old))
                });
                index_of.insert(key, index);
                index
            }
        };
        let (_, value) = self.entries.get(index);
        value
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.index_of.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_stay_and_make_gets_the_replaced_value() {
        let mut cache = ClockCache::<u32, u32>::default();
        for key in 0..3 {
            cache.get_or_insert(key, 3, |old| old.map_or(key, |_| panic!("not full")));
        }
        // The hand clears the marks of all three entries and returns to the first.
        let mut replaced = None;
        cache.get_or_insert(3, 3, |old| {
            replaced = old;
            3
        });
        assert_eq!(replaced, Some(0));
        assert_eq!(cache.peek(&0), None);
        // The hand is at key 1 now, but that entry was used since.
        assert_eq!(cache.get(&1), Some(&mut 1));
        cache.get_or_insert(4, 3, |old| {
            replaced = old;
            4
        });
        assert_eq!(replaced, Some(2));
        let is_cached = [0, 1, 2, 3, 4].map(|key| cache.peek(&key).is_some());
        assert_eq!(is_cached, [false, true, false, true, true]);
        cache.clear();
        assert_eq!(cache.peek(&1), None);
    }
}
