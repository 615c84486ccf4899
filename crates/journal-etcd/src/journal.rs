//! The journal: one handle on a store.

mod append;
mod check;
mod read;
mod seal;
mod trim;

use std::io::Read;
use std::sync::Arc;

use placewright_journal::batch::{Link, LogEnd};
use placewright_journal::chunks::ChunkWriter;
use placewright_journal::{
    AppendError, Journal, JournalError, Resolution, SnapshotInfo, SnapshotWriter, Stats, Visit,
};

use crate::kv;
use crate::notice::EtcdNotice;
use crate::options::EtcdOptions;
use crate::snapshot;
use crate::store::{KnownHead, Store};
use append::Pending;
pub use seal::EtcdHead;

/// A journal in etcd.
///
/// Every call blocks its thread until etcd has answered its requests. A request without an answer fails after
/// [`EtcdOptions::request_timeout`]; one that can be repeated fails after three times as long, and not before every
/// member was tried. The requests themselves run on a thread of the store, which all handles share, so a call may be
/// made on any thread; on a thread of an asynchronous runtime it has to be marked as blocking work, as with tokio's
/// `spawn_blocking`.
pub struct EtcdJournal {
    store: Arc<Store>,
    /// The head as this handle saw it last. An append succeeds only if the store still has this head.
    known: KnownHead,
    /// The end of the last batch that this handle read, wrote or accepted. A batch is accepted only if it follows right
    /// behind.
    verified: LogEnd,
    /// The batch of the last append, for [`Journal::appended`]; `None` as described there.
    appended: Option<Link>,
    /// The append whose outcome is not known; `None` if all outcomes are.
    pending: Option<Box<Pending>>,
}

impl EtcdJournal {
    /// Opens a store, and creates it if no key has its prefix.
    ///
    /// # Errors
    /// [`JournalError::Unreachable`] when too few members answer, [`JournalError::Unsuitable`] for a release of
    /// etcd with a grave fault, a wrong password or certificate, [`JournalError::NoSpace`],
    /// [`JournalError::NewerFormat`], and [`JournalError::NotAJournal`].
    pub fn open(options: &EtcdOptions) -> Result<Self, JournalError> {
        let (store, known) = crate::open::open(options)?;
        Ok(Self {
            store: Arc::new(store),
            verified: known.head.end,
            known,
            appended: None,
            pending: None,
        })
    }

    /// Conditions found when the store was opened that an operator should know of; none of them prevents its use.
    pub fn notices(&self) -> &[EtcdNotice] {
        &self.store.notices
    }

    /// The address of the store, without secrets.
    pub fn url(&self) -> &str {
        &self.store.url
    }

    /// Replaces the known head by the one that the store has now.
    ///
    /// # Errors
    /// [`JournalError::Lost`] when it is behind what this handle saw or accepted: somebody restored the cluster from a
    /// backup.
    fn update_known_head(&mut self, now: KnownHead) -> Result<(), JournalError> {
        let end = now.head.end;
        for before in [self.known.head.end, self.verified] {
            // Another batch ends at the same entry.
            let is_other = end.last == before.last && end.checksum != before.checksum;
            if end.last < before.last || is_other {
                return Err(JournalError::Lost {
                    path: self.store.path(),
                    first: if is_other { end.last } else { end.last + 1 },
                    last: before.last,
                });
            }
        }
        self.known = now;
        Ok(())
    }

    /// Reads the head from a majority of the members.
    fn refresh(&mut self, doing: &'static str) -> Result<(), JournalError> {
        let now = self.store.read_head(doing)?;
        self.update_known_head(now)
    }
}

impl Journal for EtcdJournal {
    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError> {
        self.append_batch(next_sequence, records)
    }

    fn resolve(&mut self) -> Result<Resolution, JournalError> {
        self.tell_outcome()
    }

    fn appended(&self) -> Option<Link> {
        self.appended
    }

    fn accept(&mut self, link: Link, payload: &[u8]) -> bool {
        let Some(end) = self.verified.after(link, payload) else {
            return false;
        };
        self.verified = end;
        true
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        self.read_entries(from, visit)
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        self.refresh("read")?;
        Ok(self.known.head.end.last)
    }

    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        let now = self.store.read_head("read")?;
        self.verified = now.head.end;
        self.known = now;
        self.pending = None;
        Ok(self.known.head.end.last)
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        self.find_appended_at(sequence)
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        Ok(self.store.read_trimmed("read")?.last + 1)
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        snapshot::list(&self.store)
    }

    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError> {
        let end = self.end()?;
        if sequence > end {
            return Err(self.store.missing(end + 1, sequence));
        }
        Ok(Box::new(ChunkWriter::new(snapshot::Sink::new(
            &self.store,
            sequence,
        ))))
    }

    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError> {
        Ok(Box::new(snapshot::open(&self.store, sequence)?))
    }

    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError> {
        snapshot::drop_old(&self.store, keep)
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        self.trim_entries(before_sequence)
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        let keys = &self.store.keys;
        let reads = [
            kv::get(keys.head()),
            kv::get(keys.trim()),
            kv::count(keys.batch(0), keys.batches_end()),
        ];
        let mut ranges = self.store.read("count entries", reads)?;
        let head = self.store.known_head(kv::one(ranges.next()))?.head;
        let trimmed = self.store.trimmed(kv::one(ranges.next()).as_ref())?;
        let batches = ranges.next().map_or(0, |range| range.count);
        let snapshots = self.snapshots()?;
        let record_bytes = head.end.record_bytes.saturating_sub(trimmed.record_bytes);
        Ok(Stats {
            entries: head.end.last.saturating_sub(trimmed.last),
            batches: u64::try_from(batches).unwrap_or(0),
            record_bytes,
            first_held: trimmed.last + 1,
            end: head.end.last,
            snapshots,
            // etcd reports only the size of its whole database, including old revisions and snapshots.
            file_bytes: record_bytes,
        })
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        self.begin_store_after(sequence)
    }

    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        self.seal_store(moved_to)
    }

    fn check_store(&mut self) -> Result<(), JournalError> {
        self.check_keys()
    }

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        Ok(Box::new(Self {
            store: Arc::clone(&self.store),
            known: self.known.clone(),
            verified: self.verified,
            appended: None,
            pending: None,
        }))
    }
}
