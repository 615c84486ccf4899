//! Snapshots: chunks in keys of their own, and a manifest that makes them visible.
//!
//! A chunk begins with its checksum: a CRC-32 of the checksum of the chunk before it and of its own bytes. These bytes
//! follow.

use std::collections::VecDeque;
use std::sync::Arc;

use placewright_journal::batch::new_id;
use placewright_journal::chunks::{
    CHUNKS_PER_PAGE, Chunk, ChunkReader, ChunkSink, ChunkSource, ChunkTotals,
};
use placewright_journal::{JournalError, SnapshotInfo};
use prost::bytes::{Buf as _, Bytes};

use crate::kv;
use crate::proto::{KeyValue, TxnRequest};
use crate::rows::Manifest;
use crate::store::Store;

/// The number of chunks that are removed in one transaction.
const CHUNKS_PER_DELETE: u64 = 256;

/// A finished snapshot, as its key has it.
struct Found {
    sequence: u64,
    mod_revision: i64,
    manifest: Manifest,
}

/// The snapshots, the newest first.
pub(crate) fn list(store: &Store) -> Result<Vec<SnapshotInfo>, JournalError> {
    let info = |found: &Found| SnapshotInfo {
        sequence: found.sequence,
        bytes: found.manifest.totals.bytes,
    };
    Ok(find_all(store)?.iter().map(info).collect())
}

fn find_all(store: &Store) -> Result<Vec<Found>, JournalError> {
    let (from, until) = store.keys.snapshots();
    let mut ranges = store.read("list snapshots", [kv::range(from, until, 0)])?;
    let kvs = ranges.next().unwrap_or_default().kvs;
    kvs.iter().rev().map(|found| decode(store, found)).collect()
}

fn decode(store: &Store, found: &KeyValue) -> Result<Found, JournalError> {
    let sequence = store.keys.number(&found.key).unwrap_or_default();
    let manifest = Manifest::decode(&found.value)
        .map_err(|error| store.row_error(error, &format!("the snapshot at {sequence}")))?;
    Ok(Found {
        sequence,
        mod_revision: found.mod_revision,
        manifest,
    })
}

/// Checks that every snapshot has its chunks. The chunks themselves are verified when the snapshot is read.
pub(crate) fn check(store: &Store) -> Result<(), JournalError> {
    for found in find_all(store)? {
        let (from, until) = (store.keys).attempt(found.sequence, found.manifest.attempt);
        let mut ranges = store.read("check", [kv::count(from, until)])?;
        let count = ranges.next().map_or(0, |range| range.count);
        if u64::try_from(count) != Ok(found.manifest.totals.chunks) {
            let reason = "it does not have all of its chunks";
            return Err(damaged(store, found.sequence, reason));
        }
    }
    Ok(())
}

/// Removes all but the newest `keep` snapshots, and the chunks of writers that ended early. Chunks for a snapshot
/// that is newer than all others stay, because their writer may be at work.
pub(crate) fn drop_old(store: &Store, keep: usize) -> Result<(), JournalError> {
    let mut found = find_all(store)?;
    let old = found.split_off(keep.max(1).min(found.len()));
    for snapshot in &old {
        let key = store.keys.snapshot(snapshot.sequence);
        let mut request = kv::all(vec![kv::delete(key.clone(), Bytes::new())]);
        request.compare = vec![kv::is_at(key, snapshot.mod_revision)];
        store.repeat("remove a snapshot", request)?;
    }
    let Some(newest) = found.first().map(|snapshot| snapshot.sequence) else {
        return Ok(());
    };
    let (mut from, until) = store.keys.chunks();
    loop {
        let range = kv::keys(from, until.clone(), 1);
        let chunk = kv::one(store.read("remove a snapshot", [range])?.next());
        let Some(chunk) = chunk else {
            return Ok(());
        };
        let (Some(sequence), Some(attempt)) =
            (store.keys.number(&chunk.key), store.keys.id(&chunk.key))
        else {
            return Err(store.damaged_store(0, "the key of a chunk is damaged".into()));
        };
        let snapshot = found.iter().find(|found| found.sequence == sequence);
        let is_kept = snapshot.is_some_and(|found| found.manifest.attempt == attempt);
        if !is_kept && sequence <= newest {
            let revision = snapshot.map_or(0, |found| found.mod_revision);
            remove_chunks(store, sequence, attempt, revision)?;
        }
        from = store.keys.attempt(sequence, attempt).1;
    }
}

