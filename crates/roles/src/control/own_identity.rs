//! The identity API of an installation that has no Keystone: how it is started, and how the other services of the
//! process check its tokens.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use placewright_api_identity::{Catalog, IdentityOptions, IdentityService, OwnTokenCheck};
use placewright_auth::{Passwords, Secret};
use placewright_control::Runtime;
use placewright_control::accounts::{Accounts, random_secret};
use placewright_http::Gateway;

use super::{first_accounts, option_conversion};
use crate::config::ConfigErrors;
use crate::options::{AuthStrategy, Options};

/// The address of the identity API; `None` if the installation has none.
pub(super) fn address(options: &Options) -> Option<SocketAddr> {
    let is_own = options.auth.strategy == AuthStrategy::Identity;
    options.identity.listen.filter(|_| is_own)
}

/// Checks the options of the identity API.
///
/// # Errors
///
/// Users have to sign in with this installation, and no address is set at which they could.
pub(super) fn check(options: &Options) -> Result<(), ConfigErrors> {
    if options.auth.strategy == AuthStrategy::Identity && options.identity.listen.is_none() {
        return Err(ConfigErrors(vec![
            "auth.strategy identity needs identity.listen, where clients sign in".to_owned(),
        ]));
    }
    Ok(())
}

/// The parts of the identity API that the process uses itself, apart from the server of the API: the accounts, and a
/// token for its own agents.
pub(crate) struct OwnIdentity {
    accounts: Accounts,
    /// The address on which the identity API listens.
    address: SocketAddr,
    /// The token with which agents of this process write to placement.
    process_token: Secret,
}

impl OwnIdentity {
    /// Makes the identity API, which the caller serves on `address`, and makes the other services accept its tokens.
    ///
    /// # Errors
    ///
    /// The limits for checks of passwords are not valid, or the system has no random numbers.
    pub(super) fn start(
        options: &Options,
        gateway: &Arc<Gateway>,
        runtime: &Runtime,
        (address, catalog): (SocketAddr, Catalog),
    ) -> anyhow::Result<(Self, IdentityService)> {
        let lifetime = option_conversion::token_lifetime(options);
        let accounts = Accounts::new(runtime.control().clone(), lifetime);
        let process_token = Secret::new(random_secret().map_err(|error| anyhow!(error))?);
        let check = OwnTokenCheck::new(accounts.clone(), Some(process_token.clone()));
        gateway.authenticator().set_token_check(Arc::new(check));
        let options = IdentityOptions {
            passwords: passwords(options)?,
            catalog,
            public_url: options.identity.public_url.clone(),
        };
        let service = IdentityService::new(Arc::clone(gateway), accounts.clone(), options);
        let own = Self {
            accounts,
            address,
            process_token,
        };
        Ok((own, service))
    }

    /// The token with which agents of this process write to placement, as administrators.
    pub(crate) fn process_token(&self) -> &Secret {
        &self.process_token
    }

    /// The path of the `clouds.yaml` with which clients find the installation.
    pub(crate) fn clouds_file(options: &Options) -> PathBuf {
        match &options.identity.clouds_file {
            Some(file) => file.clone(),
            None => {
                let mut name = options.store.directory().into_os_string();
                name.push(".clouds.yaml");
                PathBuf::from(name)
            }
        }
    }

    /// Creates the first accounts if there are none, and writes or updates the `clouds.yaml`.
    ///
    /// # Errors
    ///
    /// The store or the file cannot be written.
    pub(super) async fn prepare(&self, options: &Options, scheme: &str) -> anyhow::Result<()> {
        let url = match &options.identity.public_url {
            Some(url) => format!("{}/v3", url.trim_end_matches('/')),
            None => format!("{scheme}://{}/v3", self.address),
        };
        let file = first_accounts::CloudsFile {
            path: Self::clouds_file(options),
            auth_url: url,
            region: options.identity.region.clone(),
        };
        if self.accounts.are_missing().await {
            let passwords = passwords(options)?;
            return first_accounts::begin(&self.accounts, &passwords, &file).await;
        }
        let updated = file.update_url();
        updated.with_context(|| format!("{} cannot be updated", file.path.display()))
    }
}

fn passwords(options: &Options) -> anyhow::Result<Passwords> {
    let limits = option_conversion::auth_limits(options);
    Ok(Passwords::new(
        &option_conversion::passwords(options),
        &limits,
    )?)
}
