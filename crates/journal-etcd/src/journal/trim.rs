//! Removing entries that a snapshot covers, and parts of batches whose appends failed.

use std::time::{Duration, Instant};

use placewright_journal::JournalError;
use placewright_journal::batch::LogEnd;
use prost::bytes::Bytes;

use super::EtcdJournal;
use super::read::after;
use crate::kv;
use crate::proto::{KeyValue, TxnRequest};
use crate::rows::{BatchHeader, encode_trim};
use crate::snapshot;

/// The number of keys that are removed in one transaction. Appends wait for it.
const KEYS_PER_DELETE: i64 = 256;
/// The least time between two compactions of etcd's history. A compaction holds up other requests.
const COMPACTION_PAUSE: Duration = Duration::from_secs(60);
/// The number of revisions that a compaction leaves, for readers that are under way.
const REVISIONS_KEPT: i64 = 1000;

impl EtcdJournal {
    pub(super) fn trim_entries(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        let snapshots = snapshot::list(&self.store)?;
        let snapshot = snapshots.first().map_or(0, |snapshot| snapshot.sequence);
        if before_sequence > snapshot + 1 {
            return Err(JournalError::TrimBeyondSnapshot {
                before: before_sequence,
                snapshot,
            });
        }
        let trimmed = self.move_trim(before_sequence)?;
        // Readers see the new value of the key `trim` before the batches disappear, so they never take the missing
        // batches for damage.
        let keys = &self.store.keys;
        let first_held = trimmed.last + 1;
        self.delete_range(keys.batch(0), keys.batch(first_held))?;
        // The records of a large batch have keys of their own: parts, which are written in the transaction of the
        // batch, or uploads, which are written before it if they are too large for one transaction.
        self.delete_range(keys.parts(0), keys.parts(first_held))?;
        self.delete_range(keys.uploads(0), keys.uploads(first_held))?;
        let revision = self.delete_abandoned_uploads(first_held)?;
        self.compact_history(revision);
        Ok(())
    }

    /// Moves the end of the trimmed entries to the last batch that ends before `before`, and returns it.
    fn move_trim(&mut self, before: u64) -> Result<LogEnd, JournalError> {
        loop {
            let (trim_revision, trimmed, wanted) = self.find_trim(before)?;
            if wanted.last <= trimmed.last {
                return Ok(trimmed);
            }
            let key = self.store.keys.trim();
            let request = TxnRequest {
                compare: vec![kv::is_at(key.clone(), trim_revision)],
                success: vec![kv::put(key, encode_trim(&wanted))],
                failure: Vec::new(),
            };
            // Whichever trim has moved the end, the next round of the loop reads where it is.
            self.store.repeat("trim", request)?;
        }
    }

    /// The revision of the key `trim`, the end that it has, and the end that it should have.
    fn find_trim(&mut self, before: u64) -> Result<(i64, LogEnd, LogEnd), JournalError> {
        let store = &self.store;
        let keys = &store.keys;
        let reads = [
            kv::get(keys.head()),
            kv::get(keys.trim()),
            // The batch that holds the first entry to keep.
            kv::last(keys.batch(0), keys.batch(before.saturating_add(1))),
        ];
        let mut ranges = store.read("trim", reads)?;
        let head = store.known_head(kv::one(ranges.next()))?;
        let trim_key = kv::one(ranges.next());
        let trimmed = store.trimmed(trim_key.as_ref())?;
        let batch_to_keep = kv::one(ranges.next());
        self.update_known_head(head)?;
        let end = self.known.head.end;
        let wanted = match batch_to_keep {
            _ if before > end.last => end,
            Some(batch) => self.end_before_batch(&batch)?,
            None => trimmed,
        };
        let trim_revision = trim_key.map_or(0, |found| found.mod_revision);
        Ok((trim_revision, trimmed, wanted))
    }

    fn end_before_batch(&self, found: &KeyValue) -> Result<LogEnd, JournalError> {
        let header = BatchHeader::decode(&found.value);
        let (header, _) = header.map_err(|error| self.store.row_error(error, "a batch"))?;
        let entries = header.end.last.saturating_sub(header.first) + 1;
        // Before each record is its length, in 4 bytes.
        let record_bytes = header.payload_bytes.saturating_sub(4 * entries);
        Ok(LogEnd {
            last: header.first.saturating_sub(1),
            checksum: header.previous,
            record_bytes: header.end.record_bytes.saturating_sub(record_bytes),
        })
    }

    /// Removes the keys from `from` on and before `until`, a few at a time.
    fn delete_range(&self, from: Bytes, until: Bytes) -> Result<(), JournalError> {
        loop {
            let range = kv::keys(from.clone(), until.clone(), KEYS_PER_DELETE);
            let page = self.store.read("trim", [range])?.next();
            let page = page.unwrap_or_default();
            let Some(last) = page.kvs.last() else {
                return Ok(());
            };
            let delete = kv::delete(from.clone(), after(&last.key));
            self.store.repeat("trim", kv::all(vec![delete]))?;
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Removes the uploaded parts of batches that will never become visible. Returns the revision of the store.
    ///
    /// A writer uploads parts after it has read the head. If the head has changed since the parts were written, the
    /// writer's transaction can only fail, so the parts are useless, unless their batch is visible already.
    fn delete_abandoned_uploads(&mut self, first_held: u64) -> Result<i64, JournalError> {
        let store = &self.store;
        let keys = &store.keys;
        let mut from = keys.uploads(first_held);
        loop {
            let reads = [
                kv::get(keys.head()),
                kv::keys(from.clone(), keys.uploads_end(), 1),
            ];
            let request = kv::all(reads.into_iter().map(kv::read).collect());
            let response = store.repeat("trim", request)?;
            let revision = kv::revision(&response);
            let mut ranges = kv::ranges(response);
            let head = store.known_head(kv::one(ranges.next()))?;
            let Some(upload_part) = kv::one(ranges.next()) else {
                return Ok(revision);
            };
            let (Some(first), Some(id)) =
                (keys.number(&upload_part.key), keys.id(&upload_part.key))
            else {
                from = after(&upload_part.key);
                continue;
            };
            let (start, end) = keys.upload(first, id);
            if upload_part.mod_revision < head.revision && !self.is_batch_of(first, id)? {
                self.delete_range(start, end.clone())?;
            }
            from = end;
        }
    }

    /// Compacts etcd's history, which otherwise keeps the removed keys. A failure is ignored, because the next trim
    /// tries again.
    fn compact_history(&self, revision: i64) {
        let mut last_compaction = self.store.last_compaction.lock();
        let is_due = last_compaction.is_none_or(|last| last.elapsed() >= COMPACTION_PAUSE);
        if !self.store.compact || !is_due || revision <= REVISIONS_KEPT {
            return;
        }
        *last_compaction = Some(Instant::now());
        drop(last_compaction);
        let _ = self.store.client.compact(revision - REVISIONS_KEPT);
    }
}
