//! Bounded caches with one policy of eviction: the clock algorithm, also called second chance.
//!
//! An entry that is used gets a mark. When the cache is full, a hand goes over the entries in a
//! circle; it takes the mark from those that have one, and the first without a mark is replaced.
//! So whatever is in use stays, at the cost of one bit.

use std::hash::Hash;

use hashbrown::HashMap;

/// A bounded list of entries that are found by looking at each; for few entries.
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
    /// The number of the first entry that satisfies a condition. That is no use of it.
    pub(crate) fn position(&self, is_wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| is_wanted(&entry.value))
    }

    /// An entry by its number; that is no use of it.
    pub(crate) fn peek(&self, number: usize) -> &T {
        &self.entries[number].value
    }

    /// An entry by its number, which counts as a use of it.
    pub(crate) fn get(&mut self, number: usize) -> &mut T {
        let entry = &mut self.entries[number];
        entry.is_used = true;
        &mut entry.value
    }

    /// Adds an entry, in place of another if there are `most` already, and returns its number.
    /// `make` gets the entry that is replaced, so that its memory can be used again.
    pub(crate) fn insert(&mut self, most: usize, make: impl FnOnce(Option<T>) -> T) -> usize {
        if self.entries.len() < most || self.entries.is_empty() {
            self.entries.push(Entry {
                value: make(None),
                is_used: true,
            });
            return self.entries.len() - 1;
        }
        let number = self.victim();
        let old = self.entries.swap_remove(number);
        self.entries.push(Entry {
            value: make(Some(old.value)),
            is_used: true,
        });
        let last = self.entries.len() - 1;
        self.entries.swap(number, last);
        number
    }

    /// The number of the first entry that was not used since the hand passed it.
    fn victim(&mut self) -> usize {
        loop {
            let number = self.hand % self.entries.len();
            self.hand = number + 1;
            if !std::mem::take(&mut self.entries[number].is_used) {
                return number;
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
    number_of: HashMap<K, usize, foldhash::quality::FixedState>,
}

impl<K, V> Default for ClockCache<K, V> {
    fn default() -> Self {
        Self {
            entries: Clock::default(),
            number_of: HashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, V> ClockCache<K, V> {
    /// An entry; that is no use of it.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        let number = self.number_of.get(key)?;
        Some(&self.entries.peek(*number).1)
    }

    /// An entry, which counts as a use of it.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        let number = self.number_of.get(key)?;
        Some(&mut self.entries.get(*number).1)
    }

    /// An entry, which is added if there is none, in place of another if there are `most` already.
    /// `make` gets the value that is replaced, so that its memory can be used again.
    pub(crate) fn get_or_insert(
        &mut self,
        key: K,
        most: usize,
        make: impl FnOnce(Option<V>) -> V,
    ) -> &mut V {
        let number = match self.number_of.get(&key) {
            Some(number) => *number,
            None => {
                let number_of = &mut self.number_of;
                let number = self.entries.insert(most, |old| {
                    let old = old.map(|(key, value)| {
                        number_of.remove(&key);
                        value
                    });
                    (key, make(old))
                });
                number_of.insert(key, number);
                number
            }
        };
        &mut self.entries.get(number).1
    }

    /// Removes all entries at once.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.number_of.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_and_what_is_replaced_is_handed_over() {
        let mut cache = ClockCache::<u32, u32>::default();
        for key in 0..3 {
            cache.get_or_insert(key, 3, |old| old.map_or(key, |_| panic!("not full")));
        }
        // The hand takes the marks of all three and comes back to the first.
        let mut replaced = None;
        cache.get_or_insert(3, 3, |old| {
            replaced = old;
            3
        });
        assert_eq!(replaced, Some(0));
        assert_eq!(cache.peek(&0), None);
        // The next one would be 1, but it is used.
        assert_eq!(cache.get(&1), Some(&mut 1));
        cache.get_or_insert(4, 3, |old| {
            replaced = old;
            4
        });
        assert_eq!(replaced, Some(2));
        let kept = [0, 1, 2, 3, 4].map(|key| cache.peek(&key).is_some());
        assert_eq!(kept, [false, true, false, true, true]);
        cache.clear();
        assert_eq!(cache.peek(&1), None);
    }
}
