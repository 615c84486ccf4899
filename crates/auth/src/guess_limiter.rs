//! How often one source may guess the password of one name.
//!
//! A guess is charged before it is checked and refunded when it was right, so that guesses that come at the same time
//! are limited, too. A source that has no guess left is refused at once: no hash is computed for the guess, and no
//! other check waits for it. Other names from the same source, and the same name from other sources, are not affected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SecondChanceCache};
use crate::error::{AuthError, SetupError};
use crate::source::Source;

/// The guesses of all pairs of a source and a name.
pub(crate) struct GuessLimiter {
    key_hasher: KeyHasher,
    /// By pair: the time at which all of its guesses are available again (a leaky bucket).
    recovery_times: Arc<Mutex<SecondChanceCache<Instant>>>,
    /// The time after which one guess is available again.
    interval: Duration,
    /// How many wrong guesses a pair may make in a burst.
    burst: u32,
    /// How many guesses become available again each minute.
    per_minute: u32,
}

/// A guess that is charged. Unless it is refunded, it stays charged, also when the request is cancelled.
pub(crate) struct ChargedGuess {
    recovery_times: Arc<Mutex<SecondChanceCache<Instant>>>,
    key: Key,
    interval: Duration,
}

impl GuessLimiter {
    /// A limiter that remembers at most `pairs_max` pairs.
    pub(crate) fn new(burst: u32, per_minute: u32, pairs_max: usize) -> Result<Self, SetupError> {
        Ok(Self {
            key_hasher: KeyHasher::new()?,
            recovery_times: Arc::new(Mutex::new(SecondChanceCache::new(pairs_max))),
            interval: Duration::from_secs(60) / per_minute.max(1),
            burst: burst.max(1),
            per_minute: per_minute.max(1),
        })
    }

    /// Charges a guess.
    ///
    /// # Errors
    ///
    /// The source has no guess left for the name.
    pub(crate) fn charge(&self, source: Source, name: &str) -> Result<ChargedGuess, AuthError> {
        let key = self.key_hasher.key(&[&source.bytes(), name.as_bytes()]);
        let now = Instant::now();
        let mut recovery_times = self.recovery_times.lock();
        let recovered_at = recovery_times.get(&key, now).unwrap_or(now).max(now);
        let recovered_at = recovered_at + self.interval;
        let debt = recovered_at.saturating_duration_since(now);
        let allowed = self.interval * self.burst;
        if let Some(wait) = debt.checked_sub(allowed).filter(|wait| !wait.is_zero()) {
            return Err(AuthError::TooMany {
                reason: format!(
                    "Too many wrong passwords for this name came from your address; \
                     identity.name_failures_per_minute allows {} a minute.",
                    self.per_minute
                ),
                retry_after: wait,
            });
        }
        recovery_times.insert(key, recovered_at, recovered_at);
        Ok(ChargedGuess {
            recovery_times: Arc::clone(&self.recovery_times),
            key,
            interval: self.interval,
        })
    }
}

impl ChargedGuess {
    /// Takes the charge back: the password was right, or was not checked.
    pub(crate) fn refund(self) {
        let now = Instant::now();
        let mut recovery_times = self.recovery_times.lock();
        if let Some(recovered_at) = recovery_times.get(&self.key, now) {
            let recovered_at = recovered_at.checked_sub(self.interval).unwrap_or(now);
            recovery_times.insert(self.key, recovered_at, recovered_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pair_that_guesses_is_refused_and_right_ones_are_free() {
        let limiter = GuessLimiter::new(3, 1, 100).unwrap();
        let source = |last| Source::of(Some([192, 0, 2, last].into()));
        for _ in 0..10 {
            limiter.charge(source(1), "a").unwrap().refund();
        }
        for _ in 0..3 {
            limiter.charge(source(1), "a").unwrap();
        }
        let refused = limiter.charge(source(1), "a").err().unwrap();
        let AuthError::TooMany { retry_after, .. } = refused else {
            panic!("{refused}");
        };
        assert!(retry_after > Duration::from_secs(50), "{retry_after:?}");
        limiter.charge(source(1), "b").unwrap();
        limiter.charge(source(2), "a").unwrap();
    }
}
