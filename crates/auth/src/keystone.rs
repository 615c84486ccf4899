//! `keystone`: a token, validated by a Keystone v3 API.
//!
//! Validated tokens are cached for a while; rejected ones for a short while and separately, so
//! that a flood of invented tokens cannot evict good ones. Concurrent requests with the same token
//! share one query. The limiter decides which token is validated next: tokens that were valid
//! before come first, and sources of invented ones wait.
//!
//! Service tokens work as in OpenStack's own middleware: an accompanying one must be valid and
//! have one of the service roles, and then the user's token may have expired recently. Two
//! differences: a service token never changes the user's scope, and tokens of application
//! credentials with access rules are rejected (Keystone itself rejects them for services that do
//! not announce such rules).

pub(crate) mod client;
mod http;
mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SecondChanceCache, SegmentedCache};
use crate::check_limiter::{CheckLimiter, CredentialClaim, Limits};
use crate::config::{KeystoneConfig, LimitsConfig};
use crate::error::{AuthError, SetupError};
use crate::headers::{Headers, text};
use crate::identity::Identity;
use crate::single_flight::SingleFlight;
use crate::source::Source;
use client::{Answer, Client};
use token::Token;

/// The maximum length of a token in bytes. Keystone's own are below 300; a request's head is
/// limited too.
const TOKEN_BYTES_MAX: usize = 8192;
/// The `Retry-After` for callers when Keystone cannot be asked, in seconds.
const RETRY_SECONDS: u64 = 5;

/// The state of the strategy: the client, the caches, and the limiter of queries.
pub(crate) struct Keystone {
    client: Client,
    challenge: String,
    service_token_roles: Vec<String>,
    service_token_roles_required: bool,
    cache_time: Duration,
    negative_cache_time: Duration,
    keyer: KeyHasher,
    good: Mutex<SegmentedCache<Arc<Token>>>,
    bad: Mutex<SecondChanceCache<()>>,
    flights: SingleFlight<CheckOutcome>,
    limiter: CheckLimiter,
    started: Instant,
    /// The second since `started` of the last log line about Keystone not answering.
    told_s: AtomicU64,
}

type CheckOutcome = Result<Arc<Token>, AuthError>;

