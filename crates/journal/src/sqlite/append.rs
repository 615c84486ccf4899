//! Appending records: one transaction with a row for each batch.

use rusqlite::{Connection, TransactionBehavior, params};

use super::mark::HighWaterMark;
use super::{LogEnd, SqliteJournal, batch, int, log_end, now};
use crate::AppendError;

impl SqliteJournal {
    /// Appends records in one transaction of the database.
    pub(super) fn append_records(
        &mut self,
        next_sequence: u64,
        records: &[&[u8]],
    ) -> Result<(), AppendError> {
        let batches = batch::split_append(records)?;
        let mut write_lock = self.store.lock_for_writing()?;
        let to_append_error = self.store.sqlite_error("append");
        if let Some(mark) = write_lock.as_mut() {
            // The mark of the previous append has to be durable before this append begins.
            mark.make_durable()
                .map_err(self.store.io_error("write its mark"))?;
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&to_append_error)?;
        // After an append that succeeded the mark knows the end of the log. It forgets the end until this append has
        // succeeded, so that the end is read from the log after an append that failed.
        let known_end = write_lock.as_mut().and_then(HighWaterMark::take_end);
        let log_end = match known_end {
            Some(log_end) => log_end,
            None => log_end(&transaction).map_err(&to_append_error)?,
        };
        if let Some(sealed) = self.store.sealed(log_end.last) {
            return Err(sealed.into());
        }
        if log_end.last + 1 != next_sequence {
            return Err(AppendError::Conflict {
                next_sequence: log_end.last + 1,
            });
        }
        if records.is_empty() {
            return Ok(());
        }
        // The same for all batches, so that a restore up to a time never cuts an append.
        let appended_at = now();
        let mut new_end = log_end;
        for records in batches {
            batch::encode(records, &mut self.payload)?;
            new_end = insert_batch(
                &transaction,
                new_end,
                records.len(),
                &self.payload,
                appended_at,
            )
            .map_err(&to_append_error)?;
        }
        transaction.commit().map_err(&to_append_error)?;
        if let Some(mark) = write_lock.as_mut() {
            mark.set(new_end);
        }
        Ok(())
    }
}

/// Inserts the batch of `record_count` records that follows `before`, and returns its end.
fn insert_batch(
    connection: &Connection,
    before: LogEnd,
    record_count: usize,
    payload: &[u8],
    appended_at: i64,
) -> rusqlite::Result<LogEnd> {
    let first = before.last + 1;
    let last = before.last + record_count as u64;
    let checksum = batch::checksum(before.checksum, first, last, payload);
    let mut insert = connection.prepare_cached(
        "INSERT INTO batch (first, last, previous, checksum, records, appended_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    insert.execute(params![
        int(first),
        int(last),
        before.checksum,
        checksum,
        payload,
        appended_at,
    ])?;
    Ok(LogEnd { last, checksum })
}
