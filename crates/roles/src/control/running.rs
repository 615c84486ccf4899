//! Control's services in one process: placement, the scheduler, and the conductor if there are
//! cells or the compute API. They start and end together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use placewright_api_placement::PlacementService;
use placewright_conductor::CellId;
use placewright_control::{
    AuditMetrics, CellConfig, ClaimMetrics, ControlHandle, ControlMachine, Placement, Runtime,
    SchedulerHandle,
};
use placewright_engine::{Engine, Observer};
use placewright_http::{Gateway, HttpMetrics, HttpService, Server, Stopped, TlsMetrics};
use placewright_rpc::{CellClient, ClientOptions, ServeOptions, Services, Token};
use placewright_secrets::Sealer;
use placewright_tasks::Task;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;
use tokio::sync::watch;

use super::access::Rereadable;
use super::api_threads::ApiThreads;
use super::descriptors::{self, ConnectionLimits};
use super::journal_metrics::JournalMetrics;
use super::observer::LoggingObserver;
use super::restart::{self, HandOver, InheritedSockets};
use super::services::{compute_api, limited, placement_api, scheduler_api, with_threads_and_store};
use super::signals::nth;
use super::sockets::{ListeningSocket, Socket, Sockets};
use super::tls::Tls;
use super::{
    Checked, access, ensure_standard_names, health, open_store, option_conversion, panics, quotas,
};
use crate::audit_log;
use crate::config::{Config, ConfigErrors};
use crate::identities::ControlIdentity;
use crate::options::{AuthStrategy, Options};
use crate::secrets;

/// A control that was started, and serves once it is told to.
pub(crate) struct Running {
    pub(crate) engine: Engine<ControlMachine>,
    /// The conductor's runtime, if there is a conductor.
    pub(crate) runtime: Option<Arc<Runtime>>,
    pub(crate) token: Option<Token>,
    /// Control's certificate, and the authority if it is here.
    pub(crate) identity: ControlIdentity,
    /// The connection limits of the listeners.
    pub(crate) shares: ConnectionLimits,
    /// What is needed to hand over to a successor.
    pub(crate) restart: Arc<HandOver>,
    gateway: Arc<Gateway>,
    placement: (Server, ListeningSocket),
    scheduler: Option<(Server, ListeningSocket)>,
    compute: Option<(Server, ListeningSocket)>,
    asks: Option<TcpListener>,
    health: Option<SocketAddr>,
    directory: PathBuf,
    threads: ApiThreads,
    tls: Tls,
}

/// The metrics of control's parts.
struct Metrics {
    http: HttpMetrics,
    tls: TlsMetrics,
    claims: ClaimMetrics,
    audits: AuditMetrics,
    journal: JournalMetrics,
}

impl Metrics {
    /// Registers all of them.
    fn new() -> (Registry, Self) {
        let mut registry = Registry::default();
        panics::register(&mut registry);
        let metrics = Self {
            http: HttpMetrics::new(&mut registry),
            tls: TlsMetrics::new(&mut registry),
            claims: ClaimMetrics::new(&mut registry),
            audits: AuditMetrics::new(&mut registry),
            journal: JournalMetrics::new(&mut registry),
        };
        (registry, metrics)
    }
}

/// The secret that control shares with cells and agents, if there is one.
///
/// # Errors
///
/// The file cannot be read, or its content is not a valid secret.
pub(crate) fn token(options: &Options) -> Result<Option<Token>, ConfigErrors> {
    let file = options.control.token_file.as_deref();
    let token = file.map(Token::read).transpose();
    token.map_err(|error| ConfigErrors(vec![format!("control.token_file: {error}")]))
}

