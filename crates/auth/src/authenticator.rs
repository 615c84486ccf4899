//! The entry point for all authentication strategies.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::config::{AuthConfig, LimitsConfig, Strategy};
use crate::error::{AuthError, SetupError};
use crate::headers::Headers;
use crate::http_basic::HttpBasic;
use crate::identity::Identity;
use crate::keystone::Keystone;
use crate::noauth2;
use crate::own_tokens::{OwnTokens, TokenCheck};
use crate::source::{self, Source};

/// Authenticates requests. One value is shared by all requests.
pub struct Authenticator {
    state: StrategyState,
    limits: LimitsConfig,
}

/// The configured strategy with its state.
enum StrategyState {
    Noauth2,
    HttpBasic(Box<HttpBasic>),
    Keystone(Box<Keystone>),
    Identity(OwnTokens),
}

impl Authenticator {
    /// Sets up the configured strategy. Reads the password file, but does not contact Keystone.
    ///
    /// # Errors
    /// When an option is missing or wrong, or a file cannot be read or used.
    pub fn new(config: &AuthConfig) -> Result<Self, SetupError> {
        let mut limits = config.limits.clone();
        for proxy in &mut limits.proxies {
            *proxy = proxy.to_canonical();
        }
        let state = match config.strategy {
            Strategy::Noauth2 => StrategyState::Noauth2,
            Strategy::HttpBasic => {
                StrategyState::HttpBasic(Box::new(HttpBasic::new(&config.http_basic, &limits)?))
            }
            Strategy::Keystone => {
                StrategyState::Keystone(Box::new(Keystone::new(&config.keystone, &limits)?))
            }
            Strategy::Identity => StrategyState::Identity(OwnTokens::default()),
        };
        Ok(Self { state, limits })
    }

    /// Settings that are valid but probably unintended, one sentence each.
    pub fn warnings(&self) -> &[String] {
        match &self.state {
            StrategyState::HttpBasic(basic) => basic.warnings(),
            StrategyState::Noauth2 | StrategyState::Keystone(_) | StrategyState::Identity(_) => &[],
        }
    }

    /// Sets the issuer that checks the installation's own tokens, for [`Strategy::Identity`]; other strategies ignore
    /// it.
    pub fn set_token_check(&self, check: Arc<dyn TokenCheck>) {
        if let StrategyState::Identity(tokens) = &self.state {
            tokens.set(check);
        }
    }

    /// The address of the client. If the peer is a trusted proxy, it is the address that the proxy names. `None` if
    /// there is no peer, or if the proxy sends no `X-Forwarded-For`.
    pub fn client_address<H>(&self, headers: &H, peer: Option<IpAddr>) -> Option<IpAddr>
    where
        H: Headers + ?Sized,
    {
        source::address(peer, &self.limits.proxies, headers)
    }

    /// The strategy in the configuration.
    pub fn strategy(&self) -> Strategy {
        match self.state {
            StrategyState::Noauth2 => Strategy::Noauth2,
            StrategyState::HttpBasic(_) => Strategy::HttpBasic,
            StrategyState::Keystone(_) => Strategy::Keystone,
            StrategyState::Identity(_) => Strategy::Identity,
        }
    }

    /// Whether claims are accepted without a check, so that the service should listen on loopback only.
    pub fn requires_loopback(&self) -> bool {
        self.strategy().requires_loopback()
    }

    /// Reads the strategy's file again (passwords, or authorities of Keystone's certificate), even if
    /// it seems unchanged. If the file is not valid, the previous contents stay in use. Blocks.
    ///
    /// # Errors
    /// When the file cannot be read or used; the message names the line.
    pub fn reread(&self) -> Result<(), SetupError> {
        match &self.state {
            StrategyState::HttpBasic(basic) => basic.reread(),
            StrategyState::Keystone(keystone) => keystone.http().reread(),
            StrategyState::Noauth2 | StrategyState::Identity(_) => Ok(()),
        }
    }

    /// Whether there is a file with authorities of Keystone's certificate.
    pub fn has_authorities(&self) -> bool {
        match &self.state {
            StrategyState::Keystone(keystone) => keystone.http().has_authorities(),
            StrategyState::Noauth2 | StrategyState::HttpBasic(_) | StrategyState::Identity(_) => {
                false
            }
        }
    }

    /// Reads the authorities of Keystone's certificate again if their file has changed. A changed file is read once it
    /// was the same in two calls, because until then it may still be written to. Blocks.
    ///
    /// # Errors
    /// As [`reread`](Self::reread).
    pub fn reread_authorities_if_changed(&self) -> Result<(), SetupError> {
        match &self.state {
            StrategyState::Keystone(keystone) => keystone.http().reread_if_settled(),
            StrategyState::Noauth2 | StrategyState::HttpBasic(_) | StrategyState::Identity(_) => {
                Ok(())
            }
        }
    }

    /// Authenticates a request by its headers and its address. `http_basic` and `keystone` limit wrong credentials for
    /// each address; all requests without an address count as those of a single address.
    ///
    /// `noauth2` never waits. If the credentials are cached, `keystone` does not wait, and `http_basic` waits at most
    /// for a check of its file for changes. Otherwise `http_basic` waits for a slow hash on another thread, and
    /// `keystone` for Keystone. `identity` may wait until this process's state is up to date.
    ///
    /// # Errors
    /// [`AuthError::Unauthorized`] for missing or wrong credentials, [`AuthError::Unavailable`] when they cannot be
    /// checked now, [`AuthError::TooMany`] when too many from that address were wrong or wait to be checked,
    /// [`AuthError::TooLarge`] when the headers exceed a limit.
    pub async fn authenticate<H>(
        &self,
        headers: &H,
        peer: Option<IpAddr>,
    ) -> Result<Arc<Identity>, AuthError>
    where
        H: Headers + Sync + ?Sized,
    {
        let source = || Source::of(source::address(peer, &self.limits.proxies, headers));
        match &self.state {
            StrategyState::Noauth2 => {
                noauth2::authenticate(headers, self.limits.roles_max).map(Arc::new)
            }
            StrategyState::HttpBasic(basic) => basic.authenticate(headers, source()).await,
            StrategyState::Keystone(keystone) => keystone.authenticate(headers, source()).await,
            StrategyState::Identity(tokens) => tokens.authenticate(headers).await,
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authenticator")
            .field(&self.strategy())
            .finish()
    }
}
