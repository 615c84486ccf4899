//! The time slice for which the scheduler may be locked.

use std::time::{Duration, Instant};

/// The approximate length of a slice.
const LENGTH: Duration = Duration::from_millis(2);

/// The time slice for which the scheduler and the state may be locked: a request may be for a
/// thousand hosts, and other requests are to be decided in between.
#[derive(Debug)]
pub struct TimeSlice {
    /// When the slice began; `None` if it never ends.
    begun_at: Option<Instant>,
    length: Duration,
}

impl TimeSlice {
    /// A slice of the ordinary length that begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self::of(LENGTH)
    }

    /// A slice of this length that begins now. With a length of zero, each slice is over after one step of its work.
    #[must_use]
    pub fn of(length: Duration) -> Self {
        Self {
            begun_at: Some(Instant::now()),
            length,
        }
    }

    /// A slice that never ends, for a scheduler that is not shared.
    #[must_use]
    pub fn endless() -> Self {
        Self {
            begun_at: None,
            length: Duration::MAX,
        }
    }

    /// A slice of the same length that begins now. For callers that have to repeat some work at the beginning of each
    /// slice. If that work counted, it could use up each slice, and a request for a thousand instances would get on by
    /// one instance in each.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self {
            begun_at: self.begun_at.map(|_| Instant::now()),
            length: self.length,
        }
    }

    /// Lets other tasks run if the slice is over, and begins the next one then.
    pub(crate) async fn yield_if_over(&mut self) {
        if self.is_over() {
            tokio::task::yield_now().await;
            *self = self.restarted();
        }
    }

    /// Whether the slice is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.begun_at
            .is_some_and(|begun_at| begun_at.elapsed() >= self.length)
    }
}
