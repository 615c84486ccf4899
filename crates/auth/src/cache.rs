//! What was found out lately, bounded in time and number.
//!
//! Keys are keyed hashes, so that neither a password nor a token lies in memory for long, and nobody
//! can choose a key.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::error::SetupError;

/// A hash under a key that this process alone knows.
pub(crate) type Key = [u8; 32];

/// Makes [`Key`]s.
pub(crate) struct Keyer([u8; 32]);

impl Keyer {
    /// Draws the process's key.
    pub(crate) fn new() -> Result<Self, SetupError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| SetupError::Random)?;
        Ok(Self(key))
    }

    /// The key of these parts; other parts with the same bytes in a row have another one.
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

/// Entries that end by themselves; when there are too many, the oldest go first.
pub(crate) struct Bounded<V> {
    entries: HashMap<Key, Entry<V>>,
    /// Keys in the order of their entries, with the entry's number; entries that were replaced or
    /// removed leave a trace until it is swept.
    order: VecDeque<(Key, u64)>,
    entries_max: usize,
    next: u64,
}

struct Entry<V> {
    value: V,
    until: Instant,
    number: u64,
}

impl<V: Clone> Bounded<V> {
    /// An empty cache of at most `entries_max` entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            entries_max,
            next: 0,
        }
    }

    /// The entry, if it has not ended at `now`.
    pub(crate) fn get(&mut self, key: &Key, now: Instant) -> Option<V> {
        let entry = self.entries.get(key)?;
        if now < entry.until {
            return Some(entry.value.clone());
        }
        self.entries.remove(key);
        None
    }

    /// Keeps a value until `until`, in place of one with the same key.
    pub(crate) fn insert(&mut self, key: Key, value: V, until: Instant) {
        let number = self.next;
        self.next += 1;
        self.entries.insert(
            key,
            Entry {
                value,
                until,
                number,
            },
        );
        self.order.push_back((key, number));
        while self.entries.len() > self.entries_max {
            let Some((oldest, number)) = self.order.pop_front() else {
                break;
            };
            if self
                .entries
                .get(&oldest)
                .is_some_and(|entry| entry.number == number)
            {
                self.entries.remove(&oldest);
            }
        }
        if self.order.len() > 2 * self.entries_max + 16 {
            let entries = &self.entries;
            self.order.retain(|(key, number)| {
                entries
                    .get(key)
                    .is_some_and(|entry| entry.number == *number)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn entries_end_at_their_time_and_the_oldest_make_room() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = |n: u8| [n; 32];
        let mut cache = Bounded::new(3);
        for n in 0..3 {
            cache.insert(key(n), n, at(10));
        }
        assert_eq!(cache.get(&key(0), at(9)), Some(0));
        assert_eq!(cache.get(&key(0), at(10)), None);

        cache.insert(key(1), 11, at(20)); // replaced: now the newest
        cache.insert(key(3), 3, at(20));
        cache.insert(key(4), 4, at(20)); // the oldest is key 2 now
        assert_eq!(cache.get(&key(2), at(1)), None);
        assert_eq!(cache.get(&key(1), at(1)), Some(11));
        assert_eq!(cache.get(&key(4), at(1)), Some(4));

        for n in 0..100_u32 {
            cache.insert(key((n % 2) as u8), 0, at(20));
        }
        assert!(cache.entries.len() <= 3 && cache.order.len() <= 23);

        let mut none = Bounded::new(0);
        none.insert(key(1), 1, at(20));
        assert_eq!(none.get(&key(1), at(1)), None);
    }

    #[test]
    fn keys_differ_by_process_and_by_where_the_parts_end() {
        let keyer = Keyer::new().unwrap();
        assert_eq!(keyer.key(&[b"a", b"bc"]), keyer.key(&[b"a", b"bc"]));
        assert_ne!(keyer.key(&[b"a", b"bc"]), keyer.key(&[b"ab", b"c"]));
        assert_ne!(keyer.key(&[b"a"]), Keyer::new().unwrap().key(&[b"a"]));
    }
}
