//! The check of a store's keys against each other.

use placewright_journal::JournalError;

use super::EtcdJournal;
use super::read::after;
use crate::kv;
use crate::rows::BatchHeader;
use crate::snapshot;

/// The number of keys in one request.
const KEYS_PER_PAGE: i64 = 1000;

impl EtcdJournal {
    /// Walks over the keys: the batches are in order, the last one is that of the head, and every snapshot has
    /// its chunks. Reading the entries verifies the batches themselves.
    pub(super) fn check_keys(&mut self) -> Result<(), JournalError> {
        let store = &self.store;
        let keys = &store.keys;
        let reads = [
            kv::get(keys.head()),
            kv::get(keys.trim()),
            kv::last(keys.batch(0), keys.batches_end()),
        ];
        let mut ranges = store.read("check", reads)?;
        let head = store.known_head(kv::one(ranges.next()))?.head;
        let trimmed = store.trimmed(kv::one(ranges.next()).as_ref())?;
        let last = kv::one(ranges.next());
        if trimmed.last > head.end.last {
            let reason = "the key trim is ahead of the head".into();
            return Err(store.damaged_store(trimmed.last, reason));
        }
        let end = match last {
            None => trimmed,
            Some(found) => {
                let header = BatchHeader::decode(&found.value);
                let (header, _) =
                    header.map_err(|error| store.row_error(error, "the last batch"))?;
                // Batches that a trim has given up but not removed yet are ignored.
                if header.end.last > trimmed.last {
                    header.end
                } else {
                    trimmed
                }
            }
        };
        if end != head.end {
            let reason = format!(
                "the head ends at entry {}, the batches do not",
                head.end.last
            );
            return Err(store.damaged_store(end.last, reason));
        }
        self.check_batch_keys(trimmed.last)?;
        snapshot::check(&self.store)
    }

    /// Checks that the keys of the batches are well-formed, and that the first one begins right after the trimmed
    /// entries.
    fn check_batch_keys(&self, trimmed: u64) -> Result<(), JournalError> {
        let store = &self.store;
        let keys = &store.keys;
        let mut from = keys.batch(0);
        let mut is_first = true;
        loop {
            let range = kv::keys(from, keys.batches_end(), KEYS_PER_PAGE);
            let page = store.read("check", [range])?.next().unwrap_or_default();
            for found in &page.kvs {
                let first = keys.number(&found.key).unwrap_or_default();
                let is_well_formed = found.key == keys.batch(first) && first > 0;
                if !is_well_formed || (is_first && first > trimmed + 1) {
                    let key = String::from_utf8_lossy(&found.key).into_owned();
                    return Err(store.damaged_store(first, format!("unexpected key {key}")));
                }
                is_first = false;
            }
            match page.kvs.last() {
                Some(last) if page.more => from = after(&last.key),
                _ => return Ok(()),
            }
        }
    }
}
