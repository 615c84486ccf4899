//! The high-water mark: which entry was acknowledged last, kept outside of SQLite's log.
//!
//! SQLite treats a log whose end is damaged, cut off or missing as one that ended there, as it
//! must after a power failure. Without further evidence, entries lost by such damage would go
//! unnoticed. The mark records how far the log has to reach and the checksum at that point, which
//! covers all earlier batches.
//!
//! ```text
//! mark       three slots, one in each 4 KiB page
//! slot       "PWMARK" | format u16 | write number u64 | last u64 | checksum u32 | crc32 of what is before
//! ```
//!
//! All numbers are little-endian. Each write has a number, and the valid slot with the highest one
//! counts.
//!
//! **When it is written.** The first slot is written after append N is on stable storage and before the append is
//! acknowledged. So the mark never names an entry that was not kept. A process that is killed between the append and
//! the write of the mark leaves a mark that is one append behind, which is not an error. The write reaches the page
//! cache, which survives the process: after a kill the mark covers each acknowledged entry.
//!
//! **When it is durable.** An fsync of the mark before each acknowledgement would double the time
//! of an append. Instead the mark of append N is written to the disk after the callers have their answers,
//! alternating between the other two slots, so that one of them is intact if a write is torn. On
//! file systems that write in place (ext4, XFS) this is a direct write, which reaches the disk but
//! does not flush the disk's cache; the fsync of append N + 1 flushes the cache for the mark, too. On other
//! file systems the mark has an fsync of its own. Append N + 1 begins only after this write of the mark. So
//! after a power failure the mark is at most one append behind, and only the loss of the very last append, by a
//! disk that drops acknowledged data, could go unnoticed.
//!
//! If the mark of an append cannot be written, that append succeeds, because its entries are kept. The next append
//! first writes the mark again, and fails if that is not possible.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::LogEnd;
use super::directory::sync_directory;
use crate::private;

/// The name of the mark's file, and that of a file that is not complete yet.
const NAME: &str = "mark";
const PARTIAL_NAME: &str = "mark.partial";
/// The magic text, then the format.
const MAGIC: &[u8; 8] = b"PWMARK\x01\x00";
const SLOT_BYTES: usize = 32;
/// The distance between slots. A disk writes a page of this size atomically, or at least damages
/// no other page.
const SLOT_DISTANCE: usize = 4096;
/// The slot that is written before an acknowledgement, without an fsync.
const SLOT_QUICK: usize = 0;
/// The slots that are written durably in turn.
const SLOTS_DURABLE: [usize; 2] = [1, 2];
const SLOTS: usize = 3;
/// How often a mark with a damaged slot is read: the slot may be damaged only because another process is
/// writing it at the same time.
const READ_ATTEMPTS: usize = 5;

/// The mark as it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredMark {
    /// The file does not exist.
    Absent,
    /// The file exists, but none of its slots is valid.
    Unreadable,
    /// At least one slot is valid.
    Valid {
        /// The end of the last acknowledged append; if a slot is damaged, possibly of the append before it.
        log_end: LogEnd,
        write_number: u64,
        /// The index of the durable slot with the lower number, which is overwritten next.
        older_slot: usize,
        is_slot_damaged: bool,
    },
}

impl StoredMark {
    /// The last acknowledged entry according to the mark; `None` if the mark does not tell.
    pub(super) fn last(self) -> Option<u64> {
        match self {
            Self::Valid { log_end, .. } => Some(log_end.last),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

/// The bytes of a slot.
fn slot(write_number: u64, log_end: LogEnd) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..16].copy_from_slice(&write_number.to_le_bytes());
    slot[16..24].copy_from_slice(&log_end.last.to_le_bytes());
    slot[24..28].copy_from_slice(&log_end.checksum.to_le_bytes());
    let crc = crc32fast::hash(&slot[..28]);
    slot[28..].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// The write number and the content of a slot; `None` if the slot is not valid.
fn parse(bytes: &[u8]) -> Option<(u64, LogEnd)> {
    let bytes: &[u8; SLOT_BYTES] = bytes.first_chunk()?;
    let u64_at = |at: usize| {
        let bytes = bytes[at..at + 8].try_into();
        bytes.map_or(0, u64::from_le_bytes)
    };
    let log_end = LogEnd {
        last: u64_at(16),
        checksum: u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]),
    };
    let write_number = u64_at(8);
    (*bytes == slot(write_number, log_end)).then_some((write_number, log_end))
}

/// Reads the mark of a store.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(directory: &Path) -> io::Result<StoredMark> {
    let mut found = StoredMark::Absent;
    for _ in 0..READ_ATTEMPTS {
        found = read_once(&directory.join(NAME))?;
        if matches!(
            found,
            StoredMark::Valid {
                is_slot_damaged: false,
                ..
            } | StoredMark::Absent
        ) {
            break;
        }
    }
    Ok(found)
}

