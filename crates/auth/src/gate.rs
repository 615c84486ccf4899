//! Admission to slow credential checks: rate limits and priorities, so that guessing delays nobody
//! else.
//!
//! Each wrong guess is charged to its source and to the name it was for. A source beyond its
//! allowance is not refused at first: its checks wait until the allowance has recovered, and have
//! a lower priority. Credentials that were verified before are not limited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache::{Bounded, Key, Keyer, Segmented};
use crate::config::LimitsConfig;
use crate::error::{AuthError, SetupError};
use crate::source::Source;
use crate::turns::{Lane, NoTurn, Turn, Turns};

/// How long a source is trusted after successful credentials.
const TRUST: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of one kind of check.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The section of the options, used in refusals.
    pub(crate) section: &'static str,
    /// The maximum number of concurrent checks.
    pub(crate) checks_max: usize,
    /// The maximum number of waiting checks in each lane, and of one source.
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
pub(crate) struct Gate {
    limits: Limits,
    /// The time in which the allowance recovers by one failure.
    interval: Duration,
    keyer: Keyer,
    turns: Arc<Turns>,
    records: Arc<Mutex<Records>>,
}

/// The history of sources and names.
struct Records {
    /// By source or name: the time at which its allowance is fully recovered (a leaky bucket).
    failures: Bounded<Instant>,
    /// Sources with successful credentials.
    trusted: Segmented<()>,
    interval: Duration,
    /// The upper bound of the recovery time of an allowance.
    debt_max: Duration,
}

/// Credentials that have to be checked.
pub(crate) struct Claim<'c> {
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
pub(crate) struct Check {
    records: Arc<Mutex<Records>>,
    source: Key,
    name: Option<Key>,
    trust: Key,
    /// Whether the source was charged in advance.
    is_charged: bool,
    was_right: bool,
    is_over: bool,
    _turn: Turn,
}

