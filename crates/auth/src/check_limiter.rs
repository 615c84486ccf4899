//! Admission to slow credential checks: rate limits and priorities, so that a client that guesses
//! credentials does not delay others.
//!
//! Each failure (wrong credentials) is charged to its source and to the user name. The checks of a
//! source beyond its allowance of failures wait until the allowance has recovered, and have a lower
//! priority; if the wait would be too long, they are refused. Credentials that were verified before
//! are not limited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SecondChanceCache, SegmentedCache};
use crate::config::LimitsConfig;
use crate::error::{AuthError, SetupError};
use crate::fair_queue::{FairQueue, Permit, PriorityClass, Rejected};
use crate::source::Source;

/// How long a source is trusted after successful credentials.
const TRUST_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of one kind of check.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The section of the options, used in refusals.
    pub(crate) section: &'static str,
    /// The maximum number of concurrent checks.
    pub(crate) checks_max: usize,
    /// The maximum number of waiting checks in each priority class.
    pub(crate) waiting_max: usize,
    /// The maximum number of waiting checks of one source.
    pub(crate) waiting_per_source_max: usize,
    /// The failures that a source may have in a burst, which is its allowance.
    pub(crate) failures_burst: u32,
    /// The rate at which the allowance recovers.
    pub(crate) failures_per_minute: u32,
    /// Limits that apply to every strategy.
    pub(crate) common: LimitsConfig,
}

/// Admits checks of one kind.
pub(crate) struct CheckLimiter {
    limits: Limits,
    /// The time in which the allowance recovers by one failure.
    interval: Duration,
    key_hasher: KeyHasher,
    fair_queue: Arc<FairQueue>,
    failure_records: Arc<Mutex<FailureRecords>>,
}

/// The failures and successes of sources and user names.
struct FailureRecords {
    /// By source or user name: the time at which its allowance is fully recovered (a leaky bucket).
    failures: SecondChanceCache<Instant>,
    /// Pairs of a source and a user name for which credentials were verified.
    trusted: SegmentedCache<()>,
    /// The time in which an allowance recovers by one failure; the same as [`CheckLimiter::interval`].
    interval: Duration,
    /// The longest debt, which is the time until an allowance is fully recovered. It is so long that a source with this
    /// debt is refused, because it would have to wait for longer than `wait_max`. A longer debt would only extend the
    /// refusal.
    debt_max: Duration,
}

/// Credentials that have to be checked.
pub(crate) struct PendingCheck<'c> {
    /// The source of the request.
    pub(crate) source: Source,
    /// The user name as bytes; empty if the strategy has no user names.
    pub(crate) name: &'c [u8],
    /// Whether these credentials were verified before.
    pub(crate) was_verified: bool,
    /// Whether the user exists, as far as that is known.
    pub(crate) user_exists: bool,
}

/// An admitted check. If it is dropped without a reported outcome, it is charged as a failure, so that a client cannot
/// avoid the charge by cancelling its request. Checks of credentials that were verified before are not charged.
pub(crate) struct AdmittedCheck {
    failure_records: Arc<Mutex<FailureRecords>>,
    /// The key of the source's failures.
    source_key: Key,
    /// The key of the user name's failures, if there is a name.
    name_key: Option<Key>,
    /// The key under which the source is trusted for the name.
    trust_key: Key,
    /// Whether the source was charged in advance.
    is_charged: bool,
    was_verified: bool,
    /// Whether an outcome was reported.
    is_reported: bool,
    _permit: Permit,
}

