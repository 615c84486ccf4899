//! The strategy `keystone`: a token, validated by a Keystone v3 API.
//!
//! Valid tokens are cached for a while. Rejected ones are cached for a shorter time, in a cache of
//! their own, so that a flood of invented tokens cannot evict valid ones. Concurrent requests with the
//! same token share one query. The limiter decides which token is validated next: tokens that were
//! valid before come first, and sources of many rejected tokens come last.
//!
//! Service tokens work as in OpenStack's own middleware: a service token beside the user's token must
//! be valid and have one of the service roles, and then the user's token may have expired recently.
//! Two differences: a service token never changes the user's scope, and tokens of application
//! credentials with access rules are rejected, because this service does not evaluate such rules.

pub(crate) mod client;
mod http;
mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::cache::{Key, KeyHasher, SecondChanceCache, SegmentedCache};
use crate::check_limiter::{CheckLimiter, Limits, PendingCheck};
use crate::config::{KeystoneConfig, LimitsConfig};
use crate::error::{AuthError, SetupError};
use crate::headers::{Headers, text};
use crate::identity::Identity;
use crate::single_flight::SingleFlight;
use crate::source::Source;
use client::{Client, Validation};
use token::Token;

/// The maximum length of a token in bytes. Keystone's tokens have less than 300.
const TOKEN_BYTES_MAX: usize = 8192;
/// The `Retry-After` for callers when Keystone is unavailable, in seconds.
const RETRY_SECONDS: u64 = 5;

/// For `allow_expired`: a token that has expired is rejected.
const REJECT_EXPIRED: bool = false;

/// The state of the strategy: the client, the caches, and the limiter of queries.
pub(crate) struct Keystone {
    client: Client,
    /// The value of `WWW-Authenticate` in refusals.
    challenge: String,
    service_token_roles: Vec<String>,
    service_token_roles_required: bool,
    cache_time: Duration,
    negative_cache_time: Duration,
    key_hasher: KeyHasher,
    valid_tokens: Mutex<SegmentedCache<Arc<Token>>>,
    rejected_tokens: Mutex<SecondChanceCache<()>>,
    single_flight: SingleFlight<CheckOutcome>,
    limiter: CheckLimiter,
    /// The time from which `last_logged_s` is counted.
    started: Instant,
    /// The time of the last log line about an unavailable Keystone, in seconds since `started`.
    last_logged_s: AtomicU64,
}

/// The outcome of a validation: a token, a rejection, or no result.
type CheckOutcome = Result<Arc<Token>, AuthError>;

impl Keystone {
    /// Prepares the client; does not contact Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig, common: &LimitsConfig) -> Result<Self, SetupError> {
        let client = Client::new(config)?;
        let advertised_uri = match config.www_authenticate_uri.as_str() {
            "" => config.auth_url.as_str(),
            uri => uri,
        };
        if advertised_uri
            .chars()
            .any(|c| !c.is_ascii_graphic() || c == '"')
        {
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
            challenge: format!("Keystone uri=\"{advertised_uri}\""),
            service_token_roles: config.service_token_roles.clone(),
            service_token_roles_required: config.service_token_roles_required,
            cache_time: Duration::from_secs(config.cache_seconds),
            negative_cache_time: Duration::from_secs(config.negative_cache_seconds),
            key_hasher: KeyHasher::new()?,
            valid_tokens: Mutex::new(SegmentedCache::new(config.cache_entries)),
            rejected_tokens: Mutex::new(SecondChanceCache::new(config.negative_cache_entries)),
            single_flight: SingleFlight::new(),
            limiter,
            started: Instant::now(),
            // Nothing was logged yet.
            last_logged_s: AtomicU64::new(u64::MAX),
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
        // `X-Storage-Token` is an older name, which OpenStack's middleware accepts, too.
        let user_token = text(headers, "x-auth-token").or_else(|| text(headers, "x-storage-token"));
        let user_token = self.well_formed(user_token.as_deref().unwrap_or(""))?;
        // As in OpenStack's middleware, an empty service token is ignored.
        let service_token = text(headers, "x-service-token").filter(|token| !token.is_empty());
        let Some(service_token) = service_token else {
            return Ok(Arc::clone(
                &self
                    .validate(user_token, REJECT_EXPIRED, source)
                    .await?
                    .identity,
            ));
        };
        let service = self
            .validate(self.well_formed(&service_token)?, REJECT_EXPIRED, source)
            .await?;
        let roles = service.identity.roles();
        let is_service = roles
            .iter()
            .any(|role| self.service_token_roles.contains(role));
        if !is_service && self.service_token_roles_required {
            tracing::info!("the service token has no service role");
            return Err(self.unauthorized());
        }
        let allow_expired = is_service;
        let user = self.validate(user_token, allow_expired, source).await?;
        Ok(Arc::new(user.with_service(&service)))
    }

