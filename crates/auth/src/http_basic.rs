//! The strategy `http_basic`: a user name and a password, checked against an htpasswd file.
//!
//! bcrypt is slow on purpose (0.05 to 1 s at the usual costs). So hashes are checked on threads of
//! their own, a few at a time, and a verified password is cached for a while as a keyed hash. Wrong
//! passwords are not cached. The check of a user that does not exist takes as long as that of a user
//! whose hash has the highest cost in the file, so if all hashes have one cost, its duration does not
//! show who exists. The limiter decides whose password is checked next.

mod htpasswd;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use crate::cache::{Found, Key, KeyHasher, SegmentedCache};
use crate::check_limiter::{CheckLimiter, Limits, PendingCheck};
use crate::config::{HttpBasicConfig, LimitsConfig};
use crate::error::{AuthError, SetupError};
use crate::headers::Headers;
use crate::identity::{Identity, IdentityParts};
use crate::single_flight::SingleFlight;
use crate::source::Source;
use htpasswd::Users;

/// The maximum length of an `Authorization` header in bytes. bcrypt uses 72 bytes of a password.
const HEADER_BYTES_MAX: usize = 4096;
/// The maximum length of a user name in bytes.
const USER_BYTES_MAX: usize = 255;

/// The state of the strategy: the users, the cache, and the limiter of slow checks.
pub(crate) struct HttpBasic {
    config: HttpBasicConfig,
    path: PathBuf,
    /// The value of `WWW-Authenticate` in refusals.
    challenge: String,
    key_hasher: KeyHasher,
    users: Mutex<Arc<Users>>,
    /// The time from which `last_check_ms` is counted.
    started: Instant,
    /// The time at which the file was last checked for changes, in milliseconds since `started`.
    last_check_ms: AtomicU64,
    /// By hash of the user name: the proof of the last verified credentials, with the identity.
    verified: Mutex<SegmentedCache<(Key, Arc<Identity>)>>,
    single_flight: SingleFlight<CheckOutcome>,
    limiter: CheckLimiter,
    /// Settings that are valid but probably unintended.
    warnings: Vec<String>,
}

/// The outcome of a password check: an identity, a rejection, or no result.
type CheckOutcome = Result<Arc<Identity>, AuthError>;

/// The hashed credentials of a request, and its source.
struct HashedCredentials {
    /// A hash of the user name.
    name: Key,
    /// A hash of the name, the password, and the hash in the file.
    proof: Key,
    source: Source,
}

/// The user name and password of a request, decoded.
struct Credentials {
    user: String,
    password: Vec<u8>,
}

