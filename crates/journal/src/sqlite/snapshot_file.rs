//! A snapshot as a file of checksummed chunks.
//!
//! ```text
//! header   "PWSNAPSH" | format u32 | sequence u64 | crc32 of the header
//! chunk    length u32 (not 0) | crc32 of (crc before, bytes) | bytes
//! end      0 u32              | crc32 of (crc before, total length u64) | total length u64
//! ```
//!
//! All numbers are little-endian. The file is written under another name and renamed when it is
//! on stable storage, so a snapshot is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::directory::sync_directory;
use crate::{JournalError, SnapshotInfo, SnapshotWriter, private};

const MAGIC: &[u8; 8] = b"PWSNAPSH";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 24;
/// The size of a chunk, which is large enough for the disk's full speed. Each chunk is synced to the disk separately,
/// so that the fsync of an append never waits for a whole snapshot.
const CHUNK_BYTES: usize = 4 << 20;
/// No writer makes larger chunks, so a larger length is damage.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// The path of the snapshot at `sequence`.
pub(super) fn path(directory: &Path, sequence: u64) -> PathBuf {
    directory.join(format!("snapshot-{sequence:020}"))
}

fn partial_path(directory: &Path, sequence: u64) -> PathBuf {
    directory.join(format!("snapshot-{sequence:020}.partial"))
}

/// The snapshots of a store, the newest first.
pub(super) fn list(directory: &Path) -> io::Result<Vec<SnapshotInfo>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|n| n.strip_prefix("snapshot-"));
        let Some(Ok(sequence)) = digits.map(str::parse) else {
            continue;
        };
        let bytes = match entry.metadata() {
            Ok(metadata) => metadata.len(),
            // Another process, or another thread, has dropped the snapshot meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        found.push(SnapshotInfo { sequence, bytes });
    }
    found.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.sequence));
    Ok(found)
}

/// Removes partial snapshots of a process that ended while it wrote them.
pub(super) fn remove_partial(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let is_partial = name
            .to_str()
            .is_some_and(|n| n.starts_with("snapshot-") && n.ends_with(".partial"));
        if is_partial {
            fs::remove_file(directory.join(name))?;
        }
    }
    Ok(())
}

