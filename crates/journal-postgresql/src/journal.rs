//! The journal: one handle on a store.

mod append;
mod check;
mod durable;
mod read;
mod seal;
mod trim;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use placewright_journal::batch::{Link, LogEnd};
use placewright_journal::chunks::ChunkWriter;
use placewright_journal::{
    AppendError, Journal, JournalError, Resolution, SnapshotInfo, SnapshotWriter, Stats, Visit,
};

use crate::connection::Connection;
use crate::notice::PostgresqlNotice;
use crate::options::PostgresqlOptions;
use crate::rows::Head;
use crate::schema::STATS;
use crate::snapshot;
use crate::store::Store;
use append::Pending;

/// A journal in PostgreSQL.
///
/// Every call blocks its thread until the primary has answered its requests. A request without an answer fails after
/// [`PostgresqlOptions::request_timeout`], or later if it is a large append; a request that can be repeated is given
/// up after three times that time. The requests themselves run on a thread of the store, which all handles share, so
/// a call may be made on any thread; on a thread of an asynchronous runtime it has to be marked as blocking work, as
/// with tokio's `spawn_blocking`. Each handle has a session of its own.
pub struct PostgresqlJournal {
    store: Arc<Store>,
    connection: Connection,
    /// The head as this handle saw it last. An append is compared with it. The head may not be durable yet.
    known: Head,
    /// The end of the last batch that this handle read, appended or accepted. The next batch is checked to follow it.
    verified: LogEnd,
    /// The batch that this handle has just appended; see [`Journal::appended`].
    appended: Option<Link>,
    /// The append whose outcome is not known.
    pending: Option<Arc<Pending>>,
}

impl PostgresqlJournal {
    /// Opens a store, and creates its tables if the schema has none.
    ///
    /// # Errors
    /// [`JournalError::Unreachable`] when no server is a primary that answers; [`JournalError::Unsuitable`] for a
    /// server without synchronous standbys, an old release, a wrong password or certificate;
    /// [`JournalError::ReadOnly`] for missing rights; [`JournalError::NewerFormat`], and
    /// [`JournalError::NotAJournal`].
    pub fn open(options: &PostgresqlOptions) -> Result<Self, JournalError> {
        let (store, connection, state) = crate::open::open(options)?;
        Ok(Self {
            store,
            connection,
            verified: LogEnd::default(),
            known: state.head,
            appended: None,
            pending: None,
        })
    }

    /// Conditions found when the store was opened that an operator should know of; none of them prevents its use.
    pub fn notices(&self) -> &[PostgresqlNotice] {
        &self.store.notices
    }

    /// The address of the store, without secrets.
    pub fn url(&self) -> &str {
        &self.store.url
    }
}

impl Journal for PostgresqlJournal {
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
        self.store.acknowledge(end);
        true
    }

    fn finish_deferred(&mut self) {
        self.record_acknowledged();
    }

    fn wait_for_entries(&mut self, after: u64, timeout: Duration) -> Result<(), JournalError> {
        self.poll_until(after, timeout)
    }

    fn durable_end(&mut self) -> Result<u64, JournalError> {
        Ok(self.confirm("read")?.head.end.last)
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        self.read_entries(from, visit)
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        Ok(self.read_state("read")?.head.end.last)
    }

    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        self.store.forget_acknowledged();
        let end = self.confirm("read")?.head.end;
        self.verified = end;
        self.pending = None;
        Ok(end.last)
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        self.find_appended_at(sequence)
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        Ok(self.read_state("read")?.trimmed.last + 1)
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        snapshot::list(&self.store, &mut self.connection)
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
        snapshot::drop_old(&self.store, &mut self.connection, keep)
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        self.trim_entries(before_sequence)
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        let counted = self.connection.repeat(|session| async move {
            let row = session.query_one(STATS, &[]).await?;
            let mut numbers = [0; 6];
            for (column, number) in numbers.iter_mut().enumerate() {
                *number = session.uint(&row, column)?;
            }
            Ok(numbers)
        });
        let counted = counted.map_err(|failure| self.store.error("count entries", failure))?;
        let [end, bytes, trimmed, trimmed_bytes, batches, file_bytes] = counted;
        Ok(Stats {
            entries: end.saturating_sub(trimmed),
            batches,
            record_bytes: bytes.saturating_sub(trimmed_bytes),
            first_held: trimmed + 1,
            end,
            snapshots: self.snapshots()?,
            file_bytes,
        })
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        self.begin_store_after(sequence)
    }

    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        self.seal_store(moved_to)
    }

    fn check_store(&mut self) -> Result<(), JournalError> {
        self.check_tables()
    }

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        Ok(Box::new(Self {
            store: Arc::clone(&self.store),
            connection: self.store.connection(),
            known: self.known.clone(),
            verified: self.verified,
            appended: None,
            pending: None,
        }))
    }
}
