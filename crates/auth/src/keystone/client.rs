//! The client of Keystone: it obtains the service user's token, and validates the tokens of callers.

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

/// The maximum size of a response in bytes. Without a catalog it has some kilobytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The maximum size of a file with a password, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// How long before its expiry the service user's token is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(120);
/// The pause after Keystone rejected the service user's password, because more attempts could lock
/// its account.
const REJECTED_PAUSE: Duration = Duration::from_secs(5);

/// The client of one Keystone.
pub(crate) struct Client {
    http: Arc<Http>,
    tokens_url: Url,
    /// The body of the request for the service user's token.
    login_body: Arc<[u8]>,
    login_state: Mutex<LoginState>,
}

/// The state of the service user's token.
#[derive(Default)]
struct LoginState {
    token: Option<ServiceUserToken>,
    failure: Option<Failure>,
}

#[derive(Clone)]
struct ServiceUserToken {
    value: HeaderValue,
    expires_at: Timestamp,
}

/// The last failed attempt to get a token.
struct Failure {
    failed_at: Instant,
    /// How long after `failed_at` no further attempt is made.
    pause: Duration,
    reason: String,
}

/// The result of Keystone's validation of a token.
pub(crate) enum Validation {
    /// Keystone returned the token's data. The token may have expired or be restricted.
    Valid(Box<Token>),
    /// Keystone does not know the token, or the token has expired.
    Rejected,
    /// The token could not be validated, for this reason.
    Failed(String),
}

