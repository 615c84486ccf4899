//! Making a backup while a service writes to the store.
//!
//! Entries are never changed, so the copy is consistent without a lock and without one long read transaction.
//! Each transaction reads a little, so that SQLite can reset the write-ahead log between two of them, and the
//! bytes are written no faster than the options allow. Entries are copied before the snapshot, because the
//! service may trim entries meanwhile; the snapshot's file is opened first, and can be read even after the
//! service removed it.

use std::fs;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::BackupError;
use super::file::{Writer, remove_all_leftovers};
use super::pace::Pace;
use super::section::{Base, Section};
use crate::sqlite::batch::Row;
use crate::sqlite::now;
use crate::{Journal as _, JournalError, SqliteJournal};

/// A transaction reads batches until they have this many bytes together.
const READ_BYTES: usize = 1 << 20;
/// The snapshot's content is copied in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;
/// How many attempts are made at a backup. An attempt fails when the service removes a snapshot or entries that the
/// backup was about to read.
const ATTEMPTS: usize = 5;

/// The options of a backup.
pub struct BackupOptions<'a> {
    /// Makes the path of the backup's file from the time at which the backup is made, in microseconds since 1970, and
    /// the last entry in it.
    pub name: &'a dyn Fn(i64, u64) -> PathBuf,
    /// The names of further files in the store's directory that are copied, if they exist.
    pub files: &'a [&'a str],
    /// The maximum number of bytes that are copied in a second; `None`: no limit.
    pub bytes_per_second: Option<u64>,
}

/// The progress of a backup or a restore so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    /// The last entry that was copied.
    pub entry: u64,
    /// The last entry to copy.
    pub end: u64,
    /// The number of bytes that were copied.
    pub bytes: u64,
}

/// The result of [`write`]: a backup that was made.
#[derive(Debug)]
pub struct WrittenBackup {
    /// The file of the backup.
    pub path: PathBuf,
    /// The backup has everything that was acknowledged before this time, in microseconds since 1970.
    pub made_at: i64,
    /// The snapshot that the entries of the backup follow; 0 if there is none, and the entries begin with entry 1.
    pub snapshot: u64,
    /// The last entry of the backup.
    pub end: u64,
    /// The size of the backup.
    pub bytes: u64,
    /// The damaged snapshots, which were skipped.
    pub damaged_snapshots: Vec<JournalError>,
}

/// Makes a backup of a store, which may be in use. `progress` is called after each piece that was copied.
///
/// # Errors
/// The store is damaged or lacks entries that were acknowledged, or the backup cannot be written.
/// After an error no file is left.
pub fn write(
    store: &mut SqliteJournal,
    options: &BackupOptions<'_>,
    progress: &mut dyn FnMut(&BackupProgress),
) -> Result<WrittenBackup, BackupError> {
    store.check_acknowledged()?;
    let mut damaged_snapshots = Vec::new();
    let mut skipped = Vec::new();
    let mut attempts = 1;
    loop {
        match try_write(store, options, &skipped, progress) {
            Ok(written) => {
                return Ok(WrittenBackup {
                    damaged_snapshots,
                    ..written
                });
            }
            Err(BackupError::Store(
                JournalError::Trimmed { .. } | JournalError::NoSnapshot { .. },
            )) if attempts < ATTEMPTS => {
                attempts += 1;
            }
            Err(BackupError::Store(JournalError::DamagedSnapshot {
                path,
                sequence,
                reason,
            })) => {
                skipped.push(sequence);
                damaged_snapshots.push(JournalError::DamagedSnapshot {
                    path,
                    sequence,
                    reason,
                });
            }
            Err(error) => return Err(error),
        }
    }
}

/// Removes from a directory the partial files of backups whose processes were killed, if the names of the
/// backups end with `suffix`.
///
/// # Errors
/// Errors of the file system.
pub fn remove_leftovers(directory: &Path, suffix: &str) -> Result<(), BackupError> {
    remove_all_leftovers(directory, suffix)
}