    fn unauthorized(&self) -> AuthError {
        AuthError::Unauthorized {
            challenge: Some(self.challenge.clone()),
        }
    }

    /// The trimmed token, if it has a form that Keystone could have issued.
    fn well_formed<'t>(&self, token: &'t str) -> Result<&'t str, AuthError> {
        let token = token.trim();
        let is_well_formed = !token.is_empty()
            && token.len() <= TOKEN_BYTES_MAX
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_well_formed {
            Ok(token)
        } else {
            Err(self.unauthorized())
        }
    }

    /// The result for a token, from the caches or from Keystone.
    async fn validate(&self, token: &str, allow_expired: bool, source: Source) -> CheckOutcome {
        let key = self
            .key_hasher
            .key(&[token.as_bytes(), &[u8::from(allow_expired)]]);
        let was_valid = match self.cached_outcome(&key) {
            CachedOutcome::Fresh(outcome) => return outcome,
            CachedOutcome::ExpiredValid => true,
            CachedOutcome::Missing => false,
        };
        // Only requests of the same source share a query, because a refusal for the limits of one
        // source must not apply to another source.
        let flight_key = self.key_hasher.key(&[&key, &source.bytes()]);
        let pending_check = PendingCheck {
            source,
            name: b"",
            was_verified: was_valid,
            user_exists: true,
        };
        let validation = self.single_flight.run(flight_key, async || {
            self.validate_with_keystone(key, token, allow_expired, pending_check)
                .await
        });
        Box::pin(validation).await
    }

    /// The cached result for a token.
    fn cached_outcome(&self, key: &Key) -> CachedOutcome {
        let now = Instant::now();
        let found = self.valid_tokens.lock().find(key, now);
        match found {
            Some(found) if found.is_fresh => return CachedOutcome::Fresh(Ok(found.value)),
            Some(_) => return CachedOutcome::ExpiredValid,
            None => {}
        }
        if self.rejected_tokens.lock().get(key, now).is_some() {
            return CachedOutcome::Fresh(Err(self.unauthorized()));
        }
        CachedOutcome::Missing
    }

    async fn validate_with_keystone(
        &self,
        key: Key,
        token: &str,
        allow_expired: bool,
        pending_check: PendingCheck<'_>,
    ) -> CheckOutcome {
        let check = self.limiter.admit(pending_check).await?;
        // Another request may have cached an outcome in the meantime.
        if let CachedOutcome::Fresh(outcome) = self.cached_outcome(&key) {
            check.report_no_result();
            return outcome;
        }
        let validation = self.client.validate(token, allow_expired).await;
        // Keystone also returns tokens that have expired or are restricted; they are rejected here.
        let now = Timestamp::now();
        let valid_token = match validation {
            Validation::Valid(token) if token.is_usable(now, allow_expired) => {
                Some(Arc::new(*token))
            }
            Validation::Valid(_) | Validation::Rejected => None,
            Validation::Failed(reason) => {
                check.report_no_result();
                self.log_unavailable(&reason);
                return Err(unavailable(
                    "The identity service is temporarily unavailable.",
                ));
            }
        };
        match valid_token {
            Some(token) => {
                check.report_verified();
                let mut cache_time = self.cache_time;
                if !allow_expired {
                    cache_time = cache_time.min(token.remaining(now));
                }
                self.valid_tokens.lock().insert(
                    key,
                    Arc::clone(&token),
                    Instant::now() + cache_time,
                );
                Ok(token)
            }
            None => {
                check.report_wrong();
                self.valid_tokens.lock().remove(&key);
                self.rejected_tokens.lock().insert(
                    key,
                    (),
                    Instant::now() + self.negative_cache_time,
                );
                Err(self.unauthorized())
            }
        }
    }

    /// Logs that Keystone does not answer, at most once a second, because requests may be many.
    fn log_unavailable(&self, reason: &str) {
        let now_s = self.started.elapsed().as_secs();
        if self.last_logged_s.swap(now_s, Ordering::Relaxed) != now_s {
            tracing::error!(reason, "cannot ask Keystone about a token");
        }
    }
}

/// A look-up in the caches.
enum CachedOutcome {
    /// A cached result that has not expired.
    Fresh(CheckOutcome),
    /// The token was valid, but the entry has expired.
    ExpiredValid,
    /// The token is in neither cache, or only as a rejection that has expired.
    Missing,
}

fn unavailable(reason: &str) -> AuthError {
    AuthError::Unavailable {
        reason: reason.to_owned(),
        retry_after: Duration::from_secs(RETRY_SECONDS),
    }
}
