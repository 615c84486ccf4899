//! Building a store from batches and a snapshot that were read elsewhere.

use std::path::Path;

use rusqlite::params;

use super::batch::{self, Row};
use super::mark::HighWaterMark;
use super::{LogEnd, SqliteJournal, SqliteOptions, int};
use crate::{Journal as _, JournalError};

/// The size of the batches in one transaction, in bytes.
const TRANSACTION_BYTES: usize = 8 << 20;

/// A store that is being built. It cannot be used before [`Rebuild::finish`].
pub(crate) struct Rebuild {
    journal: SqliteJournal,
    end: LogEnd,
    /// The size of the batches in the open transaction; `None` if none is open.
    transaction_bytes: Option<usize>,
}

impl Rebuild {
    /// Creates the store in an empty directory; its first batch will follow the batch that ends at `before`.
    pub(crate) fn create(directory: &Path, before: LogEnd) -> Result<Self, JournalError> {
        let journal = SqliteJournal::open(directory, SqliteOptions::default())?;
        let update = "UPDATE meta SET value = ?2 WHERE key = ?1";
        let values = [
            ("trimmed_last", int(before.last)),
            ("trimmed_checksum", i64::from(before.checksum)),
        ];
        for (key, value) in values {
            (journal.connection)
                .execute(update, params![key, value])
                .map_err(journal.store.sqlite_error("restore"))?;
        }
        Ok(Self {
            journal,
            end: before,
            transaction_bytes: None,
        })
    }

    /// Appends the entries of a batch up to `last`. The batch keeps its checksum; if `last` cuts it short,
    /// the checksum is computed anew.
    pub(crate) fn append(&mut self, row: &Row<'_>, last: u64) -> Result<(), JournalError> {
        let path = &self.journal.store.directory;
        let records = row
            .check(self.end)
            .map_err(|reason| row.damaged(path, reason))?;
        if last >= row.last {
            return self.insert(row);
        }
        let records: Vec<&[u8]> = records
            .take_while(|(sequence, _)| *sequence <= last)
            .map(|(_, record)| record)
            .collect();
        let mut payload = Vec::new();
        batch::encode(&records, &mut payload)?;
        let checksum = batch::checksum(self.end.checksum, row.first, last, &payload);
        self.insert(&Row {
            last,
            previous: i64::from(self.end.checksum),
            checksum: i64::from(checksum),
            records: &payload,
            ..*row
        })
    }

    /// Inserts a row in the open transaction, or in a new one if none is open.
    fn insert(&mut self, row: &Row<'_>) -> Result<(), JournalError> {
        let sqlite = self.journal.store.sqlite_error("restore");
        let connection = &self.journal.connection;
        if self.transaction_bytes.is_none() {
            connection.execute_batch("BEGIN").map_err(&sqlite)?;
        }
        connection
            .prepare_cached(
                "INSERT INTO batch (first, last, previous, checksum, records, appended_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    int(row.first),
                    int(row.last),
                    row.previous,
                    row.checksum,
                    row.records,
                    row.appended_at,
                ])
            })
            .map_err(&sqlite)?;
        drop(sqlite);
        self.end = row.log_end();
        let transaction_bytes = self.transaction_bytes.unwrap_or(0) + row.records.len();
        self.transaction_bytes = Some(transaction_bytes);
        if transaction_bytes >= TRANSACTION_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        if self.transaction_bytes.take().is_some() {
            (self.journal.connection)
                .execute_batch("COMMIT")
                .map_err(self.journal.store.sqlite_error("restore"))?;
        }
        Ok(())
    }

    /// Commits the batches so far, and returns the journal, to write its snapshot.
    pub(crate) fn commit_to_journal(&mut self) -> Result<&mut SqliteJournal, JournalError> {
        self.commit()?;
        Ok(&mut self.journal)
    }

    /// Makes everything durable, and sets the mark to the end.
    pub(crate) fn finish(mut self) -> Result<SqliteJournal, JournalError> {
        self.commit()?;
        self.journal.checkpoint()?;
        let store = &self.journal.store;
        let mark = HighWaterMark::create(&store.directory, self.end)
            .map_err(store.io_error("write its mark"))?;
        *store.write_lock.lock() = Some(mark);
        Ok(self.journal)
    }
}
