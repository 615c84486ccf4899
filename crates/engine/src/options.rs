//! The settings of an engine, and their defaults.

use std::time::Duration;

/// The settings of an engine. The defaults suit a store of any size.
#[derive(Debug, Clone)]
pub struct Options {
    /// The maximum number of waiting commands; a further one is refused with
    /// [`crate::SubmitError::Overloaded`]. Default 65,536.
    pub queue_commands_max: usize,
    /// The maximum number of commands decided during one hold of the state's write lock. With a larger number
    /// less time is spent on locking, with a smaller one readers wait less. Default 128 (about half a
    /// millisecond).
    pub decide_commands_max: usize,
    /// The maximum number of commands in one append. Default 4,096.
    pub batch_commands_max: usize,
    /// The longest time for which commands are decided during one hold of the state's write lock; then
    /// waiting readers run before the remaining commands. A single command is never interrupted. Default 1 ms.
    pub decide_hold_max: Duration,
    /// The maximum size of a record: a command that would need a larger one has no effect and is
    /// answered with [`crate::SubmitError::TooLarge`]. Default 16 MiB.
    pub record_bytes_max: usize,
    /// When the records of an append together have this size, no further record is added. So an append exceeds this
    /// size by its last record at most. During an append its records are in memory three times: as decided, as written,
    /// and for followers. Default 2 MiB.
    pub batch_bytes_max: usize,
    /// How many commands have to wait during an append before a second thread decides them, while the append
    /// is still under way. With fewer, waking that thread costs more than it gains. Default 64.
    pub ahead_commands_min: usize,
    /// The longest time that an append waits for the callers that were just answered to submit their next command, so
    /// that they share one append instead of forming two groups that alternate. An append never waits longer than half
    /// the time of the last append. It starts at once when enough commands wait: as many as the last append answered,
    /// plus those that were already waiting when it ended. Zero disables the waiting. Default 2 ms.
    pub gather_max: Duration,
    /// The memory in bytes for recent entries that followers read. Older entries are read from the journal.
    /// Default 16 MiB.
    pub recent_bytes: usize,
    /// A snapshot is made after this many entries. Default 1,000,000, which take some seconds to replay.
    pub snapshot_entries: u64,
    /// A snapshot is made after this many bytes of entries, or after as many as the newest snapshot has if that
    /// is more, so that snapshots never cost more writing than the journal. Default 64 MiB.
    pub snapshot_bytes: u64,
    /// How many snapshots are kept, with all entries after the oldest of them, so that nothing is lost if
    /// one snapshot is damaged. At least 1; default 2.
    pub snapshots_kept: usize,
    /// The share of one core that making a snapshot may take, from above 0 to 1. Default 0.5.
    pub snapshot_duty: f64,
    /// The delay until the next attempt after a failed snapshot. Default 30 s.
    pub snapshot_retry: Duration,
    /// The number of newest entries that are kept for [`crate::Engine::follow`] even when
    /// snapshots cover them. Default 100,000.
    pub retain_entries: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_commands_max: 65_536,
            decide_commands_max: 128,
            batch_commands_max: 4_096,
            decide_hold_max: Duration::from_millis(1),
            record_bytes_max: 16 << 20,
            batch_bytes_max: 2 << 20,
            ahead_commands_min: 64,
            gather_max: Duration::from_millis(2),
            recent_bytes: 16 << 20,
            snapshot_entries: 1_000_000,
            snapshot_bytes: 64 << 20,
            snapshots_kept: 2,
            snapshot_duty: 0.5,
            snapshot_retry: Duration::from_secs(30),
            retain_entries: 100_000,
        }
    }
}
