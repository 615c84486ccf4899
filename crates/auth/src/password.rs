//! Passwords of users that are kept as hashes: making hashes, and checking guesses.
//!
//! The hash is Argon2id with the parameters that OWASP recommends. It takes tens of milliseconds and 19 MiB, so
//! hashes are computed on threads of their own, a few at a time. A verified password is remembered for a while as
//! a keyed hash. The check of a name that does not exist takes as long as any other.
//!
//! Guesses are limited twice before anything is computed. The limit of the guesses of one source for one name
//! (`guess_limiter.rs`) refuses at once. The limit of all guesses of one source (`check_limiter.rs`) decides whose
//! password is checked next. Neither locks a name: its user can still sign in from other addresses.

mod phc;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SegmentedCache};
use crate::check_limiter::{AdmittedCheck, CheckLimiter, Limits, PendingCheck};
use crate::config::LimitsConfig;
use crate::error::{AuthError, SetupError};
use crate::guess_limiter::GuessLimiter;
use crate::secret::Secret;
use crate::single_flight::SingleFlight;
use crate::source::Source;

/// The limits of checks of passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordConfig {
    /// The maximum number of concurrent checks; 0 means half the number of processors. Each takes 19 MiB.
    pub checks_max: usize,
    /// The maximum number of passwords that wait to be checked, in each priority class.
    pub waiting_max: usize,
    /// The maximum number of passwords of one address that wait to be checked.
    pub waiting_per_source_max: usize,
    /// The number of wrong passwords that an address may send in a burst.
    pub failures_burst: u32,
    /// The number of wrong passwords that an address may send each minute after that.
    pub failures_per_minute: u32,
    /// The number of wrong passwords that an address may send in a burst for one name.
    pub name_failures_burst: u32,
    /// The number of wrong passwords that an address may send each minute after that for one name.
    pub name_failures_per_minute: u32,
    /// How long a verified password is accepted without another slow check, in seconds. A new password of the user
    /// invalidates it at once.
    pub cache_seconds: u64,
    /// The maximum number of verified passwords that are remembered.
    pub cache_entries: usize,
}

impl Default for PasswordConfig {
    fn default() -> Self {
        Self {
            checks_max: 0,
            waiting_max: 256,
            waiting_per_source_max: 64,
            failures_burst: 100,
            failures_per_minute: 60,
            name_failures_burst: 10,
            name_failures_per_minute: 10,
            cache_seconds: 300,
            cache_entries: 1024,
        }
    }
}

/// A password that somebody sent.
#[derive(Debug)]
pub struct PasswordAttempt<'a> {
    /// The address that the request comes from, behind trusted proxies.
    pub address: Option<IpAddr>,
    /// The name, or another id, that the password is for. Failures are counted for it.
    pub name: &'a str,
    /// The password.
    pub password: &'a Secret,
    /// The hash that [`Passwords::hash`] made; `None` if the name does not exist or has no password.
    pub hash: Option<&'a str>,
}

/// Checks passwords, and makes their hashes.
pub struct Passwords {
    key_hasher: KeyHasher,
    /// The proofs of passwords that were verified. A proof is a keyed hash of a name, its password, and the password's
    /// hash.
    verified: Mutex<SegmentedCache<()>>,
    cache_time: Duration,
    single_flight: SingleFlight<Result<bool, AuthError>>,
    limiter: CheckLimiter,
    guess_limiter: GuessLimiter,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Passwords").finish_non_exhaustive()
    }
}

