//! Control's services in one process: placement, the scheduler, and where there are cells or the
//! compute API, the conductor. They start together and end together.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use placewright_compute::{ComputeOptions, ComputeService, Images, Limits};
use placewright_conductor::CellId;
use placewright_control::{AuditMetrics, CellConfig, Conductor, Runtime};
use placewright_engine::Engine;
use placewright_rpc::{CellClient, ClientOptions, ServeOptions, Services, Token};
use placewright_server::{
    ControlMachine, HttpMetrics, HttpService, SchedulerService, Server, Service, Stopped,
};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::Signal;
use tokio::sync::watch;

use super::journal_metrics::JournalMetrics;
use super::observer::Logged;
use super::signals::nth;
use super::{BACKLOG, access, bind, ensure_standard_names, open_store, scheduler_rules, wire};
use crate::config::{Config, ConfigErrors};
use crate::options::{AuthStrategy, ComputeApiOptions, Options};

/// Control, started, and serving once it is told to.
pub(crate) struct Running {
    pub(crate) engine: Engine<ControlMachine>,
    /// The conductor, where there is one.
    pub(crate) runtime: Option<Arc<Runtime>>,
    pub(crate) token: Option<Token>,
    placement: (Server, TcpListener),
    scheduler: Option<(Server<SchedulerService>, TcpListener)>,
    compute: Option<(Server<ComputeService>, TcpListener)>,
    asks: Option<TcpListener>,
    directory: PathBuf,
}

/// Addresses that are taken before the store is loaded, so that a start fails early. Nobody can
/// connect until they listen.
struct Sockets {
    placement: TcpSocket,
    scheduler: Option<TcpSocket>,
    compute: Option<TcpSocket>,
    asks: Option<TcpSocket>,
}

impl Sockets {
    fn bind(options: &Options) -> anyhow::Result<Self> {
        let maybe = |listen: Option<SocketAddr>, section| {
            let socket = listen.map(|listen| bind(listen, section));
            socket.transpose()
        };
        Ok(Self {
            placement: bind(options.placement.listen, "placement")?,
            scheduler: maybe(options.scheduler.listen, "scheduler")?,
            compute: maybe(options.compute.listen, "compute")?,
            asks: maybe(options.control.listen, "control")?,
        })
    }

    /// Whether one of them is the conductor's.
    fn conduct(&self) -> bool {
        self.compute.is_some() || self.asks.is_some()
    }
}

/// The secret that control shares with cells and agents, if there is one.
///
/// # Errors
/// The file cannot be read, or what is in it is no secret.
pub(crate) fn token(options: &Options) -> Result<Option<Token>, ConfigErrors> {
    let file = options.control.token_file.as_deref();
    let token = file.map(Token::read).transpose();
    token.map_err(|error| ConfigErrors(vec![format!("control.token_file: {error}")]))
}

impl Running {
    /// Starts: everything but serving. None: a signal came while the state was loaded.
    ///
    /// `conducts`: the conductor is wanted even if no cell is configured.
    ///
    /// # Errors
    /// Whatever keeps it from starting.
    pub(crate) async fn start(
        config: &Config,
        stops: &watch::Receiver<u32>,
        conducts: bool,
    ) -> anyhow::Result<Option<Self>> {
        let options = &config.options;
        let sockets = Sockets::bind(options)?;
        let token = token(options)?;
        let (authenticator, policy) = access::load(options)?;
        let scheduler = scheduler_rules::load(options)?;
        let mut registry = Registry::default();
        let metrics = HttpMetrics::new(&mut registry);
        let audits = AuditMetrics::new(&mut registry);
        let observer = Logged(JournalMetrics::new(&mut registry));
        let directory = options.store.directory();
        let engine = tokio::select! {
            engine = open_store(options, directory.clone(), observer) => engine?,
            () = nth(stops, 1) => {
                tracing::info!("stopped while the state was being loaded");
                return Ok(None);
            }
        };
        ensure_standard_names(&engine).await?;
        let service = Service::new(
            wire::server(options),
            engine.clone(),
            authenticator,
            policy,
            metrics,
            Arc::new(registry),
        );
        let placement = Server::new(service);
        let service = placement.service();
        let scheduler = SchedulerService::new(Arc::clone(service), scheduler, wire::keep(options));
        let conducts = conducts || sockets.conduct() || !options.control.cells.0.is_empty();
        let runtime = if conducts {
            let conductor = Conductor::new(engine.clone(), wire::conductor(options));
            let runtime = Runtime::start(conductor, scheduler.ranker())?;
            service.set_audit(runtime.start_audits(audits));
            Some(runtime)
        } else {
            None
        };
        let listen = |socket: Option<TcpSocket>| {
            let listener = socket.map(|socket| socket.listen(BACKLOG));
            listener.transpose()
        };
        let compute = match listen(sockets.compute)?.zip(runtime.as_ref()) {
            Some((listener, runtime)) => {
                let service = compute_api(options, service, runtime)?;
                Some((Server::new(service), listener))
            }
            None => None,
        };
        let scheduler =
            listen(sockets.scheduler)?.map(|listener| (Server::new(scheduler), listener));
        let running = Self {
            engine,
            runtime,
            token,
            placement: (placement, sockets.placement.listen(BACKLOG)?),
            scheduler,
            compute,
            asks: listen(sockets.asks)?,
            directory,
        };
        running.add_cells(options).await?;
        Ok(Some(running))
    }

