//! Snapshots in chunks, for journals on storage engines that take only small values: what their writers and readers
//! have in common.
//!
//! The checksum of a chunk covers the checksum of the chunk before it, so the last one covers the whole snapshot.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use crate::{JournalError, SnapshotInfo, SnapshotWriter};

/// The size of a chunk in bytes. Larger ones would slow appends down.
pub const CHUNK_BYTES: usize = 256 << 10;
/// The number of chunks that are read at once.
pub const CHUNKS_PER_PAGE: u32 = 4;

/// The size of a snapshot, or of the part of it that was written or verified so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkTotals {
    /// The number of chunks.
    pub chunks: u64,
    /// The bytes in them.
    pub bytes: u64,
    /// The checksum of the last chunk.
    pub checksum: u32,
}

impl ChunkTotals {
    fn add(&mut self, chunk: &[u8]) {
        self.checksum = chunk_checksum(self.checksum, chunk);
        self.bytes += chunk.len() as u64;
        self.chunks += 1;
    }
}

/// The checksum of a chunk, which covers the checksum of the chunk before.
fn chunk_checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Where the chunks of one snapshot are written.
pub trait ChunkSink: Send {
    /// The snapshot holds the state after this entry.
    fn sequence(&self) -> u64;

    /// Writes the chunk with this number, counted from 0.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn write(&mut self, number: u64, checksum: u32, chunk: Vec<u8>) -> Result<(), JournalError>;

    /// Makes the snapshot visible.
    ///
    /// # Errors
    ///
    /// The store failed, or the chunks were removed meanwhile.
    fn finish(&mut self, totals: ChunkTotals) -> Result<(), JournalError>;

    /// Removes the chunks of a snapshot that will not be finished. If that is not possible now, they are removed once a
    /// newer snapshot is finished.
    fn remove(&mut self);
}

/// Writes one snapshot to a [`ChunkSink`].
pub struct ChunkWriter<S: ChunkSink> {
    sink: S,
    /// The bytes of the next chunk.
    chunk: Vec<u8>,
    written: ChunkTotals,
    /// Whether a chunk could not be written. Then the snapshot lacks it, and must not be finished.
    has_failed: bool,
    is_finished: bool,
}

impl<S: ChunkSink> ChunkWriter<S> {
    /// A writer that has written nothing.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            chunk: Vec::with_capacity(CHUNK_BYTES),
            written: ChunkTotals::default(),
            has_failed: false,
            is_finished: false,
        }
    }

    fn write_chunk(&mut self) -> Result<(), JournalError> {
        if self.has_failed {
            return Err(JournalError::Io {
                path: format!("snapshot {}", self.sink.sequence()).into(),
                doing: "finish",
                source: io::Error::other("a part of it could not be written"),
            });
        }
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        let mut written = self.written;
        written.add(&chunk);
        self.has_failed = true;
        self.sink
            .write(self.written.chunks, written.checksum, chunk)?;
        self.has_failed = false;
        self.written = written;
        Ok(())
    }
}

impl<S: ChunkSink> Write for ChunkWriter<S> {
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

impl<S: ChunkSink> SnapshotWriter for ChunkWriter<S> {
    fn finish(mut self: Box<Self>) -> Result<SnapshotInfo, JournalError> {
        self.write_chunk()?;
        self.sink.finish(self.written)?;
        self.is_finished = true;
        Ok(SnapshotInfo {
            sequence: self.sink.sequence(),
            bytes: self.written.bytes,
        })
    }
}

impl<S: ChunkSink> Drop for ChunkWriter<S> {
    fn drop(&mut self) {
        if !self.is_finished && self.written.chunks > 0 {
            self.sink.remove();
        }
    }
}

/// A chunk as it was read.
#[derive(Debug)]
pub struct Chunk<B> {
    /// The number of the chunk, counted from 0.
    pub number: u64,
    /// The checksum with which it was written.
    pub checksum: u32,
    /// Its bytes.
    pub bytes: B,
}

/// Where the chunks of one snapshot are read.
pub trait ChunkSource: Send {
    /// The bytes of a chunk.
    type Bytes: AsRef<[u8]> + Default + Send;

