//! Control's services in one process: placement, the scheduler, the other APIs, and the conductor if there are cells, a
//! listener for cells, or an API that needs it. They start and end together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use placewright_conductor::CellId;
use placewright_control::{
    AuditMetrics, CellConfig, ClaimMetrics, ControlMachine, Placement, PlacementMetrics, Runtime,
    SchedulerHandle,
};
use placewright_engine::Engine;
use placewright_http::{AdmissionControl, Gateway, HttpMetrics, Stopped, TlsMetrics};
use placewright_rpc::{CellClient, ClientOptions, ServeOptions, Services, Token};
use placewright_tasks::Task;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;
use tokio::sync::oneshot;

use super::access::AccessFiles;
use super::api_servers::{ApiServers, ListenerParts};
use super::api_threads::ApiThreads;
use super::descriptors::{self, ConnectionLimits};
use super::journal_metrics::JournalMetrics;
use super::loading::end_predecessor_and_load;
use super::observer::LoggingObserver;
use super::own_identity::OwnIdentity;
use super::parts::{grpc_options, new_gateway, open_sealer, start_conductor};
use super::replica::ControlReplica;
use super::restart::{self, HandOver, InheritedSockets};
use super::services::{CommonServices, add_apis, complete_gateway, open_image_folder};
use super::signals::{Stops, wait_for_stops};
use super::sockets::Sockets;
use super::tls::Tls;
use super::{Checked, access, health, option_conversion, panics, quotas};
use crate::audit_log;
use crate::config::{Config, ConfigErrors};
use crate::identities::ControlIdentity;
use crate::options::{AuthStrategy, Options};

/// Control's services and sockets, once they are started. Requests are served when [`Self::serve`] is called.
pub(crate) struct RunningControl {
    pub(crate) engine: Engine<ControlMachine>,
    /// The conductor's runtime, if there is a conductor.
    pub(crate) runtime: Option<Arc<Runtime>>,
    pub(crate) token: Option<Token>,
    /// Control's certificate, and the authority if this process has it.
    pub(crate) identity: ControlIdentity,
    /// The connection limits of the listeners.
    pub(crate) connection_limits: ConnectionLimits,
    /// Passes the sockets to a successor of this process.
    pub(crate) hand_over: Arc<HandOver>,
    gateway: Arc<Gateway>,
    apis: ApiServers,
    /// The parts of the identity API besides its server, if users sign in here.
    own_identity: Option<OwnIdentity>,
    /// The listening socket of the gRPC server for cells, if there is one. In a replica, the gRPC server already uses
    /// a copy of the socket.
    grpc_listener: Option<TcpListener>,
    /// This process as one of several replicas, if it is one.
    replica: Option<ControlReplica>,
    /// The options of the gRPC server for cells.
    serve_options: ServeOptions,
    /// The address for health checks and metrics.
    health: Option<SocketAddr>,
    /// The directory of the store.
    directory: PathBuf,
    threads: ApiThreads,
    tls: Tls,
}

/// The metrics of control's parts.
struct Metrics {
    http: HttpMetrics,
    /// Admission control, from which its metrics are read.
    admission: AdmissionControl,
    tls: TlsMetrics,
    claims: ClaimMetrics,
    placements: PlacementMetrics,
    audits: AuditMetrics,
    journal: JournalMetrics,
}

impl Metrics {
    /// Creates and registers all metrics.
    fn new(options: &Options) -> (Registry, Self) {
        let mut registry = Registry::default();
        let admission = AdmissionControl::new(&option_conversion::admission(options));
        admission.register(&mut registry);
        panics::register(&mut registry);
        placewright_spans::register(registry.sub_registry_with_prefix("placewright"));
        let metrics = Self {
            http: HttpMetrics::new(&mut registry),
            admission,
            tls: TlsMetrics::new(&mut registry),
            claims: ClaimMetrics::new(&mut registry),
            placements: PlacementMetrics::new(&mut registry),
            audits: AuditMetrics::new(&mut registry),
            journal: JournalMetrics::new(&mut registry),
        };
        (registry, metrics)
    }
}

/// Reads the secret that control shares with cells and agents, if there is one.
///
/// # Errors
///
/// The file cannot be read, or its content is not a valid secret.
pub(crate) fn read_token(options: &Options) -> Result<Option<Token>, ConfigErrors> {
    let file = options.control.token_file.as_deref();
    let token = file.map(Token::read).transpose();
    token.map_err(|error| ConfigErrors(vec![format!("control.token_file: {error}")]))
}

