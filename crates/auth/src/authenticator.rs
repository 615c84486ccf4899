//! The common entry point of the three authentication strategies.

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
use crate::source::{self, Source};

/// Authenticates requests. One value is shared by all requests.
pub struct Authenticator {
    kind: Kind,
    limits: LimitsConfig,
}

enum Kind {
    Noauth2,
    HttpBasic(Box<HttpBasic>),
    Keystone(Box<Keystone>),
}

impl Authenticator {
    /// Sets up the configured strategy. Reads the password files; does not talk to Keystone.
    ///
    /// # Errors
    /// When an option is missing or wrong, or a file cannot be read or used.
    pub fn new(config: &AuthConfig) -> Result<Self, SetupError> {
        let mut limits = config.limits.clone();
        for proxy in &mut limits.proxies {
            *proxy = proxy.to_canonical();
        }
        let kind = match config.strategy {
            Strategy::Noauth2 => Kind::Noauth2,
            Strategy::HttpBasic => {
                Kind::HttpBasic(Box::new(HttpBasic::new(&config.http_basic, &limits)?))
            }
            Strategy::Keystone => {
                Kind::Keystone(Box::new(Keystone::new(&config.keystone, &limits)?))
            }
        };
        Ok(Self { kind, limits })
    }

    /// Settings that are valid but probably unintended, one sentence each.
    pub fn warnings(&self) -> &[String] {
        match &self.kind {
            Kind::HttpBasic(basic) => basic.warnings(),
            Kind::Noauth2 | Kind::Keystone(_) => &[],
        }
    }

    /// The strategy in the configuration.
    pub fn strategy(&self) -> Strategy {
        match self.kind {
            Kind::Noauth2 => Strategy::Noauth2,
            Kind::HttpBasic(_) => Strategy::HttpBasic,
            Kind::Keystone(_) => Strategy::Keystone,
        }
    }

    /// Whether every caller is believed, so that the service should listen on loopback only.
    pub fn requires_loopback(&self) -> bool {
        self.strategy().requires_loopback()
    }

    /// Reads again what the strategy has in a file (passwords, authorities of Keystone's
    /// certificate), whether or not it seems changed. A file that is not usable changes nothing.
    /// Blocks.
    ///
    /// # Errors
    /// When the file cannot be read or used; the message names the line.
    pub fn reread(&self) -> Result<(), SetupError> {
        match &self.kind {
            Kind::HttpBasic(basic) => basic.reread(),
            Kind::Keystone(keystone) => keystone.http().reread(),
            Kind::Noauth2 => Ok(()),
        }
    }

    /// Whether there is a file with authorities of Keystone's certificate.
    pub fn has_authorities(&self) -> bool {
        match &self.kind {
            Kind::Keystone(keystone) => keystone.http().has_authorities(),
            Kind::Noauth2 | Kind::HttpBasic(_) => false,
        }
    }

    /// Reads the authorities of Keystone's certificate again if their file has changed, and has not
    /// changed since the last call. Blocks.
    ///
    /// # Errors
    /// As [`reread`](Self::reread).
    pub fn look_at_authorities(&self) -> Result<(), SetupError> {
        match &self.kind {
            Kind::Keystone(keystone) => keystone.http().look(),
            Kind::Noauth2 | Kind::HttpBasic(_) => Ok(()),
        }
    }

    /// Authenticates a request by its headers and its address. Wrong guesses are limited by
    /// address; requests without an address count as one source.
    ///
    /// `noauth2` answers at once, and so do the others for cached credentials; otherwise this
    /// waits for a slow hash on another thread, or for Keystone.
    ///
    /// # Errors
    /// [`AuthError::Unauthorized`] for missing or wrong credentials, [`AuthError::Unavailable`] when
    /// they cannot be checked now, [`AuthError::TooMany`] when too many of that address were wrong,
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
        match &self.kind {
            Kind::Noauth2 => noauth2::authenticate(headers, self.limits.roles_max).map(Arc::new),
            Kind::HttpBasic(basic) => basic.authenticate(headers, source()).await,
            Kind::Keystone(keystone) => keystone.authenticate(headers, source()).await,
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
