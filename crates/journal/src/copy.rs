//! Copies everything of one store to another one, which may have another storage engine, and seals the first store.
//!
//! Entries keep their numbers and their records, byte by byte. The entries that the target holds already are compared
//! with those of the source, so that a copy that was interrupted goes on where it ended. Nothing in the target is
//! overwritten.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use crate::{AppendError, Journal, JournalError, Resolution, verify};

/// When the records of an append together have this size in bytes, no further one is added. Every storage engine
/// accepts as much in one append. Snapshots are copied in pieces of this size, too.
const BATCH_BYTES: usize = 256 << 10;
/// The maximum number of records in one append.
const BATCH_RECORDS: usize = 4096;
/// The maximum number of attempts to find out the outcome of an append without an answer. The pauses between them are
/// half a minute together, in which the servers of a storage engine can elect another leader.
const RESOLVE_ATTEMPTS: usize = 60;
/// The pause between two such attempts.
const RESOLVE_PAUSE: Duration = Duration::from_millis(500);

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// The last entry that the target has.
    pub entry: u64,
    /// The last entry of the source, as far as is known.
    pub end: u64,
    /// The size in bytes of the records that were copied. It is counted anew for the entries after the seal.
    pub bytes: u64,
}

/// The result of a copy that was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The last entry, with which the source is sealed.
    pub end: u64,
    /// The number of entries that the target did not have.
    pub entries: u64,
    /// The number of snapshots that the target did not have.
    pub snapshots: u64,
}

/// Why a journal was not copied. The copied part stays in the target, and the next copy goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The store to be copied failed.
    #[error("the source cannot be copied")]
    Source(#[source] JournalError),

    /// The store to copy to failed.
    #[error("the target cannot be written")]
    Target(#[source] JournalError),

    /// An entry of the target is not the same as in the source. The target is left as it is.
    #[error(
        "the target is not a copy of the source: they differ at entry {entry}; name an empty one"
    )]
    Differs {
        /// The first entry that is not the same.
        entry: u64,
    },

    /// The source was trimmed since the target was begun.
    #[error(
        "the target ends at entry {end}, and the source holds no entry before {first_held}: name an empty target"
    )]
    Gap {
        /// The last entry of the target.
        end: u64,
        /// The first entry of the source.
        first_held: u64,
    },

    /// Somebody else writes to the target.
    #[error("somebody else writes to the target: its next entry is {next_sequence}")]
    InUse {
        /// The target's next entry.
        next_sequence: u64,
    },

    /// The target did not pass the check after the copy.
    #[error("the target is not sound after the copy")]
    Unsound(#[source] JournalError),
}

