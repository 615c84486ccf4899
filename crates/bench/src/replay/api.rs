//! A client of the compute API and the placement API, with retries.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use placewright_client::server_url;
use placewright_errors::innermost;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// Arguments that select an installation and authenticate the requests.
#[derive(Debug, Clone, Args)]
pub(crate) struct Access {
    /// The compute API's address
    #[arg(
        long,
        env = "PLACEWRIGHT_COMPUTE_URL",
        default_value = "http://127.0.0.1:8774",
        value_parser = server_url
    )]
    pub(crate) url: String,

    /// The address of the placement API, which shows how full the installation is
    #[arg(
        long,
        env = "PLACEWRIGHT_URL",
        default_value = "http://127.0.0.1:8778",
        value_parser = server_url
    )]
    pub(crate) placement_url: String,

    /// The token to send; `noauth2` accepts `admin`
    #[arg(
        long,
        env = "OS_TOKEN",
        default_value = "admin",
        hide_env_values = true
    )]
    pub(crate) token: String,

    /// One more header, as `Authorization: Basic …` for `http_basic`; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
}

/// The microversion of requests to the compute API: the first in which flavors have their extra specs.
/// It also has paginated listings of hypervisors, and requires networks in requests for servers.
const COMPUTE_VERSION: &str = "compute 2.61";
/// The microversion of requests to the placement API.
const PLACEMENT_VERSION: &str = "placement 1.39";
/// The time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of attempts of a request that got no response, or a temporary error.
const ATTEMPTS_MAX: u32 = 6;
/// The pause before the second attempt; it doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The number of bytes of an error's body that are shown if its form is unknown.
const BODY_BYTES_SHOWN: usize = 300;

/// One of the two APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Compute,
    Placement,
}

/// A client of both APIs, with connections that are reused.
#[derive(Debug)]
pub(crate) struct Api {
    http: reqwest::Client,
    /// The base URL of the compute API, which ends in `/v2.1`.
    compute: String,
    /// The base URL of the placement API.
    placement: String,
}

/// Why a request did not succeed.
#[derive(Debug, Clone, Error)]
pub(crate) enum CallError {
    /// There was no response; the request may have taken effect.
    #[error("no answer from {url}: {reason}")]
    NoAnswer { url: String, reason: String },
    /// The response is an error.
    #[error("{status}: {reason}")]
    Refused { status: StatusCode, reason: String },
    /// The response does not have the form that the API's reference describes.
    #[error("the answer of {url} is not understood: {reason}")]
    NotUnderstood { url: String, reason: String },
}

impl CallError {
    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}

/// A successful response. Its body is bytes until it is decoded.
#[derive(Debug)]
pub(crate) struct Response<T> {
    pub(crate) body: T,
    /// The server's time, from the `Date` header.
    pub(crate) date: Option<Timestamp>,
}

