//! Records of a batch as bytes, its checksum, and its id.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::RangeFrom;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use placewright_journal::JournalError;

use crate::rows::{BatchHeader, LogEnd};

/// The maximum size of an encoded batch in bytes. etcd's database has 2 GiB by default.
const BYTES_MAX: u64 = 256 << 20;

/// The records of a batch with their sequences.
pub(crate) type Records<'a> = std::iter::Zip<RangeFrom<u64>, std::vec::IntoIter<&'a [u8]>>;

/// Encodes records: for each one its length as four little-endian bytes, then its bytes.
pub(crate) fn encode(records: &[&[u8]]) -> Result<Vec<u8>, JournalError> {
    let bytes: u64 = records.iter().map(|r| r.len() as u64 + 4).sum();
    if bytes > BYTES_MAX {
        return Err(JournalError::TooLarge {
            bytes,
            bytes_max: BYTES_MAX,
        });
    }
    let mut payload = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    for record in records {
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(record);
    }
    Ok(payload)
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

/// The checksum of a batch, which is the same in a store of SQLite.
pub(crate) fn checksum(previous: u32, first: u64, last: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous.to_le_bytes());
    hasher.update(&first.to_le_bytes());
    hasher.update(&last.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Verifies a batch and, if `before` is known, its position after it; returns its records with their sequences.
pub(crate) fn check<'a>(
    header: &BatchHeader,
    payload: &'a [u8],
    before: Option<LogEnd>,
) -> Result<Records<'a>, String> {
    let BatchHeader { first, end, .. } = *header;
    if checksum(header.previous, first, end.last, payload) != end.checksum {
        return Err("its checksum does not match".into());
    }
    if let Some(before) = before {
        if first <= before.last {
            return Err(format!("it overlaps entry {}", before.last));
        }
        if first == before.last + 1 && header.previous != before.checksum {
            return Err("it does not follow the batch before it".into());
        }
    }
    let records = split(payload).ok_or("its records do not add up")?;
    if first.checked_add(records.len() as u64) != end.last.checked_add(1) {
        return Err("its number of records does not match".into());
    }
    Ok((first..).zip(records))
}

/// An id that nobody else has: a random number of this process, and a counter.
pub(crate) fn new_id() -> u128 {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    u128::from(*PROCESS) << 64 | u128::from(count)
}

/// The time in microseconds since the epoch.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}
