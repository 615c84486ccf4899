//! A service user that authenticates to other services with tokens.

use reqwest::header::HeaderValue;
use thiserror::Error;

use crate::config::KeystoneConfig;
use crate::error::SetupError;
use crate::keystone::client::Client;

/// The service user of a Keystone. It logs in when its first token is requested, and renews its token
/// before it expires.
pub struct ServiceUser {
    client: Client,
}

/// No token could be obtained, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Keystone gives no token: {0}")]
pub struct TokenError(String);

impl std::fmt::Debug for ServiceUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServiceUser")
            .finish_non_exhaustive()
    }
}

impl ServiceUser {
    /// The service user of a configuration. Does not contact Keystone yet.
    ///
    /// # Errors
    /// An option is missing or wrong, or a file that it names cannot be used.
    pub fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
        Ok(Self {
            client: Client::new(config)?,
        })
    }

    /// A token for the header `X-Auth-Token`. `rejected` is a token that a service has rejected: if it is the
    /// present one, a new token is requested.
    /// All callers share one token and one request for it.
    ///
    /// # Errors
    /// Keystone cannot be reached, or rejects the password.
    pub async fn token(&self, rejected: Option<&HeaderValue>) -> Result<HeaderValue, TokenError> {
        self.client
            .service_user_token(rejected)
            .await
            .map_err(TokenError)
    }
}
