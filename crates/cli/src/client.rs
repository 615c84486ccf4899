//! A client of a running server, for commands that show its responses.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use placewright_client::server_url;
use serde_json::Value;

use crate::credentials::Credentials;

/// Arguments that select a server and authenticate the request.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// The address of the API to which the request is sent
    #[arg(
        long,
        env = "PLACEWRIGHT_URL",
        default_value = "http://127.0.0.1:8778",
        value_parser = server_url
    )]
    url: String,

    #[command(flatten)]
    credentials: Credentials,

    /// The microversion of the request
    #[arg(long, value_name = "1.N", default_value = "1.39")]
    microversion: String,
}

/// The time-out of a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The microversion of requests to the compute API. Its responses show the host and the details of each event of a
/// server action.
const COMPUTE_VERSION: &str = "compute 2.96";

impl Client {
    /// Reads the JSON at a path.
    ///
    /// # Errors
    ///
    /// The reason why there is no response, or why the response is no success.
    pub(crate) fn get(&self, path_and_query: &str) -> anyhow::Result<Value> {
        self.send_with_placement_version(reqwest::Method::GET, &self.url_of(path_and_query), None)
    }

    /// Reads the JSON at a path of another server than the one that the arguments select.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(crate) fn get_from(&self, url: &str, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}{path}", url.trim_end_matches('/'));
        self.send_with_placement_version(reqwest::Method::GET, &url, None)
    }

    /// Reads the JSON at a path of the compute API, in the newest microversion that commands need.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(crate) fn get_from_compute(&self, url: &str, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}/v2.1{path}", url.trim_end_matches('/'));
        let version = COMPUTE_VERSION.to_owned();
        self.send_with_version(reqwest::Method::GET, &url, None, version)
    }

    /// Sends a POST without a body, and returns the JSON of the response.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(crate) fn post(&self, path_and_query: &str) -> anyhow::Result<Value> {
        self.send_with_placement_version(reqwest::Method::POST, &self.url_of(path_and_query), None)
    }

    /// Sends a POST with a body to any server, and returns the JSON of the response.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub(crate) fn post_json(&self, url: &str, body: &Value) -> anyhow::Result<Value> {
        self.send_with_placement_version(reqwest::Method::POST, url, Some(body))
    }

    fn url_of(&self, path_and_query: &str) -> String {
        format!("{}{path_and_query}", self.url.trim_end_matches('/'))
    }

    /// Sends a request in the microversion of the Placement API that the arguments select, and waits for the JSON of
    /// the response.
    fn send_with_placement_version(
        &self,
        method: reqwest::Method,
        url: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let version = format!("placement {}", self.microversion);
        self.send_with_version(method, url, body, version)
    }

    /// Sends a request with `version` in its header `OpenStack-API-Version`, and waits for the JSON of the response.
    fn send_with_version(
        &self,
        method: reqwest::Method,
        url: &str,
        body: Option<&Value>,
        version: String,
    ) -> anyhow::Result<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.send(method, url, body, version))
    }

    async fn send(
        &self,
        method: reqwest::Method,
        url: &str,
        body: Option<&Value>,
        version: String,
    ) -> anyhow::Result<Value> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // The installation fails only if another thread installed a provider meanwhile, which can be used as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut request = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            // A server to which a redirect leads must not see the credentials.
            .redirect(reqwest::redirect::Policy::none())
            .build()?
            .request(method, url)
            .header("openstack-api-version", version)
            .header("accept", "application/json");
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = self
            .credentials
            .add_to(request)
            .await?
            .send()
            .await
            .with_context(|| format!("no answer from {url}"))?;
        let status = response.status();
        let text = response.text().await?;
        if !status.is_success() {
            let reason = reason_of(&text);
            let hint = if status == reqwest::StatusCode::UNAUTHORIZED {
                "; --cloud, --token or --user says who asks"
            } else {
                ""
            };
            bail!("the server answered {status}: {reason}{hint}");
        }
        serde_json::from_str(&text).map_err(|_| anyhow!("the server's answer is no JSON"))
    }
}

/// The reason in the body of an error of any of the APIs, or the whole body if it is in none of their forms.
pub(crate) fn reason_of(body: &str) -> String {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let reason = json.as_ref().and_then(error_reason);
    reason.unwrap_or(body).trim().to_owned()
}

/// The reason in the body of an error of any of the APIs; `None` if the body is in none of their forms.
fn error_reason(body: &Value) -> Option<&str> {
    // The Placement API answers with a list of errors. The other APIs answer with an object that has the message, or
    // with an object of one field, whose value has the message.
    let first = body.as_object().and_then(|object| object.values().next());
    let text = body
        .pointer("/errors/0/detail")
        .or_else(|| body.get("message"))
        .or_else(|| first?.get("message"))?
        .as_str()?;
    // The Placement API writes the phrase that all errors of a status share, an empty line, and then the reason.
    let reason = text.rsplit_once("\n\n").map_or(text, |(_, reason)| reason);
    // In a 401 of the Placement API the tags `<br /><br />` are in place of the empty line, and empty lines follow the
    // reason, so that nothing is left after the last of them. Then the reason is what follows the tags. If nothing
    // follows them either, the phrase says everything.
    Some(match reason.trim() {
        "" => {
            let (phrase, detail) = text.split_once("<br /><br />").unwrap_or((text, ""));
            let detail = Some(detail.trim()).filter(|detail| !detail.is_empty());
            detail.unwrap_or(phrase.trim())
        }
        reason => reason,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_of_an_error_is_found_in_the_forms_of_all_apis() {
        let detail = "The resource could not be found.\n\n There is none.  ";
        for body in [
            json!({"errors": [{"status": 404, "title": "Not Found", "detail": detail}]}),
            json!({"code": "404 Not Found", "title": "Not Found", "message": "There is none."}),
            json!({"itemNotFound": {"code": 404, "message": "There is none."}}),
            json!({"error": {"code": 404, "title": "Not Found", "message": "There is none."}}),
        ] {
            assert_eq!(error_reason(&body), Some("There is none."), "{body}");
        }
        assert_eq!(
            reason_of(r#"{"message":"There is none."}"#),
            "There is none."
        );
        assert_eq!(reason_of("<html>from a proxy\n"), "<html>from a proxy");
        let without_reason = json!({"message": "Who are you?\n\n\n\n\n"});
        assert_eq!(error_reason(&without_reason), Some("Who are you?"));
        let with_html = json!({"message": "Who are you?<br /><br />\n\n\n"});
        assert_eq!(error_reason(&with_html), Some("Who are you?"));
        let with_html = json!({"message": "Who are you?<br /><br />\nThe token has expired.\n\n"});
        assert_eq!(error_reason(&with_html), Some("The token has expired."));
        for body in [json!({}), json!([]), json!({"hosts": 3}), json!(null)] {
            assert_eq!(error_reason(&body), None, "{body}");
        }
    }
}
