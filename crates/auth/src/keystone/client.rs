//! The client of Keystone: the service user's own token, and validation of other tokens.

mod get;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use placewright_errors::chain;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde_json::json;
use tokio::sync::Mutex;

use crate::config::KeystoneConfig;
use crate::error::SetupError;
use crate::keystone::http::Http;
use crate::keystone::token::Token;
use crate::secret::Secret;

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const X_SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

/// The maximum size of an answer in bytes. Without a catalog it is some kilobytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The maximum size of a file with a password, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// How long before its expiry the service user's token is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(120);
/// The pause after Keystone rejected the service user, because more attempts could lock the
/// account.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// The client of one Keystone.
pub(crate) struct Client {
    http: Arc<Http>,
    tokens_url: Url,
    /// The body of the request for the service user's token.
    login: Arc<[u8]>,
    service: Mutex<Service>,
}

/// The state of the service user's token.
#[derive(Default)]
struct Service {
    token: Option<ServiceToken>,
    failure: Option<Failure>,
}

#[derive(Clone)]
struct ServiceToken {
    value: HeaderValue,
    expires_at: Timestamp,
}

/// The last failed attempt to get a token.
struct Failure {
    at: Instant,
    pause: Duration,
    reason: String,
}

/// Keystone's answer about a token.
pub(crate) enum Answer {
    /// The token is known to Keystone.
    Good(Box<Token>),
    /// Keystone does not know the token.
    Refused,
    /// There was no answer, for this reason.
    None(String),
}

impl Client {
    /// Prepares the client; does not contact Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
        let missing = |option| SetupError::Missing {
            strategy: "keystone",
            option,
        };
        if config.auth_url.is_empty() {
            return Err(missing("auth_url"));
        }
        if config.username.is_empty() {
            return Err(missing("username"));
        }
        let password = password(config)?;
        if password.is_empty() {
            return Err(missing("password"));
        }
        Ok(Self {
            http: Arc::new(Http::new(config)?),
            tokens_url: tokens_url(&config.auth_url)?,
            login: login(config, &password).to_string().into_bytes().into(),
            service: Mutex::default(),
        })
    }

    /// The HTTP client, whose authorities can be read again.
    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    /// Asks Keystone to validate a token.
    pub(crate) async fn validate(&self, token: &str, allow_expired: bool) -> Answer {
        let Ok(mut subject) = HeaderValue::from_str(token) else {
            return Answer::Refused;
        };
        subject.set_sensitive(true);
        let mut own = match self.own_token(None).await {
            Ok(own) => own,
            Err(reason) => return Answer::None(reason),
        };
        for retry in [false, true] {
            let response = match self.ask(&own, &subject, allow_expired).await {
                Ok(response) => response,
                Err(reason) => return Answer::None(reason),
            };
            match response.status() {
                StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION => {
                    return match body(response).await.map(|body| Token::read(&body)) {
                        Ok(Some(token)) => Answer::Good(Box::new(token)),
                        Ok(None) => Answer::None("its answer is no token".to_owned()),
                        Err(reason) => Answer::None(reason),
                    };
                }
                StatusCode::NOT_FOUND => return Answer::Refused,
                // Our own token was rejected: it was revoked, or Keystone lost its keys.
                StatusCode::UNAUTHORIZED if !retry => {
                    own = match self.own_token(Some(&own)).await {
                        Ok(own) => own,
                        Err(reason) => return Answer::None(reason),
                    };
                }
                StatusCode::FORBIDDEN => {
                    return Answer::None(
                        "the service user may not ask about tokens (403)".to_owned(),
                    );
                }
                status => return Answer::None(format!("it answered {status}")),
            }
        }
        Answer::None("it refuses every token of the service user".to_owned())
    }

    async fn ask(
        &self,
        own: &HeaderValue,
        subject: &HeaderValue,
        allow_expired: bool,
    ) -> Result<Response, String> {
        let mut url = self.tokens_url.clone();
        url.set_query(Some(if allow_expired {
            "nocatalog&allow_expired=1"
        } else {
            "nocatalog"
        }));
        let mut headers = HeaderMap::new();
        headers.insert(X_AUTH_TOKEN, own.clone());
        headers.insert(X_SUBJECT_TOKEN, subject.clone());
        self.http
            .current()
            .get(url)
            .headers(headers)
            .send()
            .await
            .map_err(reason)
    }

    /// The service user's token; a different one than `refused`.
    pub(crate) async fn own_token(
        &self,
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, String> {
        let asked = Instant::now();
        let mut service = self.service.lock().await;
        if refused.is_some() && service.token.as_ref().map(|token| &token.value) == refused {
            service.token = None;
        }
        let now = Timestamp::now();
        let remaining = service
            .token
            .as_ref()
            .map(|token| token.expires_at.duration_since(now));
        let renew_before = jiff::SignedDuration::try_from(RENEW_BEFORE).unwrap_or_default();
        if let Some(token) = &service.token
            && remaining > Some(renew_before)
        {
            return Ok(token.value.clone());
        }
        // Callers that waited during a failed attempt share its failure, instead of each waiting
        // for a time-out.
        let failed = service
            .failure
            .as_ref()
            .filter(|last| last.at + last.pause > asked);
        let result = match failed {
            Some(failure) => Err(failure.reason.clone()),
            None => self.log_in().await.map_err(|(pause, reason)| {
                service.failure = Some(Failure {
                    at: Instant::now(),
                    pause,
                    reason: reason.clone(),
                });
                reason
            }),
        };
        match (result, &service.token) {
            (Ok(token), _) => {
                let value = token.value.clone();
                *service = Service {
                    token: Some(token),
                    failure: None,
                };
                Ok(value)
            }
            // It could not be renewed early, but it is still valid.
            (Err(_), Some(token)) if remaining > Some(jiff::SignedDuration::ZERO) => {
                Ok(token.value.clone())
            }
            (Err(reason), _) => Err(reason),
        }
    }

    /// Requests a new token for the service user, or says how long to wait before the next
    /// attempt.
    async fn log_in(&self) -> Result<ServiceToken, (Duration, String)> {
        self.reread_authorities().await;
        let mut url = self.tokens_url.clone();
        url.set_query(Some("nocatalog"));
        let request = self
            .http
            .current()
            .post(url)
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .body(self.login.to_vec());
        let at_once = |reason| (Duration::ZERO, reason);
        let response = request
            .send()
            .await
            .map_err(|error| at_once(reason(error)))?;
        let status = response.status();
        match status {
            StatusCode::CREATED => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let reason = format!("it refuses the service user's password ({status})");
                return Err((REFUSED_PAUSE, reason));
            }
            _ => return Err(at_once(format!("it answered {status} to the service user"))),
        }
        let value = response.headers().get(X_SUBJECT_TOKEN).cloned();
        let body = body(response).await.map_err(at_once)?;
        let expires_at = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|body| body["token"]["expires_at"].as_str()?.parse().ok());
        match (value, expires_at) {
            (Some(mut value), Some(expires_at)) => {
                value.set_sensitive(true);
                Ok(ServiceToken { value, expires_at })
            }
            _ => Err(at_once(
                "its answer to the service user is no token".to_owned(),
            )),
        }
    }
}

