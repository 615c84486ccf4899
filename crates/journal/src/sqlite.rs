//! The journal on disk: a store is a directory with a SQLite database.
//!
//! ```text
//! journal.sqlite (-wal, -shm)      the entries: a row for each append, several for a large one
//! snapshot-00000000000000000042    the state after entry 42
//! mark                             which entry was acknowledged last (see `mark.rs`)
//! lock                             held by the one program that may write
//! ```
//!
//! These files are created so that only their owner can read and write them, whatever the umask is.
//!
//! SQLite runs in WAL mode with `synchronous=FULL`: a commit returns after its fsync. Snapshots are
//! files of their own, because a snapshot inside the database would pass through the write-ahead
//! log and hold up every append meanwhile.

mod accept;
mod append;
pub(crate) mod batch;
mod check;
mod directory;
mod mark;
mod open;
mod read;
pub(crate) mod rebuild;
mod seal;
mod snapshot_file;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::{AppendError, Journal, JournalError, SnapshotInfo, SnapshotWriter, Stats, Visit};
pub use accept::AcceptedLoss;
pub use check::Notice;
use mark::HighWaterMark;
pub use open::{FORMAT, SqliteOptions};

/// The maximum number of batches that trimming removes in one transaction, so that appends wait
/// for milliseconds only.
const BATCHES_PER_TRIM: i64 = 64;

/// The maximum capacity, in bytes, that the buffer for an encoded batch keeps between appends. The memory that a larger
/// batch needed is freed.
const PAYLOAD_BYTES_KEPT_MAX: usize = 1 << 20;

/// A journal in a directory, stored by SQLite.
pub struct SqliteJournal {
    // Declared first, so that it is dropped before the lock in `store` is released.
    connection: Connection,
    store: Arc<Store>,
    /// The encoded batch; kept for its capacity.
    payload: Vec<u8>,
}

/// The state that all handles on one store share.
struct Store {
    directory: PathBuf,
    options: SqliteOptions,
    /// The locked file; `None` when opened for reading only.
    lock: Option<File>,
    /// Serialises write transactions, more fairly than SQLite's own waiting, which sleeps. It
    /// contains the mark, which is `None` when opened for reading only.
    write_lock: Mutex<Option<HighWaterMark>>,
    notices: Vec<Notice>,
    /// The address of the store that replaces this one, if this one is sealed.
    moved_to: OnceLock<String>,
}

impl Drop for Store {
    fn drop(&mut self) {
        // Dropping the mark makes it durable, which has to be done before the lock is released. The lock is
        // released explicitly, because closing the file does not release it while a child process that
        // is just being started has inherited the open file.
        *self.write_lock.get_mut() = None;
        if let Some(lock) = &self.lock {
            let _ = lock.unlock();
        }
    }
}

/// The end of the log: the last entry's sequence and the checksum of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) struct LogEnd {
    pub(crate) last: u64,
    pub(crate) checksum: u32,
}

impl Store {
    /// Converts an error of SQLite that occurred while `doing` something to this store.
    fn sqlite_error(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> JournalError + '_ {
        // 0: the error concerns no particular entry.
        move |error| JournalError::from_sqlite(&self.directory, doing, 0, error)
    }

    /// Converts an error of the operating system that occurred while `doing` something to this store.
    fn io_error(&self, doing: &'static str) -> impl Fn(std::io::Error) -> JournalError + '_ {
        move |error| JournalError::from_io(&self.directory, doing, error)
    }

    /// Locks the store for writing; refuses if it was opened for reading only.
    fn lock_for_writing(&self) -> Result<MutexGuard<'_, Option<HighWaterMark>>, JournalError> {
        if self.lock.is_none() {
            return Err(JournalError::ReadOnly {
                path: self.directory.clone(),
                reason: "it was opened for reading only".into(),
            });
        }
        Ok(self.write_lock.lock())
    }
}

/// SQLite's integers are signed; sequences and sizes never reach the sign bit.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The reverse of [`int`]. A negative number, which only a damaged database has, becomes 0.
fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The time in microseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

/// The end of the last batch, or of the trimmed entries when no batch is held.
fn log_end(connection: &Connection) -> rusqlite::Result<LogEnd> {
    let log_end = connection
        .prepare_cached("SELECT last, checksum FROM batch ORDER BY first DESC LIMIT 1")?
        .query_row([], |row| {
            Ok(LogEnd {
                last: uint(row.get(0)?),
                checksum: row.get(1)?,
            })
        })
        .optional()?;
    match log_end {
        Some(log_end) => Ok(log_end),
        None => trimmed_end(connection),
    }
}