fn read_once(path: &Path) -> io::Result<StoredMark> {
    let mut bytes = Vec::with_capacity(SLOTS * SLOT_DISTANCE);
    match File::open(path) {
        Ok(file) => (file.take((SLOTS * SLOT_DISTANCE) as u64)).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StoredMark::Absent),
        Err(error) => return Err(error),
    };
    let slots: Vec<Option<(u64, LogEnd)>> = (0..SLOTS)
        .map(|slot| bytes.get(slot * SLOT_DISTANCE..).and_then(parse))
        .collect();
    let newest = slots
        .iter()
        .flatten()
        .max_by_key(|(write_number, _)| *write_number);
    Ok(match newest {
        None => StoredMark::Unreadable,
        Some(&(write_number, log_end)) => StoredMark::Valid {
            log_end,
            write_number,
            // If slot 1 is newer, the second durable slot is the older one. A damaged slot is `None`, which
            // compares less than any number, and so counts as the older one.
            older_slot: SLOTS_DURABLE[usize::from(slots[1] > slots[2])],
            is_slot_damaged: slots.contains(&None),
        },
    })
}

/// The writer of a store's mark. It is used under the store's write lock.
pub(super) struct HighWaterMark {
    file: File,
    /// `None` if durable writes need an fsync.
    direct: Option<Direct>,
    /// The number of the last write.
    write_number: u64,
    log_end: LogEnd,
    /// Whether the log is known to end with `log_end`: false before the first append, and after an append
    /// that failed.
    is_end_known: bool,
    /// The index of the durable slot that is written next.
    next_slot: usize,
    state: WriteState,
}

/// How far the current value of the mark has been written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    /// The value is in a durable slot, too.
    Durable,
    /// The value is in the first slot only.
    Written,
    /// Writing the value to the first slot failed.
    Failed,
}

impl HighWaterMark {
    /// Creates a mark for a store whose last batch is `log_end`, replacing an existing one.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn create(directory: &Path, log_end: LogEnd) -> io::Result<Self> {
        let (path, partial) = (directory.join(NAME), directory.join(PARTIAL_NAME));
        let mut file = private::create_file(&partial)?;
        let mut bytes = vec![0; SLOTS * SLOT_DISTANCE];
        for at in (0..bytes.len()).step_by(SLOT_DISTANCE) {
            bytes[at..at + SLOT_BYTES].copy_from_slice(&slot(1, log_end));
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(partial, &path)?;
        sync_directory(directory)?;
        Ok(Self {
            direct: Direct::open(&path),
            file,
            write_number: 1,
            log_end,
            is_end_known: false,
            next_slot: SLOTS_DURABLE[0],
            state: WriteState::Durable,
        })
    }

    /// Takes over an existing mark and durably sets it to `log_end`, because entries that a killed
    /// process had kept without marking them are visible to every reader from now on.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn resume(
        directory: &Path,
        stored_mark: StoredMark,
        log_end: LogEnd,
    ) -> io::Result<Self> {
        match stored_mark {
            StoredMark::Valid {
                log_end: marked_end,
                write_number,
                older_slot,
                is_slot_damaged: false,
            } if marked_end == log_end => {
                let path = directory.join(NAME);
                let file = private::open_file(&path)?;
                // After a kill the value may be in the page cache only.
                file.sync_data()?;
                Ok(Self {
                    direct: Direct::open(&path),
                    file,
                    write_number,
                    log_end,
                    is_end_known: false,
                    next_slot: older_slot,
                    state: WriteState::Durable,
                })
            }
            _ => Self::create(directory, log_end),
        }
    }

    /// Takes the end of the log, if it is known. Each append takes it, and [`Self::set`] makes it known
    /// again when the append has succeeded; after a failed append it has to be read from the log.
    pub(super) fn take_end(&mut self) -> Option<LogEnd> {
        std::mem::take(&mut self.is_end_known).then_some(self.log_end)
    }

    /// Sets the mark after an append, before it is acknowledged.
    pub(super) fn set(&mut self, log_end: LogEnd) {
        self.log_end = log_end;
        self.is_end_known = true;
        self.write_number += 1;
        self.state = match self.write_slot(SLOT_QUICK) {
            Ok(()) => WriteState::Written,
            Err(_) => WriteState::Failed,
        };
    }

    /// Writes the mark so that it is durable at the latest together with the next append. Called after an
    /// append was acknowledged and before the next one.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub(super) fn make_durable(&mut self) -> io::Result<()> {
        if self.state == WriteState::Durable {
            return Ok(());
        }
        if self.state == WriteState::Failed {
            self.write_slot(SLOT_QUICK)?;
            self.state = WriteState::Written;
        }
        let bytes = slot(self.write_number, self.log_end);
        let at = (self.next_slot * SLOT_DISTANCE) as u64;
        let written = self.direct.as_mut().map(|direct| direct.write(&bytes, at));
        match written {
            Some(Ok(())) => {}
            // A direct write fails on a file system that does not support direct writes.
            Some(Err(_)) | None => {
                self.direct = None;
                write_at(&self.file, &bytes, at)?;
                self.file.sync_data()?;
            }
        }
        // The other one of the two durable slots.
        self.next_slot = SLOTS_DURABLE[usize::from(self.next_slot == SLOTS_DURABLE[0])];
        self.state = WriteState::Durable;
        Ok(())
    }

    fn write_slot(&self, slot_index: usize) -> io::Result<()> {
        let bytes = slot(self.write_number, self.log_end);
        write_at(&self.file, &bytes, (slot_index * SLOT_DISTANCE) as u64)
    }
}

