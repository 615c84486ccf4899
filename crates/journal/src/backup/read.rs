//! Reading a backup: its sections in order, each verified.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::BackupError;
use super::section::{self, Base, HEADER_BYTES, SECTION_HEAD_BYTES, Section};

/// The size of the buffer through which the file is read.
const BUFFER_BYTES: usize = 256 << 10;
/// The maximum capacity, in bytes, that the buffer for a section keeps. The memory that a larger section needed is
/// freed.
const SECTION_BYTES_KEPT_MAX: usize = 1 << 20;

/// The sections of a backup.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// When the backup was made, in microseconds since 1970.
    pub(super) made_at: i64,
    /// The checksum of the last section.
    crc: u32,
    /// The number of sections so far.
    sections: u64,
    /// Where the next section begins.
    pub(super) offset: u64,
    /// The bytes of the section that was read last.
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Reader {
    /// Opens a backup and reads its first section, the base.
    pub(super) fn open(path: &Path) -> Result<(Self, Base), BackupError> {
        let io = BackupError::io(path, "read");
        let file = File::open(path).map_err(&io)?;
        if file.metadata().map_err(&io)?.is_dir() {
            return Err(BackupError::NotABackup {
                path: path.to_path_buf(),
                reason: "it is a directory",
            });
        }
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => BackupError::NotABackup {
                path: path.to_path_buf(),
                reason: "it is too short",
            },
            _ => io(e),
        })?;
        let mut reader = Self {
            path: path.to_path_buf(),
            file,
            made_at: section::parse_header(path, &header)?,
            crc: 0,
            sections: 0,
            offset: HEADER_BYTES as u64,
            bytes: Vec::new(),
            has_ended: false,
        };
        let base = match reader.next()? {
            Some(Section::Base(base)) => Some(base),
            _ => None,
        };
        match base {
            Some(base) => Ok((reader, base)),
            None => Err(reader.damaged("its first section does not name its entries")),
        }
    }

    pub(super) fn damaged(&self, reason: impl Into<String>) -> BackupError {
        BackupError::Damaged {
            path: self.path.clone(),
            at: self.offset,
            reason: reason.into(),
        }
    }

    /// Reads and verifies the next section; `None` after the last one, which proves that the backup is complete.
    pub(super) fn next(&mut self) -> Result<Option<Section<'_>>, BackupError> {
        if self.has_ended {
            return Ok(None);
        }
        let start = self.offset;
        let kind = self.load()?;
        self.offset = start + (SECTION_HEAD_BYTES + self.bytes.len()) as u64;
        let damaged = |reason: &str| BackupError::Damaged {
            path: self.path.clone(),
            at: start,
            reason: reason.into(),
        };
        let sections_before = self.sections;
        self.sections += 1;
        match section::decode(kind, &self.bytes) {
            None => Err(damaged("one of its sections cannot be decoded")),
            Some(Section::End { sections }) => {
                let mut byte_after_end = [0];
                let read = self.file.read(&mut byte_after_end);
                if sections != sections_before {
                    Err(damaged("its number of sections does not match"))
                } else if read.map_err(BackupError::io(&self.path, "read"))? > 0 {
                    Err(damaged("it has bytes after its last section"))
                } else {
                    self.has_ended = true;
                    Ok(None)
                }
            }
            Some(section) => Ok(Some(section)),
        }
    }

    /// Reads and verifies the bytes of the next section; returns its kind.
    fn load(&mut self) -> Result<u8, BackupError> {
        let mut head = [0; SECTION_HEAD_BYTES];
        self.fill(&mut head)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        self.bytes.clear();
        self.bytes.shrink_to(SECTION_BYTES_KEPT_MAX);
        // The buffer grows with the bytes that are there, so that a damaged length does not allocate memory.
        let bytes_read = (&mut self.file)
            .take(u64::from(length))
            .read_to_end(&mut self.bytes)
            .map_err(BackupError::io(&self.path, "read"))?;
        if bytes_read as u64 != u64::from(length) {
            return Err(self.damaged("it ends early"));
        }
        let kind = head[0];
        let (expected_head, crc) = section::section_head(self.crc, kind, &[], &self.bytes);
        if head != expected_head {
            return Err(self.damaged("a checksum does not match"));
        }
        self.crc = crc;
        Ok(kind)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        self.file.read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends early"),
            _ => BackupError::io(&self.path, "read")(e),
        })
    }
}

/// The contents of a backup, as [`inspect`] found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupContents {
    /// The backup has everything that was acknowledged before this time, in microseconds since 1970.
    pub made_at: i64,
    /// The first entry after which the state can be restored: that of the snapshot, or 0.
    pub first: u64,
    /// When the last batch that does not reach beyond the entry `first` was appended, in microseconds since 1970;
    /// `None` if that is not known.
    pub first_at: Option<i64>,
    /// The last entry of the backup, inclusive.
    pub end: u64,
    /// The names of the files that the backup has beside the journal.
    pub files: Vec<String>,
    /// The size of the backup.
    pub bytes: u64,
}

/// One batch of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupBatch {
    /// The first entry of the batch.
    pub first: u64,
    /// The last entry of the batch.
    pub last: u64,
    /// When the batch was appended, in microseconds since 1970; `None` for batches of earlier releases.
    pub appended_at: Option<i64>,
}

/// Reads a whole backup and verifies it: every checksum, and that no entry is missing. `visit` is
/// called with each batch of entries.
///
/// # Errors
/// The file is damaged, is no backup, was made by a newer release, or cannot be read.
pub fn inspect(
    path: &Path,
    visit: &mut dyn FnMut(BackupBatch),
) -> Result<BackupContents, BackupError> {
    let (mut reader, base) = Reader::open(path)?;
    let mut files = Vec::new();
    let mut end = base.before;
    loop {
        let offset = reader.offset;
        let damaged = |reason: String| BackupError::Damaged {
            path: path.to_path_buf(),
            at: offset,
            reason,
        };
        match reader.next()? {
            None => break,
            Some(Section::File { name, .. }) => files.push(name.to_owned()),
            Some(Section::Batch(row)) => {
                // The check verifies the checksum; the records that it returns are not needed.
                let _records = row
                    .check(end)
                    .map_err(|reason| damaged(format!("entry {}: {reason}", row.first)))?;
                if row.first != end.last + 1 {
                    return Err(damaged(format!("entry {} is missing", end.last + 1)));
                }
                end = row.log_end();
                visit(BackupBatch {
                    first: row.first,
                    last: row.last,
                    appended_at: row.appended_at,
                });
            }
            Some(Section::Base(_) | Section::Piece(_) | Section::End { .. }) => {}
        }
    }
    // The entries have to begin no later than right after the snapshot, and to reach the end that the base names. The
    // snapshot is not after that end.
    if end.last != base.end || base.before.last > base.snapshot || base.snapshot > base.end {
        return Err(reader.damaged("it does not have the entries that its first section names"));
    }
    Ok(BackupContents {
        made_at: reader.made_at,
        first: base.snapshot,
        first_at: base.appended_at,
        end: base.end,
        files,
        bytes: reader.offset,
    })
}
