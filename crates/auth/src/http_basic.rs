//! `http_basic`: a user and a password, checked against an htpasswd file.
//!
//! bcrypt is slow on purpose (0.05 to 1 s). So hashes are checked on threads of their own, few at a
//! time, and a password that was right is remembered for a while as a keyed hash. A wrong one never
//! is, and an unknown user costs the same work as a known one.

mod htpasswd;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::cache::{Bounded, Key, Keyer};
use crate::config::HttpBasicConfig;
use crate::error::{AuthError, SetupError};
use crate::flight::Flights;
use crate::headers::Headers;
use crate::identity::{Identity, IdentityParts};
use htpasswd::Users;

/// Longest `Authorization` header, in bytes. bcrypt looks at 72 bytes of a password.
const HEADER_BYTES_MAX: usize = 4096;
/// Most passwords that wait for their check; further ones get 503.
const WAITING_MAX: usize = 256;

/// The strategy.
pub(crate) struct HttpBasic {
    config: HttpBasicConfig,
    path: PathBuf,
    challenge: String,
    keyer: Keyer,
    users: Mutex<Arc<Users>>,
    started: Instant,
    /// When the file was last looked at, in milliseconds since `started`.
    checked_ms: AtomicU64,
    known: Mutex<Bounded<Arc<Identity>>>,
    flights: Flights<Verdict>,
    hashing: Arc<Semaphore>,
}

/// What a check of a password gave: an identity, wrong, or no answer.
type Verdict = Result<Arc<Identity>, AuthError>;

struct Credentials {
    user: String,
    password: Vec<u8>,
}

impl HttpBasic {
    /// Reads the file.
    pub(crate) fn new(config: &HttpBasicConfig) -> Result<Self, SetupError> {
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
        for name in config.users.keys().filter(|name| !users.contains(name)) {
            tracing::warn!(user = name, file = %path.display(), "user has roles but no password");
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).max(1));
        Ok(Self {
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm),
            config: config.clone(),
            path,
            keyer: Keyer::new()?,
            users: Mutex::new(Arc::new(users)),
            started: Instant::now(),
            checked_ms: AtomicU64::new(0),
            known: Mutex::new(Bounded::new(config.cache_entries)),
            flights: Flights::new(WAITING_MAX),
            hashing: Arc::new(Semaphore::new(threads)),
        })
    }

    /// Checks the password of the request.
    pub(crate) async fn authenticate(&self, headers: &(impl Headers + Sync + ?Sized)) -> Verdict {
        let credentials = self.credentials(headers)?;
        self.reread_if_changed().await;
        let users = Arc::clone(&self.users.lock());
        let key = self.keyer.key(&[
            credentials.user.as_bytes(),
            &credentials.password,
            &users.generation.to_le_bytes(),
        ]);
        if let Some(identity) = self.known.lock().get(&key, Instant::now()) {
            return Ok(identity);
        }
        let check = self
            .flights
            .join(key, async || self.check(key, users, credentials).await);
        Box::pin(check).await.unwrap_or_else(|| Err(busy()))
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
            let user = std::str::from_utf8(&pair[..colon]).ok()?.to_owned();
            Some(Credentials {
                user,
                password: pair[colon + 1..].to_vec(),
            })
        };
        parse().ok_or_else(|| self.unauthorized())
    }

    /// The slow way.
    async fn check(&self, key: Key, users: Arc<Users>, credentials: Credentials) -> Verdict {
        let Ok(permit) = Arc::clone(&self.hashing).acquire_owned().await else {
            return Err(busy());
        };
        let user = credentials.user.clone();
        let verified = tokio::task::spawn_blocking(move || {
            // The permit is given back when the work is done, also if the caller has gone.
            let _permit = permit;
            users.verify(&credentials.user, &credentials.password)
        });
        match verified.await {
            Ok(true) => {
                let identity = Arc::new(self.identity(user));
                let until = Instant::now() + Duration::from_secs(self.config.cache_seconds);
                self.known.lock().insert(key, Arc::clone(&identity), until);
                Ok(identity)
            }
            Ok(false) => {
                tracing::info!(user, "wrong password, or no such user");
                Err(self.unauthorized())
            }
            Err(_) => Err(busy()),
        }
    }

    fn identity(&self, user: String) -> Identity {
        let own = self.config.users.get(&user);
        let roles = own.map_or(&self.config.roles, |own| &own.roles);
        let project_id = own.map_or(&self.config.project_id, |own| &own.project_id);
        Identity::new(IdentityParts {
            is_admin: Some(roles.iter().any(|role| role.eq_ignore_ascii_case("admin"))),
            roles: roles.clone(),
            project_id: project_id.clone(),
            user_id: Some(user),
            is_admin_project: true,
            ..IdentityParts::default()
        })
    }

    /// Reads the file now. Passwords that were right are remembered on when it says what it said.
    pub(crate) fn reread(&self) -> Result<(), SetupError> {
        let users = Users::read(&self.path)?;
        let mut current = self.users.lock();
        *current = Arc::new(users.continuing(&current));
        Ok(())
    }

    /// Looks at the file if it is time, on another thread; one caller does it, the others go on.
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

fn busy() -> AuthError {
    AuthError::Unavailable {
        reason: "Too many passwords wait to be checked.".to_owned(),
        retry_after: Duration::from_secs(1),
    }
}