fn header(sequence: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..20].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The checksum of some bytes. It covers `crc`, the checksum of the bytes before them.
fn chained_crc(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&crc.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Writes one snapshot in checksummed chunks, and removes the partial file if it is dropped early.
pub(super) struct Writer {
    directory: PathBuf,
    sequence: u64,
    file: File,
    chunk: Vec<u8>,
    /// The checksum of the last chunk.
    crc: u32,
    /// The size of the chunks so far.
    total_bytes: u64,
    /// Whether a chunk could not be written. Part of it may be in the file, so the snapshot must not be finished.
    has_failed: bool,
    is_finished: bool,
}

impl Writer {
    pub(super) fn create(directory: &Path, sequence: u64) -> Result<Self, JournalError> {
        let partial = partial_path(directory, sequence);
        let io = |e| JournalError::from_io(&partial, "write a snapshot", e);
        let file = private::create_file(&partial).map_err(io)?;
        let mut writer = Self {
            directory: directory.to_path_buf(),
            sequence,
            file,
            chunk: Vec::with_capacity(CHUNK_BYTES),
            crc: 0,
            total_bytes: 0,
            has_failed: false,
            is_finished: false,
        };
        writer.file.write_all(&header(sequence)).map_err(io)?;
        Ok(writer)
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("a part of it could not be written"));
        }
        if self.chunk.is_empty() {
            return Ok(());
        }
        self.has_failed = true;
        self.crc = chained_crc(self.crc, &self.chunk);
        self.total_bytes += self.chunk.len() as u64;
        let length = u32::try_from(self.chunk.len()).unwrap_or(u32::MAX);
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&self.crc.to_le_bytes())?;
        self.file.write_all(&self.chunk)?;
        self.file.sync_data()?;
        self.has_failed = false;
        self.chunk.clear();
        Ok(())
    }

    fn write_end(&mut self) -> io::Result<u64> {
        self.write_chunk()?;
        let total = self.total_bytes.to_le_bytes();
        self.file.write_all(&0_u32.to_le_bytes())?;
        self.file
            .write_all(&chained_crc(self.crc, &total).to_le_bytes())?;
        self.file.write_all(&total)?;
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        fs::rename(
            partial_path(&self.directory, self.sequence),
            path(&self.directory, self.sequence),
        )?;
        self.is_finished = true;
        sync_directory(&self.directory)?;
        Ok(bytes)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK_BYTES {
            self.write_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotWriter for Writer {
    fn finish(mut self: Box<Self>) -> Result<SnapshotInfo, JournalError> {
        let sequence = self.sequence;
        match self.write_end() {
            Ok(bytes) => Ok(SnapshotInfo { sequence, bytes }),
            Err(e) => {
                let path = path(&self.directory, sequence);
                Err(JournalError::from_io(&path, "write a snapshot", e))
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished {
            // A partial file that cannot be removed now is removed when the store is opened next.
            let _ = fs::remove_file(partial_path(&self.directory, self.sequence));
        }
    }
}

/// Reads one snapshot, verifying each chunk before its bytes are returned.
pub(super) struct Reader {
    path: PathBuf,
    sequence: u64,
    file: File,
    chunk: Vec<u8>,
    /// The offset in `chunk` up to which it was read.
    position: usize,
    /// The checksum of the last chunk.
    crc: u32,
    /// The size of the chunks so far.
    total_bytes: u64,
    has_ended: bool,
}

impl Reader {
    pub(super) fn open(directory: &Path, sequence: u64) -> Result<Self, JournalError> {
        let path = path(directory, sequence);
        let file = File::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => JournalError::NoSnapshot { sequence },
            _ => JournalError::from_io(&path, "read a snapshot", e),
        })?;
        let mut reader = Self {
            path,
            sequence,
            file,
            chunk: Vec::new(),
            position: 0,
            crc: 0,
            total_bytes: 0,
            has_ended: false,
        };
        reader.check_header()?;
        Ok(reader)
    }

    fn damaged(&self, reason: &str) -> JournalError {
        JournalError::DamagedSnapshot {
            path: self.path.clone(),
            sequence: self.sequence,
            reason: reason.into(),
        }
    }

    fn check_header(&mut self) -> Result<(), JournalError> {
        let found: [u8; HEADER_BYTES] = self.read_array()?;
        let expected = header(self.sequence);
        if found == expected {
            return Ok(());
        }
        let format = u32::from_le_bytes([found[8], found[9], found[10], found[11]]);
        let crc = crc32fast::hash(&found[..20]).to_le_bytes();
        if found[..8] == *MAGIC && found[20..] == crc && format > FORMAT {
            return Err(JournalError::NewerFormat {
                path: self.path.clone(),
                found: format,
                supported: FORMAT,
            });
        }
        Err(self.damaged("its header does not match"))
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], JournalError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), JournalError> {
        (self.file.read_exact(bytes)).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends early"),
            _ => JournalError::from_io(&self.path, "read a snapshot", e),
        })
    }

    /// Loads and verifies the next chunk, or the end.
    fn advance(&mut self) -> Result<(), JournalError> {
        let length = u32::from_le_bytes(self.read_array()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let crc = u32::from_le_bytes(self.read_array()?);
        if length == 0 {
            let total: [u8; 8] = self.read_array()?;
            if chained_crc(self.crc, &total) != crc || u64::from_le_bytes(total) != self.total_bytes
            {
                return Err(self.damaged("its end does not match"));
            }
            self.has_ended = true;
            return Ok(());
        }
        if length > CHUNK_BYTES_MAX {
            return Err(self.damaged("a chunk's length does not match"));
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(length, 0);
        self.fill(&mut chunk)?;
        if chained_crc(self.crc, &chunk) != crc {
            return Err(self.damaged("a chunk's checksum does not match"));
        }
        self.crc = crc;
        self.total_bytes += length as u64;
        self.chunk = chunk;
        self.position = 0;
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.position == self.chunk.len() {
            if self.has_ended || bytes.is_empty() {
                return Ok(0);
            }
            // Emptied first, so that no bytes are returned if the next chunk cannot be read.
            self.chunk.clear();
            self.position = 0;
            self.advance().map_err(JournalError::into_io)?;
            if self.has_ended {
                self.chunk.clear();
                self.position = 0;
                return Ok(0);
            }
        }
        let left = &self.chunk[self.position..];
        let taken = left.len().min(bytes.len());
        bytes[..taken].copy_from_slice(&left[..taken]);
        self.position += taken;
        Ok(taken)
    }
}
