//! One row of the `batch` table: a batch, which has the records of one append, or a part of them if it is a large one.
//!
//! `records` contains, for each record, its length as four little-endian bytes, then its bytes.
//! `checksum` covers `previous` (the checksum of the preceding batch), the sequences and
//! `records`, so that a row can be verified by itself, and as the successor of the batch before.
//! `appended_at` is when the batch was appended, in microseconds since 1970 by the clock of the
//! machine; rows of earlier releases do not have it. Only a restore up to a point in time reads it. No
//! checksum covers it, so that earlier releases can read the row.

use std::path::Path;

use super::{LogEnd, uint};
use crate::JournalError;

/// The maximum size in bytes of an encoded batch, and of all batches of an append together. SQLite limits a row to 10^9
/// bytes; a million of them are left for the other columns, which need far less.
const BYTES_MAX: u64 = 999_000_000;

/// The size in bytes from which on an append has several batches; a batch is larger only if its one record is. SQLite
/// copies a row twice before it writes the row into pages. For copies of more than 128 KiB the system's allocator maps
/// new memory each time, and the first use of that memory takes longer than the copy.
const BATCH_BYTES: usize = 64 << 10;

/// The size of encoded records.
fn encoded_bytes(records: &[&[u8]]) -> u64 {
    records.iter().map(|record| record.len() as u64 + 4).sum()
}

/// Splits the records of an append into batches. Each batch has as many records as [`BATCH_BYTES`] allow, and at least
/// one.
///
/// # Errors
/// [`JournalError::TooLarge`].
pub(super) fn split_append<'r, 'a>(
    records: &'r [&'a [u8]],
) -> Result<impl Iterator<Item = &'r [&'a [u8]]>, JournalError> {
    let bytes = encoded_bytes(records);
    if bytes > BYTES_MAX {
        return Err(JournalError::TooLarge {
            bytes,
            bytes_max: BYTES_MAX,
        });
    }
    let mut rest = records;
    Ok(std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let mut bytes = first.len() + 4;
        let others = others.iter().take_while(|record| {
            bytes += record.len() + 4;
            bytes <= BATCH_BYTES
        });
        let batch;
        (batch, rest) = rest.split_at(1 + others.count());
        Some(batch)
    }))
}

/// Encodes the records of a batch into one value, which replaces the content of `payload`.
///
/// # Errors
/// [`JournalError::TooLarge`].
pub(super) fn encode(records: &[&[u8]], payload: &mut Vec<u8>) -> Result<(), JournalError> {
    payload.clear();
    let bytes = encoded_bytes(records);
    if bytes > BYTES_MAX {
        return Err(JournalError::TooLarge {
            bytes,
            bytes_max: BYTES_MAX,
        });
    }
    payload.reserve(usize::try_from(bytes).unwrap_or(0));
    for record in records {
        // A record is not larger than its batch, so its length fits.
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(record);
    }
    Ok(())
}

/// The checksum of a batch.
pub(super) fn checksum(previous: u32, first: u64, last: u64, records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous.to_le_bytes());
    hasher.update(&first.to_le_bytes());
    hasher.update(&last.to_le_bytes());
    hasher.update(records);
    hasher.finalize()
}

/// The records of a batch with their sequences.
pub(crate) type Records<'a> =
    std::iter::Zip<std::ops::RangeFrom<u64>, std::vec::IntoIter<&'a [u8]>>;

/// A row as read from the database or a backup; nothing in it is trusted before [`Row::check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The checksum of the batch before.
    pub(crate) previous: i64,
    pub(crate) checksum: i64,
    /// When the batch was appended, in microseconds since 1970; `None` if it is not known.
    pub(crate) appended_at: Option<i64>,
    pub(crate) records: &'a [u8],
}

impl<'a> Row<'a> {
    pub(super) fn from_sql(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            first: uint(row.get(0)?),
            last: uint(row.get(1)?),
            previous: row.get(2)?,
            checksum: row.get(3)?,
            records: row.get_ref(4)?.as_blob().unwrap_or_default(),
            appended_at: row.get(5)?,
        })
    }

    /// A copy of the row without its records, which borrows nothing.
    pub(crate) fn without_records(&self) -> Row<'static> {
        let Self {
            first,
            last,
            previous,
            checksum,
            appended_at,
            records: _,
        } = *self;
        Row {
            first,
            last,
            previous,
            checksum,
            appended_at,
            records: &[],
        }
    }

    /// Verifies the row, and that it can come after the batch that ends at `before`; returns its records with their
    /// sequences. A gap between the two batches is no error here; who reads a whole log reports the missing entries.
    pub(crate) fn check(&self, before: LogEnd) -> Result<Records<'a>, String> {
        let computed = u32::try_from(self.previous)
            .map(|previous| checksum(previous, self.first, self.last, self.records));
        if computed.map(i64::from) != Ok(self.checksum) {
            return Err("its checksum does not match".into());
        }
        if self.first <= before.last {
            return Err(format!("it overlaps entry {}", before.last));
        }
        if self.first == before.last + 1 && self.previous != i64::from(before.checksum) {
            return Err("it does not follow the batch before it".into());
        }
        let records = split(self.records).ok_or("its records do not add up")?;
        // SQLite's numbers are signed, so those of an entry cannot be greater.
        let next = (self.first.checked_add(records.len() as u64))
            .filter(|next| i64::try_from(*next).is_ok());
        if next.and_then(|next| next.checked_sub(1)) != Some(self.last) {
            return Err("its number of records does not match".into());
        }
        Ok((self.first..).zip(records))
    }

    /// The error for the damage of this row.
    pub(crate) fn damaged(&self, path: &Path, reason: String) -> JournalError {
        JournalError::Damaged {
            path: path.to_path_buf(),
            first: self.first,
            last: self.last.max(self.first),
            reason,
        }
    }

    pub(crate) fn log_end(&self) -> LogEnd {
        LogEnd {
            last: self.last,
            checksum: u32::try_from(self.checksum).unwrap_or(0),
        }
    }
}

/// Splits an encoded batch into its records; `None` if the lengths do not add up to its size.
fn split(mut payload: &[u8]) -> Option<Vec<&[u8]>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = payload.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (record, rest) = rest.split_at_checked(length)?;
        records.push(record);
        payload = rest;
    }
    payload.is_empty().then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_whose_numbers_overflow_is_damaged() {
        let before = LogEnd {
            last: 0,
            checksum: 0,
        };
        let mut records = Vec::new();
        encode(&[b"one", b"two"], &mut records).unwrap();
        for (first, last, is_sound) in [
            (1, 2, true),
            (1 << 63, (1 << 63) + 1, false),
            (u64::MAX - 1, u64::MAX, false),
            (u64::MAX, 0, false),
            (u64::MAX, u64::MAX, false),
        ] {
            let row = Row {
                first,
                last,
                previous: 0,
                checksum: checksum(0, first, last, &records).into(),
                appended_at: None,
                records: &records,
            };
            assert_eq!(row.check(before).is_ok(), is_sound, "{first} to {last}");
        }
    }
}
