//! `placewright control`: runs control with its APIs until it is told to stop.
//!
//! The order of a start: configuration, log, policies and authentication, ports, audit log and folder of images, store;
//! then the APIs listen. Steps that can fail quickly come before the store is loaded and before a predecessor is ended,
//! which goes on if one of them fails. Health checks, and the other replicas, are served from before that on.

mod access;
mod api_servers;
mod api_threads;
mod catalog;
mod compute_settings;
pub(crate) mod descriptors;
mod first_accounts;
pub(crate) mod health;
pub(crate) mod journal_metrics;
mod loading;
#[cfg(test)]
mod log_capture;
mod log_fields;
mod log_lines;
pub(crate) mod logs;
pub(crate) mod observer;
pub(crate) mod option_conversion;
pub(crate) mod own_identity;
pub(crate) mod panics;
mod parts;
mod quotas;
mod replica;
pub(crate) mod restart;
pub(crate) mod running;
pub mod scheduler_rules;
mod services;
pub(crate) mod signals;
pub(crate) mod sockets;
pub(crate) mod systemd;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{anyhow, bail};
use placewright_auth::{Authenticator, Policy};
use placewright_rpc::Token;
use placewright_scheduler::select::Scheduler;
use placewright_tasks::{Task, supervise};
use running::RunningControl;
use signals::wait_for_stops;
use tokio::net::TcpSocket;

use crate::config::{Config, ConfigErrors, ControlFlags, Environment};
use crate::identities::{self, ControlIdentity};
use crate::options::{AuthStrategy, Options};
use crate::store::Store;
use crate::{secrets, traces, warnings};

