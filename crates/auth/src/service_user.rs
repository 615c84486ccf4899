//! A service user as a caller of others: the tokens that it shows.

use reqwest::header::HeaderValue;
use thiserror::Error;

use crate::config::KeystoneConfig;
use crate::error::SetupError;
use crate::keystone::client::Client;

/// The service user of a Keystone. It logs in when its first token is wanted, and again in time.
pub struct ServiceUser {
    client: Client,
}

/// There is no token; the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Keystone gives no token: {0}")]
pub struct NoToken(String);

impl std::fmt::Debug for ServiceUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServiceUser")
            .finish_non_exhaustive()
    }
}

impl ServiceUser {
    /// The service user of a configuration. Does not talk to Keystone yet.
    ///
    /// # Errors
    /// An option is missing or wrong, or a file that it names is.
    pub fn new(config: &KeystoneConfig) -> Result<Self, SetupError> {
        Ok(Self {
            client: Client::new(config)?,
        })
    }

    /// A token for the header `X-Auth-Token`; another one than `refused`, which somebody did not
    /// take. Callers share one token, and one question to Keystone.
    ///
    /// # Errors
    /// Keystone cannot be reached, or does not take the password.
    pub async fn token(&self, refused: Option<&HeaderValue>) -> Result<HeaderValue, NoToken> {
        self.client.own_token(refused).await.map_err(NoToken)
    }
}