/// Copies a journal, and seals the source, so that nobody appends to it any more. The source may be in use until
/// then: entries that are appended in the meantime are copied after the seal. `moved_to` is the address of the
/// target, which the users of the source get in errors.
///
/// # Errors
/// See [`CopyError`]. The source is sealed only after everything but its last entries was copied.
pub fn copy(
    source: &mut dyn Journal,
    target: &mut dyn Journal,
    moved_to: &str,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<Copied, CopyError> {
    let mut next = begin(source, target)?;
    let first_copied = next;
    let end = source.end().map_err(CopyError::Source)?;
    copy_entries(source, target, &mut next, end, progress)?;
    let mut snapshots = copy_snapshots(source, target, end)?;
    let end = source.seal(moved_to).map_err(CopyError::Source)?;
    copy_entries(source, target, &mut next, end, progress)?;
    // The users of the source may have replaced the snapshots by newer ones in the meantime.
    snapshots += copy_snapshots(source, target, end)?;
    let verified = verify(target, &mut |_| ()).map_err(CopyError::Target)?;
    if let Some(problem) = verified.problems.into_iter().next() {
        return Err(CopyError::Unsound(problem));
    }
    let durable = target.durable_end().map_err(CopyError::Target)?;
    if durable != end {
        return Err(CopyError::InUse {
            next_sequence: durable + 1,
        });
    }
    Ok(Copied {
        end,
        entries: next - first_copied,
        snapshots,
    })
}

/// Determines the entry with which the copy continues. An empty target is made to begin where the source does; any
/// other target is compared with the source.
fn begin(source: &mut dyn Journal, target: &mut dyn Journal) -> Result<u64, CopyError> {
    let first_held = source.first_held().map_err(CopyError::Source)?;
    let source_end = source.end().map_err(CopyError::Source)?;
    let end = target.end().map_err(CopyError::Target)?;
    if end == 0 {
        if first_held > 1 {
            let begun = target.begin_after(first_held - 1);
            begun.map_err(CopyError::Target)?;
        }
        return Ok(first_held);
    }
    if end > source_end {
        let entry = source_end + 1;
        return Err(CopyError::Differs { entry });
    }
    if end + 1 < first_held {
        return Err(CopyError::Gap { end, first_held });
    }
    let target_first = target.first_held().map_err(CopyError::Target)?;
    let mut next = first_held.max(target_first);
    while next <= end {
        let records = read_some(source, next, end).map_err(CopyError::Source)?;
        let mut differs_at = None;
        let mut expected = records.iter();
        let compared = target.read(next, &mut |sequence, record| match expected.next() {
            Some(wanted) if wanted == record => ControlFlow::Continue(()),
            Some(_) => {
                differs_at = Some(sequence);
                ControlFlow::Break(())
            }
            None => ControlFlow::Break(()),
        });
        compared.map_err(CopyError::Target)?;
        if let Some(entry) = differs_at {
            return Err(CopyError::Differs { entry });
        }
        // The read of the target may have ended early. The records left in `expected` are compared in the next round.
        next += (records.len() - expected.len()) as u64;
    }
    Ok(end + 1)
}

/// Reads records from `from` on up to `until`, as many as go into one append, and at least one.
fn read_some(
    source: &mut dyn Journal,
    from: u64,
    until: u64,
) -> Result<Vec<Vec<u8>>, JournalError> {
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    source.read(from, &mut |sequence, record| {
        bytes += record.len();
        records.push(record.to_vec());
        if sequence >= until || bytes >= BATCH_BYTES || records.len() >= BATCH_RECORDS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if records.is_empty() {
        return Err(JournalError::Missing {
            path: "the source".into(),
            first: from,
            last: until,
        });
    }
    Ok(records)
}

fn copy_entries(
    source: &mut dyn Journal,
    target: &mut dyn Journal,
    next: &mut u64,
    end: u64,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(), CopyError> {
    let mut bytes = 0;
    while *next <= end {
        let records = read_some(source, *next, end).map_err(CopyError::Source)?;
        append(target, *next, &records)?;
        *next += records.len() as u64;
        bytes += records
            .iter()
            .map(|record| record.len() as u64)
            .sum::<u64>();
        let entry = *next - 1;
        progress(CopyProgress { entry, end, bytes });
    }
    Ok(())
}

/// Appends records, and waits until it is known that they are kept.
fn append(target: &mut dyn Journal, next: u64, records: &[Vec<u8>]) -> Result<(), CopyError> {
    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    loop {
        match target.append(next, &slices) {
            Ok(()) => return Ok(()),
            Err(AppendError::Conflict { next_sequence }) => {
                return Err(CopyError::InUse { next_sequence });
            }
            Err(AppendError::Failed(error)) => return Err(CopyError::Target(error)),
            Err(AppendError::Unknown(_)) => {}
        }
        if resolve(target).map_err(CopyError::Target)? == Resolution::Kept {
            return Ok(());
        }
    }
}

/// Finds out the outcome of an append, in several attempts.
fn resolve(target: &mut dyn Journal) -> Result<Resolution, JournalError> {
    for _ in 1..RESOLVE_ATTEMPTS {
        if let Ok(resolution) = target.resolve() {
            return Ok(resolution);
        }
        thread::sleep(RESOLVE_PAUSE);
    }
    target.resolve()
}

/// Copies the snapshots up to `end` that the target does not have, the oldest first. Returns their number.
fn copy_snapshots(
    source: &mut dyn Journal,
    target: &mut dyn Journal,
    end: u64,
) -> Result<u64, CopyError> {
    let present = target.snapshots().map_err(CopyError::Target)?;
    let wanted = source.snapshots().map_err(CopyError::Source)?;
    let mut count = 0;
    for snapshot in wanted.iter().rev() {
        let sequence = snapshot.sequence;
        if sequence > end || present.iter().any(|present| present.sequence == sequence) {
            continue;
        }
        copy_snapshot(source, target, sequence)?;
        count += 1;
    }
    Ok(count)
}

fn copy_snapshot(
    source: &mut dyn Journal,
    target: &mut dyn Journal,
    sequence: u64,
) -> Result<(), CopyError> {
    let from_io = |error: io::Error| JournalError::from_snapshot_io(error, sequence);
    let mut reader = source.read_snapshot(sequence).map_err(CopyError::Source)?;
    let mut writer = target.write_snapshot(sequence).map_err(CopyError::Target)?;
    let mut piece = vec![0; BATCH_BYTES];
    loop {
        let bytes = reader.read(&mut piece);
        match bytes.map_err(|error| CopyError::Source(from_io(error)))? {
            0 => break,
            bytes => {
                let written = writer.write_all(&piece[..bytes]);
                written.map_err(|error| CopyError::Target(from_io(error)))?;
            }
        }
    }
    writer.finish().map_err(CopyError::Target)?;
    Ok(())
}