    /// Reads the next chunks, at most [`CHUNKS_PER_PAGE`], from this number on. Ends early where one is missing.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn read_page(&mut self, from: u64) -> Result<VecDeque<Chunk<Self::Bytes>>, JournalError>;

    /// The error for a snapshot that is damaged.
    fn damaged(&self, reason: &str) -> JournalError;
}

/// Reads one snapshot from a [`ChunkSource`], and verifies each chunk before its bytes are returned.
pub struct ChunkReader<S: ChunkSource> {
    source: S,
    expected: ChunkTotals,
    verified: ChunkTotals,
    /// Chunks that were read and not verified yet.
    waiting: VecDeque<Chunk<S::Bytes>>,
    /// The bytes of the current chunk; empty before the first one and after the last one.
    chunk: S::Bytes,
    /// The offset in `chunk` up to which it was returned.
    position: usize,
}

impl<S: ChunkSource> ChunkReader<S> {
    /// A reader of a snapshot of this size.
    pub fn new(source: S, expected: ChunkTotals) -> Self {
        Self {
            source,
            expected,
            verified: ChunkTotals::default(),
            waiting: VecDeque::new(),
            chunk: S::Bytes::default(),
            position: 0,
        }
    }

    /// Gets the next chunk; it is empty at the end of the snapshot.
    fn advance(&mut self) -> Result<(), JournalError> {
        self.chunk = S::Bytes::default();
        self.position = 0;
        if self.verified.chunks == self.expected.chunks {
            if self.verified != self.expected {
                let reason = "its chunks do not match its manifest";
                return Err(self.source.damaged(reason));
            }
            return Ok(());
        }
        if self.waiting.is_empty() {
            self.waiting = self.source.read_page(self.verified.chunks)?;
        }
        let next = self.waiting.pop_front();
        let Some(next) = next.filter(|next| next.number == self.verified.chunks) else {
            return Err(self.source.damaged("a chunk is missing"));
        };
        let mut verified = self.verified;
        verified.add(next.bytes.as_ref());
        if verified.checksum != next.checksum {
            let reason = "a chunk's checksum does not match";
            return Err(self.source.damaged(reason));
        }
        self.verified = verified;
        self.chunk = next.bytes;
        Ok(())
    }
}

impl<S: ChunkSource> Read for ChunkReader<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.position == self.chunk.as_ref().len() && !bytes.is_empty() {
            self.advance().map_err(into_io)?;
        }
        let left = &self.chunk.as_ref()[self.position..];
        let taken = bytes.len().min(left.len());
        bytes[..taken].copy_from_slice(&left[..taken]);
        self.position += taken;
        Ok(taken)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes of it fail, as long as `failures` lasts.
    struct FailingSink {
        failures: u32,
    }

    impl ChunkSink for FailingSink {
        fn sequence(&self) -> u64 {
            1
        }

        fn write(&mut self, _: u64, _: u32, _: Vec<u8>) -> Result<(), JournalError> {
            if self.failures == 0 {
                return Ok(());
            }
            self.failures -= 1;
            Err(JournalError::NoSpace {
                path: "full".into(),
            })
        }

        fn finish(&mut self, _: ChunkTotals) -> Result<(), JournalError> {
            Ok(())
        }

        fn remove(&mut self) {}
    }

    #[test]
    fn a_snapshot_that_lacks_a_chunk_cannot_be_finished() {
        for (failures, is_whole) in [(0, true), (1, false)] {
            let mut writer = Box::new(ChunkWriter::new(FailingSink { failures }));
            let written = writer.write_all(&vec![7; CHUNK_BYTES]);
            assert_eq!(written.is_ok(), is_whole);
            assert_eq!(writer.finish().is_ok(), is_whole);
        }
    }
}
