//! Requests to Keystone for resources other than tokens.

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::{Client, X_AUTH_TOKEN, error_text, read_body_within};

/// The maximum size of a list in bytes.
const LIST_BYTES_MAX: usize = 64 << 20;
/// The path of tokens below `/v3`.
const TOKENS_PATH: &str = "/auth/tokens";

impl Client {
    /// Reads a resource below `/v3`, with the service user's token.
    ///
    /// # Errors
    ///
    /// The reason why the resource could not be read, as a text.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let mut url = self.url_below_v3(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut own_token = self.service_user_token(None).await?;
        for is_retry in [false, true] {
            let mut headers = HeaderMap::new();
            headers.insert(X_AUTH_TOKEN, own_token.clone());
            let request = self.http.current().get(url.clone()).headers(headers);
            let response = request.send().await.map_err(error_text)?;
            match response.status() {
                StatusCode::OK => {
                    let bytes = read_body_within(response, LIST_BYTES_MAX).await?;
                    let value = serde_json::from_slice(&bytes);
                    return value.map_err(|_| format!("its answer to {path} is no JSON"));
                }
                StatusCode::UNAUTHORIZED if !is_retry => {
                    own_token = self.service_user_token(Some(&own_token)).await?;
                }
                StatusCode::UNAUTHORIZED => break,
                status => return Err(format!("it answered {status} to {path}")),
            }
        }
        Err("it refuses every token of the service user".to_owned())
    }

    fn url_below_v3(&self, path: &str) -> Url {
        let mut url = self.tokens_url.clone();
        let base = url.path().trim_end_matches(TOKENS_PATH).to_owned();
        url.set_path(&format!("{base}{path}"));
        url
    }
}
