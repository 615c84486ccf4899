//! The file of a backup while it is written. The file has another name until all of it is on the disk.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::BackupError;
use super::pace::Pace;
use super::section::{self, Section};
use crate::private;

/// The suffix of the name of a backup that is being written.
pub const PARTIAL_SUFFIX: &str = ".partial";

/// The number of bytes between two fsyncs. An append of the service may have to wait until the disk has written the
/// bytes that are not synced yet, so these are kept few.
const SYNC_BYTES: usize = 4 << 20;
/// Small sections are buffered until they have this size together.
const WRITE_BYTES: usize = 256 << 10;

/// A backup that is being written. A writer that is dropped before [`Writer::finish`] leaves nothing.
pub(super) struct Writer {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    pace: Pace,
    /// The checksum of the last section.
    crc: u32,
    /// The number of sections so far.
    sections: u64,
    /// The number of bytes that were written to the file.
    bytes: u64,
    /// The number of bytes that were written since the last fsync.
    unsynced_bytes: usize,
    /// Small sections that are not written yet.
    buffer: Vec<u8>,
    /// The encoded fields of a section; kept for its capacity.
    fields: Vec<u8>,
    is_finished: bool,
}

impl Writer {
    /// Begins the backup that will have the name `path`.
    pub(super) fn create(path: &Path, made_at: i64, pace: Pace) -> Result<Self, BackupError> {
        if path.symlink_metadata().is_ok() {
            return Err(BackupError::Exists {
                path: path.to_path_buf(),
            });
        }
        let directory = parent(path);
        if !directory.is_dir() {
            return Err(BackupError::NotFound {
                path: directory.to_path_buf(),
            });
        }
        let partial = with_suffix(path, PARTIAL_SUFFIX);
        remove_leftover(&partial)?;
        let file = private::create_file(&partial).map_err(BackupError::io(&partial, "create"))?;
        file.try_lock().map_err(|_| BackupError::Busy {
            path: partial.clone(),
        })?;
        let mut writer = Self {
            path: path.to_path_buf(),
            partial,
            file,
            pace,
            crc: 0,
            sections: 0,
            bytes: 0,
            unsynced_bytes: 0,
            buffer: Vec::with_capacity(2 * WRITE_BYTES),
            fields: Vec::new(),
            is_finished: false,
        };
        writer.buffer.extend_from_slice(&section::header(made_at));
        Ok(writer)
    }

    /// The number of bytes of the sections so far, including those that are still buffered.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.buffer.len() as u64
    }

    /// Appends a section, and waits as the pace demands.
    pub(super) fn write_section(&mut self, section: &Section<'_>) -> Result<(), BackupError> {
        let content = section.encode(&mut self.fields);
        let (head, crc) = section::section_head(self.crc, section.kind(), &self.fields, content);
        self.crc = crc;
        self.sections += 1;
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(&self.fields);
        // A large section is not copied into the buffer.
        if content.len() < WRITE_BYTES {
            self.buffer.extend_from_slice(content);
            if self.buffer.len() < WRITE_BYTES {
                return Ok(());
            }
            return self.write_buffer();
        }
        self.write_buffer()?;
        content
            .chunks(WRITE_BYTES)
            .try_for_each(|piece| self.write(piece))
    }

    fn write_buffer(&mut self) -> Result<(), BackupError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        let io = BackupError::io(&self.partial, "write");
        self.file.write_all(bytes).map_err(&io)?;
        self.bytes += bytes.len() as u64;
        self.unsynced_bytes += bytes.len();
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            self.file.sync_data().map_err(&io)?;
        }
        self.pace.wait_after(bytes.len());
        Ok(())
    }

    /// Makes the backup durable, then visible; returns its size in bytes.
    pub(super) fn finish(mut self) -> Result<u64, BackupError> {
        let sections = self.sections;
        self.write_section(&Section::End { sections })?;
        self.write_buffer()?;
        let io = BackupError::io(&self.partial, "write");
        self.file.sync_all().map_err(&io)?;
        if self.path.symlink_metadata().is_ok() {
            return Err(BackupError::Exists {
                path: self.path.clone(),
            });
        }
        fs::rename(&self.partial, &self.path).map_err(&io)?;
        self.is_finished = true;
        let directory = parent(&self.path);
        sync_directory(directory).map_err(BackupError::io(directory, "sync"))?;
        Ok(self.bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that cannot be removed now is removed by the next backup to the same path.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Removes the partial backup of a process that was killed; refuses if another process is writing it.
fn remove_leftover(partial: &Path) -> Result<(), BackupError> {
    let io = BackupError::io(partial, "remove");
    let file = match File::open(partial) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    match file.try_lock() {
        Ok(()) => fs::remove_file(partial).map_err(io),
        Err(TryLockError::WouldBlock) => Err(BackupError::Busy {
            path: partial.to_path_buf(),
        }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// Removes the partial backups of killed processes from a directory, if the names of the backups end with
/// `suffix`.
pub(super) fn remove_all_leftovers(directory: &Path, suffix: &str) -> Result<(), BackupError> {
    let io = BackupError::io(directory, "read");
    let suffix = format!("{suffix}{PARTIAL_SUFFIX}");
    for entry in fs::read_dir(directory).map_err(&io)? {
        let entry = entry.map_err(&io)?;
        if entry.file_name().to_string_lossy().ends_with(&suffix) {
            match remove_leftover(&entry.path()) {
                Ok(()) | Err(BackupError::Busy { .. } | BackupError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The directory that contains `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the entries of a directory durable, so that a renamed file has its new name after a power failure.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
