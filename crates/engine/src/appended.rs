//! Batches on their way from the leader that appended them to its followers, who apply them without reading the store.
//!
//! A follower may apply a batch only if the store has it, so that the result is the same as if it had been read there:
//!
//! - A leader sends a batch to its followers after the store has acknowledged its append. A batch whose append had an
//!   unknown outcome at first is not sent.
//! - A batch is taken from the leader of the present epoch only, and forgotten when the leader changes. A former leader
//!   has no batch that the store does not have, because its append would conflict.
//! - The follower's journal accepts a batch that continues the chain of checksums right behind the last entry that the
//!   follower has applied ([`Journal::accept`]).
//!
//! Whatever is missing, late, damaged or too large is read from the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use placewright_journal::Journal;
use placewright_journal::batch::{self, Link};
use tokio::sync::broadcast;

use crate::entries::EntryChunk;

/// The maximum size in bytes of the records of a batch that is given to followers.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How many batches are kept for a stream to a follower. A stream that is slower misses the older batches, and its
/// follower reads them from the store.
const BATCHES_KEPT: usize = 16;
/// The maximum size in bytes of the batches that wait to be applied at a follower.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// The approximate number of bytes that are applied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// A batch that is durable in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedBatch {
    /// Its place in the journal's chain of batches.
    pub link: Link,
    /// Its records, as `placewright_journal::batch::encode` writes them.
    pub payload: Vec<u8>,
}

/// The batches that a leader has appended, for its followers' streams.
#[derive(Debug)]
pub(crate) struct AppendedBatches(broadcast::Sender<Arc<AppendedBatch>>);

impl Default for AppendedBatches {
    fn default() -> Self {
        Self(broadcast::Sender::new(BATCHES_KEPT))
    }
}

impl AppendedBatches {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<AppendedBatch>> {
        self.0.subscribe()
    }

    /// Gives the batch of the append that has just been acknowledged to the streams, if there are any.
    pub(crate) fn publish(&self, journal: &dyn Journal, records: &[&[u8]]) {
        let bytes: usize = records.iter().map(|record| record.len()).sum();
        if self.0.receiver_count() == 0 || bytes > BATCH_BYTES_MAX {
            return;
        }
        let Some(link) = journal.appended() else {
            return;
        };
        if let Ok(payload) = batch::encode(records) {
            // Sending fails if the last stream has just ended.
            let _ = self.0.send(Arc::new(AppendedBatch { link, payload }));
        }
    }
}

/// The batches that a follower has received from the leader of one epoch and not applied yet.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBatches(Mutex<Received>);

/// The batches, with the epoch of the leader that sent them.
#[derive(Debug, Default)]
struct Received {
    epoch: u64,
    /// By first entry.
    batches: BTreeMap<u64, AppendedBatch>,
    /// The size of the batches' payloads together.
    bytes: usize,
}

impl Received {
    fn remove(&mut self, first: u64) -> Option<AppendedBatch> {
        let batch = self.batches.remove(&first)?;
        self.bytes -= batch.payload.len();
        Some(batch)
    }

    /// Forgets the batches before an entry, which have been applied.
    fn remove_before(&mut self, sequence: u64) {
        while let Some(first) = self.batches.keys().next().copied()
            && first < sequence
        {
            self.remove(first);
        }
    }
}

impl ReceivedBatches {
    /// Forgets all batches, and takes those of the leader of this epoch from now on.
    pub(crate) fn begin(&self, epoch: u64) {
        *self.0.lock() = Received {
            epoch,
            ..Received::default()
        };
    }

    /// Forgets all batches.
    pub(crate) fn clear(&self) {
        let mut received = self.0.lock();
        received.batches.clear();
        received.bytes = 0;
    }

    /// Adds a batch of the leader of an epoch. Drops it if another epoch is the present one, if its entries were
    /// applied already, or if [`WAITING_BYTES_MAX`] leaves no room. `applied` is the last entry that was applied.
    pub(crate) fn add(&self, epoch: u64, applied: u64, batch: AppendedBatch) {
        let mut received = self.0.lock();
        let first = batch.link.first;
        if epoch != received.epoch || first <= applied {
            return;
        }
        received.remove_before(applied + 1);
        received.remove(first);
        if received.bytes + batch.payload.len() <= WAITING_BYTES_MAX {
            received.bytes += batch.payload.len();
            received.batches.insert(first, batch);
        }
    }

    /// Whether a batch has been received that begins with the entry `next`.
    pub(crate) fn has(&self, next: u64) -> bool {
        self.0.lock().batches.contains_key(&next)
    }

    /// Takes the entries from `next` on that have been received and that the journal accepts; `None` if there are none.
    pub(crate) fn take(&self, journal: &mut dyn Journal, next: u64) -> Option<EntryChunk> {
        let mut chunk = EntryChunk::new(next, Vec::new(), Vec::new());
        let mut received = self.0.lock();
        received.remove_before(next);
        let mut next = next;
        while chunk.bytes() < CHUNK_BYTES
            && let Some(AppendedBatch { link, payload }) = received.remove(next)
            && journal.accept(link, &payload)
            && let Some(records) = batch::records(link.first, &payload)
        {
            records.for_each(|(_, record)| chunk.push(record));
            next = link.last + 1;
        }
        (!chunk.is_empty()).then_some(chunk)
    }
}