/// The end of the trimmed entries; its sequence is 0 if none were trimmed.
fn trimmed_end(connection: &Connection) -> rusqlite::Result<LogEnd> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let last: i64 = statement.query_row(["trimmed_last"], |row| row.get(0))?;
    let checksum: u32 = statement.query_row(["trimmed_checksum"], |row| row.get(0))?;
    Ok(LogEnd {
        last: uint(last),
        checksum,
    })
}

impl SqliteJournal {
    /// Removes up to [`BATCHES_PER_TRIM`] batches that end before `before`; false if there was no such batch.
    fn trim_batches(&mut self, before: u64) -> Result<bool, JournalError> {
        let write_lock = self.store.lock_for_writing()?;
        let sqlite = self.store.sqlite_error("trim");
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&sqlite)?;
        // The oldest batches that lie wholly before `before`; the last of them becomes the new end
        // of the trimmed entries.
        let last_trimmed: Option<(i64, u32)> = transaction
            .prepare_cached(
                "SELECT last, checksum FROM \
                 (SELECT first, last, checksum FROM batch ORDER BY first LIMIT ?2) \
                 WHERE last < ?1 ORDER BY first DESC LIMIT 1",
            )
            .and_then(|mut s| {
                s.query_row(params![int(before), BATCHES_PER_TRIM], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()
            })
            .map_err(&sqlite)?;
        let Some((last, checksum)) = last_trimmed else {
            return Ok(false);
        };
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            transaction
                .prepare_cached(sql)
                .and_then(|mut s| s.execute(values))
                .map_err(&sqlite)
        };
        run("DELETE FROM batch WHERE first <= ?1", &[&last])?;
        let set_meta = "UPDATE meta SET value = ?2 WHERE key = ?1";
        run(set_meta, &[&"trimmed_last", &last])?;
        run(set_meta, &[&"trimmed_checksum", &checksum])?;
        transaction.commit().map_err(&sqlite)?;
        // Fair, so that an append that waits for the lock runs before the next transaction of the trim.
        MutexGuard::unlock_fair(write_lock);
        Ok(true)
    }

    /// Conditions found when the store was opened that an operator should know of; none of them
    /// prevents its use.
    pub fn notices(&self) -> &[Notice] {
        &self.store.notices
    }

    /// The directory of the store.
    pub fn directory(&self) -> &Path {
        &self.store.directory
    }

    fn file_bytes(&self) -> u64 {
        ["journal.sqlite", "journal.sqlite-wal"]
            .iter()
            .filter_map(|name| std::fs::metadata(self.store.directory.join(name)).ok())
            .map(|metadata| metadata.len())
            .sum()
    }
}

/// The first entry and the end of the last batch that begins at `sequence` or before; `None` if there is none.
fn batch_at(connection: &Connection, sequence: u64) -> rusqlite::Result<Option<(u64, LogEnd)>> {
    connection
        .prepare_cached(
            "SELECT first, last, checksum FROM batch WHERE first <= ?1 ORDER BY first DESC LIMIT 1",
        )?
        .query_row([int(sequence)], |row| {
            let log_end = LogEnd {
                last: uint(row.get(1)?),
                checksum: row.get(2)?,
            };
            Ok((uint(row.get(0)?), log_end))
        })
        .optional()
}

impl Journal for SqliteJournal {
    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError> {
        let appended = self.append_records(next_sequence, records);
        self.payload.clear();
        self.payload.shrink_to(PAYLOAD_BYTES_KEPT_MAX);
        if appended.is_err() && !self.connection.is_autocommit() {
            // Reconnect: a transaction that could not even be rolled back would block every later
            // one.
            self.connection = open::reconnect(&self.store)?;
            self.enable_checkpoint_on_close()?;
        }
        appended
    }