impl Drop for HighWaterMark {
    fn drop(&mut self) {
        // Best effort: the first slot already has the value.
        let _ = self.make_durable().and_then(|()| self.file.sync_data());
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// The file of the mark, opened once more for direct writes that bypass the page cache.
struct Direct {
    file: File,
    page: Box<Page>,
}

/// Direct writes require page-aligned memory.
#[repr(C, align(4096))]
struct Page([u8; SLOT_DISTANCE]);

impl Direct {
    /// `None` on a file system that is not known to write in place.
    #[cfg(target_os = "linux")]
    fn open(path: &Path) -> Option<Self> {
        use rustix::fs::{OFlags, fstatfs};
        use std::os::unix::fs::OpenOptionsExt as _;
        // The magic numbers of statfs(2).
        const EXT4: u32 = 0xef53;
        const XFS: u32 = 0x5846_5342;
        let flags = i32::try_from((OFlags::DIRECT | OFlags::NOFOLLOW).bits()).ok()?;
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).custom_flags(flags).open(path).ok()?;
        let file_system = u32::try_from(fstatfs(&file).ok()?.f_type).ok()?;
        matches!(file_system, EXT4 | XFS).then(|| Self {
            file,
            page: Box::new(Page([0; SLOT_DISTANCE])),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn open(_path: &Path) -> Option<Self> {
        None
    }

    fn write(&mut self, slot: &[u8; SLOT_BYTES], at: u64) -> io::Result<()> {
        self.page.0[..SLOT_BYTES].copy_from_slice(slot);
        write_at(&self.file, &self.page.0, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_end(last: u64) -> LogEnd {
        LogEnd { last, checksum: 7 }
    }

    #[test]
    fn a_mark_outlives_damage_to_two_slots_and_reports_damage_to_all() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), StoredMark::Absent);
        let mut mark = HighWaterMark::create(directory.path(), log_end(0)).unwrap();
        for last in 1..=9 {
            mark.set(log_end(last));
            // The mark is read before it is durable, as after a kill.
            assert_eq!(read(directory.path()).unwrap().last(), Some(last));
            // The last value stays in the first slot only.
            if last < 9 {
                mark.make_durable().unwrap();
            }
        }
        let path = directory.path().join(NAME);
        let sound = std::fs::read(&path).unwrap();
        let damaged = |slots: &[usize]| {
            let mut bytes = sound.clone();
            for slot in slots {
                let byte_in_slot = 20;
                bytes[slot * SLOT_DISTANCE + byte_in_slot] ^= 1;
            }
            std::fs::write(&path, &bytes).unwrap();
            read(directory.path()).unwrap()
        };
        assert_eq!(damaged(&[]).last(), Some(9));
        assert_eq!(damaged(&[1, 2]).last(), Some(9));
        assert_eq!(damaged(&[0]).last(), Some(8), "one append behind");
        // Of the durable slots one has 8 and the other one 7.
        let mut older = [damaged(&[0, 1]).last(), damaged(&[0, 2]).last()];
        older.sort_unstable();
        assert_eq!(older, [Some(7), Some(8)]);
        assert_eq!(damaged(&[0, 1, 2]), StoredMark::Unreadable);
        for byte in 0..SLOT_BYTES {
            let mut bytes = sound.clone();
            bytes[byte] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let found = read(directory.path()).unwrap();
            let is_detected = matches!(
                found,
                StoredMark::Valid {
                    is_slot_damaged: true,
                    ..
                }
            );
            assert!(is_detected && found.last() == Some(8), "{byte}");
        }
        for bytes in [&sound[..0], &[0_u8; SLOTS * SLOT_DISTANCE][..]] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read(directory.path()).unwrap(), StoredMark::Unreadable);
        }
    }

    #[test]
    fn a_mark_is_resumed_after_its_writer_was_dropped() {
        let directory = tempfile::tempdir().unwrap();
        drop(HighWaterMark::create(directory.path(), log_end(0)).unwrap());
        for last in 1..=9 {
            let found = read(directory.path()).unwrap();
            let mut mark =
                HighWaterMark::resume(directory.path(), found, log_end(last - 1)).unwrap();
            mark.set(log_end(last));
            drop(mark);
            assert_eq!(read(directory.path()).unwrap().last(), Some(last));
        }
        // Entries that were kept but not marked: resuming sets the mark to them.
        let found = read(directory.path()).unwrap();
        drop(HighWaterMark::resume(directory.path(), found, log_end(20)).unwrap());
        assert_eq!(read(directory.path()).unwrap().last(), Some(20));
    }
}
