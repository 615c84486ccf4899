//! Batches of journals on servers: the records of one append as bytes, their checksum, and their id.
//!
//! A store of SQLite has the same bytes and the same checksum, so that a batch can be compared across storage engines,
//! unless the append was so large that the store of SQLite split it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::RangeFrom;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::JournalError;

/// The maximum size of an encoded batch in bytes.
const BYTES_MAX: u64 = 256 << 20;

/// The records of a batch with their sequences.
pub type Records<'a> = std::iter::Zip<RangeFrom<u64>, std::vec::IntoIter<&'a [u8]>>;

/// The place of a batch in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The batch's first entry.
    pub first: u64,
    /// The last entry of this batch.
    pub last: u64,
    /// The checksum of the batch before.
    pub previous: u32,
    /// The checksum of this batch, which covers the checksum of the batch before.
    pub checksum: u32,
}

/// The end of a run of entries: the sequence of the last entry, the checksum of its batch, and the size of all records
/// up to it, trimmed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The last entry; 0 for none.
    pub last: u64,
    /// The checksum of the batch of the last entry.
    pub checksum: u32,
    /// The size of all records up to the last entry in bytes, trimmed ones included.
    pub record_bytes: u64,
}

impl LogEnd {
    /// The end after a batch of these records, which `payload` has encoded.
    #[must_use]
    pub fn with_batch(self, records: &[&[u8]], payload: &[u8]) -> Self {
        let last = self.last + records.len() as u64;
        let record_bytes: u64 = records.iter().map(|record| record.len() as u64).sum();
        Self {
            last,
            checksum: checksum(self.checksum, self.last + 1, last, payload),
            record_bytes: self.record_bytes + record_bytes,
        }
    }

    /// The end after a batch that another process hands over, which has to follow right behind this end; `None` if it
    /// does not follow, or is damaged.
    pub fn after(self, link: Link, payload: &[u8]) -> Option<Self> {
        let bytes = check_next(link, payload, self.last, self.checksum)?;
        Some(Self {
            last: link.last,
            checksum: link.checksum,
            record_bytes: self.record_bytes + bytes,
        })
    }
}

/// Encodes records: for each one its length as four little-endian bytes, then its bytes.
///
/// # Errors
/// [`JournalError::TooLarge`].
pub fn encode(records: &[&[u8]]) -> Result<Vec<u8>, JournalError> {
    let bytes: u64 = records.iter().map(|r| r.len() as u64 + 4).sum();
    if bytes > BYTES_MAX {
        return Err(JournalError::TooLarge {
            bytes,
            bytes_max: BYTES_MAX,
        });
    }
    let mut payload = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    for record in records {
        // A record is not larger than its batch, so its length fits.
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(record);
    }
    Ok(payload)
}

/// The records of a batch whose first entry is `first`; `None` if their lengths do not add up to the size.
pub fn records(first: u64, payload: &[u8]) -> Option<Records<'_>> {
    Some((first..).zip(split(payload)?))
}

/// Splits encoded records; `None` if the lengths do not add up to the size.
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

/// The checksum of a batch, which covers `previous`, the checksum of the batch before.
pub fn checksum(previous: u32, first: u64, last: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous.to_le_bytes());
    hasher.update(&first.to_le_bytes());
    hasher.update(&last.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Verifies a batch, and returns its records with their sequences. `before` is the last entry of an earlier batch and
/// the checksum of that batch; `None` if they are not known. The batch must not overlap that one, and if it begins
/// right behind it, it must continue the chain. A gap between the two is no error here.
///
/// # Errors
/// A description of the part that does not match.
pub fn check<'a>(
    link: Link,
    payload: &'a [u8],
    before: Option<(u64, u32)>,
) -> Result<Records<'a>, String> {
    let Link { first, last, .. } = link;
    if checksum(link.previous, first, last, payload) != link.checksum {
        return Err("its checksum does not match".into());
    }
    if let Some((last_before, checksum_before)) = before {
        if first <= last_before {
            return Err(format!("it overlaps entry {last_before}"));
        }
        if first == last_before + 1 && link.previous != checksum_before {
            return Err("it does not follow the batch before it".into());
        }
    }
    let records = split(payload).ok_or("its records do not add up")?;
    if first.checked_add(records.len() as u64) != last.checked_add(1) {
        return Err("its number of records does not match".into());
    }
    Ok((first..).zip(records))
}

/// Verifies a batch that has to follow right behind the entry `last`, whose batch has the checksum `checksum`. Returns
/// the total size of its records; `None` if it does not follow, or is damaged.
pub(crate) fn check_next(link: Link, payload: &[u8], last: u64, checksum: u32) -> Option<u64> {
    if link.first != last.checked_add(1)? {
        return None;
    }
    let records = check(link, payload, Some((last, checksum))).ok()?;
    Some(records.map(|(_, record)| record.len() as u64).sum())
}

/// An id that no other process and no other call gets: a random number of this process in the upper half, and a counter
/// in the lower one.
pub fn new_id() -> u128 {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    // Relaxed, because the counter only has to differ from call to call.
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    u128::from(*PROCESS) << 64 | u128::from(count)
}

/// The time in microseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}