impl RunningControl {
    /// Starts everything except serving the APIs and cells. Health checks and metrics are served from here on, and in a
    /// replica the calls of the other replicas. Returns `None` if a signal came while the state was loaded.
    ///
    /// `cells` is the number of cells in this process. If there are any, there is a conductor.
    ///
    /// # Errors
    ///
    /// Whatever keeps control from starting.
    pub(crate) async fn start(
        config: &Config,
        stops: &Stops,
        cells: usize,
    ) -> anyhow::Result<Option<Self>> {
        let options = &config.options;
        let (checked, identity) = Checked::for_start(config)?;
        let directory = options.store.directory();
        let mut inherited = InheritedSockets::receive(&directory, options.control.take_over)?;
        let mut sockets = Sockets::take(options, &mut inherited)?;
        // This may warn, so it comes after the checks of the options and the sockets, which may end the start.
        let limits = descriptors::raise_and_divide_for_control(options, cells);
        let (mut registry, metrics) = Metrics::new(options);
        let sealer = open_sealer(options, cells, &sockets, &mut registry).await?;
        let observer = LoggingObserver(metrics.journal);
        let tls = checked.tls.open(options, &metrics.tls, &identity)?;
        let (health_handle, health) = health::start(sockets.health.take(), tls.acceptor("health"))?;
        let log = audit_log::start(&options.audit, &directory, &mut registry)?;
        let images = open_image_folder(options, &sockets).await?;
        let serve_options = grpc_options(options, limits, (&checked.token, &identity, &tls));
        let grpc = (sockets.for_cells.take(), serve_options.clone(), &identity);
        let loaded = tokio::select! {
            loaded = end_predecessor_and_load(inherited, options, observer, grpc) => loaded?,
            () = wait_for_stops(stops, 1) => return Ok(stopped_while_loading()),
        };
        let (mut inherited, engine) = (loaded.inherited, loaded.engine);
        let threads = ApiThreads::start(options)?;
        let placement = Placement::new(engine.clone(), metrics.claims);
        let http = (option_conversion::http(options), metrics.http, registry);
        let gateway = new_gateway(http, &engine, checked.authenticator, checked.policy);
        let gateway = complete_gateway(gateway, (&metrics.admission, log), &threads, &placement);
        let scheduler = SchedulerHandle::new(engine.clone(), checked.scheduler);
        let handles = (placement, &scheduler);
        let services = CommonServices::new(options, &gateway, handles, &loaded.replica);
        let conductor_metrics = (metrics.audits, metrics.placements);
        let others = (conductor_metrics, sealer, metrics.admission);
        let runtime = start_conductor(options, &engine, scheduler, &services.placement, others)?;
        let mut parts = ListenerParts {
            limits,
            tls: &tls,
            inherited: &mut inherited,
        };
        let conductor = runtime.as_deref();
        let sockets = (sockets, images);
        let (apis, own_identity) =
            add_apis(options, &gateway, conductor, services, sockets, &mut parts).await?;
        health_handle.set(Arc::clone(&gateway) as _);
        let mut running = Self {
            engine,
            runtime,
            token: checked.token,
            identity,
            connection_limits: limits,
            // `offer_restart` replaces this.
            hand_over: Arc::default(),
            gateway,
            apis,
            own_identity,
            grpc_listener: loaded.grpc_listener,
            replica: loaded.replica,
            serve_options,
            health: None,
            directory,
            threads,
            tls,
        };
        running.offer_restart(health)?;
        running.prepare(options).await?;
        Ok(Some(running))
    }

    /// The options of the gRPC server of a cell in this process.
    pub(crate) fn cell_server_options(&self, options: &Options) -> ServeOptions {
        ServeOptions {
            token: self.token.clone(),
            handshakes: self.tls.handshakes_of_roles(),
            ..option_conversion::grpc_of_cell(options, self.connection_limits.cell)
        }
    }

    /// Enables a restart that refuses no connections: offers the listening sockets to a successor.
    fn offer_restart(&mut self, health: Option<std::net::TcpListener>) -> std::io::Result<()> {
        let health = health.as_ref();
        self.health = health.map(|listener| listener.local_addr()).transpose()?;
        let for_cells = self
            .grpc_listener
            .iter()
            .map(|listener| ("control", listener));
        let listeners = self.apis.listeners().chain(for_cells);
        self.hand_over =
            HandOver::offer(&self.directory, restart::copy_listeners(listeners, health));
        Ok(())
    }

    /// Starts the task that reads the files of authentication, policies and TLS again with each SIGHUP, and those of
    /// TLS and of Keystone's authorities also when they change.
    pub(crate) fn reread_access_files(&self, options: &Options, hang_ups: Signal) {
        let files = AccessFiles {
            policy: option_conversion::policy(options),
            gateway: Arc::clone(&self.gateway),
            tls: Arc::clone(self.tls.listeners()),
        };
        let check_interval = option_conversion::reload_check(options);
        placewright_tasks::spawn(
            Task::Access,
            access::reread_on_signals(hang_ups, check_interval, files),
        );
    }

