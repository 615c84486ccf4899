//! The index of consumers by UUID.

use hashbrown::HashTable;

use crate::hash::hash_of;
use crate::ids::{ConsumerId, ConsumerUuid};
use crate::rows::Consumer;
use crate::slots::Slots;

/// Finds the slot of a consumer by its UUID.
///
/// UUIDs are long, there are millions of consumers, and each look-up ends at the consumer itself: so
/// the index has no UUIDs of its own and stays small enough for a processor's cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsumerIndex {
    entries: HashTable<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Part of the hash, so that growing the table need not read the consumers.
    hash: u32,
    id: ConsumerId,
}

impl ConsumerIndex {
    /// The slot of a consumer.
    pub(crate) fn get(
        &self,
        uuid: &ConsumerUuid,
        consumers: &Slots<Consumer>,
    ) -> Option<ConsumerId> {
        let hash = short_hash(uuid);
        let is_entry_of = |entry: &Entry| {
            let consumer = || consumers.get(entry.id.0);
            entry.hash == hash && consumer().is_some_and(|consumer| consumer.uuid == *uuid)
        };
        let found = self.entries.find(long_hash(hash), is_entry_of);
        found.map(|entry| entry.id)
    }

    /// The slot that most likely belongs to a consumer, found by the short hash alone; `None` if there is no
    /// such consumer. Unlike [`Self::get`] it reads no consumer, so a caller can look many up before it reads any of
    /// them; then it has to compare the UUIDs.
    pub(crate) fn likely(&self, uuid: &ConsumerUuid) -> Option<ConsumerId> {
        let hash = short_hash(uuid);
        let found = self
            .entries
            .find(long_hash(hash), |entry| entry.hash == hash);
        found.map(|entry| entry.id)
    }

    /// Adds a consumer that has no entry yet.
    pub(crate) fn insert(&mut self, uuid: &ConsumerUuid, id: ConsumerId) {
        let hash = short_hash(uuid);
        let entry = Entry { hash, id };
        let hash_of_entry = |entry: &Entry| long_hash(entry.hash);
        self.entries
            .insert_unique(long_hash(hash), entry, hash_of_entry);
    }

    /// Removes the entry of a consumer.
    pub(crate) fn remove(&mut self, uuid: &ConsumerUuid, id: ConsumerId) {
        let hash = short_hash(uuid);
        let found = self
            .entries
            .find_entry(long_hash(hash), |entry| entry.id == id);
        if let Ok(found) = found {
            found.remove();
        }
    }
}

fn short_hash(uuid: &ConsumerUuid) -> u32 {
    // The upper half of the hash is as random as the lower one.
    u32::try_from(hash_of(uuid) >> 32).unwrap_or_default()
}

/// The hash for the table, which derives a position from the lowest bits and a tag from the
/// highest: so both halves are the short hash.
fn long_hash(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
