//! Authentication and policies: set up from the options, and read again from their files on SIGHUP.

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

/// Sets up authentication and policies, and adds their warnings to `warnings`.
///
/// # Errors
///
/// An option or a file is missing or not valid. Policies are read only if authentication could be set up, so errors of
/// both are not returned together.
pub(super) fn load(
    options: &Options,
    warnings: &mut Vec<String>,
) -> Result<(Authenticator, Policy), ConfigErrors> {
    let section = match options.auth.strategy {
        AuthStrategy::Noauth2 => "auth",
        AuthStrategy::HttpBasic => "http_basic",
        AuthStrategy::Keystone => "keystone",
        AuthStrategy::Identity => "identity",
    };
    let authenticator = Authenticator::new(&option_conversion::auth(options))
        .map_err(|error| in_section(section, &error))?;
    warnings.extend_from_slice(authenticator.warnings());
    let (policy, policy_warnings) = Policy::load(&option_conversion::policy(options))
        .map_err(|error| in_section("policy", &error))?;
    let policy_warnings = policy_warnings.iter();
    warnings.extend(policy_warnings.map(|warning| format!("policy: {warning}")));
    Ok((authenticator, policy))
}

/// What [`reread_on_signals`] needs: the paths of the policy files, and the objects that hold what was read from other
/// files, whose paths they know.
#[derive(Clone)]
pub(super) struct AccessFiles {
    /// Where the files of policies are.
    pub(super) policy: PolicyConfig,
    /// Takes the new policies. Its authenticator and its audit log know the paths of their own files.
    pub(super) gateway: Arc<Gateway>,
    /// The listeners with TLS, which have files of their own.
    pub(super) tls: Arc<Listeners>,
}

/// Reads all files again with each signal. Also checks, at once and then every `check_interval`, whether the files of
/// TLS or those with the authorities for Keystone's certificate have changed, and reads the changed ones again. Errors
/// are logged, and the previous settings stay in effect. Ends when no more signals can come, as the runtime shuts down.
pub(super) async fn reread_on_signals(
    mut signals: Signal,
    check_interval: Duration,
    files: AccessFiles,
) {
    let mut checks = tokio::time::interval(check_interval);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let read: fn(&AccessFiles) = tokio::select! {
            signal = signals.recv() => match signal {
                Some(()) => AccessFiles::reread,
                None => return,
            },
            _ = checks.tick(), if files.is_watched() => AccessFiles::reread_changed,
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

impl AccessFiles {
    /// Whether there are files that have to be checked for changes without a signal.
    fn is_watched(&self) -> bool {
        !self.tls.is_empty() || self.gateway.authenticator().has_authorities()
    }

    /// Reads again those files of TLS, and those with the authorities for Keystone's certificate, that have changed.
    fn reread_changed(&self) {
        self.tls.reread_changed();
        if let Err(error) = self.gateway.authenticator().reread_authorities_if_changed() {
            log_rejected("keystone", &error);
        }
    }

    /// Reads all files again, and opens the file of the audit log anew.
    fn reread(&self) {
        match Policy::load(&self.policy) {
            Ok((policy, warnings)) => {
                for warning in warnings {
                    tracing::warn!("policy: {warning}");
                }
                self.gateway.set_policy(policy);
            }
            Err(error) => log_rejected("policy", &error),
        }
        let authenticator = self.gateway.authenticator();
        if let Err(error) = authenticator.reread() {
            log_rejected(authenticator.strategy().name(), &error);
        }
        self.tls.reread();
        if let Some(log) = self.gateway.audit_log() {
            log.reopen();
        }
        tracing::info!(
            "SIGHUP: read policies, passwords, certificates and authorities again, as far as there are files; an error \
             above names each that was rejected"
        );
    }
}

/// Logs each line of an error, and that the previous settings stay in effect.
fn log_rejected(section: &str, error: &dyn Error) {
    for line in crate::config::chain(error).lines() {
        tracing::error!("[{section}] {line}; what was in force before stays");
    }
}

/// A configuration error with its causes, and the section that it concerns.
fn in_section(section: &str, error: &dyn Error) -> ConfigErrors {
    ConfigErrors(vec![format!("[{section}] {}", crate::config::chain(error))])
}
