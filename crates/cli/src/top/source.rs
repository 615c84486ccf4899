//! The service from which all figures come: the listener of control's page, and the APIs that it reaches.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;

use crate::client::reason_of;
use crate::credentials::Credentials;

/// How long a connection may take to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may be silent. The stream of hosts (of server-sent events) has a comment every five seconds if it
/// has nothing else.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// The service, and the credentials of the caller.
pub(super) struct Source {
    url: String,
    credentials: Credentials,
    http: Client,
    /// The headers with the credentials, once the caller has signed in.
    headers: RefCell<Option<HeaderMap>>,
}

/// The service answered, but with another status than success.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    url: String,
    reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            url,
            reason,
        } = self;
        write!(formatter, "{url} answered {status}: {reason}")
    }
}

impl std::error::Error for Refused {}

impl Source {
    /// The service at an address, for this caller. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// TLS cannot be set up.
    pub(super) fn new(url: &str, credentials: Credentials) -> anyhow::Result<Self> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // The installation fails only if another provider was installed meanwhile, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // A server to which a redirect leads must not see the credentials.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            credentials,
            http,
            headers: RefCell::new(None),
        })
    }

    /// Sends a GET to a path below `/ui/api/`. A token that has expired is replaced once.
    ///
    /// # Errors
    ///
    /// There is no answer, or it is a [`Refused`].
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Response> {
        let had_token = self.headers.borrow().is_some();
        let response = self.send(path).await?;
        if had_token && response.status() == StatusCode::UNAUTHORIZED {
            self.headers.replace(None);
            return succeeded(self.send(path).await?).await;
        }
        succeeded(response).await
    }

    /// The JSON at a path.
    ///
    /// # Errors
    ///
    /// As [`Self::get`]; or the answer is no JSON.
    pub(super) async fn get_json(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.get(path).await?;
        let url = response.url().clone();
        let text = response.text().await;
        let text = text.with_context(|| format!("the answer of {url} broke off"))?;
        serde_json::from_str(&text).with_context(|| format!("the answer of {url} is no JSON"))
    }

    async fn send(&self, path: &str) -> anyhow::Result<Response> {
        let url = format!("{}/ui/api/{path}", self.url);
        let cached = self.headers.borrow().clone();
        let headers = match cached {
            Some(headers) => headers,
            None => {
                let request = self.credentials.add_to(self.http.get(&url)).await?;
                let headers = request.build()?.headers().clone();
                self.headers.replace(Some(headers.clone()));
                headers
            }
        };
        let request = self.http.get(&url).headers(headers);
        // The microversion for paths of the compute API; the other services ignore it.
        let request = request.header("openstack-api-version", "compute 2.96");
        let sent = request.header("accept", "*/*").send().await;
        sent.with_context(|| format!("no answer from {}", self.url))
    }
}

/// A response that is a success, or the reason why it is none.
async fn succeeded(response: Response) -> anyhow::Result<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let url = response.url().to_string();
    let text = response.text().await.unwrap_or_default();
    let reason = reason_of(&text);
    Err(Refused {
        status,
        url,
        reason,
    }
    .into())
}
