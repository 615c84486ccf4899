//! Reading batches in order, each verified in its place in the chain.

use std::time::Duration;

use placewright_journal::batch::{self, Link, LogEnd};
use placewright_journal::{JournalError, Visit};

use super::PostgresqlJournal;
use crate::rows::{BatchHeader, int};
use crate::schema::{FIND_BATCH, FIND_TIME, READ_BATCHES, READ_END_BEFORE};
use crate::store::Store;

/// The number of batches in the first page of a read, and the least and the most in later pages.
const BATCHES_FIRST: i64 = 32;
const BATCHES_MIN: i64 = 2;
const BATCHES_MAX: i64 = 256;
/// How often a read checks whether the writer of the wanted entries has recorded them as acknowledged, before the read
/// confirms them with a write; and the pause before each further check.
const CHECKS: usize = 3;
const CHECK_PAUSE: Duration = Duration::from_millis(1);
/// The next page is larger if a page has fewer bytes than the first of these, and smaller if it has more than the
/// second.
const GROW_BELOW_BYTES: usize = 512 << 10;
const SHRINK_ABOVE_BYTES: usize = 2 << 20;

impl PostgresqlJournal {
    /// Visits entries that are known to be durable. Later entries are left for the next call, unless there is nothing
    /// else to visit. So a reader that follows the journal makes no writes while others append.
    pub(super) fn read_entries(
        &mut self,
        from: u64,
        visit: &mut Visit<'_>,
    ) -> Result<u64, JournalError> {
        let Some(end) = self.readable_end(from)? else {
            return Ok(from);
        };
        let first = self.first_of_batch(from)?;
        let mut before = self.end_before(first)?;
        let mut position = first;
        let mut next = from;
        let mut limit = BATCHES_FIRST;
        while next <= end {
            let batches = self.page(position, end, limit)?;
            if batches.is_empty() {
                return Err(self.missing_or_trimmed(next, end)?);
            }
            limit = next_limit(limit, &batches);
            for (header, payload) in batches {
                if header.first > next.max(before.last + 1) {
                    return Err(self.missing_or_trimmed(next, header.first - 1)?);
                }
                let records = check(&self.store, &header, &payload, before)?;
                position = header.end.last + 1;
                before = header.end;
                self.verified = header.end;
                self.store.acknowledge(header.end);
                for (sequence, record) in records {
                    if sequence < next {
                        continue;
                    }
                    next = sequence + 1;
                    if visit(sequence, record).is_break() {
                        return Ok(next);
                    }
                }
            }
        }
        Ok(next)
    }

    /// The last entry that may be given to a reader that continues with the entry `from`; `None` if there is none.
    fn readable_end(&mut self, from: u64) -> Result<Option<u64>, JournalError> {
        let mut state = self.read_state("read")?;
        let trimmed = state.trimmed;
        if from <= trimmed.last {
            return Err(JournalError::Trimmed {
                asked: from,
                first_held: trimmed.last + 1,
            });
        }
        let end = state.head.end.last;
        if from > end {
            return match from == end + 1 {
                true => Ok(None),
                false => Err(self.store.missing(end + 1, from - 1)),
            };
        }
        for _ in 0..CHECKS {
            let durable = self.store.acknowledged().last.max(state.head.acknowledged);
            if from <= durable {
                return Ok(Some(durable.min(state.head.end.last)));
            }
            // The writer of these entries is about to record that they were acknowledged, or has ended.
            std::thread::sleep(CHECK_PAUSE);
            state = self.read_state("read")?;
        }
        Ok(Some(self.confirm("read")?.head.end.last))
    }

    /// The first entry of the batch that holds an entry. If the entry's batch is missing, the first entry of the last
    /// batch before it; or the entry itself if there is no batch before it.
    fn first_of_batch(&mut self, sequence: u64) -> Result<u64, JournalError> {
        if self.verified.last + 1 == sequence {
            return Ok(sequence);
        }
        let found = self.connection.repeat(|session| async move {
            let rows = session.query(FIND_BATCH, &[&int(sequence)]).await?;
            rows.first().map(|row| session.uint(row, 0)).transpose()
        });
        let found = found.map_err(|failure| self.store.error("read", failure))?;
        Ok(found.unwrap_or(sequence))
    }

    /// When the batch that holds an entry was appended, in microseconds since 1970 by the writer's clock; `None` if no
    /// batch holds the entry.
    pub(super) fn find_appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        let found = self.connection.repeat(|session| async move {
            let rows = session.query(FIND_TIME, &[&int(sequence)]).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            let time: i64 = session.get(row, 1)?;
            Ok((sequence <= session.uint(row, 0)?).then_some(time))
        });
        found.map_err(|failure| self.store.error("read", failure))
    }

    /// The end of the batch before the one that starts at `first`, or of the trimmed entries if no batch is before it.
    fn end_before(&mut self, first: u64) -> Result<LogEnd, JournalError> {
        if self.verified.last + 1 == first {
            return Ok(self.verified);
        }
        let found = self.connection.repeat(|session| async move {
            let rows = session.query(READ_END_BEFORE, &[&int(first)]).await?;
            rows.first().map(|row| session.log_end(row, 0)).transpose()
        });
        let found = found.map_err(|failure| self.store.error("read", failure))?;
        match found {
            Some(end) => Ok(end),
            None => Ok(self.read_state("read")?.trimmed),
        }
    }

    /// At most `limit` batches, in order, that begin with an entry from `from` to `until`.
    fn page(
        &mut self,
        from: u64,
        until: u64,
        limit: i64,
    ) -> Result<Vec<(BatchHeader, Vec<u8>)>, JournalError> {
        let page = self.connection.repeat(|session| async move {
            let rows = session
                .query(READ_BATCHES, &[&int(from), &int(until), &limit])
                .await?;
            rows.iter().map(|row| session.batch(row)).collect()
        });
        page.map_err(|failure| self.store.error("read", failure))
    }

    /// The error for entries that were not found. Another writer may have trimmed them since the read began.
    fn missing_or_trimmed(&mut self, first: u64, last: u64) -> Result<JournalError, JournalError> {
        let trimmed = self.read_state("read")?.trimmed;
        Ok(if first <= trimmed.last {
            JournalError::Trimmed {
                asked: first,
                first_held: trimmed.last + 1,
            }
        } else {
            self.store.missing(first, last)
        })
    }
}

/// Verifies a batch, and returns its records.
fn check<'a>(
    store: &Store,
    header: &BatchHeader,
    payload: &'a [u8],
    before: LogEnd,
) -> Result<batch::Records<'a>, JournalError> {
    let BatchHeader {
        first,
        end,
        previous,
    } = *header;
    let link = Link {
        first,
        last: end.last,
        previous,
        checksum: end.checksum,
    };
    let before = (before.last, before.checksum);
    batch::check(link, payload, Some(before)).map_err(|reason| JournalError::Damaged {
        path: store.path(),
        first,
        last: end.last.max(first),
        reason,
    })
}

/// The number of batches for the next page.
fn next_limit(limit: i64, page: &[(BatchHeader, Vec<u8>)]) -> i64 {
    let bytes: usize = page.iter().map(|(_, payload)| payload.len()).sum();
    match bytes {
        0..GROW_BELOW_BYTES => (limit * 2).min(BATCHES_MAX),
        GROW_BELOW_BYTES..=SHRINK_ABOVE_BYTES => limit,
        _ => (limit / 2).max(BATCHES_MIN),
    }
}
