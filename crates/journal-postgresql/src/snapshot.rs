//! Snapshots: chunks in rows of their own, and a row that makes them visible.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use placewright_journal::batch::{chunk_checksum, new_id};
use placewright_journal::{JournalError, SnapshotInfo, SnapshotWriter};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::rows::{Manifest, id_bytes, int};
use crate::schema;
use crate::session::{Session, Values};
use crate::store::Store;

/// The size of a chunk in bytes. Larger values would slow appends down.
const CHUNK_BYTES: usize = 256 << 10;
/// The number of chunks that are read at once.
const CHUNKS_PER_PAGE: u64 = 4;
/// The number of chunks that are removed in one transaction.
const CHUNKS_PER_DELETE: i64 = 64;

/// The snapshots, the newest first.
pub(crate) fn list(
    store: &Store,
    connection: &mut Connection,
) -> Result<Vec<SnapshotInfo>, JournalError> {
    let listed = connection.repeat(|session| async move {
        let rows = session.query(schema::LIST_SNAPSHOTS, &[]).await?;
        rows.iter().map(|row| session.manifest(row)).collect()
    });
    let listed: Vec<Manifest> = listed.map_err(|failure| store.error("list snapshots", failure))?;
    let info = |found: &Manifest| SnapshotInfo {
        sequence: found.sequence,
        bytes: found.bytes,
    };
    Ok(listed.iter().map(info).collect())
}

/// Removes all but the newest `keep` snapshots, and the chunks of writers that ended early. Chunks for a snapshot
/// that is newer than all others stay, because their writer may be at work.
pub(crate) fn drop_old(
    store: &Store,
    connection: &mut Connection,
    keep: usize,
) -> Result<(), JournalError> {
    let keep = i64::try_from(keep.max(1)).unwrap_or(i64::MAX);
    let mut drop = |sql: &'static str, limit: i64| {
        let dropped =
            connection.repeat(|session| async move { exclusively(&session, sql, &[&limit]).await });
        dropped.map_err(|failure| store.error("remove a snapshot", failure))
    };
    drop(schema::DROP_SNAPSHOTS, keep)?;
    while drop(schema::DROP_CHUNKS, CHUNKS_PER_DELETE)? > 0 {}
    Ok(())
}

