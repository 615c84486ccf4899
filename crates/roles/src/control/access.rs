//! Authentication and policies, from the options and the files that they name.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use placewright_auth::{Authenticator, Policy, PolicyConfig};
use placewright_http::Gateway;
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use super::option_conversion;
use super::tls::Listeners;
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

/// What can be read again while control runs.
#[derive(Clone)]
pub(super) struct Rereadable {
    pub(super) policy: PolicyConfig,
    pub(super) gateway: Arc<Gateway>,
    pub(super) tls: Arc<Listeners>,
}

/// Reads all files again with each signal, and now and then those of TLS that have changed, until the
/// runtime ends. Errors are logged, and then the previous settings stay in effect.
pub(super) async fn reread_on(mut signals: Signal, every: Duration, files: Rereadable) {
    let mut looks = tokio::time::interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let read: fn(&Rereadable) = tokio::select! {
            signal = signals.recv() => match signal {
                Some(()) => Rereadable::reread,
                None => return,
            },
            _ = looks.tick(), if files.is_watched() => Rereadable::look,
        };
        let files = files.clone();
        if tokio::task::spawn_blocking(move || read(&files))
            .await
            .is_err()
        {
            tracing::error!("reading files again failed");
        }
    }
}

impl Rereadable {
    /// Whether there is a file that is read again when it changes.
    fn is_watched(&self) -> bool {
        !self.tls.is_empty() || self.gateway.authenticator().has_authorities()
    }

    /// Reads the files of TLS that have changed.
    fn look(&self) {
        self.tls.look();
        if let Err(error) = self.gateway.authenticator().look_at_authorities() {
            told_as_before("keystone", &error);
        }
    }

    /// Reads all files.
    fn reread(&self) {
        match Policy::load(&self.policy) {
            Ok((policy, warnings)) => {
                for warning in warnings {
                    tracing::warn!("policy: {warning}");
                }
                self.gateway.set_policy(policy);
            }
            Err(error) => told_as_before("policy", &error),
        }
        let authenticator = self.gateway.authenticator();
        if let Err(error) = authenticator.reread() {
            told_as_before(authenticator.strategy().name(), &error);
        }
        self.tls.reread();
        if let Some(log) = self.gateway.audit_log() {
            log.reopen();
        }
        tracing::info!(
            "SIGHUP: read policies, passwords, certificates and authorities, as far as there are files"
        );
    }
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
