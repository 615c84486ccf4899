//! Reading batches in order, each verified in its place in the chain.

use placewright_journal::batch::{self, LogEnd};
use placewright_journal::{JournalError, Visit};
use prost::bytes::Bytes;

use super::EtcdJournal;
use crate::kv;
use crate::proto::{KeyValue, RangeRequest};
use crate::rows::{BatchHeader, PayloadLocation, RowError};
use crate::store::Store;

/// The number of batches in the first page of a read.
const BATCHES_FIRST: i64 = 32;
/// The least number of batches in a later page.
const BATCHES_MIN: i64 = 8;
/// The greatest number of batches in a later page. 256 batches of 64 KiB are 16 MiB.
const BATCHES_MAX: i64 = 256;
/// If a page has fewer bytes, the next one has twice as many batches.
const GROW_BELOW_BYTES: usize = 512 << 10;
/// If a page has more bytes, the next one has half as many batches.
const SHRINK_ABOVE_BYTES: usize = 2 << 20;
/// The number of parts of a batch that are read at once. Each has 256 KiB at most.
const PARTS_PER_PAGE: i64 = 16;

/// Where a read starts.
struct Start {
    /// The first page: the batches from `first` on, if the request for the other fields returned them. `None` if the
    /// page is still to be read.
    page: Option<Vec<KeyValue>>,
    /// The first entry of the last batch that starts at the wanted entry or before it; it holds the wanted entry,
    /// unless batches are missing. The wanted entry itself if there is no such batch.
    first: u64,
    /// The end of the batch before, as far as it is known.
    before: Option<LogEnd>,
    trimmed: LogEnd,
}

impl EtcdJournal {
    pub(super) fn read_entries(
        &mut self,
        from: u64,
        visit: &mut Visit<'_>,
    ) -> Result<u64, JournalError> {
        let start = self.start_of_read(from)?;
        let store = std::sync::Arc::clone(&self.store);
        let keys = &store.keys;
        let end = self.known.head.end.last;
        if from <= start.trimmed.last {
            return Err(trimmed(from, start.trimmed));
        }
        if from > end {
            return if from == end + 1 {
                Ok(from)
            } else {
                Err(store.missing(end + 1, from - 1))
            };
        }
        let mut next = from;
        let mut before = start.before;
        let mut position = start.first;
        let mut page = start.page;
        let mut limit = BATCHES_FIRST;
        while next <= end {
            let batches = match page.take() {
                Some(batches) => batches,
                None => {
                    let range = kv::range(keys.batch(position), keys.batch(end + 1), limit);
                    store.read("read", [range])?.next().unwrap_or_default().kvs
                }
            };
            if batches.is_empty() {
                return Err(missing_or_trimmed(&store, next, end)?);
            }
            limit = next_limit(limit, &batches);
            for found in batches {
                let (header, payload) = decode(&store, &found)?;
                if header.first > next.max(before.map_or(0, |before| before.last + 1)) {
                    return Err(missing_or_trimmed(&store, next, header.first - 1)?);
                }
                let payload = whole_payload(&store, &header, payload)?;
                let records = batch::check(
                    header.link(),
                    &payload,
                    before.map(|end| (end.last, end.checksum)),
                )
                .map_err(|reason| damaged(&store, &header, reason))?;
                for (sequence, record) in records {
                    if sequence < next {
                        continue;
                    }
                    next = sequence + 1;
                    if visit(sequence, record).is_break() {
                        return Ok(next);
                    }
                }
                position = header.end.last + 1;
                before = Some(header.end);
                self.verified = header.end;
            }
        }
        Ok(next)
    }

    /// Finds out where a read from the entry `from` on starts. The head, the end of the trimmed entries and the first
    /// page are read at one revision, so that they fit together.
    fn start_of_read(&mut self, from: u64) -> Result<Start, JournalError> {
        let store = &self.store;
        let keys = &store.keys;
        let reads = [
            kv::get(keys.head()),
            kv::get(keys.trim()),
            // The last batch that starts at `from` or before.
            RangeRequest {
                keys_only: true,
                ..kv::last(keys.batch(0), keys.batch(from.saturating_add(1)))
            },
            // Most reads start with a whole batch. Then this is the first page.
            kv::range(keys.batch(from), keys.batches_end(), BATCHES_FIRST),
        ];
        let mut ranges = store.read("read", reads)?;
        let head = store.known_head(kv::one(ranges.next()))?;
        let trimmed = store.trimmed(kv::one(ranges.next()).as_ref())?;
        let batch_first = kv::one(ranges.next()).and_then(|found| keys.number(&found.key));
        let page = ranges.next().unwrap_or_default().kvs;
        self.update_known_head(head)?;
        // A batch that is trimmed, but whose key the trim has not removed yet, is ignored.
        let first = batch_first.filter(|first| *first > trimmed.last);
        let first = first.unwrap_or(from);
        let before = self.end_before(first, trimmed)?;
        Ok(Start {
            page: (first == from && !page.is_empty()).then_some(page),
            first,
            before,
            trimmed,
        })
    }

