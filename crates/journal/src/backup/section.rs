//! The parts of a backup, as bytes.
//!
//! ```text
//! header    "PWBACKUP" | format u32 | made at i64 | crc32 of the bytes before
//! section   kind u8 | length u32 | crc32 of (crc before, kind, length, bytes) | bytes
//!
//! 1 base    last before u64 | its checksum u32 | its time i64 | snapshot u64 | end u64   once, first
//! 2 file    length of the name u8 | name | content                                 beside the journal
//! 3 batch   first u64 | last u64 | previous i64 | checksum i64 | appended at i64 | records
//! 4 piece   bytes of the snapshot's content
//! 5 end     number of sections before u64                                          once, last
//! ```
//!
//! All numbers are little-endian; a time that is not known is the lowest i64. The checksum of a section covers
//! that of the section before (0 before the first one), so a section that is missing, repeated or moved is noticed.

use std::path::Path;

use super::BackupError;
use crate::sqlite::LogEnd;
use crate::sqlite::batch::Row;

/// The format of backups that this release writes. It reads this format and all older ones.
pub const FORMAT: u32 = 1;

pub(super) const MAGIC: &[u8; 8] = b"PWBACKUP";
pub(super) const HEADER_BYTES: usize = 24;
pub(super) const SECTION_HEAD_BYTES: usize = 9;

// The kinds of sections.
const BASE: u8 = 1;
const FILE: u8 = 2;
const BATCH: u8 = 3;
const PIECE: u8 = 4;
const END: u8 = 5;

/// Where the entries of a backup begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    /// The end of the batch before the first one in the backup.
    pub(super) before: LogEnd,
    /// When the batch before the first one was appended, in microseconds since 1970.
    pub(super) appended_at: Option<i64>,
    /// The last entry that the snapshot contains; the entries follow it. 0 if there is no snapshot, and the entries
    /// begin with entry 1.
    pub(super) snapshot: u64,
    /// The last entry in the backup.
    pub(super) end: u64,
}

/// One part of a backup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Section<'a> {
    Base(Base),
    File { name: &'a str, content: &'a [u8] },
    Batch(Row<'a>),
    Piece(&'a [u8]),
    End { sections: u64 },
}

impl Section<'_> {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Base(_) => BASE,
            Self::File { .. } => FILE,
            Self::Batch(_) => BATCH,
            Self::Piece(_) => PIECE,
            Self::End { .. } => END,
        }
    }

    /// Encodes the section: its fields are written to `fields`, and the content that follows them is returned.
    pub(super) fn encode<'s>(&'s self, fields: &mut Vec<u8>) -> &'s [u8] {
        fields.clear();
        match self {
            Self::Base(base) => {
                fields.extend_from_slice(&base.before.last.to_le_bytes());
                fields.extend_from_slice(&base.before.checksum.to_le_bytes());
                fields.extend_from_slice(&encode_time(base.appended_at));
                fields.extend_from_slice(&base.snapshot.to_le_bytes());
                fields.extend_from_slice(&base.end.to_le_bytes());
                &[]
            }
            Self::File { name, content } => {
                fields.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
                fields.extend_from_slice(name.as_bytes());
                content
            }
            Self::Batch(row) => {
                fields.extend_from_slice(&row.first.to_le_bytes());
                fields.extend_from_slice(&row.last.to_le_bytes());
                fields.extend_from_slice(&row.previous.to_le_bytes());
                fields.extend_from_slice(&row.checksum.to_le_bytes());
                fields.extend_from_slice(&encode_time(row.appended_at));
                row.records
            }
            Self::Piece(bytes) => bytes,
            Self::End { sections } => {
                fields.extend_from_slice(&sections.to_le_bytes());
                &[]
            }
        }
    }
}

/// Decodes a section of this kind; `None` if the bytes are not a valid one.
pub(super) fn decode(kind: u8, bytes: &[u8]) -> Option<Section<'_>> {
    let mut fields = Fields { rest: bytes };
    match kind {
        BASE => {
            let base = Base {
                before: LogEnd {
                    last: fields.u64()?,
                    checksum: fields.u32()?,
                },
                appended_at: fields.time()?,
                snapshot: fields.u64()?,
                end: fields.u64()?,
            };
            fields.rest.is_empty().then_some(Section::Base(base))
        }
        FILE => {
            let (length, rest) = fields.rest.split_first()?;
            let (name, content) = rest.split_at_checked(usize::from(*length))?;
            let name = std::str::from_utf8(name).ok()?;
            is_file_name(name).then_some(Section::File { name, content })
        }
        BATCH => Some(Section::Batch(Row {
            first: fields.u64()?,
            last: fields.u64()?,
            previous: fields.i64()?,
            checksum: fields.i64()?,
            appended_at: fields.time()?,
            records: fields.rest,
        })),
        PIECE => Some(Section::Piece(bytes)),
        END => {
            let sections = fields.u64()?;
            fields.rest.is_empty().then_some(Section::End { sections })
        }
        _ => None,
    }
}

/// Whether a restore may write a file of this name: only into the store's directory itself, and not over the mark, the
/// lock or the database. Names with a dot are refused, as the database's files have one.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !name.is_empty() && name.chars().all(is_plain) && !matches!(name, "mark" | "lock")
}

fn encode_time(at: Option<i64>) -> [u8; 8] {
    at.unwrap_or(i64::MIN).to_le_bytes()
}

/// Reads numbers from the start of a byte slice.
struct Fields<'a> {
    /// The bytes that were not read yet.
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    /// The outer `None` if there are too few bytes, the inner one if the time is not known.
    fn time(&mut self) -> Option<Option<i64>> {
        let at = self.i64()?;
        Some((at != i64::MIN).then_some(at))
    }
}

/// The header of a backup that was made at this time, in microseconds since 1970.
pub(super) fn header(made_at: i64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..20].copy_from_slice(&made_at.to_le_bytes());
    let crc = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Verifies the header of a backup; returns when the backup was made, in microseconds since 1970.
pub(super) fn parse_header(path: &Path, found: &[u8; HEADER_BYTES]) -> Result<i64, BackupError> {
    if found[..8] != *MAGIC {
        return Err(BackupError::NotABackup {
            path: path.to_path_buf(),
            reason: "it does not begin as one",
        });
    }
    let crc = crc32fast::hash(&found[..20]).to_le_bytes();
    if found[20..] != crc {
        return Err(BackupError::Damaged {
            path: path.to_path_buf(),
            at: 0,
            reason: "the checksum of its header does not match".into(),
        });
    }
    let mut fields = Fields {
        rest: &found[8..20],
    };
    let (format, made_at) = (fields.u32().unwrap_or(0), fields.i64().unwrap_or(0));
    if format > FORMAT {
        return Err(BackupError::NewerFormat {
            path: path.to_path_buf(),
            found: format,
            supported: FORMAT,
        });
    }
    Ok(made_at)
}

/// The head of a section, and the checksum in it, which covers the checksum of the section before.
pub(super) fn section_head(
    previous_crc: u32,
    kind: u8,
    fields: &[u8],
    content: &[u8],
) -> ([u8; SECTION_HEAD_BYTES], u32) {
    let length = u32::try_from(fields.len() + content.len()).unwrap_or(u32::MAX);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous_crc.to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(&length.to_le_bytes());
    hasher.update(fields);
    hasher.update(content);
    let crc = hasher.finalize();
    let mut bytes = [0; SECTION_HEAD_BYTES];
    bytes[0] = kind;
    bytes[1..5].copy_from_slice(&length.to_le_bytes());
    bytes[5..].copy_from_slice(&crc.to_le_bytes());
    (bytes, crc)
}
