//! Caches of authentication results, bounded in time and number.
//!
//! Keys are keyed hashes, so that neither passwords nor tokens stay in memory, and no client
//! can construct colliding keys.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::error::SetupError;

/// A hash with a secret key that only this process has.
pub(crate) type Key = [u8; 32];

/// Derives cache keys with a secret key of this process.
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

/// How many elements the order of eviction may have beyond twice the capacity. With more, those without an entry are
/// dropped. With 0, a small cache would search for such elements at nearly every insertion.
const ORDER_EXCESS_MAX: usize = 16;

/// A bounded cache with expiring entries.
///
/// When the cache is full, the oldest entry is evicted; an entry that was used since it was last considered becomes the
/// newest instead (second-chance eviction). An expired entry can still be found until it is evicted.
pub(crate) struct SecondChanceCache<V> {
    entries: HashMap<Key, Entry<V>>,
    /// Keys with the entry's number, in the order of eviction. Elements of entries that were replaced
    /// or removed stay until they are removed together.
    order: VecDeque<(Key, u64)>,
    entries_max: usize,
    last_number: u64,
}

struct Entry<V> {
    value: V,
    expires_at: Instant,
    /// Distinguishes the entry from earlier ones with the same key.
    number: u64,
    /// Whether the entry was found since it was last considered for eviction.
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
            last_number: 0,
        }
    }

    /// The entry, whether or not it has expired at `now`. It counts as used from then on.
    pub(crate) fn find(&mut self, key: &Key, now: Instant) -> Option<Found<V>> {
        let entry = self.entries.get_mut(key)?;
        entry.is_used = true;
        Some(Found {
            value: entry.value.clone(),
            is_fresh: now < entry.expires_at,
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

    /// Inserts a value that expires at `expires_at`, replacing one with the same key.
    pub(crate) fn insert(&mut self, key: Key, value: V, expires_at: Instant) {
        let number = self.next_number();
        let entry = Entry {
            value,
            expires_at,
            number,
            is_used: false,
        };
        self.entries.insert(key, entry);
        self.order.push_back((key, number));
        while self.entries.len() > self.entries_max {
            let Some((oldest, number)) = self.order.pop_front() else {
                break;
            };
            self.evict_or_requeue(oldest, number);
        }
        // Elements of `order` that belong to no entry are dropped once the order is too long.
        if self.order.len() > 2 * self.entries_max + ORDER_EXCESS_MAX {
            let entries = &self.entries;
            self.order.retain(|(key, number)| {
                entries
                    .get(key)
                    .is_some_and(|entry| entry.number == *number)
            });
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Evicts the oldest entry, or moves it to the end if it was used.
    fn evict_or_requeue(&mut self, key: Key, number: u64) {
        let new_number = self.next_number();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.number != number {
            return;
        }
        if entry.is_used {
            entry.is_used = false;
            entry.number = new_number;
            self.order.push_back((key, new_number));
        } else {
            self.entries.remove(&key);
        }
    }
}

/// A segmented cache: new entries share a quarter of the capacity (probation), and move to the other
/// three quarters (protected) when they are found for the first time. So a flood of entries that are never
/// found evicts nothing that is in use.
pub(crate) struct SegmentedCache<V> {
    /// The entries that were not found yet: a quarter of the capacity.
    probation: SecondChanceCache<V>,
    /// The entries that were found at least once: three quarters of the capacity.
    protected: SecondChanceCache<V>,
}

impl<V: Clone> SegmentedCache<V> {
    /// An empty cache with this capacity.
    pub(crate) fn new(entries_max: usize) -> Self {
        let probation_max = entries_max.div_ceil(4);
        Self {
            probation: SecondChanceCache::new(probation_max),
            protected: SecondChanceCache::new(entries_max - probation_max),
        }
    }

    /// The entry, whether or not it has expired at `now`. An entry on probation becomes a protected one.
    pub(crate) fn find(&mut self, key: &Key, now: Instant) -> Option<Found<V>> {
        if let Some(found) = self.protected.find(key, now) {
            return Some(found);
        }
        let found = self.probation.find(key, now)?;
        if self.protected.entries_max > 0
            && let Some(entry) = self.probation.entries.remove(key)
        {
            self.protected.insert(*key, entry.value, entry.expires_at);
        }
        Some(found)
    }

    /// Removes an entry from either segment.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.probation.remove(key);
        self.protected.remove(key);
    }

    /// Inserts a value that expires at `expires_at`, replacing one with the same key.
    pub(crate) fn insert(&mut self, key: Key, value: V, expires_at: Instant) {
        if self.protected.entries.contains_key(&key) {
            self.protected.insert(key, value, expires_at);
        } else {
            self.probation.insert(key, value, expires_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn entries_expire_and_the_oldest_unused_are_evicted() {
        let start = Instant::now();
        let time = |seconds| start + Duration::from_secs(seconds);
        let key = |n: u8| [n; 32];
        let mut cache = SecondChanceCache::new(3);
        for n in 0..3 {
            cache.insert(key(n), n, time(10));
        }
        assert_eq!(cache.get(&key(0), time(9)), Some(0));
        assert_eq!(cache.get(&key(0), time(10)), None);
        // The entry has expired, but can still be found.
        assert!(!cache.find(&key(0), time(10)).unwrap().is_fresh);

        cache.insert(key(1), 11, time(20)); // a replaced entry is the newest
        cache.insert(key(3), 3, time(20)); // key 0 was used and becomes the newest, so key 2 is evicted
        assert!(cache.find(&key(2), time(1)).is_none());
        cache.insert(key(4), 4, time(20));
        assert_eq!(cache.get(&key(1), time(1)), None, "it was not used");
        assert_eq!(cache.get(&key(4), time(1)), Some(4));
        cache.remove(&key(4));
        assert_eq!(cache.get(&key(4), time(1)), None);

        for n in 0..100_u32 {
            cache.insert(key((n % 2) as u8), 0, time(20));
        }
        assert!(cache.entries.len() <= 3 && cache.order.len() <= 2 * 3 + ORDER_EXCESS_MAX + 1);

        let mut empty = SecondChanceCache::new(0);
        empty.insert(key(1), 1, time(20));
        assert_eq!(empty.get(&key(1), time(1)), None);
    }

    #[test]
    fn entries_that_are_never_found_evict_none_in_use() {
        let now = Instant::now();
        let expires_at = now + Duration::from_secs(60);
        let key = |n: u32| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&n.to_le_bytes());
            key
        };
        let mut cache = SegmentedCache::new(16);
        for n in 0..8 {
            cache.insert(key(n), n, expires_at);
            assert!(cache.find(&key(n), now).is_some());
        }
        for n in 100..10_000 {
            cache.insert(key(n), n, expires_at);
        }
        assert!((0..8).all(|n| {
            cache
                .find(&key(n), now)
                .is_some_and(|found| found.value == n)
        }));
        assert!(cache.probation.entries.len() + cache.protected.entries.len() <= 16);
        // Entries that are found once reach the larger segment, but evict none that is in use.
        for n in 20_000..30_000 {
            cache.insert(key(n), n, expires_at);
            cache.find(&key(n), now);
            assert!((0..8).all(|n| cache.find(&key(n), now).is_some()));
        }
        cache.remove(&key(1));
        assert!(cache.find(&key(1), now).is_none());
    }

    #[test]
    fn keys_differ_by_process_and_by_the_ends_of_the_parts() {
        let key_hasher = KeyHasher::new().unwrap();
        assert_eq!(
            key_hasher.key(&[b"a", b"bc"]),
            key_hasher.key(&[b"a", b"bc"])
        );
        assert_ne!(
            key_hasher.key(&[b"a", b"bc"]),
            key_hasher.key(&[b"ab", b"c"])
        );
        assert_ne!(
            key_hasher.key(&[b"a"]),
            KeyHasher::new().unwrap().key(&[b"a"])
        );
    }
}
