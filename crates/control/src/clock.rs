//! The clock of control: the system's, or one that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use placewright_placement::Timestamp;

/// The present time of the system clock, for records.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = since.map_or(0, |since| since.as_micros());
    Timestamp(i64::try_from(us).unwrap_or(i64::MAX))
}

/// The clock of control. By default it shows the system's time; clones share one clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// How far this clock is ahead of the system's clock, in microseconds; `None` if it cannot be moved.
    ahead_us: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// A clock that shows the system's time until it is [advanced](Self::advance): tests need not
    /// wait for time-outs.
    #[must_use]
    pub fn movable() -> Self {
        Self {
            ahead_us: Some(Arc::default()),
        }
    }

    /// The present time in microseconds since 1970: that of the system, plus the time by which a movable clock is ahead
    /// of it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let shared = self.ahead_us.as_ref();
        let ahead_us = shared.map_or(0, |ahead_us| ahead_us.load(Ordering::Relaxed));
        Timestamp(now().0.saturating_add(ahead_us))
    }

    /// Moves a [movable](Self::movable) clock forward; any other clock stays as it is.
    pub fn advance(&self, time: Duration) {
        if let Some(ahead_us) = &self.ahead_us {
            let us = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            ahead_us.fetch_add(us, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_movable_clock_moves() {
        let (system, movable) = (Clock::default(), Clock::movable());
        let hour = Duration::from_secs(3600);
        for clock in [&system, &movable] {
            clock.advance(hour);
        }
        let ahead_us = movable.now().0 - system.now().0;
        assert!(
            (3_590_000_000..3_610_000_000).contains(&ahead_us),
            "{ahead_us}"
        );
    }
}