impl Client {
    /// Prepares the client; does not contact Keystone yet.
    pub(crate) fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
        let missing_option = |option| SetupError::Missing {
            strategy: "keystone",
            option,
        };
        if config.auth_url.is_empty() {
            return Err(missing_option("auth_url"));
        }
        if config.username.is_empty() {
            return Err(missing_option("username"));
        }
        let password = read_password(config)?;
        if password.is_empty() {
            return Err(missing_option("password"));
        }
        Ok(Self {
            http: Arc::new(Http::new(config)?),
            tokens_url: tokens_url(&config.auth_url)?,
            login_body: login_body(config, &password)
                .to_string()
                .into_bytes()
                .into(),
            login_state: Mutex::default(),
        })
    }

    /// The HTTP client of all requests to Keystone, which holds the authorities that are trusted for it.
    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    /// Validates a token with Keystone.
    pub(crate) async fn validate(&self, token: &str, allow_expired: bool) -> Validation {
        let Ok(mut subject) = HeaderValue::from_str(token) else {
            return Validation::Rejected;
        };
        subject.set_sensitive(true);
        let mut own_token = match self.service_user_token(None).await {
            Ok(own_token) => own_token,
            Err(reason) => return Validation::Failed(reason),
        };
        for is_retry in [false, true] {
            let response = match self.query_token(&own_token, &subject, allow_expired).await {
                Ok(response) => response,
                Err(reason) => return Validation::Failed(reason),
            };
            match response.status() {
                StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION => {
                    return match read_body(response).await.map(|body| Token::parse(&body)) {
                        Ok(Some(token)) => Validation::Valid(Box::new(token)),
                        Ok(None) => Validation::Failed("its answer is no token".to_owned()),
                        Err(reason) => Validation::Failed(reason),
                    };
                }
                StatusCode::NOT_FOUND => return Validation::Rejected,
                // The service user's token was rejected: it was revoked, or Keystone has other keys now.
                StatusCode::UNAUTHORIZED if !is_retry => {
                    own_token = match self.service_user_token(Some(&own_token)).await {
                        Ok(own_token) => own_token,
                        Err(reason) => return Validation::Failed(reason),
                    };
                }
                StatusCode::UNAUTHORIZED => break,
                StatusCode::FORBIDDEN => {
                    return Validation::Failed(
                        "the service user may not ask about tokens (403)".to_owned(),
                    );
                }
                status => return Validation::Failed(format!("it answered {status}")),
            }
        }
        Validation::Failed("it refuses every token of the service user".to_owned())
    }

    /// Asks Keystone about the token `subject`, with the service user's own token.
    async fn query_token(
        &self,
        own_token: &HeaderValue,
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
        headers.insert(X_AUTH_TOKEN, own_token.clone());
        headers.insert(X_SUBJECT_TOKEN, subject.clone());
        self.http
            .current()
            .get(url)
            .headers(headers)
            .send()
            .await
            .map_err(error_text)
    }

    /// The service user's token. `rejected` is a token that a server has rejected: if it is the present one, a new
    /// token is requested.
    pub(crate) async fn service_user_token(
        &self,
        rejected: Option<&HeaderValue>,
    ) -> Result<HeaderValue, String> {
        let requested_at = Instant::now();
        let mut login_state = self.login_state.lock().await;
        if rejected.is_some() && login_state.token.as_ref().map(|token| &token.value) == rejected {
            login_state.token = None;
        }
        let now = Timestamp::now();
        let remaining = login_state
            .token
            .as_ref()
            .map(|token| token.expires_at.duration_since(now));
        let renew_before = jiff::SignedDuration::try_from(RENEW_BEFORE).unwrap_or_default();
        if let Some(token) = &login_state.token
            && remaining > Some(renew_before)
        {
            return Ok(token.value.clone());
        }
        // Callers that waited for the lock during an attempt that failed share its failure, instead
        // of waiting for a time-out each.
        let recent_failure = login_state
            .failure
            .as_ref()
            .filter(|failure| failure.failed_at + failure.pause > requested_at);
        let result = match recent_failure {
            Some(failure) => Err(failure.reason.clone()),
            None => self.log_in().await.map_err(|(pause, reason)| {
                login_state.failure = Some(Failure {
                    failed_at: Instant::now(),
                    pause,
                    reason: reason.clone(),
                });
                reason
            }),
        };
        match (result, &login_state.token) {
            (Ok(token), _) => {
                let value = token.value.clone();
                *login_state = LoginState {
                    token: Some(token),
                    failure: None,
                };
                Ok(value)
            }
            // The token could not be renewed before its expiry, but it is still valid.
            (Err(_), Some(token)) if remaining > Some(jiff::SignedDuration::ZERO) => {
                Ok(token.value.clone())
            }
            (Err(reason), _) => Err(reason),
        }
    }

    /// Requests a new token for the service user. The error has the pause before the next attempt.
    async fn log_in(&self) -> Result<ServiceUserToken, (Duration, String)> {
        self.reread_authorities().await;
        let mut url = self.tokens_url.clone();
        url.set_query(Some("nocatalog"));
        let request = self
            .http
            .current()
            .post(url)
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .body(self.login_body.to_vec());
        let retry_at_once = |reason| (Duration::ZERO, reason);
        let response = request
            .send()
            .await
            .map_err(|error| retry_at_once(error_text(error)))?;
        let status = response.status();
        match status {
            StatusCode::CREATED => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let reason = format!("it refuses the service user's password ({status})");
                return Err((REJECTED_PAUSE, reason));
            }
            _ => {
                return Err(retry_at_once(format!(
                    "it answered {status} to the service user"
                )));
            }
        }
        let value = response.headers().get(X_SUBJECT_TOKEN).cloned();
        let body = read_body(response).await.map_err(retry_at_once)?;
        let expires_at = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|body| body["token"]["expires_at"].as_str()?.parse().ok());
        match (value, expires_at) {
            (Some(mut value), Some(expires_at)) => {
                value.set_sensitive(true);
                Ok(ServiceUserToken { value, expires_at })
            }
            _ => Err(retry_at_once(
                "its answer to the service user is no token".to_owned(),
            )),
        }
    }
}

impl Client {
    /// Reads the file of authorities again if it has changed. In an agent nothing else does this.
    async fn reread_authorities(&self) {
        let http = Arc::clone(&self.http);
        if !http.has_authorities() {
            return;
        }
        let reread = tokio::task::spawn_blocking(move || http.reread_if_changed());
        if let Ok(Err(error)) = reread.await {
            tracing::error!("[keystone] {error}; what was in force before stays");
        }
    }
}

/// The body of the request for the service user's token.
fn login_body(config: &KeystoneConfig, password: &Secret) -> serde_json::Value {
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

fn read_password(config: &KeystoneConfig) -> Result<Secret, SetupError> {
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
    let file_error = |source| SetupError::File {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(file_error)?;
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(file_error)?;
    Ok(bytes)
}

/// Reads the body of a response with data of a token.
async fn read_body(response: Response) -> Result<Vec<u8>, String> {
    read_body_within(response, BODY_BYTES_MAX).await
}

/// Reads the body of a response, which may have at most `bytes_max` bytes.
async fn read_body_within(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(error_text)? {
        if body.len() + chunk.len() > bytes_max {
            return Err("its answer is too large".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error of a failed request with its causes, without the URL.
fn error_text(error: reqwest::Error) -> String {
    chain(&error.without_url())
}
