//! An HTTP client for placement, and the interpretation of its responses.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use placewright_auth::ServiceUser;
use placewright_errors::chain;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Options, PlacementError};

/// The microversion of all requests. Its responses contain generations, and error codes for
/// conflicts.
const MICROVERSION: &str = "placement 1.39";

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// How requests are authenticated. `Debug` shows none of it.
#[derive(Clone)]
pub enum Credentials {
    /// A fixed token, for the header `X-Auth-Token`.
    Token(String),
    /// A user name and a password, for HTTP basic authentication.
    Password(String, String),
    /// Tokens that Keystone issues to a service user.
    Service(Arc<ServiceUser>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(hidden)")
    }
}

/// A client of placement's REST API that counts its requests.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    url: String,
    requests: AtomicU64,
    writes: AtomicU64,
    credentials: Credentials,
}

/// A response of placement, and the request that it belongs to.
pub(super) struct PlacementResponse {
    /// The method and path of the request.
    request: String,
    status: StatusCode,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn new(options: &Options) -> Result<Self, PlacementError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // This fails only if another crypto provider was installed concurrently, which serves equally well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let bad_options = |why: String| PlacementError::BadOptions {
            url: options.url.clone(),
            why,
        };
        let mut headers = HeaderMap::new();
        let version = HeaderName::from_static("openstack-api-version");
        headers.insert(version, HeaderValue::from_static(MICROVERSION));
        headers.insert("accept", HeaderValue::from_static("application/json"));
        if let Credentials::Token(token) = &options.credentials {
            let mut value =
                HeaderValue::from_str(token).map_err(|error| bad_options(error.to_string()))?;
            value.set_sensitive(true);
            headers.insert(X_AUTH_TOKEN, value);
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .timeout(options.timeout)
            // Neither a proxy from the environment nor a redirect target may see tokens.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(options.connections.max(1))
            .build()
            .map_err(|error| bad_options(error.to_string()))?;
        let url = options.url.trim_end_matches('/').to_owned();
        reqwest::Url::parse(&url).map_err(|error| bad_options(error.to_string()))?;
        Ok(Self {
            http,
            url,
            requests: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            credentials: options.credentials.clone(),
        })
    }

    /// The number of requests so far, and of writes among them.
    pub(super) fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.requests), read(&self.writes))
    }

    pub(super) async fn get(&self, path: &str) -> Result<PlacementResponse, PlacementError> {
        self.send(Method::GET, path, None::<&()>).await
    }

    pub(super) async fn put(
        &self,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<PlacementResponse, PlacementError> {
        self.send(Method::PUT, path, body).await
    }

    pub(super) async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<PlacementResponse, PlacementError> {
        self.send(Method::POST, path, Some(body)).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<PlacementResponse, PlacementError> {
        let method_and_path = format!("{method} {path}");
        self.requests.fetch_add(1, Ordering::Relaxed);
        if method != Method::GET {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        let mut refused_token = None;
        loop {
            let mut request = self
                .http
                .request(method.clone(), format!("{}{path}", self.url));
            let mut sent_token = None;
            match &self.credentials {
                // The token is among the default headers.
                Credentials::Token(_) => {}
                Credentials::Password(user, password) => {
                    request = request.basic_auth(user, Some(password));
                }
                Credentials::Service(user) => {
                    let token = user.token(refused_token.as_ref()).await;
                    let token =
                        token.map_err(|error| PlacementError::Unreachable(error.to_string()))?;
                    request = request.header(X_AUTH_TOKEN, token.clone());
                    sent_token = Some(token);
                }
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let unreachable = |error: reqwest::Error| PlacementError::Unreachable(chain(&error));
            let response = request.send().await.map_err(unreachable)?;
            let status = response.status();
            // A token can be revoked at any time: the request is retried once with a new token.
            if status == StatusCode::UNAUTHORIZED && refused_token.is_none() && sent_token.is_some()
            {
                refused_token = sent_token;
                continue;
            }
            let body = response.bytes().await.map_err(unreachable)?.to_vec();
            return Ok(PlacementResponse {
                request: method_and_path,
                status,
                body,
            });
        }
    }
}

impl PlacementResponse {
    pub(super) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Whether this is a generation conflict, which a retry with fresh data can resolve.
    pub(super) fn is_concurrent_update(&self) -> bool {
        self.status == StatusCode::CONFLICT && self.has_code("placement.concurrent_update")
    }

    /// Whether this is any conflict: of generations, of names, or with what exists.
    pub(super) fn is_conflict(&self) -> bool {
        self.status == StatusCode::CONFLICT
    }

    fn has_code(&self, code: &str) -> bool {
        let json: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let found = json
            .as_ref()
            .and_then(|json| json.pointer("/errors/0/code"));
        found.and_then(serde_json::Value::as_str) == Some(code)
    }

    /// An error unless the response is a success.
    pub(super) fn check(self) -> Result<(), PlacementError> {
        if self.status.is_success() {
            return Ok(());
        }
        if self.is_concurrent_update() {
            return Err(PlacementError::Conflict(self.request));
        }
        // Placement may recover from a server error, as from a lost connection, so it counts as unreachable.
        if self.status.is_server_error() {
            let why = self.why();
            return Err(PlacementError::Unreachable(format!(
                "{}: {}",
                self.status, why
            )));
        }
        Err(PlacementError::Refused {
            status: self.status.as_u16(),
            why: self.why(),
            request: self.request,
        })
    }

    /// Decodes the body of a successful response.
    pub(super) fn decode<T: DeserializeOwned>(self) -> Result<T, PlacementError> {
        if !self.status.is_success() {
            let request = self.request.clone();
            // `check` returns an error for every status that is no success, so the line after it is never reached; the
            // compiler needs it.
            self.check()?;
            return Err(PlacementError::Unreachable(request));
        }
        serde_json::from_slice(&self.body).map_err(|error| PlacementError::Refused {
            request: self.request,
            status: self.status.as_u16(),
            why: format!("its answer cannot be read: {error}"),
        })
    }

    /// The detail of an error response, without the sentence that all responses of that status begin
    /// with.
    fn why(&self) -> String {
        let json: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let detail = json
            .as_ref()
            .and_then(|json| json.pointer("/errors/0/detail"));
        let detail = detail.and_then(serde_json::Value::as_str);
        let Some(detail) = detail else {
            let text = String::from_utf8_lossy(&self.body);
            return text.chars().take(REASON_LENGTH_MAX).collect();
        };
        let reason = detail
            .rsplit_once("\n\n")
            .map_or(detail, |(_, reason)| reason);
        reason.trim().chars().take(REASON_LENGTH_MAX).collect()
    }
}

/// The maximum length in characters of a reason; the rest is cut off.
const REASON_LENGTH_MAX: usize = 500;
