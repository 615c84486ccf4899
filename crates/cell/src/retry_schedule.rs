//! The intervals at which unanswered requests are repeated.

use std::time::Duration;

use placewright_placement::Timestamp;

/// A schedule of repetitions of a request. The first repetition is due when the request has the age `first_us`. From
/// one repetition to the next the age doubles, until it is at least `longest_us`; from then on the interval between
/// repetitions is `longest_us`. With 5 s and 30 s, repetitions are due at the ages of 5, 10, 20, 40, 70 and 100 s.
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

    /// Whether a repetition of a request that exists since `since` falls between the last check and
    /// `now`.
    pub(crate) fn is_due(self, since: Timestamp, last_check: Timestamp, now: Timestamp) -> bool {
        let repetitions = |at: Timestamp| self.count(at.0.saturating_sub(since.0));
        repetitions(now) > repetitions(last_check)
    }

    /// The number of repetitions up to an age in microseconds.
    fn count(self, age_us: i64) -> i64 {
        // The age at which the next repetition is due.
        let mut due_us = self.first_us;
        let mut count = 0;
        while due_us <= age_us && due_us < self.longest_us {
            count += 1;
            due_us = due_us.saturating_mul(2);
        }
        if due_us <= age_us {
            count += 1 + (age_us - due_us) / self.longest_us;
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
    fn intervals_double_up_to_the_longest() {
        let schedule = RetrySchedule::new(Duration::from_secs(5), Duration::from_secs(30));
        let at = Timestamp::from_seconds;
        let due: Vec<i64> = (1..=120)
            .filter(|second| schedule.is_due(at(0), at(second - 1), at(*second)))
            .collect();
        assert_eq!(due, [5, 10, 20, 40, 70, 100]);
    }

    #[test]
    fn no_repetition_is_missed_by_rare_checks() {
        let schedule = RetrySchedule::new(Duration::from_secs(5), Duration::from_secs(30));
        let at = Timestamp::from_seconds;
        assert!(schedule.is_due(at(0), at(4), at(39)));
        assert!(!schedule.is_due(at(0), at(41), at(69)));
        assert!(schedule.is_due(at(0), Timestamp(i64::MIN), at(6)));
        assert!(!schedule.is_due(at(0), Timestamp(i64::MIN), at(4)));
    }
}
