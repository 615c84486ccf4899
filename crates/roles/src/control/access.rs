//! Authentication and policies, from the options and the files that they name.

use std::error::Error;
use std::sync::Arc;

use placewright_auth::{Authenticator, Policy, PolicyConfig};
use placewright_http::Gateway;
use tokio::signal::unix::Signal;

use super::option_conversion;
use crate::config::ConfigErrors;
use crate::options::{AuthStrategy, Options};

/// Sets up authentication and policies, and adds to the warnings.
///
/// # Errors
///
/// An option or a file is missing or not valid; all such errors together.
pub(super) fn load(
    options: &Options,
    warnings: &mut Vec<String>,
) -> Result<(Authenticator, Policy), ConfigErrors> {
    let section = match options.auth.strategy {
        AuthStrategy::Noauth2 => "auth",
        AuthStrategy::HttpBasic => "http_basic",
        AuthStrategy::Keystone => "keystone",
    };
    let authenticator = Authenticator::new(&option_conversion::auth(options))
        .map_err(|error| in_section(section, &error))?;
    warnings.extend_from_slice(authenticator.warnings());
    let (policy, odd) = Policy::load(&option_conversion::policy(options))
        .map_err(|error| in_section("policy", &error))?;
    warnings.extend(odd.iter().map(|odd| format!("policy: {odd}")));
    Ok((authenticator, policy))
}

/// Reads the policy file and the password file again with each signal, until the runtime ends.
/// Errors are logged, and then the previous settings stay in effect.
pub(super) async fn reread_on(mut signals: Signal, config: PolicyConfig, gateway: Arc<Gateway>) {
    while signals.recv().await.is_some() {
        let (config, gateway) = (config.clone(), Arc::clone(&gateway));
        let read = tokio::task::spawn_blocking(move || reread(&config, &gateway));
        if read.await.is_err() {
            tracing::error!("reading the policy file and the password file again failed");
        }
    }
}

fn reread(config: &PolicyConfig, gateway: &Gateway) {
    match Policy::load(config) {
        Ok((policy, warnings)) => {
            for warning in warnings {
                tracing::warn!("policy: {warning}");
            }
            gateway.set_policy(policy);
        }
        Err(error) => told_as_before("policy", &error),
    }
    if let Err(error) = gateway.authenticator().reread() {
        told_as_before("http_basic", &error);
    }
    tracing::info!("SIGHUP: read the policy file and the password file, as far as there are any");
}

/// Logs each error in a line of its own.
fn told_as_before(section: &str, error: &dyn Error) {
    for mistake in crate::config::chain(error).lines() {
        tracing::error!("[{section}] {mistake}; what was in force before stays");
    }
}

/// An error with its causes, and the section of the configuration that it concerns.
fn in_section(section: &str, error: &dyn Error) -> ConfigErrors {
    ConfigErrors(vec![format!("[{section}] {}", crate::config::chain(error))])
}
