//! The high-water mark: which entry was acknowledged last, kept outside of SQLite's log.
//!
//! SQLite takes a log whose end is damaged, cut off or gone for one that ended there, as it has to after a
//! power cut. So whatever such damage takes away would be missing in silence. The mark says where the
//! log has to reach, and with which checksum, which the checksums of all earlier batches went into.
//!
//! ```text
//! mark       two slots, one in each 4 KiB page
//! slot       "PWMARK" | format u16 | number u64 | last u64 | checksum u32 | crc32 of what is before
//! ```
//!
//! All numbers are little-endian. The slot with the higher number counts. A write goes to the other one,
//! and only when this one is on stable storage: whatever is torn, one of the two is whole.
//!
//! **When it is written.** After the append of batch N is on stable storage and before it is
//! acknowledged, the mark of N is written. So the mark never asks for what was not kept: a program that is
//! killed between the two leaves a mark one batch behind, and no alarm. What is written, if not yet on
//! stable storage, outlives the program: after a kill the mark knows each acknowledged entry.
//!
//! **When it is durable.** An fsync of its own before each acknowledgement would double the time of an
//! append. Instead a thread of the mark makes it durable while the next batch is decided and appended, and
//! the append of N + 1 is acknowledged only when the mark of N is on stable storage. So after a power cut
//! the mark is at most one batch behind: only what is lost of the very last batch, by a disk that loses
//! what it said it had kept, could go unnoticed.
//!
//! A mark that cannot be written stops the next append, not the one that it belongs to: that one is kept.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::Tail;
use super::open::sync_directory;
use crate::private;

const NAME: &str = "mark";
const PARTIAL_NAME: &str = "mark.partial";
const MAGIC: &[u8; 8] = b"PWMARK\x01\x00";
const SLOT_BYTES: usize = 32;
/// A disk writes a page of this size in one piece, or at least harms no other.
const SLOT_EVERY: usize = 4096;
/// A mark that is read while it is written is read again, so often.
const READ_ATTEMPTS: usize = 5;

/// What was read of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// There is no such file.
    Absent,
    /// There is one, but none of its slots is whole.
    Unreadable,
    /// The last batch that was acknowledged, or with a damaged slot perhaps the one before it.
    At {
        tail: Tail,
        number: u64,
        /// Where it was: 0 or 1.
        slot: usize,
        is_slot_damaged: bool,
    },
}

impl Found {
    /// The last entry that was acknowledged, as far as the mark says.
    pub(super) fn last(self) -> Option<u64> {
        match self {
            Self::At { tail, .. } => Some(tail.last),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

fn slot(number: u64, tail: Tail) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..16].copy_from_slice(&number.to_le_bytes());
    slot[16..24].copy_from_slice(&tail.last.to_le_bytes());
    slot[24..28].copy_from_slice(&tail.checksum.to_le_bytes());
    let crc = crc32fast::hash(&slot[..28]);
    slot[28..].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// The number and the tail of a slot that is whole.
fn parse(bytes: &[u8]) -> Option<(u64, Tail)> {
    let bytes: &[u8; SLOT_BYTES] = bytes.first_chunk()?;
    let number = |at: usize| {
        let bytes = bytes[at..at + 8].try_into();
        bytes.map_or(0, u64::from_le_bytes)
    };
    let tail = Tail {
        last: number(16),
        checksum: u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]),
    };
    (*bytes == slot(number(8), tail)).then_some((number(8), tail))
}

/// Reads the mark of a store.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(directory: &Path) -> io::Result<Found> {
    let mut found = Found::Absent;
    for _ in 0..READ_ATTEMPTS {
        found = read_once(&directory.join(NAME))?;
        if matches!(
            found,
            Found::At {
                is_slot_damaged: false,
                ..
            } | Found::Absent
        ) {
            break;
        }
    }
    Ok(found)
}

fn read_once(path: &Path) -> io::Result<Found> {
    let mut bytes = Vec::with_capacity(2 * SLOT_EVERY);
    match File::open(path) {
        Ok(file) => file.take(2 * SLOT_EVERY as u64).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
        Err(error) => return Err(error),
    };
    let slots = [0, SLOT_EVERY].map(|at| bytes.get(at..).and_then(parse));
    // None is less than any number.
    let newest = usize::from(slots[1] > slots[0]);
    Ok(match slots[newest] {
        None => Found::Unreadable,
        Some((number, tail)) => Found::At {
            tail,
            number,
            slot: newest,
            is_slot_damaged: slots.contains(&None),
        },
    })
}

/// Writes the mark of a store. Held by whoever appends.
pub(super) struct Mark {
    file: Arc<File>,
    number: u64,
    /// The slot that is on stable storage.
    durable_slot: usize,
    /// What is written, durable or not.
    tail: Tail,
    /// It could not be written, or not be made durable: nothing is appended until it can.
    is_failed: bool,
    syncer: Option<Syncer>,
}

impl Mark {
    /// A mark for a store whose last batch is `tail`, in the place of the one that may be there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn create(directory: &Path, tail: Tail) -> io::Result<Self> {
        let (path, partial) = (directory.join(NAME), directory.join(PARTIAL_NAME));
        let mut file = private::create_file(&partial)?;
        let mut bytes = vec![0; 2 * SLOT_EVERY];
        for (at, number) in [(0, 1), (SLOT_EVERY, 2)] {
            bytes[at..at + SLOT_BYTES].copy_from_slice(&slot(number, tail));
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(partial, path)?;
        sync_directory(directory)?;
        Ok(Self {
            file: Arc::new(file),
            number: 2,
            durable_slot: 1,
            tail,
            is_failed: false,
            syncer: None,
        })
    }