impl Api {
    /// Creates a client for these addresses.
    ///
    /// # Errors
    ///
    /// A header or the token cannot be sent.
    pub(crate) fn new(access: &Access, connections: usize) -> anyhow::Result<Self> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // An error means that another thread has just installed a provider, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut headers = HeaderMap::new();
        let token = HeaderValue::from_str(&access.token).context("--token")?;
        headers.insert("x-auth-token", token);
        headers.insert("accept", HeaderValue::from_static("application/json"));
        for header in &access.headers {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("--header {header:?}: write it as \"Name: value\""))?;
            let name = HeaderName::from_bytes(name.trim().as_bytes());
            let value = HeaderValue::from_str(value.trim());
            headers.insert(
                name.with_context(|| format!("--header {header:?}: the name"))?,
                value.with_context(|| format!("--header {header:?}: the value"))?,
            );
        }
        let http = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            .pool_max_idle_per_host(connections)
            .default_headers(headers)
            .build()?;
        let compute = access.url.trim_end_matches('/');
        let compute = compute.trim_end_matches("/v2.1");
        Ok(Self {
            http,
            compute: format!("{compute}/v2.1"),
            placement: access.placement_url.trim_end_matches('/').to_owned(),
        })
    }

    /// Sends a GET request, and decodes the response.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
    ) -> Result<Response<T>, CallError> {
        let response = self
            .send_with_retries(service, Method::GET, path, None)
            .await?;
        self.decode(service, path, response)
    }

    /// Sends a POST request with a body of JSON to the compute API, and decodes the response.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<T, CallError> {
        let service = Service::Compute;
        let response = self
            .send_with_retries(service, Method::POST, path, Some(body))
            .await?;
        Ok(self.decode(service, path, response)?.body)
    }

    /// Sends a DELETE request to the compute API; a missing object is not an error.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), CallError> {
        let result = self.send_with_retries(Service::Compute, Method::DELETE, path, None);
        match result.await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn url(&self, service: Service, path: &str) -> String {
        match service {
            Service::Compute => format!("{}{path}", self.compute),
            Service::Placement => format!("{}{path}", self.placement),
        }
    }

    fn decode<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
        response: Response<Vec<u8>>,
    ) -> Result<Response<T>, CallError> {
        match serde_json::from_slice(&response.body) {
            Ok(body) => Ok(Response {
                body,
                date: response.date,
            }),
            Err(error) => Err(CallError::NotUnderstood {
                url: self.url(service, path),
                reason: error.to_string(),
            }),
        }
    }

    /// Sends a request, and sends it again as long as [`Api::send_once`] says that this may help.
    async fn send_with_retries(
        &self,
        service: Service,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let mut pause = FIRST_PAUSE;
        let mut attempts = 1;
        loop {
            let result = self.send_once(service, &method, path, body.clone()).await;
            let (error, may_retry) = match result {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if !may_retry || attempts == ATTEMPTS_MAX {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            attempts += 1;
        }
    }

    /// Sends a request once. With an error it returns whether to send the request again: if there was no response, only
    /// if that is safe; after an error that is temporary (429 and 503), in any case.
    async fn send_once(
        &self,
        service: Service,
        method: &Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Response<Vec<u8>>, (CallError, bool)> {
        let url = self.url(service, path);
        let version = match service {
            Service::Compute => COMPUTE_VERSION,
            Service::Placement => PLACEMENT_VERSION,
        };
        let mut request = self
            .http
            .request(method.clone(), &url)
            .header("openstack-api-version", version);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        let is_idempotent = *method != Method::POST;
        let no_response = |error: reqwest::Error| {
            let is_safe = is_idempotent || error.is_connect();
            let reason = innermost(&error);
            let url = url.clone();
            (CallError::NoAnswer { url, reason }, is_safe)
        };
        let response = request.send().await.map_err(no_response)?;
        let status = response.status();
        let date = response.headers().get("date").and_then(read_date);
        let body = response.bytes().await.map_err(no_response)?.to_vec();
        if status.is_success() {
            return Ok(Response { body, date });
        }
        let is_temporary =
            status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS;
        let reason = error_reason(&body);
        Err((CallError::Refused { status, reason }, is_temporary))
    }
}

/// The time in a `Date` header; `None` if the header is not valid.
fn read_date(value: &HeaderValue) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(value.to_str().ok()?).ok()?;
    Some(date.timestamp())
}

/// The reason in an error's body, in the form of either API; if there is none, the beginning of the body.
fn error_reason(body: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let message = json.as_ref().and_then(|json| {
        let placement_detail = json.pointer("/errors/0/detail");
        let compute_message = || json.as_object()?.values().next()?.get("message");
        placement_detail.or_else(compute_message)?.as_str()
    });
    match message {
        Some(message) => message.trim().to_owned(),
        None => {
            let beginning = &body[..body.len().min(BODY_BYTES_SHOWN)];
            String::from_utf8_lossy(beginning).into_owned()
        }
    }
}