/// Removes the chunks of a writer, unless it finished since the snapshots were listed.
fn remove_chunks(
    store: &Store,
    sequence: u64,
    attempt: u128,
    manifest_revision: i64,
) -> Result<(), JournalError> {
    let (_, end) = store.keys.attempt(sequence, attempt);
    let mut number = 0;
    loop {
        // The first chunk is removed first, because without it the snapshot cannot be finished any more.
        let from = store.keys.chunk(sequence, attempt, number);
        let until = (store.keys).chunk(sequence, attempt, number + CHUNKS_PER_DELETE);
        let request = TxnRequest {
            compare: vec![kv::is_at(store.keys.snapshot(sequence), manifest_revision)],
            success: vec![
                kv::delete(from, until.clone()),
                kv::read(kv::count(until, end.clone())),
            ],
            failure: Vec::new(),
        };
        let response = store.repeat("remove a snapshot", request)?;
        let left = kv::ranges(response).next().map_or(0, |range| range.count);
        if left == 0 {
            return Ok(());
        }
        number += CHUNKS_PER_DELETE;
    }
}

fn damaged(store: &Store, sequence: u64, reason: &str) -> JournalError {
    JournalError::DamagedSnapshot {
        path: store.path(),
        sequence,
        reason: reason.into(),
    }
}

/// Writes the chunks of one snapshot, each to a key of its own, and at last the manifest that makes the snapshot
/// visible.
pub(crate) struct Sink {
    store: Arc<Store>,
    sequence: u64,
    /// An id that all chunks of this writer have.
    attempt: u128,
}

impl Sink {
    pub(crate) fn new(store: &Arc<Store>, sequence: u64) -> Self {
        Self {
            store: Arc::clone(store),
            sequence,
            attempt: new_id(),
        }
    }
}

impl ChunkSink for Sink {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn write(&mut self, number: u64, checksum: u32, chunk: Vec<u8>) -> Result<(), JournalError> {
        let value = [&checksum.to_le_bytes()[..], &chunk].concat();
        let key = (self.store.keys).chunk(self.sequence, self.attempt, number);
        let request = kv::all(vec![kv::put(key, value.into())]);
        self.store.repeat("write a snapshot", request)?;
        Ok(())
    }

    fn finish(&mut self, totals: ChunkTotals) -> Result<(), JournalError> {
        let attempt = self.attempt;
        let key = self.store.keys.snapshot(self.sequence);
        let manifest = Manifest { attempt, totals };
        let mut request = kv::all(vec![kv::put(key, manifest.encode())]);
        if totals.chunks > 0 {
            request.compare = vec![kv::exists(self.store.keys.chunk(self.sequence, attempt, 0))];
        }
        let response = self.store.repeat("finish a snapshot", request)?;
        if !response.succeeded {
            let reason = "it was removed while it was written, because a newer one was finished";
            return Err(damaged(&self.store, self.sequence, reason));
        }
        Ok(())
    }

    fn remove(&mut self) {
        let range = self.store.keys.attempt(self.sequence, self.attempt);
        self.store.delete_if_possible(range);
    }
}

/// Reads the chunks of one snapshot.
pub(crate) struct Source {
    store: Arc<Store>,
    sequence: u64,
    /// The id that the chunks of this snapshot have in their keys.
    attempt: u128,
}

/// Begins to read a snapshot.
pub(crate) fn open(store: &Arc<Store>, sequence: u64) -> Result<ChunkReader<Source>, JournalError> {
    let range = kv::get(store.keys.snapshot(sequence));
    let found = kv::one(store.read("read a snapshot", [range])?.next());
    let found = found.ok_or(JournalError::NoSnapshot { sequence })?;
    let manifest = decode(store, &found)?.manifest;
    let source = Source {
        store: Arc::clone(store),
        sequence,
        attempt: manifest.attempt,
    };
    Ok(ChunkReader::new(source, manifest.totals))
}

impl ChunkSource for Source {
    type Bytes = Bytes;

    fn read_page(&mut self, from: u64) -> Result<VecDeque<Chunk<Bytes>>, JournalError> {
        let keys = &self.store.keys;
        let key = |number| keys.chunk(self.sequence, self.attempt, number);
        let (_, until) = keys.attempt(self.sequence, self.attempt);
        let range = kv::range(key(from), until, i64::from(CHUNKS_PER_PAGE));
        let page = self.store.read("read a snapshot", [range])?.next();
        let numbered = (from..).zip(page.unwrap_or_default().kvs);
        let chunks = numbered.take_while(|(number, found)| found.key == key(*number));
        let chunks = chunks.map(|(number, mut found)| Chunk {
            number,
            checksum: found.value.try_get_u32_le().unwrap_or_default(),
            bytes: found.value,
        });
        Ok(chunks.collect())
    }

    fn damaged(&self, reason: &str) -> JournalError {
        damaged(&self.store, self.sequence, reason)
    }
}