    /// Goes on with the mark that was found, and has it say `tail`, durably: what a program that was
    /// killed in between had kept is shown to everybody from now on.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn resume(directory: &Path, found: Found, tail: Tail) -> io::Result<Self> {
        let Found::At {
            tail: said,
            number,
            slot,
            is_slot_damaged,
        } = found
        else {
            return Self::create(directory, tail);
        };
        let mut mark = Self {
            file: Arc::new(private::open_file(&directory.join(NAME))?),
            number,
            durable_slot: slot,
            tail,
            // Both slots have to be whole, and the newer one on stable storage, before anything else.
            is_failed: is_slot_damaged || said != tail,
            syncer: None,
        };
        mark.file.sync_data()?;
        mark.ready()?;
        Ok(mark)
    }

    /// Before an append: a mark that could not be written is written now.
    ///
    /// # Errors
    /// It still cannot.
    pub(super) fn ready(&mut self) -> io::Result<()> {
        if self.is_failed {
            self.settle();
            self.put()?;
            self.file.sync_data()?;
            self.durable_slot = 1 - self.durable_slot;
            self.is_failed = false;
        }
        Ok(())
    }

    /// After an append, and before it is acknowledged: the batch before this one becomes durable in
    /// the mark at last, and this one is written.
    pub(super) fn set(&mut self, tail: Tail) {
        self.settle();
        self.tail = tail;
        if self.is_failed || self.put().is_err() {
            self.is_failed = true;
            return;
        }
        if self.syncer.is_none() {
            self.syncer = Syncer::start(&self.file);
        }
        match &self.syncer {
            Some(syncer) => syncer.start_sync(),
            // A system without room for a thread: slower, and as safe.
            None if self.file.sync_data().is_ok() => self.durable_slot = 1 - self.durable_slot,
            None => self.is_failed = true,
        }
    }

    /// Waits until what was written is durable.
    fn settle(&mut self) {
        match self.syncer.as_ref().and_then(Syncer::finish_sync) {
            None => {}
            Some(true) => self.durable_slot = 1 - self.durable_slot,
            Some(false) => self.is_failed = true,
        }
    }

    /// Writes the tail into the slot that is not the durable one.
    fn put(&mut self) -> io::Result<()> {
        self.number += 1;
        let at = (1 - self.durable_slot) * SLOT_EVERY;
        write_at(&self.file, &slot(self.number, self.tail), at as u64)
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

/// Where an fsync of the mark stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sync {
    Idle,
    Wanted,
    UnderWay,
    Done(bool),
    Stop,
}

type Stage = (Mutex<Sync>, Condvar);

/// The thread that makes the mark durable, one fsync after the other.
struct Syncer {
    stage: Arc<Stage>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    fn start(file: &Arc<File>) -> Option<Self> {
        let stage: Arc<Stage> = Arc::new((Mutex::new(Sync::Idle), Condvar::new()));
        let (theirs, file) = (Arc::clone(&stage), Arc::clone(file));
        let thread = thread::Builder::new().name("pw-mark".to_owned());
        let thread = thread
            .spawn(move || sync_when_wanted(&theirs, &file))
            .ok()?;
        Some(Self {
            stage,
            thread: Some(thread),
        })
    }

    fn start_sync(&self) {
        *self.stage.0.lock() = Sync::Wanted;
        self.stage.1.notify_all();
    }

    /// Waits for the fsync under way: whether it succeeded. None: there was none.
    fn finish_sync(&self) -> Option<bool> {
        let mut stage = self.stage.0.lock();
        loop {
            match *stage {
                Sync::Idle | Sync::Stop => return None,
                Sync::Done(succeeded) => {
                    *stage = Sync::Idle;
                    return Some(succeeded);
                }
                Sync::Wanted | Sync::UnderWay => self.stage.1.wait(&mut stage),
            }
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        // The last mark is made durable too.
        let _ = self.finish_sync();
        *self.stage.0.lock() = Sync::Stop;
        self.stage.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn sync_when_wanted(stage: &Stage, file: &File) {
    let (state, wake) = stage;
    let mut now = state.lock();
    loop {
        match *now {
            Sync::Stop => return,
            Sync::Wanted => {
                *now = Sync::UnderWay;
                drop(now);
                let succeeded = file.sync_data().is_ok();
                now = state.lock();
                *now = Sync::Done(succeeded);
                wake.notify_all();
            }
            Sync::Idle | Sync::UnderWay | Sync::Done(_) => wake.wait(&mut now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u64) -> Tail {
        Tail { last, checksum: 7 }
    }

    #[test]
    fn a_mark_outlives_damage_to_one_slot_and_tells_damage_to_both() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), Found::Absent);
        let mut mark = Mark::create(directory.path(), at(0)).unwrap();
        for last in 1..=9 {
            mark.ready().unwrap();
            mark.set(at(last));
            let found = read(directory.path()).unwrap();
            assert_eq!(found.last(), Some(last));
        }
        drop(mark);
        let path = directory.path().join(NAME);
        let sound = std::fs::read(&path).unwrap();
        let mut told = Vec::new();
        for byte in (0..SLOT_BYTES).chain(SLOT_EVERY..SLOT_EVERY + SLOT_BYTES) {
            let mut bytes = sound.clone();
            bytes[byte] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let Found::At {
                tail,
                is_slot_damaged,
                ..
            } = read(directory.path()).unwrap()
            else {
                panic!("one slot is whole");
            };
            assert!(is_slot_damaged);
            told.push(tail.last);
        }
        told.dedup();
        told.sort_unstable();
        assert_eq!(told, [8, 9]);
        for bytes in [&sound[..0], &[0_u8; 8192][..]] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read(directory.path()).unwrap(), Found::Unreadable);
        }
    }
}
