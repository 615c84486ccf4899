//! Admission to slow credential checks: rate limits and priorities, so that guessing delays nobody
//! else.
//!
//! Each wrong guess is charged to its source and to the name it was for. A source beyond its
//! allowance is not refused at first: its checks wait until the allowance has recovered, and have
//! a lower priority. Credentials that were verified before are not limited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SecondChanceCache, SegmentedCache};
use crate::config::LimitsConfig;
use crate::error::{AuthError, SetupError};
use crate::fair_queue::{FairQueue, Permit, PriorityClass, Rejected};
use crate::source::Source;

/// How long a source is trusted after successful credentials.
const TRUST: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of one kind of check.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The section of the options, used in refusals.
    pub(crate) section: &'static str,
    /// The maximum number of concurrent checks.
    pub(crate) checks_max: usize,
    /// The maximum number of waiting checks in each priority class, and of one source.
    pub(crate) waiting_max: usize,
    pub(crate) waiting_per_source_max: usize,
    /// The failures that a source may have in a burst, and the rate at which the allowance
    /// recovers.
    pub(crate) failures_burst: u32,
    pub(crate) failures_per_minute: u32,
    /// Limits that apply to every strategy.
    pub(crate) common: LimitsConfig,
}

/// Admits checks of one kind.
pub(crate) struct CheckLimiter {
    limits: Limits,
    /// The time in which the allowance recovers by one failure.
    interval: Duration,
    keyer: KeyHasher,
    fair_queue: Arc<FairQueue>,
    records: Arc<Mutex<Records>>,
}

/// The history of sources and names.
struct Records {
    /// By source or name: the time at which its allowance is fully recovered (a leaky bucket).
    failures: SecondChanceCache<Instant>,
    /// Sources with successful credentials.
    trusted: SegmentedCache<()>,
    interval: Duration,
    /// The upper bound of the recovery time of an allowance.
    debt_max: Duration,
}

/// Credentials that have to be checked.
pub(crate) struct CredentialClaim<'c> {
    /// The source of the request.
    pub(crate) source: Source,
    /// The user name, if the strategy has one; empty otherwise.
    pub(crate) name: &'c [u8],
    /// Whether these credentials were verified before.
    pub(crate) was_right: bool,
    /// Whether the user exists, as far as that is known.
    pub(crate) exists: bool,
}

/// An admitted check. If it is dropped without an outcome it counts as wrong, so that cancelling a
/// request does not save its charge.
pub(crate) struct AdmittedCheck {
    records: Arc<Mutex<Records>>,
    source: Key,
    name: Option<Key>,
    trust: Key,
    /// Whether the source was charged in advance.
    is_charged: bool,
    was_right: bool,
    is_over: bool,
    _turn: Permit,
}

impl CheckLimiter {
    /// A limiter without any history.
    pub(crate) fn new(limits: Limits) -> Result<Self, SetupError> {
        let interval = Duration::from_secs(60) / limits.failures_per_minute.max(1);
        let fair_queue = FairQueue::new(
            limits.checks_max,
            limits.waiting_max,
            limits.waiting_per_source_max,
        );
        let sources_max = limits.common.sources_max;
        Ok(Self {
            interval,
            keyer: KeyHasher::new()?,
            fair_queue: Arc::new(fair_queue),
            records: Arc::new(Mutex::new(Records {
                failures: SecondChanceCache::new(sources_max),
                trusted: SegmentedCache::new(sources_max),
                interval,
                debt_max: interval * limits.failures_burst.saturating_add(1)
                    + limits.common.wait_max(),
            })),
            limits,
        })
    }

