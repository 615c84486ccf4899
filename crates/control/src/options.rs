//! Options of control's runtime.

use std::time::Duration;

/// Options of control's runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many alternate hosts of the same cell an instance gets, for builds that fail. Default 2.
    pub alternates: usize,
    /// Whether an instance is built in another cell, once, when its build failed on every host that its cell may try.
    /// Default false.
    pub reschedule_across_cells: bool,
    /// Whether a resize may stay on the instance's host. Default true.
    pub resize_to_same_host: bool,
    /// The time after which a silent cell is marked down. Default 5 s.
    pub cell_down_after: Duration,
    /// Time-out of calls to a cell. Default 10 s.
    pub answer_timeout: Duration,
    /// A message that a cell has not answered, or has accepted but not finished, is first repeated after
    /// this interval. It doubles with each repetition, up to `resend_max`. Default 5 s.
    pub resend_min: Duration,
    /// The longest interval between repetitions. Default 60 s.
    pub resend_max: Duration,
    /// The most messages that are taken from a cell's outbox at a time. Default 256.
    pub messages_max: usize,
    /// The interval of audits. Default 30 s.
    pub audit_every: Duration,
    /// The time without progress after which a job counts as stuck. It has to be longer than any step may take. Default
    /// 15 min.
    pub stuck_after: Duration,
    /// The time between an audit's first search and the second one, which confirms its suspicions.
    /// Default 2 s.
    pub confirm_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alternates: 2,
            reschedule_across_cells: false,
            resize_to_same_host: true,
            cell_down_after: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            resend_min: Duration::from_secs(5),
            resend_max: Duration::from_secs(60),
            messages_max: 256,
            audit_every: Duration::from_secs(30),
            stuck_after: Duration::from_secs(15 * 60),
            confirm_after: Duration::from_secs(2),
        }
    }
}

/// Options of an audit's repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Whether hosts are ordered to destroy guests that no cell knows, although such a guest may be in use.
    pub destroy_unknown_guests: bool,
}