impl Keystone {
    /// Prepares the client; does not contact Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig, common: &LimitsConfig) -> Result<Self, SetupError> {
        let client = Client::new(config)?;
        let public = match config.www_authenticate_uri.as_str() {
            "" => config.auth_url.as_str(),
            uri => uri,
        };
        if public.chars().any(|c| !c.is_ascii_graphic() || c == '"') {
            return Err(SetupError::Invalid {
                option: "www_authenticate_uri",
                reason: "is not a URL".to_owned(),
            });
        }
        let limiter = CheckLimiter::new(Limits {
            section: "keystone",
            checks_max: config.requests_max,
            waiting_max: config.waiting_max,
            waiting_per_source_max: config.waiting_per_source_max,
            failures_burst: config.failures_burst,
            failures_per_minute: config.failures_per_minute,
            common: common.clone(),
        })?;
        Ok(Self {
            client,
            challenge: format!("Keystone uri=\"{public}\""),
            service_token_roles: config.service_token_roles.clone(),
            service_token_roles_required: config.service_token_roles_required,
            cache_time: Duration::from_secs(config.cache_seconds),
            negative_cache_time: Duration::from_secs(config.negative_cache_seconds),
            keyer: KeyHasher::new()?,
            good: Mutex::new(SegmentedCache::new(config.cache_entries)),
            bad: Mutex::new(SecondChanceCache::new(config.negative_cache_entries)),
            flights: SingleFlight::new(),
            limiter,
            started: Instant::now(),
            told_s: AtomicU64::new(u64::MAX),
        })
    }

    /// The HTTP client, whose authorities can be read again.
    pub(crate) fn http(&self) -> &http::Http {
        self.client.http()
    }

    /// Validates the request's token, and the service token if there is one.
    pub(crate) async fn authenticate(
        &self,
        headers: &(impl Headers + Sync + ?Sized),
        source: Source,
    ) -> Result<Arc<Identity>, AuthError> {
        let user = text(headers, "x-auth-token").or_else(|| text(headers, "x-storage-token"));
        let user = self.plausible(user.as_deref().unwrap_or(""))?;
        // An empty service token counts as none, as in the middleware.
        let service = text(headers, "x-service-token").filter(|token| !token.is_empty());
        let Some(service) = service else {
            return Ok(Arc::clone(
                &self.validate(user, false, source).await?.identity,
            ));
        };
        let service = self
            .validate(self.plausible(&service)?, false, source)
            .await?;
        let roles = service.identity.roles();
        let is_service = roles
            .iter()
            .any(|role| self.service_token_roles.contains(role));
        if !is_service && self.service_token_roles_required {
            tracing::info!("the service token has no service role");
            return Err(self.unauthorized());
        }
        let user = self.validate(user, is_service, source).await?;
        Ok(Arc::new(user.with_service(&service)))
    }

    fn unauthorized(&self) -> AuthError {
        AuthError::Unauthorized {
            challenge: Some(self.challenge.clone()),
        }
    }

    /// The trimmed token, if it has a form that Keystone could have issued.
    fn plausible<'t>(&self, token: &'t str) -> Result<&'t str, AuthError> {
        let token = token.trim();
        let plausible = !token.is_empty()
            && token.len() <= TOKEN_BYTES_MAX
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if plausible {
            Ok(token)
        } else {
            Err(self.unauthorized())
        }
    }

    /// The result for a token, from the caches or from Keystone.
    async fn validate(&self, token: &str, allow_expired: bool, source: Source) -> CheckOutcome {
        let key = self
            .keyer
            .key(&[token.as_bytes(), &[u8::from(allow_expired)]]);
        let was_good = match self.cached_outcome(&key) {
            CachedOutcome::Said(said) => return said,
            CachedOutcome::WasGood => true,
            CachedOutcome::Nothing => false,
        };
        // Coalesced for each source only, because the limits of one source must not apply to
        // another.
        let flight = self.keyer.key(&[&key, &source.bytes()]);
        let claim = CredentialClaim {
            source,
            name: b"",
            was_right: was_good,
            exists: true,
        };
        let ask = self.flights.join(flight, async || {
            self.ask(key, token, allow_expired, claim).await
        });
        Box::pin(ask).await
    }

    /// The cached result for a token.
    fn cached_outcome(&self, key: &Key) -> CachedOutcome {
        let now = Instant::now();
        let good = self.good.lock().find(key, now);
        match good {
            Some(good) if good.is_fresh => return CachedOutcome::Said(Ok(good.value)),
            Some(_) => return CachedOutcome::WasGood,
            None => {}
        }
        if self.bad.lock().get(key, now).is_some() {
            return CachedOutcome::Said(Err(self.unauthorized()));
        }
        CachedOutcome::Nothing
    }

    async fn ask(
        &self,
        key: Key,
        token: &str,
        allow_expired: bool,
        claim: CredentialClaim<'_>,
    ) -> CheckOutcome {
        let check = self.limiter.enter(claim).await?;
        // Another request may have got the answer in the meantime.
        if let CachedOutcome::Said(said) = self.cached_outcome(&key) {
            check.unclear();
            return said;
        }
        let answer = self.client.validate(token, allow_expired).await;
        // A valid answer about a token that has expired, or that is restricted, is a rejection.
        let now = Timestamp::now();
        let good = match answer {
            Answer::Good(token) if token.usable(now, allow_expired) => Some(Arc::new(*token)),
            Answer::Good(_) | Answer::Refused => None,
            Answer::None(reason) => {
                check.unclear();
                self.log_unavailable(&reason);
                return Err(unavailable(
                    "The identity service is temporarily unavailable.",
                ));
            }
        };
        match good {
            Some(good) => {
                check.right();
                let mut time = self.cache_time;
                if !allow_expired {
                    time = time.min(good.remaining(now));
                }
                self.good
                    .lock()
                    .insert(key, Arc::clone(&good), Instant::now() + time);
                Ok(good)
            }
            None => {
                check.wrong();
                self.good.lock().remove(&key);
                self.bad
                    .lock()
                    .insert(key, (), Instant::now() + self.negative_cache_time);
                Err(self.unauthorized())
            }
        }
    }

    /// Logs that Keystone does not answer, at most once a second, because requests may be many.
    fn log_unavailable(&self, reason: &str) {
        let second = self.started.elapsed().as_secs();
        if self.told_s.swap(second, Ordering::Relaxed) != second {
            tracing::error!(reason, "cannot ask Keystone about a token");
        }
    }
}

/// A look-up in the caches.
enum CachedOutcome {
    /// A cached result that has not expired.
    Said(CheckOutcome),
    /// The token was valid, but the entry has expired.
    WasGood,
    /// The caches do not know the token.
    Nothing,
}

fn unavailable(reason: &str) -> AuthError {
    AuthError::Unavailable {
        reason: reason.to_owned(),
        retry_after: Duration::from_secs(RETRY_SECONDS),
    }
}
