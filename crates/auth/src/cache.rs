//! Caches of authentication results, bounded in time and number.
//!
//! Keys are keyed hashes, so that neither passwords nor tokens stay in memory, and nobody can
//! construct colliding keys.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::error::SetupError;

/// A hash with a secret key that only this process has.
pub(crate) type Key = [u8; 32];

/// Derives cache keys with the secret key of this process.
pub(crate) struct KeyHasher([u8; 32]);

impl KeyHasher {
    /// Generates the secret key.
    pub(crate) fn new() -> Result<Self, SetupError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| SetupError::Random)?;
        Ok(Self(key))
    }

    /// The cache key of these parts. Parts are delimited, so other parts with the same
    /// concatenation have another key.
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

/// A bounded cache with expiring entries.
///
/// When it is full, the oldest entry is evicted, unless it was used since it was last considered:
/// then it gets another round (second-chance eviction). An expired entry can still be found until
/// it is evicted.
pub(crate) struct SecondChanceCache<V> {
    entries: HashMap<Key, Entry<V>>,
    /// Keys in order of insertion with the entry's number; replaced or removed entries leave a
    /// stale element until it is swept.
    order: VecDeque<(Key, u64)>,
    entries_max: usize,
    next: u64,
}

struct Entry<V> {
    value: V,
    until: Instant,
    number: u64,
    is_used: bool,
}

/// The result of a look-up.
pub(crate) struct Found<V> {
    /// The cached value, expired or not.
    pub(crate) value: V,
    /// Whether the value has not expired.
    pub(crate) is_fresh: bool,
}

impl<V: Clone> SecondChanceCache<V> {
    /// An empty cache with this capacity.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            entries_max,
            next: 0,
        }
    }

    /// The entry, whether or not it has expired at `now`.
    pub(crate) fn find(&mut self, key: &Key, now: Instant) -> Option<Found<V>> {
        let entry = self.entries.get_mut(key)?;
        entry.is_used = true;
        Some(Found {
            value: entry.value.clone(),
            is_fresh: now < entry.until,
        })
    }

    /// The entry's value, if it has not expired at `now`.
    pub(crate) fn get(&mut self, key: &Key, now: Instant) -> Option<V> {
        let found = self.find(key, now)?;
        found.is_fresh.then_some(found.value)
    }

    /// Removes an entry, if there is one.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.entries.remove(key);
    }

    /// Inserts a value that expires at `until`, replacing one with the same key.
    pub(crate) fn insert(&mut self, key: Key, value: V, until: Instant) {
        let number = self.number();
        let entry = Entry {
            value,
            until,
            number,
            is_used: false,
        };
        self.entries.insert(key, entry);
        self.order.push_back((key, number));
        while self.entries.len() > self.entries_max {
            let Some((oldest, number)) = self.order.pop_front() else {
                break;
            };
            self.pass(oldest, number);
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

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Evicts the oldest entry, or moves it to the end if it was used.
    fn pass(&mut self, key: Key, number: u64) {
        let next = self.number();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.number != number {
            return;
        }
        if entry.is_used {
            entry.is_used = false;
            entry.number = next;
            self.order.push_back((key, next));
        } else {
            self.entries.remove(&key);
        }
    }
}

/// A segmented cache: new entries share a quarter of the capacity, and move to the rest when they
/// are used again. So a flood of entries that are used once evicts nothing that is in use.
pub(crate) struct SegmentedCache<V> {
    new: SecondChanceCache<V>,
    kept: SecondChanceCache<V>,
}

impl<V: Clone> SegmentedCache<V> {
    /// An empty cache with this capacity.
    pub(crate) fn new(entries_max: usize) -> Self {
        let new = entries_max.div_ceil(4);
        Self {
            new: SecondChanceCache::new(new),
            kept: SecondChanceCache::new(entries_max - new),
        }
    }

    /// The entry, whether or not it has expired at `now`.
    pub(crate) fn find(&mut self, key: &Key, now: Instant) -> Option<Found<V>> {
        if let Some(found) = self.kept.find(key, now) {
            return Some(found);
        }
        let found = self.new.find(key, now)?;
        if self.kept.entries_max > 0
            && let Some(entry) = self.new.entries.remove(key)
        {
            self.kept.insert(*key, entry.value, entry.until);
        }
        Some(found)
    }

    /// Removes an entry from either segment.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.new.remove(key);
        self.kept.remove(key);
    }

    /// Inserts a value that expires at `until`, replacing one with the same key.
    pub(crate) fn insert(&mut self, key: Key, value: V, until: Instant) {
        if self.kept.entries.contains_key(&key) {
            self.kept.insert(key, value, until);
        } else {
            self.new.insert(key, value, until);
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
        let mut cache = SecondChanceCache::new(3);
        for n in 0..3 {
            cache.insert(key(n), n, at(10));
        }
        assert_eq!(cache.get(&key(0), at(9)), Some(0));
        assert_eq!(cache.get(&key(0), at(10)), None);
        // The entry has expired, but can still be found.
        assert!(!cache.find(&key(0), at(10)).unwrap().is_fresh);

        cache.insert(key(1), 11, at(20)); // replaced: now the newest
        cache.insert(key(3), 3, at(20)); // key 0 was asked for and gets another round, so key 2 goes
        assert!(cache.find(&key(2), at(1)).is_none());
        cache.insert(key(4), 4, at(20));
        assert_eq!(cache.get(&key(1), at(1)), None, "nobody asked for it");
        assert_eq!(cache.get(&key(4), at(1)), Some(4));
        cache.remove(&key(4));
        assert_eq!(cache.get(&key(4), at(1)), None);

        for n in 0..100_u32 {
            cache.insert(key((n % 2) as u8), 0, at(20));
        }
        assert!(cache.entries.len() <= 3 && cache.order.len() <= 23);

        let mut none = SecondChanceCache::new(0);
        none.insert(key(1), 1, at(20));
        assert_eq!(none.get(&key(1), at(1)), None);
    }

    #[test]
    fn what_is_used_once_pushes_nothing_out_that_is_in_use() {
        let now = Instant::now();
        let until = now + Duration::from_secs(60);
        let key = |n: u32| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&n.to_le_bytes());
            key
        };
        let mut cache = SegmentedCache::new(16);
        for n in 0..8 {
            cache.insert(key(n), n, until);
            assert!(cache.find(&key(n), now).is_some());
        }
        for n in 100..10_000 {
            cache.insert(key(n), n, until);
        }
        assert!((0..8).all(|n| {
            cache
                .find(&key(n), now)
                .is_some_and(|found| found.value == n)
        }));
        assert!(cache.new.entries.len() + cache.kept.entries.len() <= 16);
        // Entries that are used twice reach the larger segment, but evict none that is in use.
        for n in 20_000..30_000 {
            cache.insert(key(n), n, until);
            cache.find(&key(n), now);
            assert!((0..8).all(|n| cache.find(&key(n), now).is_some()));
        }
        cache.remove(&key(1));
        assert!(cache.find(&key(1), now).is_none());
    }

    #[test]
    fn keys_differ_by_process_and_by_where_the_parts_end() {
        let keyer = KeyHasher::new().unwrap();
        assert_eq!(keyer.key(&[b"a", b"bc"]), keyer.key(&[b"a", b"bc"]));
        assert_ne!(keyer.key(&[b"a", b"bc"]), keyer.key(&[b"ab", b"c"]));
        assert_ne!(keyer.key(&[b"a"]), KeyHasher::new().unwrap().key(&[b"a"]));
    }
}