    fn finish_deferred(&mut self) {
        if let Some(mark) = self.store.write_lock.lock().as_mut() {
            // A failure is retried before the next append, which then reports it.
            let _ = mark.make_durable();
        }
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        self.read_entries(from, visit)
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        Ok(log_end(&self.connection)
            .map_err(self.store.sqlite_error("read"))?
            .last)
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        self.find_appended_at(sequence)
            .map_err(self.store.sqlite_error("read"))
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        let trimmed_end = trimmed_end(&self.connection).map_err(self.store.sqlite_error("read"))?;
        Ok(trimmed_end.last + 1)
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        snapshot_file::list(&self.store.directory).map_err(self.store.io_error("list snapshots"))
    }

    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError> {
        // Taking the lock waits for an append under way, and fails if the store was opened for reading only.
        drop(self.store.lock_for_writing()?);
        let end = self.end()?;
        if sequence > end {
            return Err(JournalError::Missing {
                path: self.store.directory.clone(),
                first: end + 1,
                last: sequence,
            });
        }
        let writer = snapshot_file::Writer::create(&self.store.directory, sequence)?;
        Ok(Box::new(writer))
    }

    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError> {
        let reader = snapshot_file::Reader::open(&self.store.directory, sequence)?;
        Ok(Box::new(reader))
    }

    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError> {
        // Taking the lock fails if the store was opened for reading only. Removing files needs no lock.
        drop(self.store.lock_for_writing()?);
        for old in self.snapshots()?.iter().skip(keep.max(1)) {
            let path = snapshot_file::path(&self.store.directory, old.sequence);
            std::fs::remove_file(path).map_err(self.store.io_error("remove a snapshot"))?;
        }
        Ok(())
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        let snapshot = self.snapshots()?.first().map_or(0, |s| s.sequence);
        if before_sequence > snapshot + 1 {
            return Err(JournalError::TrimBeyondSnapshot {
                before: before_sequence,
                snapshot,
            });
        }
        while self.trim_batches(before_sequence)? {}
        Ok(())
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        let snapshots = self.snapshots()?;
        let sqlite = self.store.sqlite_error("read");
        // In a row each record has its length before it, in 4 bytes.
        let (batches, entries, record_bytes): (i64, i64, i64) = self
            .connection
            .query_row(
                "SELECT count(*), coalesce(sum(last - first + 1), 0), \
                 coalesce(sum(length(records) - 4 * (last - first + 1)), 0) FROM batch",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .map_err(&sqlite)?;
        Ok(Stats {
            entries: uint(entries),
            batches: uint(batches),
            record_bytes: uint(record_bytes),
            first_held: trimmed_end(&self.connection).map_err(&sqlite)?.last + 1,
            end: log_end(&self.connection).map_err(&sqlite)?.last,
            snapshots,
            file_bytes: self.file_bytes(),
        })
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        let store = Arc::clone(&self.store);
        let mut write_lock = store.lock_for_writing()?;
        let sqlite = store.sqlite_error("begin");
        let end = log_end(&self.connection).map_err(&sqlite)?.last;
        let trimmed = trimmed_end(&self.connection).map_err(&sqlite)?.last;
        if end == sequence && trimmed == sequence {
            return Ok(());
        }
        if end > 0 {
            return Err(JournalError::NotEmpty {
                path: store.directory.clone(),
                end,
            });
        }
        self.connection
            .execute(
                "UPDATE meta SET value = ?1 WHERE key = 'trimmed_last'",
                [int(sequence)],
            )
            .map_err(&sqlite)?;
        if let Some(mark) = write_lock.as_mut() {
            let checksum = 0;
            mark.set(LogEnd {
                last: sequence,
                checksum,
            });
        }
        Ok(())
    }

    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        self.seal_store(moved_to)
    }

    fn check_store(&mut self) -> Result<(), JournalError> {
        let answer: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(self.store.sqlite_error("check"))?;
        if answer == "ok" {
            return Ok(());
        }
        Err(JournalError::DamagedStore {
            path: self.store.directory.clone(),
            sequence: 0,
            reason: answer,
        })
    }

    fn check_acknowledged(&mut self) -> Result<(), JournalError> {
        // The mark is read before the log: entries that are appended between the two reads are then found in
        // the log only, and none seem to be missing.
        let stored_mark =
            mark::read(&self.store.directory).map_err(self.store.io_error("read its mark"))?;
        check::check_acknowledged(&self.store, &self.connection, stored_mark)
    }

    fn reclaim(&mut self) -> Result<(), JournalError> {
        {
            let _write_lock = self.store.lock_for_writing()?;
            self.connection
                .execute_batch("VACUUM")
                .map_err(self.store.sqlite_error("compact"))?;
        }
        self.checkpoint()
    }

    fn checkpoint(&mut self) -> Result<(), JournalError> {
        let _write_lock = self.store.lock_for_writing()?;
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(self.store.sqlite_error("checkpoint"))
    }

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        let another = Self {
            connection: open::reconnect(&self.store)?,
            store: Arc::clone(&self.store),
            payload: Vec::new(),
        };
        // A store without the lock was opened for reading only, and must not be changed on close.
        if self.store.lock.is_some() {
            another.enable_checkpoint_on_close()?;
        }
        Ok(Box::new(another))
    }
}