    /// Waits until the credentials may be checked.
    ///
    /// # Errors
    /// Its source was wrong too often, or too much waits.
    pub(crate) async fn enter(
        &self,
        claim: CredentialClaim<'_>,
    ) -> Result<AdmittedCheck, AuthError> {
        let bytes = claim.source.bytes();
        let source = self.keyer.key(&[b"source", &bytes]);
        let name = self.keyer.key(&[b"name", claim.name]);
        let trust = self.keyer.key(&[b"trust", &bytes, claim.name]);
        let (priority_class, wait) = self.priority_class(&claim, &source, &name, &trust)?;
        let is_charged = wait.is_some();
        let whole = self.limits.common.wait_max();
        let deadline = tokio::time::Instant::now() + wait.unwrap_or_default() + whole;
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let permit = self.fair_queue.take(priority_class, claim.source);
        let permit = match tokio::time::timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(full)) => return Err(self.full(full)),
            Err(_) => return Err(self.too_slow()),
        };
        Ok(AdmittedCheck {
            records: Arc::clone(&self.records),
            source,
            name: (!claim.name.is_empty()).then_some(name),
            trust,
            is_charged,
            was_right: claim.was_right,
            is_over: false,
            _turn: permit,
        })
    }

    /// The priority class of a claim, and the time that it has to wait first; in that case it is
    /// charged in advance.
    fn priority_class(
        &self,
        claim: &CredentialClaim<'_>,
        source: &Key,
        name: &Key,
        trust: &Key,
    ) -> Result<(PriorityClass, Option<Duration>), AuthError> {
        if claim.was_right {
            return Ok((PriorityClass::Known, None));
        }
        let now = Instant::now();
        let mut records = self.records.lock();
        let of_existing = |existing, nobody| if claim.exists { existing } else { nobody };
        let suspect = of_existing(PriorityClass::Suspect, PriorityClass::SuspectNobody);
        if let Some(wait) = self.delay(&mut records, source, now) {
            if wait > self.limits.common.wait_max() {
                return Err(self.too_often(wait));
            }
            records.charge(*source, now);
            return Ok((suspect, Some(wait)));
        }
        if records
            .trusted
            .find(trust, now)
            .is_some_and(|found| found.is_fresh)
        {
            return Ok((PriorityClass::Trusted, None));
        }
        // A name under attack from many sources does not delay other names.
        let is_besieged = !claim.name.is_empty() && self.delay(&mut records, name, now).is_some();
        let new = of_existing(PriorityClass::New, PriorityClass::NewNobody);
        Ok((if is_besieged { suspect } else { new }, None))
    }

    /// The time until there is allowance again; `None` if there is.
    fn delay(&self, records: &mut Records, key: &Key, now: Instant) -> Option<Duration> {
        let whole_again = records.failures.get(key, now)?;
        let spent = whole_again.saturating_duration_since(now);
        let allowance = self.interval * self.limits.failures_burst.saturating_sub(1);
        spent.checked_sub(allowance).filter(|wait| !wait.is_zero())
    }

    fn too_often(&self, wait: Duration) -> AuthError {
        let Limits {
            section,
            failures_per_minute,
            ..
        } = self.limits;
        AuthError::TooMany {
            reason: format!(
                "Too many wrong credentials came from your address; \
                 {section}.failures_per_minute allows {failures_per_minute} a minute."
            ),
            retry_after: wait,
        }
    }

    fn full(&self, full: Rejected) -> AuthError {
        let section = self.limits.section;
        let retry_after = Duration::from_secs(1);
        match full {
            Rejected::Source => AuthError::TooMany {
                reason: format!(
                    "Too many credentials from your address wait to be checked; \
                     {section}.waiting_per_source_max allows {}.",
                    self.limits.waiting_per_source_max
                ),
                retry_after,
            },
            Rejected::All => AuthError::Unavailable {
                reason: format!(
                    "Too many credentials wait to be checked; {section}.waiting_max allows {}.",
                    self.limits.waiting_max
                ),
                retry_after,
            },
        }
    }

    fn too_slow(&self) -> AuthError {
        AuthError::Unavailable {
            reason: format!(
                "Your credentials could not be checked in time; auth.wait_max_ms is {} ms.",
                self.limits.common.wait_max_ms
            ),
            retry_after: Duration::from_secs(1),
        }
    }
}

impl Records {
    fn charge(&mut self, key: Key, now: Instant) {
        let spent = self.failures.get(&key, now).unwrap_or(now);
        let whole_again = (spent + self.interval).min(now + self.debt_max);
        self.failures.insert(key, whole_again, whole_again);
    }

    fn refund(&mut self, key: &Key, now: Instant) {
        if let Some(spent) = self.failures.get(key, now) {
            let whole_again = spent.checked_sub(self.interval).unwrap_or(now);
            self.failures.insert(*key, whole_again, whole_again);
        }
    }
}

impl AdmittedCheck {
    /// Reports that the credentials are right, which refunds a charge and makes the source
    /// trusted.
    pub(crate) fn right(mut self) {
        self.is_over = true;
        let now = Instant::now();
        let mut records = self.records.lock();
        if self.is_charged {
            records.refund(&self.source, now);
        }
        records.trusted.insert(self.trust, (), now + TRUST);
    }

    /// Reports that the check had no result, for which the caller is not to blame.
    pub(crate) fn unclear(mut self) {
        self.is_over = true;
        if self.is_charged {
            self.records.lock().refund(&self.source, Instant::now());
        }
    }

    /// Reports that the credentials are wrong.
    pub(crate) fn wrong(self) {
        drop(self);
    }
}

