//! Maintenance of a store: verification and compaction.

use std::io;
use std::ops::ControlFlow;

use crate::{Journal, JournalError, SnapshotInfo};

/// Snapshots are read in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;
/// The maximum number of entries in one read of the journal, so that no read transaction is open for the
/// whole run.
const ENTRIES_PER_READ: u64 = 100_000;

/// The result of verifying a whole store.
#[derive(Debug, Default)]
pub struct Verification {
    /// The number of intact entries.
    pub entries: u64,
    /// The total size of the records of the intact entries.
    pub record_bytes: u64,
    /// Intact snapshots, the newest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Everything that is wrong, in the order found. Empty if the store is sound.
    pub problems: Vec<JournalError>,
}

/// The result of [`compact`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// The first entry held afterwards.
    pub first_held: u64,
    /// The number of entries that were removed.
    pub entries_trimmed: u64,
    /// The size of the journal's files before.
    pub file_bytes_before: u64,
    /// The size of the journal's files afterwards.
    pub file_bytes_after: u64,
}

/// Verifies a whole store: the structure of its files, the checksum and position of each entry,
/// and each snapshot. `progress` is called with the sequence of each entry visited.
///
/// # Errors
/// When the store cannot be read at all. Problems with the contents are in the result.
pub fn verify(
    journal: &mut dyn Journal,
    progress: &mut dyn FnMut(u64),
) -> Result<Verification, JournalError> {
    let mut verification = Verification::default();
    if let Err(problem) = journal.check_store() {
        verification.problems.push(problem);
    }
    if let Err(problem) = journal.check_acknowledged() {
        verification.problems.push(problem);
    }
    let first_held = journal.first_held()?;
    let end = journal.end()?;
    verify_entries(journal, first_held, end, &mut verification, progress);
    let snapshots = journal.snapshots()?;
    for snapshot in &snapshots {
        match verify_snapshot(journal, snapshot.sequence) {
            Ok(()) => verification.snapshots.push(*snapshot),
            Err(problem) => verification.problems.push(problem),
        }
    }
    let newest_intact = verification.snapshots.first().map_or(0, |s| s.sequence);
    if first_held > newest_intact + 1 {
        verification.problems.push(JournalError::NoBase {
            first: newest_intact + 1,
            last: first_held - 1,
        });
    }
    if let Some(ahead) = snapshots.first().filter(|s| s.sequence > end) {
        verification.problems.push(JournalError::Missing {
            path: "the store".into(),
            first: end + 1,
            last: ahead.sequence,
        });
    }
    Ok(verification)
}

/// Verifies the entries, also those after a damaged or missing batch.
fn verify_entries(
    journal: &mut dyn Journal,
    first_held: u64,
    end: u64,
    verification: &mut Verification,
    progress: &mut dyn FnMut(u64),
) {
    let mut next = first_held;
    while next <= end {
        let stop_before = next.saturating_add(ENTRIES_PER_READ);
        let read = journal.read(next, &mut |sequence, record| {
            verification.entries += 1;
            verification.record_bytes += record.len() as u64;
            progress(sequence);
            if sequence + 1 >= stop_before {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match read {
            Ok(after) => next = after,
            Err(problem) => {
                // Entries after a damaged or missing batch can still be read.
                let resume_at = match &problem {
                    JournalError::Damaged { last, .. } | JournalError::Missing { last, .. } => {
                        Some(last.saturating_add(1))
                    }
                    _ => None,
                };
                verification.problems.push(problem);
                match resume_at {
                    Some(resume_at) if resume_at > next => next = resume_at,
                    _ => return,
                }
            }
        }
    }
}

fn verify_snapshot(journal: &mut dyn Journal, sequence: u64) -> Result<(), JournalError> {
    let mut reader = journal.read_snapshot(sequence)?;
    read_whole(&mut reader, sequence)
}

/// Reads the snapshot at `sequence` to its end, which verifies its checksums.
pub(crate) fn read_whole(reader: &mut dyn io::Read, sequence: u64) -> Result<(), JournalError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(JournalError::from_snapshot_io(error, sequence)),
        }
    }
}

/// Trims everything before the newest snapshot except the last `keep_entries` entries, and returns
/// the space to the file system. The snapshot is verified first; if it is damaged, nothing is
/// trimmed.
///
/// # Errors
/// When the snapshot is damaged, or the store failed.
pub fn compact(journal: &mut dyn Journal, keep_entries: u64) -> Result<Compaction, JournalError> {
    let before = journal.stats()?;
    if let Some(snapshot) = before.snapshots.first() {
        verify_snapshot(journal, snapshot.sequence)?;
        let trim_before =
            (snapshot.sequence + 1).min((before.end + 1).saturating_sub(keep_entries));
        if trim_before > before.first_held {
            journal.trim(trim_before)?;
        }
    }
    journal.reclaim()?;
    let after = journal.stats()?;
    Ok(Compaction {
        first_held: after.first_held,
        entries_trimmed: before.entries - after.entries,
        file_bytes_before: before.file_bytes,
        file_bytes_after: after.file_bytes,
    })
}
