//! Questions to Keystone other than those about tokens.

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::{Client, X_AUTH_TOKEN, body_within, reason};

/// The maximum size of a list in bytes.
const LIST_BYTES_MAX: usize = 64 << 20;
/// What the URL of tokens ends with.
const TOKENS: &str = "/auth/tokens";

impl Client {
    /// Reads a resource below `/v3`, with the service user's token.
    ///
    /// # Errors
    ///
    /// Why there is no answer, as a text.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let mut url = self.below_v3(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut own = self.own_token(None).await?;
        for retry in [false, true] {
            let mut headers = HeaderMap::new();
            headers.insert(X_AUTH_TOKEN, own.clone());
            let request = self.http.current().get(url.clone()).headers(headers);
            let response = request.send().await.map_err(reason)?;
            match response.status() {
                StatusCode::OK => {
                    let bytes = body_within(response, LIST_BYTES_MAX).await?;
                    let value = serde_json::from_slice(&bytes);
                    return value.map_err(|_| format!("its answer to {path} is no JSON"));
                }
                StatusCode::UNAUTHORIZED if !retry => own = self.own_token(Some(&own)).await?,
                status => return Err(format!("it answered {status} to {path}")),
            }
        }
        Err("it refuses every token of the service user".to_owned())
    }

    fn below_v3(&self, path: &str) -> Url {
        let mut url = self.tokens_url.clone();
        let base = url.path().trim_end_matches(TOKENS).to_owned();
        url.set_path(&format!("{base}{path}"));
        url
    }
}