/// One attempt at a backup, without the snapshots in `skipped`.
fn try_write(
    store: &mut SqliteJournal,
    options: &BackupOptions<'_>,
    skipped: &[u64],
    progress: &mut dyn FnMut(&BackupProgress),
) -> Result<WrittenBackup, BackupError> {
    // The time is read before the end, so that everything acknowledged before that time is in the backup.
    let made_at = now();
    let end = store.end()?;
    let snapshot = oldest_snapshot(store, end, skipped)?;
    let mut reader = match snapshot {
        0 => None,
        sequence => Some(store.read_snapshot(sequence)?),
    };
    let (before, appended_at) = store.end_before(snapshot + 1)?;
    let path = (options.name)(made_at, end);
    let pace = Pace::new(options.bytes_per_second);
    let mut writer = Writer::create(&path, made_at, pace)?;
    writer.write_section(&Section::Base(Base {
        before,
        appended_at,
        snapshot,
        end,
    }))?;
    put_files(store, options.files, &mut writer)?;
    put_entries(store, snapshot + 1, end, &mut writer, progress)?;
    if let Some(reader) = &mut reader {
        put_snapshot(reader.as_mut(), snapshot, &mut writer, &mut |bytes| {
            progress(&BackupProgress {
                entry: end,
                end,
                bytes,
            });
        })?;
    }
    let bytes = writer.finish()?;
    Ok(WrittenBackup {
        path,
        made_at,
        snapshot,
        end,
        bytes,
        damaged_snapshots: Vec::new(),
    })
}

/// The oldest snapshot after which all entries are held, without those in `skipped`; 0 if the store still holds its
/// first entry, so that the backup needs no snapshot.
fn oldest_snapshot(
    store: &mut SqliteJournal,
    end: u64,
    skipped: &[u64],
) -> Result<u64, BackupError> {
    let first_held = store.first_held()?;
    if first_held == 1 {
        return Ok(0);
    }
    let is_usable = |sequence: &u64| {
        *sequence <= end && sequence + 1 >= first_held && !skipped.contains(sequence)
    };
    let snapshots = store.snapshots()?;
    let sequences = snapshots.iter().map(|snapshot| snapshot.sequence);
    sequences
        .filter(is_usable)
        .min()
        .ok_or_else(|| BackupError::NoBase {
            path: store.directory().to_path_buf(),
            first_held,
        })
}

fn put_files(
    store: &SqliteJournal,
    names: &[&str],
    writer: &mut Writer,
) -> Result<(), BackupError> {
    for name in names {
        let path = store.directory().join(name);
        match fs::read(&path) {
            Ok(content) => writer.write_section(&Section::File {
                name,
                content: &content,
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(BackupError::io(&path, "read")(error)),
        }
    }
    Ok(())
}

/// Batches in memory, read in one transaction.
#[derive(Default)]
struct Batches {
    /// Each row without its records, and the offset in `bytes` at which they end.
    rows: Vec<(Row<'static>, usize)>,
    /// The records of all rows, concatenated.
    bytes: Vec<u8>,
}

impl Batches {
    /// Replaces the content by the batch that holds the entry `next` and those after it, up to the entry `end` or until
    /// they have [`READ_BYTES`].
    fn read(&mut self, store: &mut SqliteJournal, next: u64, end: u64) -> Result<(), JournalError> {
        self.rows.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * READ_BYTES);
        store.read_batches(next, &mut |row, _| {
            if row.first > end {
                return ControlFlow::Break(());
            }
            self.bytes.extend_from_slice(row.records);
            self.rows.push((row.without_records(), self.bytes.len()));
            if self.bytes.len() >= READ_BYTES {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
    }
}

/// Copies the entries from `from` to `end`.
fn put_entries(
    store: &mut SqliteJournal,
    from: u64,
    end: u64,
    writer: &mut Writer,
    progress: &mut dyn FnMut(&BackupProgress),
) -> Result<(), BackupError> {
    let mut batches = Batches::default();
    let mut next = from;
    while next <= end {
        batches.read(store, next, end)?;
        let mut start = 0;
        for (row, row_end) in &batches.rows {
            let records = &batches.bytes[start..*row_end];
            start = *row_end;
            next = next.max(row.last + 1);
            writer.write_section(&Section::Batch(Row { records, ..*row }))?;
        }
        if batches.rows.is_empty() {
            return Err(BackupError::Store(JournalError::Missing {
                path: store.directory().to_path_buf(),
                first: next,
                last: end,
            }));
        }
        progress(&BackupProgress {
            entry: next - 1,
            end,
            bytes: writer.bytes(),
        });
    }
    Ok(())
}

fn put_snapshot(
    reader: &mut dyn Read,
    sequence: u64,
    writer: &mut Writer,
    progress: &mut dyn FnMut(u64),
) -> Result<(), BackupError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) => {
                return Err(BackupError::Store(JournalError::from_snapshot_io(
                    error, sequence,
                )));
            }
        };
        writer.write_section(&Section::Piece(&piece[..length]))?;
        progress(writer.bytes());
    }
}