    /// From now on reads the files that say who may do what again with each signal.
    pub(crate) fn reread_access(&self, options: &Options, hang_ups: Signal) {
        let service = Arc::clone(self.placement.0.service());
        tokio::spawn(access::reread_on(hang_ups, wire::policy(options), service));
    }

    /// Makes the configured cells known.
    async fn add_cells(&self, options: &Options) -> anyhow::Result<()> {
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        for (name, uuid, address) in &options.control.cells.0 {
            let client = CellClient::new(ClientOptions {
                token: self.token.clone(),
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

    /// Says what runs, where, and on what.
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
        let url = |address: Option<SocketAddr>| {
            address.map(|address| tracing::field::display(format!("http://{address}")))
        };
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            placement = %format_args!("http://{}", self.placement_address()?),
            scheduler = url(self.scheduler_address()?),
            compute = url(self.compute_address()?),
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

    /// Where placement listens.
    pub(crate) fn placement_address(&self) -> std::io::Result<SocketAddr> {
        self.placement.1.local_addr()
    }

    /// Where the scheduler listens.
    pub(crate) fn scheduler_address(&self) -> std::io::Result<Option<SocketAddr>> {
        let listener = self.scheduler.as_ref().map(|(_, listener)| listener);
        listener.map(TcpListener::local_addr).transpose()
    }

    /// Where the compute API listens.
    pub(crate) fn compute_address(&self) -> std::io::Result<Option<SocketAddr>> {
        let listener = self.compute.as_ref().map(|(_, listener)| listener);
        listener.map(TcpListener::local_addr).transpose()
    }

    /// Serves until the first signal, then lets requests under way end. The store is open still.
    ///
    /// # Errors
    /// The gRPC server failed.
    pub(crate) async fn serve(self, stops: &watch::Receiver<u32>) -> anyhow::Result<()> {
        let (placement, listener) = self.placement;
        let asks = self.asks.zip(self.runtime.as_ref());
        let asks = async {
            let Some((listener, runtime)) = asks else {
                return Ok(());
            };
            let services = Services {
                placement: Some(Arc::new(runtime.conductor().clone())),
                ..Services::default()
            };
            let options = ServeOptions {
                token: self.token,
                ..ServeOptions::default()
            };
            placewright_rpc::serve(listener, services, options, nth(stops, 1)).await
        };
        let (first, second, third, asks) = tokio::join!(
            placement.serve(listener, nth(stops, 1)),
            maybe_serve(self.scheduler, nth(stops, 1)),
            maybe_serve(self.compute, nth(stops, 1)),
            asks,
        );
        if [first, second, third].contains(&Stopped::TimedOut) {
            tracing::warn!("the time to drain is over: connections were cut");
        }
        asks.context("cells cannot reach placement")
    }
}

async fn maybe_serve<S: HttpService>(
    service: Option<(Server<S>, TcpListener)>,
    stop: impl Future<Output = ()>,
) -> Stopped {
    match service {
        Some((server, listener)) => server.serve(listener, stop).await,
        None => Stopped::Drained,
    }
}

/// Ends the conductor and closes the store.
///
/// # Errors
/// It panicked: a bug.
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

/// How much one request of the compute API may ask for.
fn limits(options: &ComputeApiOptions) -> Limits {
    let match_ms_max = u64::try_from(options.match_ms_max.get()).unwrap_or(u64::MAX);
    Limits {
        server_body_bytes_max: options.server_body_bytes_max.count(),
        body_bytes_max: options.body_bytes_max.count(),
        reservation_bytes_max: options.reservation_bytes_max.count(),
        hint_bytes_max: options.hint_bytes_max.count(),
        parameters_max: options.parameters_max.count(),
        pattern_chars_max: options.pattern_chars_max.count(),
        match_time_max: Duration::from_millis(match_ms_max),
        page_bytes_max: options.page_bytes_max.count(),
        keypairs_max: options.keypairs_max.count(),
        server_groups_max: options.server_groups_max.count(),
        server_group_members_max: options.server_group_members_max.count(),
    }
}

/// The compute API of a running control.
fn compute_api(
    options: &Options,
    service: &Arc<Service>,
    runtime: &Runtime,
) -> anyhow::Result<ComputeService> {
    let images = match &options.compute.images_file {
        Some(path) => Images::load(path.clone()).map_err(|error| {
            let error = crate::config::chain(&error);
            ConfigErrors(vec![format!("compute.images_file: {error}")])
        })?,
        None => Images::default(),
    };
    let limits = limits(&options.compute);
    let options = ComputeOptions {
        public_url: options.compute.public_url.clone(),
        limits,
        translate: runtime
            .ranker()
            .decide(|scheduler, _| scheduler.translate_options()),
        images: Arc::new(images),
    };
    Ok(ComputeService::new(Arc::clone(service), runtime, options))
}