/// Runs a statement while nobody else finishes or removes snapshots, and returns the number of rows that it changed.
async fn exclusively(
    session: &Session,
    sql: &'static str,
    values: Values<'_>,
) -> Result<u64, Failure> {
    let warnings = session.warnings();
    session.run("BEGIN").await?;
    let executed = async {
        session.run(schema::LOCK_SNAPSHOTS).await?;
        session.execute(sql, values).await
    };
    match executed.await {
        Ok(count) => {
            session.run("COMMIT").await?;
            session.confirm_after(warnings).await?;
            Ok(count)
        }
        // If the rollback fails as well, the session is closed, which ends its transaction.
        Err(failure) => session.run("ROLLBACK").await.and(Err(failure)),
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

/// Writes one snapshot, in a session of its own.
pub(crate) struct Writer {
    store: Arc<Store>,
    connection: Connection,
    sequence: u64,
    /// An id that all chunks of this writer have.
    attempt: [u8; 16],
    /// The bytes of the next chunk.
    chunk: Vec<u8>,
    /// The number of chunks that were written, their size, and the checksum of the last one.
    chunks: u64,
    bytes: u64,
    checksum: u32,
    is_finished: bool,
}

impl Writer {
    pub(crate) fn new(store: &Arc<Store>, sequence: u64) -> Self {
        Self {
            store: Arc::clone(store),
            connection: store.connection(),
            sequence,
            attempt: id_bytes(new_id()),
            chunk: Vec::with_capacity(CHUNK_BYTES),
            chunks: 0,
            bytes: 0,
            checksum: 0,
            is_finished: false,
        }
    }

    fn write_chunk(&mut self) -> Result<(), JournalError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = Arc::new(std::mem::replace(
            &mut self.chunk,
            Vec::with_capacity(CHUNK_BYTES),
        ));
        let checksum = chunk_checksum(self.checksum, &chunk);
        let (sequence, attempt, number) = (int(self.sequence), self.attempt, int(self.chunks));
        let written = self.connection.repeat(|session| {
            let chunk = Arc::clone(&chunk);
            async move {
                let values: Values<'_> = &[
                    &sequence,
                    &&attempt[..],
                    &number,
                    &i64::from(checksum),
                    &&chunk[..],
                ];
                session.execute(schema::WRITE_CHUNK, values).await
            }
        });
        written.map_err(|failure| self.store.error("write a snapshot", failure))?;
        self.checksum = checksum;
        self.bytes += chunk.len() as u64;
        self.chunks += 1;
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_BYTES - self.chunk.len();
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
        let (sequence, attempt) = (self.sequence, self.attempt);
        let numbers = [int(self.chunks), int(self.bytes), i64::from(self.checksum)];
        let finished = self.connection.repeat(|session| async move {
            let [chunks, bytes, checksum] = numbers;
            let values: Values<'_> = &[&int(sequence), &&attempt[..], &chunks, &bytes, &checksum];
            exclusively(&session, schema::FINISH_SNAPSHOT, values).await
        });
        let finished =
            finished.map_err(|failure| self.store.error("finish a snapshot", failure))?;
        if finished == 0 {
            let reason = "it was removed while it was written, because a newer one was finished";
            return Err(damaged(&self.store, sequence, reason));
        }
        self.is_finished = true;
        Ok(SnapshotInfo {
            sequence,
            bytes: self.bytes,
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished && self.chunks > 0 {
            let (sequence, attempt) = (int(self.sequence), self.attempt);
            // Chunks that cannot be removed now are removed after a newer snapshot.
            let _ = self.connection.once(|session| async move {
                let values: Values<'_> = &[&sequence, &&attempt[..]];
                session.execute(schema::DROP_ATTEMPT, values).await
            });
        }
    }
}

/// A chunk as it was read: its number, its checksum, its bytes.
type Chunk = (u64, u32, Vec<u8>);

/// Reads one snapshot, verifying each chunk before its bytes are returned.
pub(crate) struct Reader {
    store: Arc<Store>,
    connection: Connection,
    manifest: Manifest,
    /// Chunks that were read and not verified yet.
    waiting: VecDeque<Chunk>,
    /// The current chunk, and how much of it was returned.
    chunk: Vec<u8>,
    position: usize,
    /// The number of verified chunks, their size, and the checksum of the last one.
    chunks: u64,
    bytes: u64,
    checksum: u32,
}

impl Reader {
    pub(crate) fn open(store: &Arc<Store>, sequence: u64) -> Result<Self, JournalError> {
        let mut connection = store.connection();
        let found = connection.repeat(|session| async move {
            let rows = session
                .query(schema::FIND_SNAPSHOT, &[&int(sequence)])
                .await?;
            rows.first().map(|row| session.manifest(row)).transpose()
        });
        let found = found.map_err(|failure| store.error("read a snapshot", failure))?;
        Ok(Self {
            manifest: found.ok_or(JournalError::NoSnapshot { sequence })?,
            store: Arc::clone(store),
            connection,
            waiting: VecDeque::new(),
            chunk: Vec::new(),
            position: 0,
            chunks: 0,
            bytes: 0,
            checksum: 0,
        })
    }

    fn damaged(&self, reason: &str) -> JournalError {
        damaged(&self.store, self.manifest.sequence, reason)
    }

    fn read_page(&mut self) -> Result<(), JournalError> {
        let sequence = int(self.manifest.sequence);
        let (from, until) = (int(self.chunks), int(self.chunks + CHUNKS_PER_PAGE));
        let attempt = Arc::new(self.manifest.attempt.clone());
        let page = self.connection.repeat(|session| {
            let attempt = Arc::clone(&attempt);
            async move {
                let values: Values<'_> = &[&sequence, &&attempt[..], &from, &until];
                let rows = session.query(schema::READ_CHUNKS, values).await?;
                let chunk = |row| {
                    let content = session.get(row, 2)?;
                    Ok((session.uint(row, 0)?, session.crc(row, 1)?, content))
                };
                rows.iter()
                    .map(chunk)
                    .collect::<Result<Vec<Chunk>, Failure>>()
            }
        });
        let page = page.map_err(|failure| self.store.error("read a snapshot", failure))?;
        self.waiting = page.into();
        Ok(())
    }

    /// Gets the next chunk; it is empty at the end of the snapshot.
    fn advance(&mut self) -> Result<(), JournalError> {
        self.chunk.clear();
        self.position = 0;
        if self.chunks == self.manifest.chunks {
            if self.bytes != self.manifest.bytes || self.checksum != self.manifest.checksum {
                return Err(self.damaged("its chunks do not match its manifest"));
            }
            return Ok(());
        }
        if self.waiting.is_empty() {
            self.read_page()?;
        }
        let next = self.waiting.pop_front();
        let Some((_, checksum, content)) = next.filter(|(number, ..)| *number == self.chunks)
        else {
            return Err(self.damaged("a chunk is missing"));
        };
        if chunk_checksum(self.checksum, &content) != checksum {
            return Err(self.damaged("a chunk's checksum does not match"));
        }
        self.checksum = checksum;
        self.chunks += 1;
        self.bytes += content.len() as u64;
        self.chunk = content;
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.position == self.chunk.len() && !bytes.is_empty() {
            self.advance().map_err(into_io)?;
        }
        let left = &self.chunk[self.position..];
        let taken = bytes.len().min(left.len());
        bytes[..taken].copy_from_slice(&left[..taken]);
        self.position += taken;
        Ok(taken)
    }
}
