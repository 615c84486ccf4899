//! Snapshots: chunks in keys of their own, and a manifest that makes them visible.
//!
//! A chunk begins with a CRC-32 of two things: the checksum of the chunk before, and the chunk's own bytes. These bytes
//! follow.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use placewright_journal::batch::{chunk_checksum, new_id};
use placewright_journal::{JournalError, SnapshotInfo, SnapshotWriter};
use prost::bytes::{Buf as _, Bytes};

use crate::kv;
use crate::proto::{KeyValue, TxnRequest};
use crate::rows::Manifest;
use crate::store::Store;

/// The size of a chunk in bytes. Larger values would slow appends down.
const CHUNK_BYTES: usize = 256 << 10;
/// The number of chunks that are read at once.
const CHUNKS_PER_PAGE: i64 = 4;
const CRC_BYTES: usize = 4;
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
        bytes: found.manifest.bytes,
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
        if u64::try_from(count) != Ok(found.manifest.chunks) {
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

/// Wraps the error for [`Read`] and [`Write`].
fn into_io(error: JournalError) -> io::Error {
    let kind = match error {
        JournalError::DamagedSnapshot { .. } => io::ErrorKind::InvalidData,
        JournalError::NoSpace { .. } => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Writes one snapshot: its chunks, each to a key of its own, and at last the manifest that makes the snapshot visible.
pub(crate) struct Writer {
    store: Arc<Store>,
    sequence: u64,
    /// The bytes of the next chunk, after a place for its checksum.
    chunk: Vec<u8>,
    manifest: Manifest,
    is_finished: bool,
}

impl Writer {
    pub(crate) fn new(store: &Arc<Store>, sequence: u64) -> Self {
        Self {
            store: Arc::clone(store),
            sequence,
            chunk: vec![0; CRC_BYTES],
            manifest: Manifest {
                attempt: new_id(),
                chunks: 0,
                bytes: 0,
                crc: 0,
            },
            is_finished: false,
        }
    }

    fn write_chunk(&mut self) -> Result<(), JournalError> {
        let Some((place_of_crc, bytes)) = self.chunk.split_first_chunk_mut::<CRC_BYTES>() else {
            return Ok(());
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let crc = chunk_checksum(self.manifest.crc, bytes);
        let length = bytes.len() as u64;
        *place_of_crc = crc.to_le_bytes();
        let chunk = std::mem::replace(&mut self.chunk, vec![0; CRC_BYTES]);
        let key =
            (self.store.keys).chunk(self.sequence, self.manifest.attempt, self.manifest.chunks);
        let request = kv::all(vec![kv::put(key, chunk.into())]);
        self.store.repeat("write a snapshot", request)?;
        self.manifest.crc = crc;
        self.manifest.bytes += length;
        self.manifest.chunks += 1;
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CRC_BYTES + CHUNK_BYTES - self.chunk.len();
        let taken = bytes.len().min(room);
        self.chunk.extend_from_slice(&bytes[..taken]);
        if taken == room {
            self.write_chunk().map_err(into_io)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotWriter for Writer {
    fn finish(mut self: Box<Self>) -> Result<SnapshotInfo, JournalError> {
        self.write_chunk()?;
        let Manifest {
            attempt,
            chunks,
            bytes,
            ..
        } = self.manifest;
        let key = self.store.keys.snapshot(self.sequence);
        let mut request = kv::all(vec![kv::put(key, self.manifest.encode())]);
        if chunks > 0 {
            request.compare = vec![kv::exists(self.store.keys.chunk(self.sequence, attempt, 0))];
        }
        let response = self.store.repeat("finish a snapshot", request)?;
        if !response.succeeded {
            let reason = "it was removed while it was written, because a newer one was finished";
            return Err(damaged(&self.store, self.sequence, reason));
        }
        self.is_finished = true;
        Ok(SnapshotInfo {
            sequence: self.sequence,
            bytes,
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished && self.manifest.chunks > 0 {
            // Chunks that cannot be removed now are removed after a newer snapshot.
            let attempt = self.manifest.attempt;
            let range = self.store.keys.attempt(self.sequence, attempt);
            self.store.delete_if_possible(range);
        }
    }
}

/// Reads one snapshot, verifying each chunk before its bytes are returned.
pub(crate) struct Reader {
    store: Arc<Store>,
    sequence: u64,
    manifest: Manifest,
    /// Chunks that were read and not verified yet.
    waiting: VecDeque<KeyValue>,
    /// The bytes of the current chunk that were not returned yet.
    chunk: Bytes,
    /// The number of verified chunks, their size, and the checksum of the last one.
    chunks: u64,
    bytes: u64,
    crc: u32,
}

impl Reader {
    pub(crate) fn open(store: &Arc<Store>, sequence: u64) -> Result<Self, JournalError> {
        let range = kv::get(store.keys.snapshot(sequence));
        let found = kv::one(store.read("read a snapshot", [range])?.next());
        let found = found.ok_or(JournalError::NoSnapshot { sequence })?;
        Ok(Self {
            manifest: decode(store, &found)?.manifest,
            store: Arc::clone(store),
            sequence,
            waiting: VecDeque::new(),
            chunk: Bytes::new(),
            chunks: 0,
            bytes: 0,
            crc: 0,
        })
    }

    /// Gets the next chunk. If there is none, the snapshot has ended.
    fn advance(&mut self) -> Result<(), JournalError> {
        let damaged = |reason| Err(damaged(&self.store, self.sequence, reason));
        if self.chunks == self.manifest.chunks {
            if self.bytes != self.manifest.bytes || self.crc != self.manifest.crc {
                return damaged("its chunks do not match its manifest");
            }
            return Ok(());
        }
        let keys = &self.store.keys;
        let attempt = self.manifest.attempt;
        let key = keys.chunk(self.sequence, attempt, self.chunks);
        if self.waiting.is_empty() {
            let (_, until) = keys.attempt(self.sequence, attempt);
            let range = kv::range(key.clone(), until, CHUNKS_PER_PAGE);
            let page = self.store.read("read a snapshot", [range])?.next();
            self.waiting = page.unwrap_or_default().kvs.into();
        }
        let Some(mut found) = self.waiting.pop_front().filter(|found| found.key == key) else {
            return damaged("a chunk is missing");
        };
        let crc = found.value.try_get_u32_le().unwrap_or_default();
        if chunk_checksum(self.crc, &found.value) != crc {
            return damaged("a chunk's checksum does not match");
        }
        self.crc = crc;
        self.chunks += 1;
        self.bytes += found.value.len() as u64;
        self.chunk = found.value;
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !bytes.is_empty() {
            self.advance().map_err(into_io)?;
        }
        let taken = bytes.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut bytes[..taken]);
        Ok(taken)
    }
}