    /// Adds the configured cells.
    async fn add_cells(&self, runtime: &Runtime, options: &Options) -> anyhow::Result<()> {
        for (name, uuid, address) in &options.control.cells.0 {
            let client = CellClient::new(ClientOptions {
                token: self.token.clone(),
                identity: self.identity.client_identity_for(name),
                call_timeout: runtime.control().options().answer_timeout,
                ..ClientOptions::new(address)
            });
            let config_error =
                |why: String| ConfigErrors(vec![format!("control.cells: {name}: {why}")]);
            let link = client.map_err(|error| config_error(error.to_string()))?;
            let config = CellConfig {
                cell: CellId(*uuid),
                name: name.clone(),
                link: Arc::new(link),
            };
            let added = runtime.add_cell(config).await;
            added.map_err(|error| config_error(error.to_string()))?;
        }
        Ok(())
    }

    /// Seals the secrets that an earlier release stored in the clear, creates the first accounts, adds the configured
    /// cells and applies the configured quotas, before any request is served.
    async fn prepare(&self, options: &Options) -> anyhow::Result<()> {
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let sealed = runtime.seal_open_secrets().await;
        if sealed > 0 {
            tracing::info!(sealed, "secrets of servers were sealed in the store");
        }
        if let Some(own) = self.own_identity() {
            own.prepare(options, self.tls.scheme("identity")).await?;
        }
        self.add_cells(runtime, options).await?;
        quotas::start(options, runtime).await
    }

    /// Logs that control is ready, with its version, addresses and store.
    pub(crate) async fn log_ready(&self, config: &Config, start: Instant) -> anyhow::Result<()> {
        let counts = |control: &ControlMachine| {
            let placement = control.placement();
            (
                placement.provider_count(),
                placement.consumer_count(),
                control.state.conductor.cells().len(),
            )
        };
        let (providers, consumers, cells) = self.engine.read(counts).await;
        let url =
            |section| -> std::io::Result<_> { Ok(self.url(section)?.map(tracing::field::display)) };
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            placement = url("placement")?,
            scheduler = url("scheduler")?,
            compute = url("compute")?,
            image = url("image")?,
            network = url("network")?,
            ui = url("ui")?,
            identity = url("identity")?,
            health = url("health")?,
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

    /// The address of the API whose options are in a section, if it is enabled.
    pub(crate) fn address(&self, section: &str) -> std::io::Result<Option<SocketAddr>> {
        self.apis.address(section)
    }

    /// The parts of the identity API besides its server, if there is an identity API.
    pub(crate) fn own_identity(&self) -> Option<&OwnIdentity> {
        self.own_identity.as_ref()
    }

    /// The URL of the API whose options are in a section, or that of health checks and metrics, if there is a listener
    /// for it.
    pub(crate) fn url(&self, section: &str) -> std::io::Result<Option<String>> {
        let address = match section {
            "health" => self.health,
            _ => self.address(section)?,
        };
        let scheme = self.tls.scheme(section);
        Ok(address.map(|address| format!("{scheme}://{address}")))
    }

    /// Serves until the first signal, or until a server fails, then waits for requests under way. The store stays open.
    ///
    /// # Errors
    ///
    /// The gRPC server failed, or a server of an API panicked.
    pub(crate) async fn serve(self, stops: &Stops) -> anyhow::Result<()> {
        let (apis_end, apis_ended) = oneshot::channel::<()>();
        let placement = self.runtime.as_ref();
        let placement = placement.map(|runtime| Arc::new(runtime.control().clone()) as _);
        let certificates = self.identity.certificate_link();
        let serve_grpc = async {
            if let Some(replica) = self.replica {
                drop(self.grpc_listener);
                let apis_ended = async {
                    // The channel is closed when the APIs have ended.
                    let _ = apis_ended.await;
                };
                return replica.serve(placement, stops, apis_ended).await;
            }
            let Some((listener, placement)) = self.grpc_listener.zip(placement) else {
                return Ok(());
            };
            let services = Services {
                placement: Some(placement),
                certificates,
                ..Services::default()
            };
            let stop = wait_for_stops(stops, 1);
            let served = placewright_rpc::serve(listener, services, self.serve_options, stop).await;
            served.context("cells cannot reach placement")
        };
        let threads = &self.threads;
        let serve_apis = async {
            let served = self.apis.serve(threads, &self.hand_over, stops).await;
            drop(apis_end);
            served
        };
        let serve_grpc = async { stops.stop_if_failed(serve_grpc.await) };
        let (served, grpc) = tokio::join!(serve_apis, serve_grpc);
        if served? == Stopped::TimedOut {
            tracing::warn!("the time to drain is over: connections were cut");
        }
        if let Some(log) = self.gateway.audit_log() {
            log.close();
        }
        grpc
    }
}

/// The result of a start that a signal ended: always `None`.
fn stopped_while_loading() -> Option<RunningControl> {
    tracing::info!("stopped while the state was being loaded");
    None
}

/// Stops the conductor and closes the store.
///
/// # Errors
///
/// Closing the engine panicked, which is a bug.
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