impl HttpBasic {
    /// Reads the password file and prepares the limiter.
    pub(crate) fn new(config: &HttpBasicConfig, common: &LimitsConfig) -> Result<Self, SetupError> {
        let missing = SetupError::Missing {
            strategy: "http_basic",
            option: "user_file",
        };
        let path = config.user_file.clone().ok_or(missing)?;
        if config
            .realm
            .chars()
            .any(|c| c.is_control() || !c.is_ascii() || matches!(c, '"' | '\\'))
        {
            return Err(SetupError::Invalid {
                option: "realm",
                reason: "must be plain text without quotes".to_owned(),
            });
        }
        let users = Users::read(&path)?;
        let users_without_password = config.users.keys().filter(|name| !users.contains(name));
        let warnings = users_without_password.map(|name| {
            let file = path.display();
            format!("http_basic.users: {name} has roles, but no password in {file}")
        });
        let warnings = warnings.collect();
        let default_checks_max =
            std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).max(1));
        let limiter = CheckLimiter::new(Limits {
            section: "http_basic",
            checks_max: match config.checks_max {
                0 => default_checks_max,
                checks => checks,
            },
            waiting_max: config.waiting_max,
            waiting_per_source_max: config.waiting_per_source_max,
            failures_burst: config.failures_burst,
            failures_per_minute: config.failures_per_minute,
            common: common.clone(),
        })?;
        Ok(Self {
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm),
            config: config.clone(),
            path,
            key_hasher: KeyHasher::new()?,
            users: Mutex::new(Arc::new(users)),
            started: Instant::now(),
            last_check_ms: AtomicU64::new(0),
            verified: Mutex::new(SegmentedCache::new(config.cache_entries)),
            single_flight: SingleFlight::new(),
            limiter,
            warnings,
        })
    }

    /// Settings that are valid but probably unintended.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Verifies the password of the request.
    pub(crate) async fn authenticate(
        &self,
        headers: &(impl Headers + Sync + ?Sized),
        source: Source,
    ) -> CheckOutcome {
        let credentials = self.parse_credentials(headers)?;
        self.reread_if_changed().await;
        let users = Arc::clone(&self.users.lock());
        let hashed = HashedCredentials {
            name: self.key_hasher.key(&[credentials.user.as_bytes()]),
            proof: self.key_hasher.key(&[
                credentials.user.as_bytes(),
                &credentials.password,
                users.hash(&credentials.user).unwrap_or("").as_bytes(),
            ]),
            source,
        };
        if let Some(identity) = self.fresh_identity(&hashed) {
            return Ok(identity);
        }
        // Only requests of the same source share a check, because a refusal for the limits of one
        // source must not apply to another source.
        let key = self.key_hasher.key(&[&hashed.proof, &source.bytes()]);
        let check = self
            .single_flight
            .run(key, async || self.check(&hashed, users, credentials).await);
        Box::pin(check).await
    }

    /// The cached identity for these credentials, whether or not it has expired.
    fn cached_identity(&self, hashed: &HashedCredentials) -> Option<Found<Arc<Identity>>> {
        let Found { value, is_fresh } = self.verified.lock().find(&hashed.name, Instant::now())?;
        let (proof, identity) = value;
        (proof == hashed.proof).then_some(Found {
            value: identity,
            is_fresh,
        })
    }

    /// The cached identity for these credentials, if it has not expired.
    fn fresh_identity(&self, hashed: &HashedCredentials) -> Option<Arc<Identity>> {
        let cached = self.cached_identity(hashed)?;
        cached.is_fresh.then_some(cached.value)
    }

    fn unauthorized(&self) -> AuthError {
        AuthError::Unauthorized {
            challenge: Some(self.challenge.clone()),
        }
    }

    fn parse_credentials(
        &self,
        headers: &(impl Headers + ?Sized),
    ) -> Result<Credentials, AuthError> {
        let parse = || {
            let value = headers.value("authorization")?;
            if value.len() > HEADER_BYTES_MAX {
                return None;
            }
            let (scheme, encoded) = std::str::from_utf8(&value).ok()?.trim().split_once(' ')?;
            if !scheme.eq_ignore_ascii_case("basic") {
                return None;
            }
            let pair = STANDARD.decode(encoded.trim()).ok()?;
            let colon = pair.iter().position(|&byte| byte == b':')?;
            let user = std::str::from_utf8(pair.get(..colon)?).ok()?.to_owned();
            if user.len() > USER_BYTES_MAX {
                return None;
            }
            Some(Credentials {
                user,
                password: pair[colon + 1..].to_vec(),
            })
        };
        parse().ok_or_else(|| self.unauthorized())
    }

    /// Checks the password with bcrypt, after admission by the limiter.
    async fn check(
        &self,
        hashed: &HashedCredentials,
        users: Arc<Users>,
        credentials: Credentials,
    ) -> CheckOutcome {
        let pending_check = PendingCheck {
            source: hashed.source,
            name: credentials.user.as_bytes(),
            was_verified: self.cached_identity(hashed).is_some(),
            user_exists: users.contains(&credentials.user),
        };
        let check = self.limiter.admit(pending_check).await?;
        // Another request may have had the same credentials verified in the meantime.
        if let Some(identity) = self.fresh_identity(hashed) {
            check.report_no_result();
            return Ok(identity);
        }
        let user = credentials.user.clone();
        let verification = tokio::task::spawn_blocking(move || {
            let is_verified = users.verify(&credentials.user, &credentials.password);
            // Reported on this thread, so that the outcome counts even if the request was cancelled.
            if is_verified {
                check.report_verified();
            } else {
                check.report_wrong();
            }
            is_verified
        });
        match verification.await {
            Ok(true) => {
                let identity = Arc::new(self.identity(user));
                let expires_at = Instant::now() + Duration::from_secs(self.config.cache_seconds);
                let cached = (hashed.proof, Arc::clone(&identity));
                self.verified.lock().insert(hashed.name, cached, expires_at);
                Ok(identity)
            }
            Ok(false) => {
                tracing::info!(user, "wrong password, or no such user");
                Err(self.unauthorized())
            }
            Err(_) => Err(AuthError::Unavailable {
                reason: "The password could not be checked.".to_owned(),
                retry_after: Duration::from_secs(1),
            }),
        }
    }

    fn identity(&self, user: String) -> Identity {
        let listed = self.config.users.get(&user);
        let roles = listed.map_or(&self.config.roles, |user| &user.roles);
        let project_id = listed.map_or(&self.config.project_id, |user| &user.project_id);
        // A user without a project gets a project of its own: otherwise policies that compare projects
        // would treat all users without one as members of the same project.
        let project_id = project_id.clone().unwrap_or_else(|| project_of_user(&user));
        Identity::new(IdentityParts {
            is_admin: Some(roles.iter().any(|role| role.eq_ignore_ascii_case("admin"))),
            roles: roles.clone(),
            project_id: Some(project_id),
            user_id: Some(user),
            is_admin_project: true,
            ..IdentityParts::default()
        })
    }

    /// Reads the file now. Cached passwords of users whose lines are unchanged stay valid.
    pub(crate) fn reread(&self) -> Result<(), SetupError> {
        *self.users.lock() = Arc::new(Users::read(&self.path)?);
        Ok(())
    }

    /// Checks the file for changes if the interval has passed, on another thread. A single caller does
    /// this, and the others continue without waiting.
    async fn reread_if_changed(&self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last_check_ms = self.last_check_ms.load(Ordering::Relaxed);
        if now_ms < last_check_ms.saturating_add(self.config.reload_check_ms) {
            return;
        }
        let exchange = self.last_check_ms.compare_exchange(
            last_check_ms,
            now_ms,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if exchange.is_err() {
            return;
        }
        let users = Arc::clone(&self.users.lock());
        let path = self.path.clone();
        let reread = tokio::task::spawn_blocking(move || users.reread(&path)).await;
        match reread {
            Ok(Ok(Some(users))) => {
                tracing::info!(file = %self.path.display(), "read the changed password file");
                *self.users.lock() = Arc::new(users);
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "the password file changed and cannot be used; the last good one stays in force"
            ),
            Err(_) => tracing::error!("looking at the password file failed"),
        }
    }
}

/// The id of a project for this user alone, the same after each start: 32 hexadecimal digits, like
/// the ids of Keystone.
///
/// It is a hash of the user name and not the name itself, because the name could be the id of another
/// user's project.
fn project_of_user(user: &str) -> String {
    let context = "placewright http_basic: the project of a user without one";
    let hash = blake3::derive_key(context, user.as_bytes());
    hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_of_a_user_does_not_change() {
        assert_eq!(project_of_user("alice"), "f331ae25da25c68b47cfec9eab4c59ad");
        assert_ne!(project_of_user("alice"), project_of_user("bob"));
    }
}
