//! Events of an engine, for logs and metrics.

use std::error::Error;
use std::time::Duration;

use crate::error::{SnapshotError, StoreError};
use crate::lost_entries::Loss;

/// Receives the events of an engine. The functions are called on the engine's own threads, and during a recovery on the
/// thread that recovers. Each has to return quickly. `()` ignores all events.
pub trait Observer: Send + Sync + 'static {
    /// Recovery has progressed. Called a few times a second at most, and once at the end.
    fn recovering(&self, progress: &RecoveryProgress) {
        let _ = progress;
    }

    /// The snapshot at `sequence` is not usable; an older one is tried, or all entries are replayed.
    fn snapshot_unusable(&self, sequence: u64, reason: &dyn Error) {
        let _ = (sequence, reason);
    }

    /// An append is durable, and its commands are answered.
    fn committed(&self, commit: &Commit) {
        let _ = commit;
    }

    /// An append failed, or the store cannot be used at present. `commands` commands have no effect, and were answered
    /// with the reason.
    fn append_failed(&self, reason: &StoreError, commands: usize) {
        let _ = (reason, commands);
    }

    /// The store did not report whether it made an append. The `commands` commands of the append wait until that is
    /// known.
    fn append_unknown(&self, reason: &StoreError, commands: usize) {
        let _ = (reason, commands);
    }

    /// After [`Observer::append_unknown`], the store has reported whether the append was made.
    fn append_resolved(&self, is_kept: bool) {
        let _ = is_kept;
    }

    /// A replica cannot follow the journal, or cannot take over, at present. It tries again.
    fn following_failed(&self, reason: &StoreError) {
        let _ = reason;
    }

    /// The store does not have some acknowledged entries any more. The engine stops until the store has them again.
    fn entries_lost(&self, loss: &Loss) {
        let _ = loss;
    }

    /// Lost entries were appended again from memory.
    fn entries_appended_again(&self, first: u64, last: u64) {
        let _ = (first, last);
    }

    /// The store has all entries again, after [`Observer::entries_lost`].
    fn entries_back(&self) {}

    /// Another writer was first: `missed` entries of that writer were applied, and `commands` commands are
    /// decided again.
    fn conflict(&self, commands: usize, missed: u64) {
        let _ = (commands, missed);
    }

    /// A snapshot was made, or the newest one had the last entry already, and the journal was trimmed.
    fn snapshot_written(&self, report: &SnapshotReport) {
        let _ = report;
    }

    /// A snapshot, or the trimming after it, failed. Another attempt is made when the next snapshot is due.
    fn snapshot_failed(&self, reason: &SnapshotError) {
        let _ = reason;
    }
}

impl Observer for () {}

/// The progress of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// The sequence of the snapshot that the recovery started from; 0 if it started without one.
    pub snapshot: u64,
    /// The last entry that was applied.
    pub sequence: u64,
    /// The last entry of the journal.
    pub end: u64,
}

/// One append that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The last entry that is durable.
    pub sequence: u64,
    /// The number of commands that were answered after the append, including refused ones.
    pub commands: usize,
    /// The number of entries appended.
    pub entries: usize,
    /// The total size of the records of these entries, in bytes.
    pub bytes: usize,
    /// How long the commands took to decide and to apply, including the waits for the state's lock.
    pub decide_time: Duration,
    /// How long the append took, its fsync included.
    pub append_time: Duration,
    /// The number of commands that were waiting when the append was durable.
    pub queued: usize,
}

/// The newest snapshot, after one was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The snapshot holds the state after this entry.
    pub sequence: u64,
    /// The size of the snapshot in bytes.
    pub bytes: u64,
    /// How long making the snapshot took, including the pauses for
    /// [`Options::snapshot_duty`](crate::Options::snapshot_duty), and trimming the journal.
    pub elapsed: Duration,
    /// The first entry that the journal holds now.
    pub first_held: u64,
}
