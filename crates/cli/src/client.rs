//! A client of a running server, for commands that show its responses.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use placewright_client::server_url;
use serde_json::Value;

/// Arguments that select a server and authenticate the request.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// The server's address
    #[arg(
        long,
        env = "PLACEWRIGHT_URL",
        default_value = "http://127.0.0.1:8778",
        value_parser = server_url
    )]
    url: String,

    /// The token to show; `noauth2` takes `admin`
    #[arg(
        long,
        env = "OS_TOKEN",
        default_value = "admin",
        hide_env_values = true
    )]
    token: String,

    /// One more header, as `Authorization: Basic …` for `http_basic`; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// The microversion of the question
    #[arg(long, value_name = "1.N", default_value = "1.39")]
    microversion: String,
}

/// The time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    /// Reads the JSON at a path.
    ///
    /// # Errors
    ///
    /// There is no response, or not a success; with the reason.
    pub(crate) fn get(&self, path_and_query: &str) -> anyhow::Result<Value> {
        self.run(reqwest::Method::GET, path_and_query)
    }

    /// Sends a POST without a body, and returns the JSON of the response.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(crate) fn post(&self, path_and_query: &str) -> anyhow::Result<Value> {
        self.run(reqwest::Method::POST, path_and_query)
    }

    fn run(&self, method: reqwest::Method, path_and_query: &str) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.send(method, path_and_query))
    }

    async fn send(&self, method: reqwest::Method, path_and_query: &str) -> anyhow::Result<Value> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // It fails only if another provider was installed meanwhile, which can be used as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let url = format!("{}{path_and_query}", self.url.trim_end_matches('/'));
        let mut request = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            // No other server may see the token.
            .redirect(reqwest::redirect::Policy::none())
            .build()?
            .request(method, &url)
            .header("x-auth-token", &self.token)
            .header(
                "openstack-api-version",
                format!("placement {}", self.microversion),
            )
            .header("accept", "application/json");
        for header in &self.headers {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("--header {header:?}: write it as \"Name: value\""))?;
            request = request.header(name.trim(), value.trim());
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("no answer from {url}"))?;
        let status = response.status();
        let text = response.text().await?;
        let json: Option<Value> = serde_json::from_str(&text).ok();
        if !status.is_success() {
            bail!(
                "the server answered {status}: {}",
                json.as_ref().and_then(detail).unwrap_or(&text)
            );
        }
        json.ok_or_else(|| anyhow!("the server's answer is no JSON"))
    }
}

/// The detail of an error of the Placement API, without the phrase that all errors of its status
/// share.
fn detail(error: &Value) -> Option<&str> {
    let detail = error
        .pointer("/errors/0/detail")
        .or_else(|| error.get("message"))?
        .as_str()?;
    Some(
        detail
            .rsplit_once("\n\n")
            .map_or(detail, |(_, reason)| reason)
            .trim(),
    )
}