impl Passwords {
    /// Prepares the limits.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn new(config: &PasswordConfig, common: &LimitsConfig) -> Result<Self, SetupError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let limiter = CheckLimiter::new(Limits {
            section: "identity",
            checks_max: match config.checks_max {
                0 => (processors / 2).max(1),
                checks => checks,
            },
            waiting_max: config.waiting_max,
            waiting_per_source_max: config.waiting_per_source_max,
            failures_burst: config.failures_burst,
            failures_per_minute: config.failures_per_minute,
            common: common.clone(),
        })?;
        Ok(Self {
            key_hasher: KeyHasher::new()?,
            verified: Mutex::new(SegmentedCache::new(config.cache_entries)),
            cache_time: Duration::from_secs(config.cache_seconds),
            single_flight: SingleFlight::new(),
            limiter,
            guess_limiter: GuessLimiter::new(
                config.name_failures_burst,
                config.name_failures_per_minute,
                common.sources_max,
            )?,
        })
    }

    /// Makes the hash of a new password.
    ///
    /// # Errors
    ///
    /// Too many passwords wait, or there are no random numbers.
    pub async fn hash(&self, password: &Secret) -> Result<String, AuthError> {
        // The caller that sets a password has signed in already, so the check is not limited as a guess.
        let pending = PendingCheck {
            source: Source::of(None),
            name: b"",
            was_verified: true,
            user_exists: true,
        };
        let check = self.limiter.admit(pending).await?;
        let password = password.clone();
        let hashed = tokio::task::spawn_blocking(move || {
            let hash = phc::hash(password.expose().as_bytes());
            check.report_no_result();
            hash
        });
        let hash = hashed.await.ok().flatten();
        hash.ok_or_else(|| not_checked("The password could not be hashed."))
    }

    /// Whether a password is right.
    ///
    /// # Errors
    ///
    /// [`AuthError::TooMany`] when too many passwords from the address, or from the address for this name, were wrong
    /// or wait; [`AuthError::Unavailable`] when too many other checks wait.
    pub async fn verify(&self, attempt: PasswordAttempt<'_>) -> Result<bool, AuthError> {
        let source = Source::of(attempt.address);
        let hash = attempt.hash.unwrap_or("");
        let proof = self.key_hasher.key(&[
            attempt.name.as_bytes(),
            attempt.password.expose().as_bytes(),
            hash.as_bytes(),
        ]);
        let cached = self.verified.lock().find(&proof, Instant::now());
        if cached.as_ref().is_some_and(|found| found.is_fresh) {
            return Ok(true);
        }
        // An entry that has expired still shows that this password was right before.
        let was_verified = cached.is_some();
        // Only requests of the same source share a check, because a refusal for the limits of one
        // source must not apply to another source.
        let key = self.key_hasher.key(&[&proof, &source.bytes()]);
        let check = self.single_flight.run(key, async || {
            self.check(&attempt, (source, was_verified), proof).await
        });
        Box::pin(check).await
    }

    /// Checks a password that is not in the cache, within the limits of guesses. `proof` is the key under which a right
    /// password is cached.
    async fn check(
        &self,
        attempt: &PasswordAttempt<'_>,
        (source, was_verified): (Source, bool),
        proof: Key,
    ) -> Result<bool, AuthError> {
        let guess = match was_verified {
            true => None,
            false => Some(self.guess_limiter.charge(source, attempt.name)?),
        };
        let admitted = self.limiter.admit(PendingCheck {
            source,
            name: attempt.name.as_bytes(),
            was_verified,
            // Names that do not exist have the same priority, so that no waiting time tells which names exist.
            user_exists: true,
        });
        let check = match admitted.await {
            Ok(check) => check,
            Err(error) => {
                if let Some(guess) = guess {
                    guess.refund();
                }
                return Err(error);
            }
        };
        let is_right = verify_on_thread(check, attempt).await?;
        if is_right {
            if let Some(guess) = guess {
                guess.refund();
            }
            let expires_at = Instant::now() + self.cache_time;
            self.verified.lock().insert(proof, (), expires_at);
        }
        Ok(is_right)
    }
}

/// Computes the hash of a password on a thread that may block.
async fn verify_on_thread(
    check: AdmittedCheck,
    attempt: &PasswordAttempt<'_>,
) -> Result<bool, AuthError> {
    let password = attempt.password.clone();
    let hash = attempt.hash.map(str::to_owned);
    let verification = tokio::task::spawn_blocking(move || {
        let is_right = phc::verify(password.expose().as_bytes(), hash.as_deref());
        // Reported on this thread, so that the outcome counts even if the request was cancelled.
        if is_right {
            check.report_verified();
        } else {
            check.report_wrong();
        }
        is_right
    });
    let verified = verification.await;
    verified.map_err(|_| not_checked("The password could not be checked."))
}

fn not_checked(reason: &str) -> AuthError {
    AuthError::Unavailable {
        reason: reason.to_owned(),
        retry_after: Duration::from_secs(1),
    }
}
