//! `http_basic`: a user name and a password, checked against an htpasswd file.
//!
//! bcrypt is slow on purpose (0.05 to 1 s). So hashes are checked on threads of their own, few at
//! a time, and a verified password is cached for a while as a keyed hash. A wrong one never is,
//! and an unknown user takes the same work as a known one. The limiter decides whose password is
//! checked next; a cached one needs no check.

mod htpasswd;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SegmentedCache};
use crate::check_limiter::{CheckLimiter, CredentialClaim, Limits};
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
    challenge: String,
    keyer: KeyHasher,
    users: Mutex<Arc<Users>>,
    started: Instant,
    /// When the file was last checked for changes, in milliseconds since `started`.
    checked_ms: AtomicU64,
    /// By hash of the user name: a hash of the last verified password, with the identity.
    known: Mutex<SegmentedCache<(Key, Arc<Identity>)>>,
    flights: SingleFlight<CheckOutcome>,
    limiter: CheckLimiter,
    /// Settings that are valid but probably unintended.
    warnings: Vec<String>,
}

/// The outcome of a password check: an identity, a rejection, or no result.
type CheckOutcome = Result<Arc<Identity>, AuthError>;

/// The hashed credentials of a request.
struct HashedCredentials {
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
        let without = config.users.keys().filter(|name| !users.contains(name));
        let warnings = without.map(|name| {
            let file = path.display();
            format!("http_basic.users: {name} has roles, but no password in {file}")
        });
        let warnings = warnings.collect();
        let half = std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).max(1));
        let limiter = CheckLimiter::new(Limits {
            section: "http_basic",
            checks_max: match config.checks_max {
                0 => half,
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
            keyer: KeyHasher::new()?,
            users: Mutex::new(Arc::new(users)),
            started: Instant::now(),
            checked_ms: AtomicU64::new(0),
            known: Mutex::new(SegmentedCache::new(config.cache_entries)),
            flights: SingleFlight::new(),
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
        let credentials = self.credentials(headers)?;
        self.reread_if_changed().await;
        let users = Arc::clone(&self.users.lock());
        let asked = HashedCredentials {
            name: self.keyer.key(&[credentials.user.as_bytes()]),
            proof: self.keyer.key(&[
                credentials.user.as_bytes(),
                &credentials.password,
                users.hash(&credentials.user).unwrap_or("").as_bytes(),
            ]),
            source,
        };
        if let Some((identity, true)) = self.remembered(&asked) {
            return Ok(identity);
        }
        // Coalesced for each source only, because the limits of one source must not apply to
        // another.
        let key = self.keyer.key(&[&asked.proof, &source.bytes()]);
        let check = self
            .flights
            .join(key, async || self.check(&asked, users, credentials).await);
        Box::pin(check).await
    }

    /// The identity that was verified with this password, and whether that has not expired.
    fn remembered(&self, asked: &HashedCredentials) -> Option<(Arc<Identity>, bool)> {
        let found = self.known.lock().find(&asked.name, Instant::now())?;
        let (proof, identity) = found.value;
        (proof == asked.proof).then_some((identity, found.is_fresh))
    }

    fn unauthorized(&self) -> AuthError {
        AuthError::Unauthorized {
            challenge: Some(self.challenge.clone()),
        }
    }

    fn credentials(&self, headers: &(impl Headers + ?Sized)) -> Result<Credentials, AuthError> {
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
        asked: &HashedCredentials,
        users: Arc<Users>,
        credentials: Credentials,
    ) -> CheckOutcome {
        let claim = CredentialClaim {
            source: asked.source,
            name: credentials.user.as_bytes(),
            was_right: self.remembered(asked).is_some(),
            exists: users.contains(&credentials.user),
        };
        let check = self.limiter.enter(claim).await?;
        if let Some((identity, true)) = self.remembered(asked) {
            check.unclear();
            return Ok(identity);
        }
        let user = credentials.user.clone();
        let verified = tokio::task::spawn_blocking(move || {
            let is_right = users.verify(&credentials.user, &credentials.password);
            // Reported here, so that it counts even if the caller has been cancelled.
            if is_right {
                check.right();
            } else {
                check.wrong();
            }
            is_right
        });
        match verified.await {
            Ok(true) => {
                let identity = Arc::new(self.identity(user));
                let until = Instant::now() + Duration::from_secs(self.config.cache_seconds);
                let known = (asked.proof, Arc::clone(&identity));
                self.known.lock().insert(asked.name, known, until);
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
        let own = self.config.users.get(&user);
        let roles = own.map_or(&self.config.roles, |own| &own.roles);
        let project_id = own.map_or(&self.config.project_id, |own| &own.project_id);
        // A user without a project gets one, because all users without one would share its
        // absence.
        let project_id = project_id.clone().unwrap_or_else(|| own_project(&user));
        Identity::new(IdentityParts {
            is_admin: Some(roles.iter().any(|role| role.eq_ignore_ascii_case("admin"))),
            roles: roles.clone(),
            project_id: Some(project_id),
            user_id: Some(user),
            is_admin_project: true,
            ..IdentityParts::default()
        })
    }

    /// Reloads the file now. Cached passwords stay valid where the user's line is unchanged.
    pub(crate) fn reread(&self) -> Result<(), SetupError> {
        *self.users.lock() = Arc::new(Users::read(&self.path)?);
        Ok(())
    }

    /// Checks the file for changes if that is due, on another thread. One caller does it, the
    /// others continue.
    async fn reread_if_changed(&self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let checked_ms = self.checked_ms.load(Ordering::Relaxed);
        if now_ms < checked_ms.saturating_add(self.config.reload_check_ms) {
            return;
        }
        let mine = self.checked_ms.compare_exchange(
            checked_ms,
            now_ms,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if mine.is_err() {
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

/// A project for one user alone, the same on every start: 32 hexadecimal digits, like those of
/// Keystone.
///
/// It is derived from the name but differs from it, because the name could be the project of
/// another user.
fn own_project(user: &str) -> String {
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
    fn the_own_project_of_a_user_stays_the_same_for_ever() {
        assert_eq!(own_project("alice"), "f331ae25da25c68b47cfec9eab4c59ad");
        assert_ne!(own_project("alice"), own_project("bob"));
    }
}