impl Gate {
    /// A gate without any history.
    pub(crate) fn new(limits: Limits) -> Result<Self, SetupError> {
        let interval = Duration::from_secs(60) / limits.failures_per_minute.max(1);
        let turns = Turns::new(
            limits.checks_max,
            limits.waiting_max,
            limits.waiting_per_source_max,
        );
        let sources_max = limits.common.sources_max;
        Ok(Self {
            interval,
            keyer: Keyer::new()?,
            turns: Arc::new(turns),
            records: Arc::new(Mutex::new(Records {
                failures: Bounded::new(sources_max),
                trusted: Segmented::new(sources_max),
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
    pub(crate) async fn enter(&self, claim: Claim<'_>) -> Result<Check, AuthError> {
        let bytes = claim.source.bytes();
        let source = self.keyer.key(&[b"source", &bytes]);
        let name = self.keyer.key(&[b"name", claim.name]);
        let trust = self.keyer.key(&[b"trust", &bytes, claim.name]);
        let (lane, wait) = self.lane(&claim, &source, &name, &trust)?;
        let is_charged = wait.is_some();
        let whole = self.limits.common.wait_max();
        let deadline = tokio::time::Instant::now() + wait.unwrap_or_default() + whole;
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let turn = self.turns.take(lane, claim.source);
        let turn = match tokio::time::timeout_at(deadline, turn).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(full)) => return Err(self.full(full)),
            Err(_) => return Err(self.too_slow()),
        };
        Ok(Check {
            records: Arc::clone(&self.records),
            source,
            name: (!claim.name.is_empty()).then_some(name),
            trust,
            is_charged,
            was_right: claim.was_right,
            is_over: false,
            _turn: turn,
        })
    }

    /// The lane of a claim, and the time that it has to wait first; in that case it is charged in
    /// advance.
    fn lane(
        &self,
        claim: &Claim<'_>,
        source: &Key,
        name: &Key,
        trust: &Key,
    ) -> Result<(Lane, Option<Duration>), AuthError> {
        if claim.was_right {
            return Ok((Lane::Known, None));
        }
        let now = Instant::now();
        let mut records = self.records.lock();
        let of_existing = |existing, nobody| if claim.exists { existing } else { nobody };
        let suspect = of_existing(Lane::Suspect, Lane::SuspectNobody);
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
            return Ok((Lane::Trusted, None));
        }
        // A name under attack from many sources does not delay other names.
        let is_besieged = !claim.name.is_empty() && self.delay(&mut records, name, now).is_some();
        let new = of_existing(Lane::New, Lane::NewNobody);
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

    fn full(&self, full: NoTurn) -> AuthError {
        let section = self.limits.section;
        let retry_after = Duration::from_secs(1);
        match full {
            NoTurn::Source => AuthError::TooMany {
                reason: format!(
                    "Too many credentials from your address wait to be checked; \
                     {section}.waiting_per_source_max allows {}.",
                    self.limits.waiting_per_source_max
                ),
                retry_after,
            },
            NoTurn::All => AuthError::Unavailable {
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

impl Check {
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

impl Drop for Check {
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

    fn gate(burst: u32, per_minute: u32, wait_max_ms: u64) -> Gate {
        Gate::new(Limits {
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

    fn claim(last: u8, name: &str) -> Claim<'_> {
        Claim {
            source: Source::of(Some([127, 0, 0, last].into())),
            name: name.as_bytes(),
            was_right: false,
            exists: true,
        }
    }

    #[tokio::test]
    async fn a_source_that_guesses_is_slowed_then_refused_and_others_are_not() {
        let gate = gate(3, 1, 100);
        for _ in 0..3 {
            gate.enter(claim(1, "a")).await.unwrap().wrong();
        }
        let error = gate.enter(claim(1, "b")).await.err().unwrap();
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
        let known = Claim {
            was_right: true,
            ..claim(1, "a")
        };
        gate.enter(known).await.unwrap().right();
        gate.enter(claim(2, "a")).await.unwrap().right();
    }

    #[tokio::test]
    async fn the_outcome_decides_what_is_charged() {
        let gate = gate(1, 60_000, 5_000);
        let key = gate.keyer.key(&[b"source", &claim(1, "").source.bytes()]);
        let is_charged = || {
            gate.records
                .lock()
                .failures
                .find(&key, Instant::now())
                .is_some()
        };
        gate.enter(claim(1, "a")).await.unwrap().right();
        gate.enter(claim(1, "a")).await.unwrap().unclear();
        assert!(!is_charged());
        // A caller that cancels before the outcome is charged all the same.
        drop(gate.enter(claim(1, "a")).await.unwrap());
        assert!(is_charged());
        // Beyond the allowance a right guess waits a little, and its charge is refunded.
        gate.enter(claim(1, "a")).await.unwrap().wrong();
        gate.enter(claim(1, "a")).await.unwrap().right();
    }

    #[tokio::test]
    async fn lanes_are_chosen_by_what_is_known() {
        let gate = gate(2, 1, 120_000);
        let lane = |claim: Claim<'_>| {
            let bytes = claim.source.bytes();
            let source = gate.keyer.key(&[b"source", &bytes]);
            let name = gate.keyer.key(&[b"name", claim.name]);
            let trust = gate.keyer.key(&[b"trust", &bytes, claim.name]);
            gate.lane(&claim, &source, &name, &trust).unwrap().0
        };
        let nobody = |claim| Claim {
            exists: false,
            ..claim
        };
        assert_eq!(lane(claim(1, "a")), Lane::New);
        assert_eq!(lane(nobody(claim(1, "x"))), Lane::NewNobody);
        gate.enter(claim(1, "a")).await.unwrap().right();
        assert_eq!(lane(claim(1, "a")), Lane::Trusted);
        assert_eq!(lane(claim(1, "b")), Lane::New);
        for _ in 0..2 {
            gate.enter(claim(2, "a")).await.unwrap().wrong();
        }
        assert_eq!(lane(claim(2, "c")), Lane::Suspect);
        assert_eq!(lane(nobody(claim(2, "x"))), Lane::SuspectNobody);
        // The name was guessed at: other sources have a lower priority, but not the one that it
        // admitted before.
        assert_eq!(lane(claim(3, "a")), Lane::Suspect);
        assert_eq!(lane(claim(1, "a")), Lane::Trusted);
        assert_eq!(lane(claim(3, "b")), Lane::New);
    }
}
