//! What an engine tells about itself: for logs and metrics.

use std::error::Error;
use std::time::Duration;

use crate::{SnapshotError, StoreError};

/// Is told what an engine does. Every function is called from the engine's own threads and has to
/// return soon. `()` ignores all of it.
pub trait Observer: Send + Sync + 'static {
    /// The start has come this far. Called a few times a second at most, and once at the end.
    fn recovering(&self, progress: &RecoveryProgress) {
        let _ = progress;
    }

    /// The snapshot at `sequence` cannot be used; the one before it is tried.
    fn snapshot_unusable(&self, sequence: u64, reason: &dyn Error) {
        let _ = (sequence, reason);
    }

    /// A batch is durable and answered.
    fn committed(&self, commit: &Commit) {
        let _ = commit;
    }

    /// An append failed; `commands` were undone and answered with the reason.
    fn append_failed(&self, reason: &StoreError, commands: usize) {
        let _ = (reason, commands);
    }

    /// Another writer was first: `missed` entries were applied and `commands` are decided again.
    fn conflict(&self, commands: usize, missed: u64) {
        let _ = (commands, missed);
    }

    /// A snapshot was written, and the journal trimmed.
    fn snapshot_written(&self, report: &SnapshotReport) {
        let _ = report;
    }

    /// A snapshot failed, or the trimming after it. It is tried again later.
    fn snapshot_failed(&self, reason: &SnapshotError) {
        let _ = reason;
    }
}

impl Observer for () {}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// The snapshot that it started from; 0 for none.
    pub snapshot: u64,
    /// The last entry applied.
    pub sequence: u64,
    /// The last entry there is.
    pub end: u64,
}

/// One append that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The last entry that is durable now.
    pub sequence: u64,
    /// The commands that were answered after it, refused ones too.
    pub commands: usize,
    /// The entries appended.
    pub entries: usize,
    /// The size of their records.
    pub bytes: usize,
    /// How long the commands took to decide and to apply.
    pub decide: Duration,
    /// How long the append took, its fsync included.
    pub append: Duration,
    /// The commands that wait now.
    pub queued: usize,
}

/// One snapshot that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The snapshot holds the state after this entry.
    pub sequence: u64,
    /// Its size.
    pub bytes: u64,
    /// How long it took, pauses included.
    pub elapsed: Duration,
    /// The first entry that the journal holds now.
    pub first_held: u64,
}