impl Running {
    /// Starts everything except serving. None if a signal came while the state was loaded.
    ///
    /// `cells`: the number of cells in this process. With any, there is a conductor.
    ///
    /// # Errors
    ///
    /// Whatever keeps control from starting.
    pub(crate) async fn start(
        config: &Config,
        stops: &watch::Receiver<u32>,
        cells: usize,
    ) -> anyhow::Result<Option<Self>> {
        let options = &config.options;
        let (checked, identity) = Checked::for_start(config)?;
        let directory = options.store.directory();
        let shares = descriptors::of_control(options, cells);
        let mut inherited = InheritedSockets::find(&directory, options.control.take_over)?;
        let mut sockets = Sockets::take(options, &mut inherited)?;
        let (mut registry, metrics) = Metrics::new();
        let sealer = sealer(options, cells, &sockets, &mut registry).await?;
        let observer = LoggingObserver(metrics.journal);
        let tls = checked.tls.open(options, &metrics.tls, &identity)?;
        let (vital, health) = health::start(sockets.health.take(), tls.door("health"))?;
        let (mut inherited, engine) = tokio::select! {
            opened = take_over(inherited, options, observer) => opened?,
            () = nth(stops, 1) => return Ok(stopped_while_loading()),
        };
        let log = audit_log::start(&options.audit, &directory, &mut registry)?;
        let threads = ApiThreads::start(options)?;
        let placement = Placement::new(engine.clone(), metrics.claims);
        let gateway = Gateway::new(
            option_conversion::http(options),
            checked.authenticator,
            checked.policy,
            metrics.http,
            Arc::new(registry),
        );
        let gateway = with_threads_and_store(gateway.with_audit_log(log), &threads, &placement);
        let ranker = SchedulerHandle::new(engine.clone(), checked.scheduler);
        let scheduler = scheduler_api(options, &gateway, &placement, &ranker);
        let service = placement_api(options, &gateway, placement);
        let server = |service: Arc<dyn HttpService>, name| limited(service, shares, &tls, name);
        let placement = server(service.clone(), "placement");
        let runtime = sealer
            .map(|sealer| conduct(options, &engine, ranker, &service, (metrics.audits, sealer)))
            .transpose()?;
        let mut open = |socket| ListeningSocket::open_maybe(socket, &mut inherited);
        let compute = match (open(sockets.compute)?, &runtime) {
            (Some(port), Some(runtime)) => {
                let service = compute_api(options, &gateway, runtime)?;
                Some((server(Arc::new(service), "compute"), port))
            }
            _ => None,
        };
        let scheduler = server(Arc::new(scheduler), "scheduler");
        let scheduler = open(sockets.scheduler)?.map(|port| (scheduler, port));
        let port = ListeningSocket::open(sockets.placement, &mut inherited)?;
        vital.set(Arc::clone(&gateway) as _);
        let mut running = Self {
            engine,
            runtime,
            token: checked.token,
            identity,
            shares,
            restart: Arc::default(),
            gateway,
            placement: (placement, port),
            scheduler,
            compute,
            asks: sockets.asks.map(Socket::listen).transpose()?,
            health: None,
            directory,
            threads,
            tls,
        };
        running.offer_restart(health)?;
        running.prepare(options).await?;
        Ok(Some(running))
    }

    /// The gRPC server's options for a cell in this process.
    pub(crate) fn cell_options(&self, options: &Options) -> ServeOptions {
        ServeOptions {
            token: self.token.clone(),
            handshakes: self.tls.handshakes_of_roles(),
            ..option_conversion::cell(options, self.shares.cell)
        }
    }

    /// Enables a restart that refuses no connections.
    fn offer_restart(&mut self, health: Option<std::net::TcpListener>) -> std::io::Result<()> {
        let health = health.as_ref();
        self.health = health.map(|listener| listener.local_addr()).transpose()?;
        let scheduler = self.scheduler.as_ref().map(|(_, port)| &port.listener);
        let compute = self.compute.as_ref().map(|(_, port)| &port.listener);
        let listeners = [
            ("placement", Some(&self.placement.1.listener)),
            ("scheduler", scheduler),
            ("compute", compute),
            ("control", self.asks.as_ref()),
        ];
        self.restart = HandOver::offer(&self.directory, restart::copies(listeners, health));
        Ok(())
    }

