//! When a snapshot is due, and the requests for snapshots.

use std::time::Instant;

use tokio::sync::oneshot;

use crate::error::SnapshotError;
use crate::observer::SnapshotReport;
use crate::options::Options;

/// A message to the thread that makes snapshots.
pub(crate) enum SnapshotRequest {
    /// The schedule requires a snapshot.
    Due,
    /// A caller requires a snapshot, and waits for the report.
    Now(oneshot::Sender<Result<SnapshotReport, SnapshotError>>),
    Stop,
}

/// When the next snapshot is due.
#[derive(Debug)]
pub(crate) struct SnapshotSchedule {
    /// The entry that the newest snapshot was made at.
    pub(crate) snapshot_sequence: u64,
    /// The size of the newest snapshot in bytes.
    pub(crate) newest_snapshot_bytes: u64,
    /// The size in bytes of the entries after the newest snapshot that this process replayed at its start or appended.
    /// Entries that it applied while another replica led do not count.
    pub(crate) entry_bytes: u64,
    /// Whether a snapshot was requested that is not finished yet.
    pub(crate) is_requested: bool,
    /// The earliest time for the next attempt after a failure; `None` if the last attempt succeeded.
    pub(crate) retry_at: Option<Instant>,
}

impl SnapshotSchedule {
    /// Whether a snapshot has to be made now. `durable` is the last durable entry.
    pub(crate) fn is_due(&self, durable: u64, options: &Options) -> bool {
        let entries = durable.saturating_sub(self.snapshot_sequence);
        let is_large_enough = entries >= options.snapshot_entries
            || self.entry_bytes >= options.snapshot_bytes.max(self.newest_snapshot_bytes);
        is_large_enough
            && entries > 0
            && !self.is_requested
            && self.retry_at.is_none_or(|at| Instant::now() >= at)
    }
}