impl Client {
    /// Reads the file of authorities again if it has changed. Agents have no other occasion.
    async fn reread_authorities(&self) {
        let http = Arc::clone(&self.http);
        if !http.has_authorities() {
            return;
        }
        let read = tokio::task::spawn_blocking(move || http.reread_if_changed());
        if let Ok(Err(error)) = read.await {
            tracing::error!("[keystone] {error}; what was in force before stays");
        }
    }
}

/// The body of the request for the service user's token.
fn login(config: &KeystoneConfig, password: &Secret) -> serde_json::Value {
    let scope = if config.project_name.is_empty() {
        json!({"system": {"all": true}})
    } else {
        let domain = json!({"name": config.project_domain_name});
        json!({"project": {"name": config.project_name, "domain": domain}})
    };
    let user = json!({
        "name": config.username,
        "domain": {"name": config.user_domain_name},
        "password": password.expose(),
    });
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    json!({"auth": {"identity": identity, "scope": scope}})
}

/// The URL for issuing and validating tokens.
fn tokens_url(auth_url: &str) -> Result<Url, SetupError> {
    let invalid = |reason: &str| SetupError::Invalid {
        option: "auth_url",
        reason: reason.to_owned(),
    };
    let mut url: Url = auth_url.parse().map_err(|_| invalid("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "must not contain a password; use username and password_file",
        ));
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/');
    let version = if path.ends_with("/v3") { "" } else { "/v3" };
    let path = format!("{path}{version}/auth/tokens");
    url.set_path(&path);
    Ok(url)
}

fn password(config: &KeystoneConfig) -> Result<Secret, SetupError> {
    let Some(path) = &config.password_file else {
        return Ok(config.password.clone());
    };
    if !config.password.is_empty() {
        return Err(SetupError::Invalid {
            option: "password_file",
            reason: "give either a password or a file with it".to_owned(),
        });
    }
    let bytes = read_file(path)?;
    let text = String::from_utf8(bytes).map_err(|_| SetupError::Invalid {
        option: "password_file",
        reason: format!("{} is not UTF-8", path.display()),
    })?;
    Ok(Secret::new(text.lines().next().unwrap_or_default()))
}

fn read_file(path: &std::path::Path) -> Result<Vec<u8>, SetupError> {
    use std::io::Read;
    let failed = |source| SetupError::File {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// The body of an answer, within the size limit.
async fn body(response: Response) -> Result<Vec<u8>, String> {
    body_within(response, BODY_BYTES_MAX).await
}

/// The body of an answer that has so many bytes at most.
async fn body_within(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reason)? {
        if body.len() + chunk.len() > most {
            return Err("its answer is too large".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The cause chain of a failed request, without the URL.
fn reason(error: reqwest::Error) -> String {
    chain(&error.without_url())
}
