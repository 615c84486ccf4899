//! Limits how fast a backup is made.

use std::thread;
use std::time::{Duration, Instant};

/// The longest delay that a backup may make up for by copying faster than the limit.
const CREDIT_MAX: Duration = Duration::from_millis(50);

/// Limits the number of bytes a second.
pub(super) struct Pace {
    /// `None` if there is no limit.
    bytes_per_second: Option<u64>,
    /// When the bytes that were counted so far would be copied at exactly the limit.
    due: Instant,
}

impl Pace {
    /// `None`: there is no limit.
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second,
            due: Instant::now(),
        }
    }

    /// Counts bytes that were copied, and waits as long as the limit requires.
    pub(super) fn wait_after(&mut self, bytes: usize) {
        let Some(bytes_per_second) = self.bytes_per_second else {
            return;
        };
        let now = Instant::now();
        let earliest = now.checked_sub(CREDIT_MAX).unwrap_or(now);
        let nanoseconds = (bytes as u64).saturating_mul(1_000_000_000) / bytes_per_second.max(1);
        self.due = self.due.max(earliest) + Duration::from_nanos(nanoseconds);
        if let Some(early) = self.due.checked_duration_since(now) {
            thread::sleep(early);
        }
    }
}
