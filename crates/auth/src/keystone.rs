//! `keystone`: a token, checked with a Keystone v3 API.
//!
//! What Keystone says about a token is kept for a while, refusals for a short while and apart, so
//! that a flood of made-up tokens cannot push good ones out. Requests with the same token that come
//! while Keystone is asked wait for the one answer.
//!
//! Service tokens count as in OpenStack's own middleware: one that comes along must be good and have
//! one of the service roles, and then the user's token may have expired lately. Two differences: a
//! service token never changes the user's scope, and tokens of application credentials with access
//! rules are refused (Keystone refuses them by itself to services that do not announce such rules).

pub(crate) mod client;
mod token;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::cache::{Bounded, Key, Keyer};
use crate::config::KeystoneConfig;
use crate::error::{AuthError, SetupError};
use crate::flight::Flights;
use crate::headers::{Headers, text};
use crate::identity::Identity;
use client::{Answer, Client};
use token::Token;

/// Longest token, in bytes. Keystone's own are below 300; a request's head is bounded too.
const TOKEN_BYTES_MAX: usize = 8192;
/// Most different tokens that wait for Keystone; further ones get 503.
const WAITING_MAX: usize = 1024;
/// What a caller is told to wait when Keystone cannot be asked, in seconds.
const RETRY_SECONDS: u64 = 5;

/// The strategy.
pub(crate) struct Keystone {
    client: Client,
    challenge: String,
    service_token_roles: Vec<String>,
    service_token_roles_required: bool,
    cache_time: Duration,
    negative_cache_time: Duration,
    keyer: Keyer,
    good: Mutex<Bounded<Arc<Token>>>,
    bad: Mutex<Bounded<()>>,
    flights: Flights<Verdict>,
    asking: Semaphore,
    wait: Duration,
}

type Verdict = Result<Arc<Token>, AuthError>;

impl Keystone {
    /// Sets the client up; does not talk to Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
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
        Ok(Self {
            client,
            challenge: format!("Keystone uri=\"{public}\""),
            service_token_roles: config.service_token_roles.clone(),
            service_token_roles_required: config.service_token_roles_required,
            cache_time: Duration::from_secs(config.cache_seconds),
            negative_cache_time: Duration::from_secs(config.negative_cache_seconds),
            keyer: Keyer::new()?,
            good: Mutex::new(Bounded::new(config.cache_entries)),
            bad: Mutex::new(Bounded::new(config.cache_entries)),
            flights: Flights::new(WAITING_MAX),
            asking: Semaphore::new(config.requests_max.clamp(1, WAITING_MAX)),
            wait: Duration::from_millis(config.request_timeout_ms),
        })
    }

    /// Checks the request's token, and the service token if there is one.
    pub(crate) async fn authenticate(
        &self,
        headers: &(impl Headers + Sync + ?Sized),
    ) -> Result<Arc<Identity>, AuthError> {
        let user = text(headers, "x-auth-token").or_else(|| text(headers, "x-storage-token"));
        let user = self.plausible(user.as_deref().unwrap_or(""))?;
        // An empty service token is none, as in the middleware.
        let service = text(headers, "x-service-token").filter(|token| !token.is_empty());
        let Some(service) = service else {
            return Ok(Arc::clone(&self.validate(user, false).await?.identity));
        };
        let service = self.validate(self.plausible(&service)?, false).await?;
        let roles = service.identity.roles();
        let is_service = roles
            .iter()
            .any(|role| self.service_token_roles.contains(role));
        if !is_service && self.service_token_roles_required {
            tracing::info!("the service token has no service role");
            return Err(self.unauthorized());
        }
        let user = self.validate(user, is_service).await?;
        Ok(Arc::new(user.with_service(&service)))
    }

    fn unauthorized(&self) -> AuthError {
        AuthError::Unauthorized {
            challenge: Some(self.challenge.clone()),
        }
    }

    /// The token without spaces around it, if Keystone could have made it at all.
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

    /// What Keystone says about a token, or said lately.
    async fn validate(&self, token: &str, allow_expired: bool) -> Verdict {
        let key = self
            .keyer
            .key(&[token.as_bytes(), &[u8::from(allow_expired)]]);
        if let Some(said) = self.said_lately(&key) {
            return said;
        }
        let ask = self
            .flights
            .join(key, async || self.ask(key, token, allow_expired).await);
        Box::pin(ask).await.unwrap_or_else(|| {
            Err(unavailable(
                "Too many tokens wait for the identity service.",
            ))
        })
    }

    /// What Keystone said about a token not long ago.
    fn said_lately(&self, key: &Key) -> Option<Verdict> {
        let now = Instant::now();
        if let Some(token) = self.good.lock().get(key, now) {
            return Some(Ok(token));
        }
        let is_bad = self.bad.lock().get(key, now).is_some();
        is_bad.then(|| Err(self.unauthorized()))
    }

    async fn ask(&self, key: Key, token: &str, allow_expired: bool) -> Verdict {
        // Another request may have got its answer since this one last looked.
        if let Some(said) = self.said_lately(&key) {
            return said;
        }
        let Ok(Ok(_permit)) = tokio::time::timeout(self.wait, self.asking.acquire()).await else {
            return Err(unavailable("The identity service is too slow."));
        };
        let answer = self.client.validate(token, allow_expired).await;
        // A good answer about a token that is over, or not for this service, is a refusal.
        let now = Timestamp::now();
        let good = match answer {
            Answer::Good(token) if token.usable(now, allow_expired) => Some(Arc::new(*token)),
            Answer::Good(_) | Answer::Refused => None,
            Answer::None(reason) => {
                tracing::error!(reason, "cannot ask Keystone about a token");
                return Err(unavailable(
                    "The identity service is temporarily unavailable.",
                ));
            }
        };
        match good {
            Some(good) => {
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
                self.bad
                    .lock()
                    .insert(key, (), Instant::now() + self.negative_cache_time);
                Err(self.unauthorized())
            }
        }
    }
}

fn unavailable(reason: &str) -> AuthError {
    AuthError::Unavailable {
        reason: reason.to_owned(),
        retry_after: Duration::from_secs(RETRY_SECONDS),
    }
}