impl CheckLimiter {
    /// A limiter without recorded failures.
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
            key_hasher: KeyHasher::new()?,
            fair_queue: Arc::new(fair_queue),
            failure_records: Arc::new(Mutex::new(FailureRecords {
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
    /// Too many failures of the source, too many waiting checks, or a wait that takes too long.
    pub(crate) async fn admit(
        &self,
        pending_check: PendingCheck<'_>,
    ) -> Result<AdmittedCheck, AuthError> {
        let bytes = pending_check.source.bytes();
        let source_key = self.key_hasher.key(&[b"source", &bytes]);
        let name_key = self.key_hasher.key(&[b"name", pending_check.name]);
        let trust_key = self.key_hasher.key(&[b"trust", &bytes, pending_check.name]);
        let (priority_class, wait) =
            self.classify_and_charge(&pending_check, &source_key, &name_key, &trust_key)?;
        let is_charged = wait.is_some();
        let wait_max = self.limits.common.wait_max();
        let deadline = tokio::time::Instant::now() + wait.unwrap_or_default() + wait_max;
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let permit = self
            .fair_queue
            .acquire(priority_class, pending_check.source);
        let permit = match tokio::time::timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => permit,
            not_admitted => {
                // Nothing was checked, so the charge in advance is refunded.
                if is_charged {
                    (self.failure_records.lock()).refund(&source_key, Instant::now());
                }
                return Err(match not_admitted {
                    Ok(Err(rejected)) => self.rejection_error(rejected),
                    Ok(Ok(_)) | Err(_) => self.time_out_error(),
                });
            }
        };
        Ok(AdmittedCheck {
            failure_records: Arc::clone(&self.failure_records),
            source_key,
            name_key: (!pending_check.name.is_empty()).then_some(name_key),
            trust_key,
            is_charged,
            was_verified: pending_check.was_verified,
            is_reported: false,
            _permit: permit,
        })
    }

    /// The priority class of a check, and the time that the check has to wait before it is queued. The source of a
    /// check that has to wait is charged in advance.
    fn classify_and_charge(
        &self,
        pending_check: &PendingCheck<'_>,
        source_key: &Key,
        name_key: &Key,
        trust_key: &Key,
    ) -> Result<(PriorityClass, Option<Duration>), AuthError> {
        if pending_check.was_verified {
            return Ok((PriorityClass::Known, None));
        }
        let now = Instant::now();
        let mut failure_records = self.failure_records.lock();
        let user_exists = pending_check.user_exists;
        let by_existence = |if_exists, if_not| if user_exists { if_exists } else { if_not };
        let suspect_class = by_existence(PriorityClass::Suspect, PriorityClass::SuspectNobody);
        if let Some(wait) = self.time_until_allowed(&mut failure_records, source_key, now) {
            if wait > self.limits.common.wait_max() {
                return Err(self.too_many_failures_error(wait));
            }
            failure_records.charge(*source_key, now);
            return Ok((suspect_class, Some(wait)));
        }
        if failure_records
            .trusted
            .find(trust_key, now)
            .is_some_and(|found| found.is_fresh)
        {
            return Ok((PriorityClass::Trusted, None));
        }
        // When many sources guess at one name, checks of this name come after those of other names.
        let is_name_attacked = !pending_check.name.is_empty()
            && self
                .time_until_allowed(&mut failure_records, name_key, now)
                .is_some();
        let new_class = by_existence(PriorityClass::New, PriorityClass::NewNobody);
        let class = if is_name_attacked {
            suspect_class
        } else {
            new_class
        };
        Ok((class, None))
    }

    /// The time until the allowance permits another failure; `None` if it permits one now.
    fn time_until_allowed(
        &self,
        failure_records: &mut FailureRecords,
        key: &Key,
        now: Instant,
    ) -> Option<Duration> {
        let recovered_at = failure_records.failures.get(key, now)?;
        let debt = recovered_at.saturating_duration_since(now);
        // Another failure would add one interval to the debt, which may then have at most `failures_burst` intervals.
        let allowance = self.interval * self.limits.failures_burst.saturating_sub(1);
        debt.checked_sub(allowance).filter(|wait| !wait.is_zero())
    }

    /// The refusal of a source that has to wait too long, because of its failures.
    fn too_many_failures_error(&self, wait: Duration) -> AuthError {
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

    /// The refusal because too many checks wait.
    fn rejection_error(&self, rejected: Rejected) -> AuthError {
        let section = self.limits.section;
        let retry_after = Duration::from_secs(1);
        match rejected {
            Rejected::Source => AuthError::TooMany {
                reason: format!(
                    "Too many credentials from your address wait to be checked; \
                     {section}.waiting_per_source_max allows {}.",
                    self.limits.waiting_per_source_max
                ),
                retry_after,
            },
            Rejected::PriorityClass => AuthError::Unavailable {
                reason: format!(
                    "Too many credentials wait to be checked; {section}.waiting_max allows {}.",
                    self.limits.waiting_max
                ),
                retry_after,
            },
        }
    }

    /// The error when a check has waited for too long.
    fn time_out_error(&self) -> AuthError {
        AuthError::Unavailable {
            reason: format!(
                "Your credentials could not be checked in time; auth.wait_max_ms is {} ms.",
                self.limits.common.wait_max_ms
            ),
            retry_after: Duration::from_secs(1),
        }
    }
}

impl FailureRecords {
    /// Charges a failure: the key's allowance will be fully recovered one `interval` later than without the failure,
    /// but `debt_max` from now at the latest.
    fn charge(&mut self, key: Key, now: Instant) {
        let recovered_before = self.failures.get(&key, now).unwrap_or(now);
        let recovered_at = (recovered_before + self.interval).min(now + self.debt_max);
        // The record is needed until the allowance is recovered, so it expires at that time.
        self.failures.insert(key, recovered_at, recovered_at);
    }

    /// Takes a failure back that was charged in advance.
    fn refund(&mut self, key: &Key, now: Instant) {
        if let Some(recovered_before) = self.failures.get(key, now) {
            let recovered_at = recovered_before.checked_sub(self.interval).unwrap_or(now);
            self.failures.insert(*key, recovered_at, recovered_at);
        }
    }
}

impl AdmittedCheck {
    /// Reports that the credentials were verified: refunds a charge in advance, and makes the source
    /// trusted.
    pub(crate) fn report_verified(mut self) {
        self.is_reported = true;
        let now = Instant::now();
        let mut failure_records = self.failure_records.lock();
        if self.is_charged {
            failure_records.refund(&self.source_key, now);
        }
        failure_records
            .trusted
            .insert(self.trust_key, (), now + TRUST_DURATION);
    }

    /// Reports that the check had no result through no fault of the caller: refunds a charge in advance.
    pub(crate) fn report_no_result(mut self) {
        self.is_reported = true;
        if self.is_charged {
            self.failure_records
                .lock()
                .refund(&self.source_key, Instant::now());
        }
    }

    /// Reports that the credentials are wrong.
    pub(crate) fn report_wrong(self) {
        drop(self);
    }
}

impl Drop for AdmittedCheck {
    fn drop(&mut self) {
        // Credentials that were verified before, and have become invalid, are not a guess.
        if self.is_reported || self.was_verified {
            return;
        }
        let now = Instant::now();
        let mut failure_records = self.failure_records.lock();
        if !self.is_charged {
            failure_records.charge(self.source_key, now);
        }
        if let Some(name_key) = self.name_key {
            failure_records.charge(name_key, now);
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

    fn check(last_octet: u8, name: &str) -> PendingCheck<'_> {
        PendingCheck {
            source: Source::of(Some([127, 0, 0, last_octet].into())),
            name: name.as_bytes(),
            was_verified: false,
            user_exists: true,
        }
    }

    #[tokio::test]
    async fn a_source_with_failures_is_delayed_then_refused_and_others_are_not() {
        let limiter = limiter(3, 1, 100);
        for _ in 0..3 {
            limiter.admit(check(1, "a")).await.unwrap().report_wrong();
        }
        let error = limiter.admit(check(1, "b")).await.err().unwrap();
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
        let verified = PendingCheck {
            was_verified: true,
            ..check(1, "a")
        };
        limiter.admit(verified).await.unwrap().report_verified();
        limiter
            .admit(check(2, "a"))
            .await
            .unwrap()
            .report_verified();
    }

    #[tokio::test]
    async fn only_failures_and_cancelled_checks_are_charged() {
        let limiter = limiter(1, 60_000, 5_000);
        let key = limiter
            .key_hasher
            .key(&[b"source", &check(1, "").source.bytes()]);
        let is_charged = || {
            limiter
                .failure_records
                .lock()
                .failures
                .find(&key, Instant::now())
                .is_some()
        };
        limiter
            .admit(check(1, "a"))
            .await
            .unwrap()
            .report_verified();
        limiter
            .admit(check(1, "a"))
            .await
            .unwrap()
            .report_no_result();
        assert!(!is_charged());
        // A caller that cancels before the outcome is charged, too.
        drop(limiter.admit(check(1, "a")).await.unwrap());
        assert!(is_charged());
        // Beyond the allowance, right credentials wait a little, and their charge is refunded.
        limiter.admit(check(1, "a")).await.unwrap().report_wrong();
        limiter
            .admit(check(1, "a"))
            .await
            .unwrap()
            .report_verified();
    }

    #[tokio::test]
    async fn priority_classes_depend_on_the_history_of_source_and_name() {
        let limiter = limiter(2, 1, 120_000);
        let priority_class = |check: PendingCheck<'_>| {
            let bytes = check.source.bytes();
            let source_key = limiter.key_hasher.key(&[b"source", &bytes]);
            let name_key = limiter.key_hasher.key(&[b"name", check.name]);
            let trust_key = limiter.key_hasher.key(&[b"trust", &bytes, check.name]);
            let classified =
                limiter.classify_and_charge(&check, &source_key, &name_key, &trust_key);
            let (priority_class, _wait) = classified.unwrap();
            priority_class
        };
        let unknown_user = |check| PendingCheck {
            user_exists: false,
            ..check
        };
        assert_eq!(priority_class(check(1, "a")), PriorityClass::New);
        assert_eq!(
            priority_class(unknown_user(check(1, "x"))),
            PriorityClass::NewNobody
        );
        limiter
            .admit(check(1, "a"))
            .await
            .unwrap()
            .report_verified();
        assert_eq!(priority_class(check(1, "a")), PriorityClass::Trusted);
        assert_eq!(priority_class(check(1, "b")), PriorityClass::New);
        for _ in 0..2 {
            limiter.admit(check(2, "a")).await.unwrap().report_wrong();
        }
        assert_eq!(priority_class(check(2, "c")), PriorityClass::Suspect);
        assert_eq!(
            priority_class(unknown_user(check(2, "x"))),
            PriorityClass::SuspectNobody
        );
        // There were failures for the name: other sources have a lower priority for it, but not the source
        // whose credentials for it were verified.
        assert_eq!(priority_class(check(3, "a")), PriorityClass::Suspect);
        assert_eq!(priority_class(check(1, "a")), PriorityClass::Trusted);
        assert_eq!(priority_class(check(3, "b")), PriorityClass::New);
    }
}
