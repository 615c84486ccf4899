//! `placewright control`: runs the Placement service until it is told to stop.
//!
//! The order of a start: configuration, log, port, policies and authentication, store, then it
//! listens. What can fail at once fails before the store is loaded.

mod access;
pub(crate) mod journal_metrics;
pub(crate) mod logs;
pub(crate) mod observer;
pub(crate) mod scheduler_rules;
pub(crate) mod signals;
pub(crate) mod systemd;
pub(crate) mod wire;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail};
use placewright_engine::{Engine, Observer, RecoverError};
use placewright_journal::SqliteJournal;
use placewright_placement::{Command, Timestamp};
use placewright_scheduler::select::Scheduler;
use placewright_server::{
    ControlMachine, HttpMetrics, SchedulerService, Server, Service, Stopped, submit_placement,
};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpSocket};

use crate::config::{Config, ConfigErrors, Environment, Flags};
use crate::options::{AuthStrategy, Options};
use journal_metrics::JournalMetrics;
use observer::Logged;
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
    access::load(options).map(|_| ())
}

/// The backlog of the listening socket: connections that wait to be accepted.
pub(crate) const BACKLOG: u32 = 1024;

/// Refuses to let everybody in by accident.
fn check_open(options: &Options) -> Result<(), ConfigErrors> {
    let listens = std::iter::once(options.placement.listen).chain(options.scheduler.listen);
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
    Ok(())
}

async fn serve(config: &Config, start: Instant) -> anyhow::Result<()> {
    let options = &config.options;
    let stops = signals::count_stops()?;
    let socket = bind(options.placement.listen, "placement")?;
    let scheduler = options.scheduler.listen;
    let scheduler = scheduler.map(|listen| bind(listen, "scheduler"));
    let scheduler = scheduler.transpose()?;
    let (authenticator, policy) = access::load(options)?;
    let rules = scheduler_rules::load(options)?;
    let mut registry = Registry::default();
    let metrics = HttpMetrics::new(&mut registry);
    let observer = Logged(JournalMetrics::new(&mut registry));
    let directory = options.store.directory();
    let engine = tokio::select! {
        engine = open_store(options, directory.clone(), observer) => engine?,
        () = nth(&stops, 1) => {
            tracing::info!("stopped while the state was being loaded");
            return Ok(());
        }
    };
    ensure_standard_names(&engine).await?;
    let registry = Arc::new(registry);
    let service = Service::new(
        wire::server(options),
        engine.clone(),
        authenticator,
        policy,
        metrics,
        registry,
    );
    let server = Server::new(service);
    let listener = socket.listen(BACKLOG)?;
    let scheduler = scheduler.map(|socket| socket.listen(BACKLOG)).transpose()?;
    banner(
        config,
        &listener,
        scheduler.as_ref(),
        &directory,
        &engine,
        start,
    )
    .await?;
    let scheduling = serve_scheduler(options, server.service(), rules, scheduler, nth(&stops, 1));
    systemd::ready();
    tokio::spawn(systemd::feed_watchdog());

    let stop = async {
        nth(&stops, 1).await;
        tracing::info!("stopping: requests under way end first; a second signal ends it at once");
        systemd::stopping();
    };
    let stopped = tokio::select! {
        stopped = async { tokio::join!(server.serve(listener, stop), scheduling) } => stopped,
        () = nth(&stops, 2) => bail!("ended at once by a second signal"),
    };
    if [stopped.0, stopped.1].contains(&Stopped::TimedOut) {
        tracing::warn!("the time to drain is over: connections were cut");
    }
    tokio::task::spawn_blocking(move || engine.shutdown()).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Serves the scheduler beside the Placement service, if it has an address.
fn serve_scheduler(
    options: &Options,
    placement: &Arc<Service>,
    scheduler: Scheduler,
    listener: Option<TcpListener>,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = Stopped> {
    let service = SchedulerService::new(Arc::clone(placement), scheduler, wire::keep(options));
    async move {
        match listener {
            Some(listener) => Server::new(service).serve(listener, stop).await,
            None => Stopped::Drained,
        }
    }
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
        let journal = SqliteJournal::open(&directory, journal_options)?;
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

/// Says what runs, where, and on what.
async fn banner(
    config: &Config,
    listener: &TcpListener,
    scheduler: Option<&TcpListener>,
    directory: &Path,
    engine: &Engine<ControlMachine>,
    start: Instant,
) -> anyhow::Result<()> {
    let counts = |control: &ControlMachine| {
        let placement = control.placement();
        (placement.provider_count(), placement.consumer_count())
    };
    let (providers, consumers) = engine.read(counts).await;
    let scheduler = scheduler.map(TcpListener::local_addr).transpose()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        placement = %format_args!("http://{}", listener.local_addr()?),
        scheduler = scheduler.map(|address| tracing::field::display(format!("http://{address}"))),
        auth = AuthStrategy::text(config.options.auth.strategy),
        config = %config.file.as_deref().map_or("none".into(), Path::to_string_lossy),
        store = %directory.display(),
        sequence = engine.durable_sequence(),
        providers,
        consumers,
        start_ms = start.elapsed().as_millis(),
        "ready"
    );
    Ok(())
}