/// Runs control until a signal ends it.
///
/// # Errors
///
/// Control cannot start, with the reason; [`ConfigErrors`] for errors in the configuration.
pub fn run(flags: &ControlFlags) -> anyhow::Result<()> {
    let start = Instant::now();
    let config = Config::load(flags, &Environment::of_process())?;
    let log = logs::start(&config.options.log)?;
    secrets::forbid_core_dumps(&config.options.secrets);
    // This check comes first, because it reads no files. `Checked::for_start` makes it again and logs its warnings.
    check_open_listeners(&config.options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let serve = traces::exporting(&config.options.traces, serve(&config, start));
    let result = runtime.block_on(supervise(Task::Main, serve));
    crate::audit_log::close();
    // If the store is still being loaded, the thread that loads it is not waited for.
    runtime.shutdown_background();
    drop(log);
    result
}

/// Checks combinations of options, and the files that options name. Returns warnings about settings that
/// are allowed but probably not intended.
///
/// # Errors
///
/// The first error that would keep control from starting.
pub fn check(config: &Config) -> Result<Vec<String>, ConfigErrors> {
    Checked::new(config).map(|checked| checked.warnings)
}

/// The result of checking the options and reading the files that they name, before anything is
/// opened.
pub(crate) struct Checked {
    token: Option<Token>,
    authenticator: Authenticator,
    policy: Policy,
    scheduler: Scheduler,
    tls: tls::TlsFiles,
    /// Settings that are allowed but probably not intended.
    warnings: Vec<String>,
}

impl Checked {
    /// Checks the options, and reads the files that they name.
    ///
    /// # Errors
    ///
    /// The first error that would keep control from starting.
    fn new(config: &Config) -> Result<Self, ConfigErrors> {
        let options = &config.options;
        let mut warnings = check_open_listeners(options)?;
        let scheduler = scheduler_rules::load(options, &mut warnings)?;
        own_identity::check(options)?;
        let token = running::read_token(options)?;
        let (authenticator, policy) = access::load(options, &mut warnings)?;
        let tls = tls::TlsFiles::load(options, &mut warnings)?;
        // This only checks the options; `quotas::start` creates the reader that is used.
        quotas::create_reader(options)?;
        compute_settings::ComputeSettings::read(options)?;
        warnings.extend(warnings::control_warnings(config));
        let store = Store::of_control(&options.store, option_conversion::journal(options))?;
        crate::replica::check_control(options, &store)?;
        secrets::check(&options.secrets, &options.store.directory())?;
        Ok(Self {
            token,
            authenticator,
            policy,
            scheduler,
            tls,
            warnings,
        })
    }
}

impl Checked {
    /// Checks the options for a start: logs the warnings, and opens control's certificate, which is created
    /// if it is missing and this process has the authority.
    ///
    /// # Errors
    ///
    /// The first error that would keep control from starting.
    fn for_start(config: &Config) -> Result<(Self, ControlIdentity), ConfigErrors> {
        let checked = Self::new(config)?;
        warnings::log(&checked.warnings);
        let identity = ControlIdentity::open(&config.options)?;
        Ok((checked, identity))
    }
}

/// The backlog of the listening socket: connections that wait to be accepted.
pub(crate) const BACKLOG: u32 = 4096;

/// Refuses addresses other than loopback for REST APIs with noauth2, and for the listener for cells if control has no
/// certificate. If `auth.i_know_this_is_open` is set, it returns warnings instead.
pub(crate) fn check_open_listeners(options: &Options) -> Result<Vec<String>, ConfigErrors> {
    let mut warnings = Vec::new();
    let addresses = std::iter::once(options.placement.listen)
        .chain(options.scheduler.listen)
        .chain(options.compute.listen)
        .chain(options.image.listen)
        .chain(options.network.listen)
        .chain(options.ui.listen);
    for address in addresses {
        let is_open = options.auth.strategy == AuthStrategy::Noauth2 && !address.ip().is_loopback();
        if is_open && !options.auth.i_know_this_is_open {
            return Err(ConfigErrors(vec![format!(
                "auth.strategy noauth2 believes whatever a client says, so it listens on loopback \
                 only, not on {address}: set auth.strategy to identity, http_basic or keystone, or say \
                 --i-know-this-is-open"
            )]));
        }
        if is_open {
            warnings.push(format!(
                "noauth2 on an open address, {address}: everybody who reaches it may do everything"
            ));
        }
    }
    if let Some(address) = options.control.listen
        && !address.ip().is_loopback()
        && identities::identity_path(options).is_none()
    {
        if !options.auth.i_know_this_is_open {
            return Err(ConfigErrors(vec![identities::open_listener_error(
                "control", address,
            )]));
        }
        let has_token = options.control.token_file.is_some();
        warnings.push(identities::open_listener_warning(
            "control", address, has_token,
        ));
    }
    Ok(warnings)
}

async fn serve(config: &Config, start: Instant) -> anyhow::Result<()> {
    let stops = signals::count_stops()?;
    let hang_ups = signals::hang_ups()?;
    let cells_in_process = 0;
    let control = RunningControl::start(config, &stops, cells_in_process).await?;
    let Some(control) = control else {
        // A signal came while the state was loaded.
        return Ok(());
    };
    control.reread_access_files(&config.options, hang_ups);
    if let Some(managed) = control.identity.managed() {
        placewright_tasks::spawn(Task::Certificates, identities::manage(vec![managed]));
    }
    control.log_ready(config, start).await?;
    systemd::ready();
    systemd::feed_watchdog();
    let (runtime, engine) = (control.runtime.clone(), control.engine.clone());
    let hand_over = Arc::clone(&control.hand_over);
    let stopping = async {
        wait_for_stops(&stops, 1).await;
        tracing::info!("stopping: requests under way end first; a second signal ends it at once");
        systemd::stopping();
    };
    let served = tokio::select! {
        (served, ()) = async { tokio::join!(control.serve(&stops), stopping) } => served,
        () = wait_for_stops(&stops, 2) => bail!("ended at once by a second signal"),
    };
    running::close(runtime, engine).await?;
    hand_over.finish();
    served?;
    tracing::info!("stopped");
    Ok(())
}

/// Binds the address, so that a start fails before the store is loaded if the address is in use. Nobody can
/// connect until the socket listens.
pub(crate) fn bind(address: SocketAddr, section: &str) -> anyhow::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // With this option the port of a server that has just ended can be bound at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "the address {address} is in use: another server listens there; stop it, or set \
             {section}.listen (--{section}-listen)"
        ),
        io::ErrorKind::AddrNotAvailable => {
            anyhow!(
                "this machine has no address {}: set {section}.listen",
                address.ip()
            )
        }
        io::ErrorKind::PermissionDenied => {
            anyhow!("not allowed to listen on {address}: ports below 1024 need the right to")
        }
        _ => anyhow::Error::from(error).context(format!("cannot listen on {address}")),
    })?;
    Ok(socket)
}
