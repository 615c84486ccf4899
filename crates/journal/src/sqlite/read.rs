//! Reading batches in order, each verified in its place in the chain.

use std::ops::ControlFlow;

use rusqlite::{Connection, OptionalExtension};

use super::batch::{Records, Row};
use super::{LogEnd, SqliteJournal, int, log_end, open, trimmed_end, uint};
use crate::{JournalError, Visit};

/// Receives a verified batch with its records, and returns whether to continue.
pub(crate) type VisitBatch<'a> = dyn FnMut(&Row<'_>, Records<'_>) -> ControlFlow<()> + 'a;

/// Selects batches without their times, for recovery and followers, which do not need the times.
const BATCHES: &str = "SELECT first, last, previous, checksum, records, NULL FROM batch \
                       WHERE first > ?1 ORDER BY first";
const BATCHES_WITH_TIMES: &str = "SELECT first, last, previous, checksum, records, appended_at FROM batch \
                                  WHERE first > ?1 ORDER BY first";

impl SqliteJournal {
    /// Visits entries in one read transaction of the database; returns the sequence to continue with.
    pub(super) fn read_entries(
        &mut self,
        from: u64,
        visit: &mut Visit<'_>,
    ) -> Result<u64, JournalError> {
        let mut next = from;
        self.visit_batches(BATCHES, from, &mut |_, records| {
            for (sequence, record) in records {
                if sequence < next {
                    continue;
                }
                next = sequence + 1;
                visit(sequence, record)?;
            }
            ControlFlow::Continue(())
        })?;
        Ok(next)
    }

    /// Visits the batch that holds the entry `from` and all batches after it, with their times, in one read
    /// transaction of the database. The errors are those of [`crate::Journal::read`].
    pub(crate) fn read_batches(
        &mut self,
        from: u64,
        visit: &mut VisitBatch<'_>,
    ) -> Result<(), JournalError> {
        let has_times =
            open::has_times(&self.connection).map_err(self.store.sqlite_error("read"))?;
        let select = if has_times {
            BATCHES_WITH_TIMES
        } else {
            BATCHES
        };
        self.visit_batches(select, from, visit)
    }

    /// The end of the last batch that lies wholly before the entry `from`, and when that batch was
    /// appended, if that is known. The batch may have been trimmed.
    pub(crate) fn end_before(&mut self, from: u64) -> Result<(LogEnd, Option<i64>), JournalError> {
        self.find_end_before(from)
            .map_err(self.store.sqlite_error("read"))
    }

    fn find_end_before(&self, from: u64) -> rusqlite::Result<(LogEnd, Option<i64>)> {
        // One read transaction, so that all queries see the same content.
        let view = self.connection.unchecked_transaction()?;
        let time_column = match open::has_times(&view)? {
            true => "appended_at",
            false => "NULL",
        };
        let mut statement = view.prepare(&format!(
            "SELECT last, checksum, {time_column} FROM batch WHERE first < ?1 AND last < ?1 \
             ORDER BY first DESC LIMIT 1"
        ))?;
        let found = statement.query_row([int(from)], |row| {
            let end = LogEnd {
                last: uint(row.get(0)?),
                checksum: row.get(1)?,
            };
            Ok((end, row.get(2)?))
        });
        match found.optional()? {
            Some(found) => Ok(found),
            None => Ok((trimmed_end(&view)?, None)),
        }
    }

    /// When the batch that holds an entry was appended; `None` if no batch holds the entry, or its batch has no time.
    pub(super) fn find_appended_at(&self, sequence: u64) -> rusqlite::Result<Option<i64>> {
        if !open::has_times(&self.connection)? {
            return Ok(None);
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT last, appended_at FROM batch WHERE first <= ?1 ORDER BY first DESC LIMIT 1",
        )?;
        let found = statement.query_row([int(sequence)], |row| {
            Ok((uint(row.get(0)?), row.get::<_, Option<i64>>(1)?))
        });
        let found = found.optional()?;
        Ok(found.and_then(|(last, appended_at)| appended_at.filter(|_| sequence <= last)))
    }

    /// Visits the batches that `select` returns, beginning with the batch that holds the entry `from`.
    fn visit_batches(
        &mut self,
        select: &'static str,
        from: u64,
        visit: &mut VisitBatch<'_>,
    ) -> Result<(), JournalError> {
        let path = &self.store.directory;
        let sqlite = |error| JournalError::from_sqlite(path, "read", from, error);
        // One read transaction, so that all queries see the same content.
        let view = self.connection.transaction().map_err(sqlite)?;
        let missing = |first, last| JournalError::Missing {
            path: path.clone(),
            first,
            last,
        };
        let trimmed_end = trimmed_end(&view).map_err(sqlite)?;
        if from <= trimmed_end.last {
            return Err(JournalError::Trimmed {
                asked: from,
                first_held: trimmed_end.last + 1,
            });
        }
        let end = log_end(&view).map_err(sqlite)?.last;
        if from > end {
            return if from == end + 1 {
                Ok(())
            } else {
                Err(missing(end + 1, from - 1))
            };
        }
        let mut previous_end = end_of_previous_batch(&view, from, trimmed_end).map_err(sqlite)?;
        let mut statement = view.prepare_cached(select).map_err(sqlite)?;
        let mut rows = statement.query([int(previous_end.last)]).map_err(sqlite)?;
        let mut next = from;
        while let Some(row) =
            (rows.next()).map_err(|e| JournalError::from_sqlite(path, "read", next, e))?
        {
            let row =
                Row::from_sql(row).map_err(|e| JournalError::from_sqlite(path, "read", next, e))?;
            if row.first > next.max(previous_end.last + 1) {
                return Err(missing(next, row.first - 1));
            }
            let records = row
                .check(previous_end)
                .map_err(|reason| row.damaged(path, reason))?;
            if let ControlFlow::Break(()) = visit(&row, records) {
                return Ok(());
            }
            previous_end = row.log_end();
            next = next.max(previous_end.last + 1);
        }
        Ok(())
    }
}

/// The end of the batch before the batch that holds the entry `from`.
fn end_of_previous_batch(
    view: &Connection,
    from: u64,
    trimmed_end: LogEnd,
) -> rusqlite::Result<LogEnd> {
    let first_of_batch: Option<i64> = view
        .prepare_cached("SELECT first FROM batch WHERE first <= ?1 ORDER BY first DESC LIMIT 1")?
        .query_row([int(from)], |row| row.get(0))
        .optional()?;
    let previous_end = view
        .prepare_cached(
            "SELECT last, checksum FROM batch WHERE first < ?1 ORDER BY first DESC LIMIT 1",
        )?
        .query_row([first_of_batch.unwrap_or(0)], |row| {
            Ok(LogEnd {
                last: uint(row.get(0)?),
                checksum: row.get(1)?,
            })
        })
        .optional()?;
    Ok(previous_end.unwrap_or(trimmed_end))
}
