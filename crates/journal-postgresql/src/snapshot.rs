//! Snapshots: chunks in rows of their own, and a row that makes them visible.

use std::collections::VecDeque;
use std::sync::Arc;

use placewright_journal::batch::new_id;
use placewright_journal::chunks::{
    CHUNKS_PER_PAGE, Chunk, ChunkReader, ChunkSink, ChunkSource, ChunkTotals,
};
use placewright_journal::{JournalError, SnapshotInfo};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::rows::{Manifest, id_bytes, int};
use crate::schema;
use crate::session::{Session, Values};
use crate::store::Store;

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
        bytes: found.totals.bytes,
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

/// Writes one snapshot in a session of its own: its chunks, and at last the row that makes the snapshot visible.
pub(crate) struct Sink {
    store: Arc<Store>,
    connection: Connection,
    sequence: u64,
    /// An id that all chunks of this writer have.
    attempt: [u8; 16],
}

impl Sink {
    pub(crate) fn new(store: &Arc<Store>, sequence: u64) -> Self {
        Self {
            store: Arc::clone(store),
            connection: store.connection(),
            sequence,
            attempt: id_bytes(new_id()),
        }
    }
}

impl ChunkSink for Sink {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn write(&mut self, number: u64, checksum: u32, chunk: Vec<u8>) -> Result<(), JournalError> {
        let chunk = Arc::new(chunk);
        let (sequence, attempt, number) = (int(self.sequence), self.attempt, int(number));
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
        Ok(())
    }

    fn finish(&mut self, totals: ChunkTotals) -> Result<(), JournalError> {
        let (sequence, attempt) = (self.sequence, self.attempt);
        let numbers = [
            int(totals.chunks),
            int(totals.bytes),
            i64::from(totals.checksum),
        ];
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
        Ok(())
    }

    fn remove(&mut self) {
        let (sequence, attempt) = (int(self.sequence), self.attempt);
        // Chunks that cannot be removed now are removed by `drop_old` later.
        let _ = self.connection.once(|session| async move {
            let values: Values<'_> = &[&sequence, &&attempt[..]];
            session.execute(schema::DROP_ATTEMPT, values).await
        });
    }
}

/// Reads the chunks of one snapshot in a session of its own.
pub(crate) struct Source {
    store: Arc<Store>,
    connection: Connection,
    sequence: u64,
    attempt: Arc<Vec<u8>>,
}

/// Begins to read a snapshot.
pub(crate) fn open(store: &Arc<Store>, sequence: u64) -> Result<ChunkReader<Source>, JournalError> {
    let mut connection = store.connection();
    let found = connection.repeat(|session| async move {
        let rows = session
            .query(schema::FIND_SNAPSHOT, &[&int(sequence)])
            .await?;
        rows.first().map(|row| session.manifest(row)).transpose()
    });
    let found = found.map_err(|failure| store.error("read a snapshot", failure))?;
    let manifest = found.ok_or(JournalError::NoSnapshot { sequence })?;
    let source = Source {
        store: Arc::clone(store),
        connection,
        sequence,
        attempt: Arc::new(manifest.attempt),
    };
    Ok(ChunkReader::new(source, manifest.totals))
}

impl ChunkSource for Source {
    type Bytes = Vec<u8>;

    fn read_page(&mut self, from: u64) -> Result<VecDeque<Chunk<Vec<u8>>>, JournalError> {
        let sequence = int(self.sequence);
        let until = int(from + u64::from(CHUNKS_PER_PAGE));
        let from = int(from);
        let page = self.connection.repeat(|session| {
            let attempt = Arc::clone(&self.attempt);
            async move {
                let values: Values<'_> = &[&sequence, &&attempt[..], &from, &until];
                let rows = session.query(schema::READ_CHUNKS, values).await?;
                let chunk = |row| {
                    Ok(Chunk {
                        number: session.uint(row, 0)?,
                        checksum: session.crc(row, 1)?,
                        bytes: session.get(row, 2)?,
                    })
                };
                rows.iter()
                    .map(chunk)
                    .collect::<Result<VecDeque<_>, Failure>>()
            }
        });
        page.map_err(|failure| self.store.error("read a snapshot", failure))
    }

    fn damaged(&self, reason: &str) -> JournalError {
        damaged(&self.store, self.sequence, reason)
    }
}
