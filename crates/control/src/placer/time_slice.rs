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
}

impl TimeSlice {
    /// A slice that begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            begun_at: Some(Instant::now()),
        }
    }

    /// A slice that never ends, for a scheduler that is not shared.
    #[must_use]
    pub fn endless() -> Self {
        Self { begun_at: None }
    }

    /// A slice of the same length that begins now. What has to be done again in each slice must not take the time of what
    /// the slice is for: otherwise a request for a thousand instances would get on by one instance in each slice.
    #[must_use]
    pub fn restarted(&self) -> Self {
        match self.begun_at {
            Some(_) => Self::begin(),
            None => Self::endless(),
        }
    }

    /// Whether the slice is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.begun_at
            .is_some_and(|begun_at| begun_at.elapsed() >= LENGTH)
    }
}