impl Drop for AdmittedCheck {
    fn drop(&mut self) {
        // Credentials that were verified before and became invalid are no guess.
        if self.is_over || self.was_right {
            return;
        }
        let now = Instant::now();
        let mut records = self.records.lock();
        if !self.is_charged {
            records.charge(self.source, now);
        }
        if let Some(name) = self.name {
            records.charge(name, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(burst: u32, per_minute: u32, wait_max_ms: u64) -> CheckLimiter {
        CheckLimiter::new(Limits {
            section: "http_basic",
            checks_max: 2,
            waiting_max: 8,
            waiting_per_source_max: 4,
            failures_burst: burst,
            failures_per_minute: per_minute,
            common: LimitsConfig {
                wait_max_ms,
                ..LimitsConfig::default()
            },
        })
        .unwrap()
    }

    fn claim(last: u8, name: &str) -> CredentialClaim<'_> {
        CredentialClaim {
            source: Source::of(Some([127, 0, 0, last].into())),
            name: name.as_bytes(),
            was_right: false,
            exists: true,
        }
    }

    #[tokio::test]
    async fn a_source_that_guesses_is_slowed_then_refused_and_others_are_not() {
        let limiter = limiter(3, 1, 100);
        for _ in 0..3 {
            limiter.enter(claim(1, "a")).await.unwrap().wrong();
        }
        let error = limiter.enter(claim(1, "b")).await.err().unwrap();
        let AuthError::TooMany {
            reason,
            retry_after,
        } = error
        else {
            panic!("{error}");
        };
        assert!(
            reason.contains("http_basic.failures_per_minute allows 1 a minute"),
            "{reason}"
        );
        assert!(retry_after > Duration::from_secs(50), "{retry_after:?}");
        // Credentials that were verified before are admitted, and so are other sources, even with
        // the same name.
        let known = CredentialClaim {
            was_right: true,
            ..claim(1, "a")
        };
        limiter.enter(known).await.unwrap().right();
        limiter.enter(claim(2, "a")).await.unwrap().right();
    }

    #[tokio::test]
    async fn the_outcome_decides_what_is_charged() {
        let limiter = limiter(1, 60_000, 5_000);
        let key = limiter
            .keyer
            .key(&[b"source", &claim(1, "").source.bytes()]);
        let is_charged = || {
            limiter
                .records
                .lock()
                .failures
                .find(&key, Instant::now())
                .is_some()
        };
        limiter.enter(claim(1, "a")).await.unwrap().right();
        limiter.enter(claim(1, "a")).await.unwrap().unclear();
        assert!(!is_charged());
        // A caller that cancels before the outcome is charged all the same.
        drop(limiter.enter(claim(1, "a")).await.unwrap());
        assert!(is_charged());
        // Beyond the allowance a right guess waits a little, and its charge is refunded.
        limiter.enter(claim(1, "a")).await.unwrap().wrong();
        limiter.enter(claim(1, "a")).await.unwrap().right();
    }

    #[tokio::test]
    async fn lanes_are_chosen_by_what_is_known() {
        let limiter = limiter(2, 1, 120_000);
        let priority_class = |claim: CredentialClaim<'_>| {
            let bytes = claim.source.bytes();
            let source = limiter.keyer.key(&[b"source", &bytes]);
            let name = limiter.keyer.key(&[b"name", claim.name]);
            let trust = limiter.keyer.key(&[b"trust", &bytes, claim.name]);
            limiter
                .priority_class(&claim, &source, &name, &trust)
                .unwrap()
                .0
        };
        let nobody = |claim| CredentialClaim {
            exists: false,
            ..claim
        };
        assert_eq!(priority_class(claim(1, "a")), PriorityClass::New);
        assert_eq!(
            priority_class(nobody(claim(1, "x"))),
            PriorityClass::NewNobody
        );
        limiter.enter(claim(1, "a")).await.unwrap().right();
        assert_eq!(priority_class(claim(1, "a")), PriorityClass::Trusted);
        assert_eq!(priority_class(claim(1, "b")), PriorityClass::New);
        for _ in 0..2 {
            limiter.enter(claim(2, "a")).await.unwrap().wrong();
        }
        assert_eq!(priority_class(claim(2, "c")), PriorityClass::Suspect);
        assert_eq!(
            priority_class(nobody(claim(2, "x"))),
            PriorityClass::SuspectNobody
        );
        // The name was guessed at: other sources have a lower priority, but not the one that it
        // admitted before.
        assert_eq!(priority_class(claim(3, "a")), PriorityClass::Suspect);
        assert_eq!(priority_class(claim(1, "a")), PriorityClass::Trusted);
        assert_eq!(priority_class(claim(3, "b")), PriorityClass::New);
    }
}