    /// From now on, reads the files of authentication, policies and TLS again with each signal, and
    /// those of TLS when they change.
    pub(crate) fn reread_access(&self, options: &Options, hang_ups: Signal) {
        let files = Rereadable {
            policy: option_conversion::policy(options),
            gateway: Arc::clone(&self.gateway),
            tls: Arc::clone(self.tls.listeners()),
        };
        let every = option_conversion::reload_check(options);
        placewright_tasks::spawn(Task::Access, access::reread_on(hang_ups, every, files));
    }

    /// Adds the configured cells.
    async fn add_cells(&self, runtime: &Runtime, options: &Options) -> anyhow::Result<()> {
        for (name, uuid, address) in &options.control.cells.0 {
            let client = CellClient::new(ClientOptions {
                token: self.token.clone(),
                identity: self.identity.towards_cell(name),
                call_timeout: runtime.conductor().options().answer_timeout,
                ..ClientOptions::new(address)
            });
            let wrong = |why: String| ConfigErrors(vec![format!("control.cells: {name}: {why}")]);
            let link = client.map_err(|error| wrong(error.to_string()))?;
            let config = CellConfig {
                cell: CellId(*uuid),
                name: name.clone(),
                link: Arc::new(link),
            };
            let added = runtime.add_cell(config).await;
            added.map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }

    /// Seals what an earlier release left in the clear, adds the configured cells, and puts the
    /// configured quotas in force, before anything can be asked for.
    async fn prepare(&self, options: &Options) -> anyhow::Result<()> {
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let sealed = runtime.seal_open_secrets().await;
        if sealed > 0 {
            tracing::info!(sealed, "secrets of servers were sealed in the store");
        }
        self.add_cells(runtime, options).await?;
        quotas::start(options, runtime).await
    }

    /// Logs what runs, at which addresses, and on which store.
    pub(crate) async fn banner(&self, config: &Config, start: Instant) -> anyhow::Result<()> {
        let counts = |control: &ControlMachine| {
            let placement = control.placement();
            (
                placement.provider_count(),
                placement.consumer_count(),
                control.0.conductor.cells().len(),
            )
        };
        let (providers, consumers, cells) = self.engine.read(counts).await;
        let url = |section: &str, address: Option<SocketAddr>| {
            let scheme = self.tls.scheme(section);
            address.map(|address| tracing::field::display(format!("{scheme}://{address}")))
        };
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            placement = url("placement", Some(self.placement_address()?)),
            scheduler = url("scheduler", self.scheduler_address()?),
            compute = url("compute", self.compute_address()?),
            health = url("health", self.health),
            auth = AuthStrategy::text(config.options.auth.strategy),
            config = %config.file.as_deref().map_or("none".into(), Path::to_string_lossy),
            store = %self.directory.display(),
            sequence = self.engine.durable_sequence(),
            providers,
            consumers,
            cells = self.runtime.as_ref().map(|_| cells),
            start_ms = start.elapsed().as_millis(),
            "ready"
        );
        Ok(())
    }

    /// The address of the Placement API.
    pub(crate) fn placement_address(&self) -> std::io::Result<SocketAddr> {
        self.placement.1.listener.local_addr()
    }

    /// The address of the scheduler API, if it is enabled.
    pub(crate) fn scheduler_address(&self) -> std::io::Result<Option<SocketAddr>> {
        let listener = self.scheduler.as_ref().map(|(_, port)| &port.listener);
        listener.map(TcpListener::local_addr).transpose()
    }

    /// The address of the compute API, if it is enabled.
    pub(crate) fn compute_address(&self) -> std::io::Result<Option<SocketAddr>> {
        let listener = self.compute.as_ref().map(|(_, port)| &port.listener);
        listener.map(TcpListener::local_addr).transpose()
    }

    /// The address for health checks and metrics.
    pub(crate) fn health_address(&self) -> Option<SocketAddr> {
        self.health
    }

