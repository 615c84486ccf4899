//! The intervals at which unanswered requests are repeated.

use std::time::Duration;

use placewright_placement::Timestamp;

/// A schedule of repetitions: after a first interval, which doubles up to a maximum, and at the
/// maximum from then on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetrySchedule {
    first_us: i64,
    longest_us: i64,
}

impl RetrySchedule {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        let first_us = micros(first).max(1);
        Self {
            first_us,
            longest_us: micros(longest).max(first_us),
        }
    }

    /// Whether a repetition of what is wanted since `since` falls between the last look and now.
    pub(crate) fn is_due(self, since: Timestamp, last_look: Timestamp, now: Timestamp) -> bool {
        let past = |look: Timestamp| self.count(look.0.saturating_sub(since.0));
        past(now) > past(last_look)
    }

    /// The number of repetitions up to an age in microseconds.
    fn count(self, age_us: i64) -> i64 {
        let (mut next, mut count) = (self.first_us, 0);
        while next <= age_us && next < self.longest_us {
            count += 1;
            next = next.saturating_mul(2);
        }
        if next <= age_us {
            count += 1 + (age_us - next) / self.longest_us;
        }
        count
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_between_repeats_double_up_to_the_longest() {
        let repeats = RetrySchedule::new(Duration::from_secs(5), Duration::from_secs(30));
        let at = Timestamp::from_seconds;
        let due: Vec<i64> = (1..=120)
            .filter(|second| repeats.is_due(at(0), at(second - 1), at(*second)))
            .collect();
        assert_eq!(due, [5, 10, 20, 40, 70, 100]);
    }

    #[test]
    fn no_repeat_is_missed_by_looking_rarely() {
        let repeats = RetrySchedule::new(Duration::from_secs(5), Duration::from_secs(30));
        let at = Timestamp::from_seconds;
        assert!(repeats.is_due(at(0), at(4), at(39)));
        assert!(!repeats.is_due(at(0), at(41), at(69)));
        assert!(repeats.is_due(at(0), Timestamp(i64::MIN), at(6)));
        assert!(!repeats.is_due(at(0), Timestamp(i64::MIN), at(4)));
    }
}
