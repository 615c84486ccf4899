//! `placewright control`: runs the Placement service until it is told to stop.
//!
//! The order of a start: configuration, log, port, policies and authentication, store, then it
//! listens. What can fail at once fails before the store is loaded.

mod access;
pub(crate) mod journal_metrics;
#[cfg(test)]
mod log_capture;
mod log_fields;
mod log_lines;
pub(crate) mod logs;
pub(crate) mod observer;
pub(crate) mod running;
pub(crate) mod scheduler_rules;
pub(crate) mod signals;
pub(crate) mod systemd;
pub(crate) mod wire;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail};
use placewright_engine::{Engine, Observer, RecoverError};
use placewright_journal::SqliteJournal;
use placewright_placement::{Command, Timestamp};
use placewright_server::{ControlMachine, submit_placement};
use tokio::net::TcpSocket;

use crate::config::{Config, ConfigErrors, Environment, Flags};
use crate::options::{AuthStrategy, Options};
use running::Running;
use signals::nth;

/// Runs the service until a signal ends it.
///
/// # Errors
/// It cannot start, and why; [`ConfigErrors`] when what the user wrote is wrong.
pub(crate) fn run(flags: &Flags) -> anyhow::Result<()> {
    let start = Instant::now();
    let config = Config::load(flags, &Environment::of_process())?;
    let log = logs::start(&config.options.log)?;
    check_open(&config.options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(serve(&config, start));
    // A store that is still being loaded is not waited for.
    runtime.shutdown_background();
    drop(log);
    result
}

/// Looks for what is wrong beyond single options: combinations, and the files that they name.
///
/// # Errors
/// The first thing that would keep the service from starting.
pub(crate) fn check(options: &Options) -> Result<(), ConfigErrors> {
    check_open(options)?;
    scheduler_rules::load(options)?;
    running::token(options)?;
    access::load(options).map(|_| ())
}

/// The backlog of the listening socket: connections that wait to be accepted.
pub(crate) const BACKLOG: u32 = 1024;

/// Refuses to let everybody in by accident.
pub(crate) fn check_open(options: &Options) -> Result<(), ConfigErrors> {
    let listens = std::iter::once(options.placement.listen)
        .chain(options.scheduler.listen)
        .chain(options.compute.listen);
    for listen in listens {
        let is_open = options.auth.strategy == AuthStrategy::Noauth2 && !listen.ip().is_loopback();
        if is_open && !options.auth.i_know_this_is_open {
            return Err(ConfigErrors(vec![format!(
                "auth.strategy noauth2 believes whatever a client says, so it listens on loopback \
                 only, not on {listen}: set auth.strategy to http_basic or keystone, or say \
                 --i-know-this-is-open"
            )]));
        }
        if is_open {
            tracing::warn!(%listen, "noauth2 on an open address: everybody who reaches it may do everything");
        }
    }
    if let Some(listen) = options.control.listen
        && !listen.ip().is_loopback()
        && options.control.token_file.is_none()
        && !options.auth.i_know_this_is_open
    {
        return Err(ConfigErrors(vec![format!(
            "without a token control believes whatever a cell says, so it listens to cells on \
             loopback only, not on {listen}: set control.token_file, or say --i-know-this-is-open"
        )]));
    }
    Ok(())
}

async fn serve(config: &Config, start: Instant) -> anyhow::Result<()> {
    let stops = signals::count_stops()?;
    let hang_ups = signals::hang_ups()?;
    let Some(running) = Running::start(config, &stops, false).await? else {
        return Ok(());
    };
    running.reread_access(&config.options, hang_ups);
    running.banner(config, start).await?;
    systemd::ready();
    tokio::spawn(systemd::feed_watchdog());
    let (runtime, engine) = (running.runtime.clone(), running.engine.clone());
    let stopping = async {
        nth(&stops, 1).await;
        tracing::info!("stopping: requests under way end first; a second signal ends it at once");
        systemd::stopping();
    };
    tokio::select! {
        (served, ()) = async { tokio::join!(running.serve(&stops), stopping) } => served?,
        () = nth(&stops, 2) => bail!("ended at once by a second signal"),
    }
    running::close(runtime, engine).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Takes the address, so that a start fails before the store is loaded when somebody has it. Nobody
/// can connect until it listens.
pub(crate) fn bind(address: SocketAddr, section: &str) -> anyhow::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // The port of a server that just ended can be taken at once.
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

/// Opens the store and loads the state, on a thread that may block.
async fn open_store(
    options: &Options,
    directory: PathBuf,
    observer: impl Observer,
) -> anyhow::Result<Engine<ControlMachine>> {
    let journal_options = wire::journal(options);
    let engine_options = wire::engine(options);
    let opened = tokio::task::spawn_blocking(move || -> Result<_, RecoverError> {
        let mut journal = SqliteJournal::open(&directory, journal_options)?;
        observer::tell(journal.notices());
        journal.grow_log()?;
        Engine::open(journal, engine_options, observer)
    });
    Ok(opened.await??)
}

/// Creates what a new store, or one of an older release, lacks of the standard resource classes and
/// traits.
async fn ensure_standard_names(engine: &Engine<ControlMachine>) -> anyhow::Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let at = Timestamp::from_seconds(i64::try_from(seconds)?);
    let decided = submit_placement(engine, Command::SyncStandardNames { at }).await;
    decided
        .context("the standard resource classes and traits cannot be written")?
        .map_err(|refusal| anyhow!("the standard names were refused: {refusal:?}"))?;
    Ok(())
}