    /// Serves until the first signal, then waits for requests under way. The store stays open.
    ///
    /// # Errors
    ///
    /// The gRPC server failed.
    pub(crate) async fn serve(
        self,
        options: &Options,
        stops: &watch::Receiver<u32>,
    ) -> anyhow::Result<()> {
        let asks = self.asks.zip(self.runtime.as_ref());
        let asks = async {
            let Some((listener, runtime)) = asks else {
                return Ok(());
            };
            let services = Services {
                placement: Some(Arc::new(runtime.conductor().clone())),
                certificates: self.identity.offered(),
                ..Services::default()
            };
            let options = ServeOptions {
                token: self.token,
                credentials: self.identity.credentials.clone(),
                handshakes: self.tls.handshakes_of_roles(),
                ..option_conversion::asks(options, self.shares.asks)
            };
            placewright_rpc::serve(listener, services, options, nth(stops, 1)).await
        };
        let threads = &self.threads;
        let (first, second, third, asks) = tokio::join!(
            serve(threads, Some(self.placement), &self.restart, stops),
            serve(threads, self.scheduler, &self.restart, stops),
            serve(threads, self.compute, &self.restart, stops),
            asks,
        );
        if [first?, second?, third?].contains(&Stopped::TimedOut) {
            tracing::warn!("the time to drain is over: connections were cut");
        }
        if let Some(log) = self.gateway.audit_log() {
            log.close();
        }
        asks.context("cells cannot reach placement")
    }
}

fn stopped_while_loading() -> Option<Running> {
    tracing::info!("stopped while the state was being loaded");
    None
}

/// Starts the conductor's runtime on the engine.
fn conduct(
    options: &Options,
    engine: &Engine<ControlMachine>,
    ranker: SchedulerHandle,
    service: &PlacementService,
    (audits, sealer): (AuditMetrics, Sealer),
) -> anyhow::Result<Arc<Runtime>> {
    let conductor = option_conversion::conductor(options);
    let conductor = ControlHandle::with_sealer(engine.clone(), conductor, sealer);
    let runtime = Runtime::start(conductor, ranker)?;
    service.set_audit(runtime.start_audits(audits));
    Ok(runtime)
}

/// Reads the keys for secrets, on a thread that may wait for a command. None without a conductor:
/// there is nothing to seal then, and no key is needed.
async fn sealer(
    options: &Options,
    cells: usize,
    sockets: &Sockets,
    registry: &mut Registry,
) -> anyhow::Result<Option<Sealer>> {
    let conducts = cells > 0 || sockets.conduct() || !options.control.cells.0.is_empty();
    if !conducts {
        return Ok(None);
    }
    let (options, store) = (options.secrets.clone(), options.store.directory());
    let read = tokio::task::spawn_blocking(move || secrets::sealer(&options, &store));
    let sealer = read.await??;
    secrets::register(registry.sub_registry_with_prefix("placewright"), &sealer);
    Ok(Some(sealer))
}

/// Makes the predecessor process end, if there is one, and loads the state.
async fn take_over(
    mut inherited: InheritedSockets,
    options: &Options,
    observer: impl Observer,
) -> anyhow::Result<(InheritedSockets, Engine<ControlMachine>)> {
    let taken = tokio::task::spawn_blocking(move || inherited.take_over().map(|()| inherited));
    let inherited = taken.await??;
    let engine = open_store(options, options.store.directory(), observer).await?;
    ensure_standard_names(&engine).await?;
    Ok((inherited, engine))
}

async fn serve(
    threads: &ApiThreads,
    service: Option<(Server, ListeningSocket)>,
    restart: &Arc<HandOver>,
    stops: &watch::Receiver<u32>,
) -> anyhow::Result<Stopped> {
    let Some((server, port)) = service else {
        return Ok(Stopped::Drained);
    };
    let (restart, stops) = (Arc::clone(restart), stops.clone());
    let stop = async move {
        nth(&stops, 1).await;
        restart.successor()
    };
    threads.serve(server, port, stop).await
}

/// Ends the conductor and closes the store.
///
/// # Errors
///
/// It panicked, which is a bug.
pub(crate) async fn close(
    runtime: Option<Arc<Runtime>>,
    engine: Engine<ControlMachine>,
) -> anyhow::Result<()> {
    if let Some(runtime) = runtime {
        runtime.shutdown().await;
    }
    tokio::task::spawn_blocking(move || engine.shutdown()).await?;
    Ok(())
}