    /// When the batch that holds an entry was appended; `None` if the entry is not held.
    pub(super) fn find_appended_at(&self, sequence: u64) -> Result<Option<i64>, JournalError> {
        let trimmed = self.store.read_trimmed("read")?.last;
        if sequence <= trimmed {
            return Ok(None);
        }
        let keys = &self.store.keys;
        let range = kv::last(keys.batch(0), keys.batch(sequence.saturating_add(1)));
        let found = kv::one(self.store.read("read", [range])?.next());
        let header = found.and_then(|found| BatchHeader::decode_damaged(&found.value));
        let header = header.filter(|header| sequence <= header.end.last);
        Ok(header.map(|header| header.appended_at))
    }

    /// The end of the batch before the one that starts at `first`; `None` if it cannot be found out.
    fn end_before(&self, first: u64, trimmed: LogEnd) -> Result<Option<LogEnd>, JournalError> {
        for known in [trimmed, self.verified] {
            if known.last + 1 == first {
                return Ok(Some(known));
            }
        }
        let keys = &self.store.keys;
        let range = kv::last(keys.batch(trimmed.last + 1), keys.batch(first));
        let found = kv::one(self.store.read("read", [range])?.next());
        Ok(match found {
            Some(found) => BatchHeader::decode_damaged(&found.value).map(|header| header.end),
            None => Some(trimmed),
        })
    }
}

/// The number of batches for the next page.
fn next_limit(limit: i64, page: &[KeyValue]) -> i64 {
    let bytes: usize = page.iter().map(|found| found.value.len()).sum();
    match bytes {
        0..GROW_BELOW_BYTES => (limit * 2).min(BATCHES_MAX),
        GROW_BELOW_BYTES..=SHRINK_ABOVE_BYTES => limit,
        _ => (limit / 2).max(BATCHES_MIN),
    }
}

/// Reads a batch's header; its key has to have the same first entry.
fn decode(store: &Store, found: &KeyValue) -> Result<(BatchHeader, Bytes), JournalError> {
    let first = store.keys.number(&found.key).unwrap_or_default();
    match BatchHeader::decode(&found.value) {
        Ok((header, payload)) if header.first == first && header.end.last >= first => {
            Ok((header, payload))
        }
        Err(error @ RowError::Newer(_)) => Err(store.row_error(error, "a batch")),
        Ok(_) | Err(RowError::Bad) => {
            let header = BatchHeader::decode_damaged(&found.value);
            let last = header.map_or(first, |header| header.end.last.max(first));
            Err(JournalError::Damaged {
                path: store.path(),
                first,
                last,
                reason: "its value does not match its checksum or its key".into(),
            })
        }
    }
}

/// The encoded records of a batch. If they are not in the batch's own value, where `inline` comes from, they are read.
fn whole_payload(
    store: &Store,
    header: &BatchHeader,
    inline: Bytes,
) -> Result<Bytes, JournalError> {
    let (mut from, until) = match header.location {
        PayloadLocation::Inline => return Ok(inline),
        PayloadLocation::Parts => (
            store.keys.parts(header.first),
            store.keys.parts_end(header.first),
        ),
        PayloadLocation::Upload => store.keys.upload(header.first, header.id),
    };
    let mut payload = Vec::with_capacity(usize::try_from(header.payload_bytes).unwrap_or(0));
    loop {
        let range = kv::range(from, until.clone(), PARTS_PER_PAGE);
        let page = store.read("read", [range])?.next().unwrap_or_default();
        for part in &page.kvs {
            payload.extend_from_slice(&part.value);
        }
        match page.kvs.last() {
            Some(last) if page.more => from = after(&last.key),
            _ => break,
        }
    }
    if payload.len() as u64 == header.payload_bytes {
        return Ok(payload.into());
    }
    let trimmed_end = store.read_trimmed("read")?;
    if header.first <= trimmed_end.last {
        return Err(trimmed(header.first, trimmed_end));
    }
    Err(damaged(store, header, "its parts are not complete".into()))
}

/// The first key after a key.
pub(super) fn after(key: &Bytes) -> Bytes {
    [key, &b"\0"[..]].concat().into()
}

fn damaged(store: &Store, header: &BatchHeader, reason: String) -> JournalError {
    JournalError::Damaged {
        path: store.path(),
        first: header.first,
        last: header.end.last,
        reason,
    }
}

fn trimmed(asked: u64, trimmed: LogEnd) -> JournalError {
    JournalError::Trimmed {
        asked,
        first_held: trimmed.last + 1,
    }
}

/// The error for entries that were not found; `Err` if it cannot be found out which. Another writer may have trimmed
/// the entries since the read began.
fn missing_or_trimmed(store: &Store, first: u64, last: u64) -> Result<JournalError, JournalError> {
    let trimmed_end = store.read_trimmed("read")?;
    Ok(if first <= trimmed_end.last {
        trimmed(first, trimmed_end)
    } else {
        store.missing(first, last)
    })
}
