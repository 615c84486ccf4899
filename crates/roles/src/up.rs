//! `placewright up`: a whole installation in one process, on embedded stores under one directory: control with its
//! APIs, cells, and simulated hosts.
//!
//! Cells also listen on loopback, so that agents in other processes of this machine can join. When `up` is started
//! again on the same directory, the installation continues where it was.

mod certificates;
mod demo_image;
mod hosts;
mod summary;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use placewright_agent::Agent;
use placewright_auth::Secret;
use placewright_cell::Cell;
use placewright_conductor::CellId;
use placewright_control::{CellConfig, ControlHandle, Runtime};
use placewright_engine::Observer;
use placewright_link::CertificateLink;
use placewright_rpc::{ServeOptions, Services};
use placewright_tasks::{Task, supervise};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::config::{Config, ConfigErrors, Environment, Source, UpFlags};
use crate::control::observer::LoggingObserver;
use crate::control::own_identity::OwnIdentity;
use crate::control::running::{self, RunningControl};
use crate::control::signals::{self, Stops, wait_for_stops};
use crate::control::{BACKLOG, bind, check_open_listeners, logs, option_conversion, systemd};
use crate::options::{self, AuthStrategy, Options, PlainHttpMode};
use crate::{secrets, traces};
use certificates::Certificates;
use hosts::Simulation;

/// Arguments of `placewright up`, besides the options of its parts.
#[derive(Debug, Args)]
pub struct Up {
    /// The directory of all stores, made when missing
    #[arg(long, value_name = "DIRECTORY", default_value = "state")]
    folder: PathBuf,

    /// The number of cells
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    cells: u32,

    /// The number of simulated hosts, spread over the cells; with 0, hosts join by their agents only
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    hosts: u32,

    /// Simulate the machines of a trace instead (a CSV file of nodes)
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    nodes: Option<PathBuf>,

    /// How long a simulated build takes, in milliseconds: 50, 20-80, or ~50 on average
    #[arg(long, value_name = "MS", default_value = "0")]
    build_ms: String,

    /// The percentage of simulated builds that fail, at random
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    fail: u8,

    #[command(flatten)]
    flags: UpFlags,
}

/// The preferred ports where none is configured. If one is in use, a free port is used instead, except
/// for the compute API.
const IDENTITY_PORT: u16 = 5000;
const COMPUTE_PORT: u16 = 8774;
const CONTROL_PORT: u16 = 8775;
const HEALTH_PORT: u16 = 8777;
const SCHEDULER_PORT: u16 = 8779;
const IMAGE_PORT: u16 = 9292;
const NETWORK_PORT: u16 = 9696;
const UI_PORT: u16 = 8770;
/// The preferred port of the first cell. Those of the other cells follow it.
const CELLS_PORT: u16 = 8780;

/// How long simulated work under way may continue at the stop.
const AGENT_DRAIN: Duration = Duration::from_secs(1);
/// A host is marked down when its agent was silent for this long.
const HOST_TIMEOUT: Duration = Duration::from_secs(30);

/// The default log filter: everything except the lines of single requests.
const DEFAULT_LOG_FILTER: &str = "info,placewright_server::access=warn";

/// Runs the installation until a signal ends it.
///
/// # Errors
///
/// The installation cannot start, with the reason; [`ConfigErrors`] for errors in the configuration.
pub fn run(up: &Up) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut config = Config::load(&up.flags, &Environment::of_process())?;
    // By default requests are not logged: their lines would hide the summary with its suggestions.
    if is_default(&config, "log.filter") {
        DEFAULT_LOG_FILTER.clone_into(&mut config.options.log.filter);
    }
    let log = logs::start(&config.options.log)?;
    secrets::forbid_core_dumps(&config.options.secrets);
    up.set_defaults(&mut config)?;
    check_open_listeners(&config.options)?;
    let simulation = up.simulation()?;
    let tokio_runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let serve = traces::exporting(&config.options.traces, up.serve(&config, simulation, start));
    let result = tokio_runtime.block_on(supervise(Task::Main, serve));
    crate::audit_log::close();
    // The thread of a store that is still being loaded is not waited for.
    tokio_runtime.shutdown_background();
    drop(log);
    result
}

/// Whether an option was not set, so that it has its default.
fn is_default(config: &Config, key: &str) -> bool {
    let index = options::find(key);
    index.is_some_and(|index| config.values[index].source == Source::Default)
}

/// The address of this port on loopback; if the port is in use, the address with port 0, for which the system
/// chooses a free port.
fn preferred_or_free(port: u16) -> std::io::Result<SocketAddr> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let is_in_use = std::net::TcpListener::bind(address).is_err();
    Ok(if is_in_use {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    } else {
        address
    })
}

/// The address of the Placement API, which is always on.
fn placement_address(control: &RunningControl) -> anyhow::Result<SocketAddr> {
    let address = control.address("placement")?;
    address.context("placement has no address")
}

impl Up {
    /// Sets the options that the user did not set to the values for an installation in one process.
    fn set_defaults(&self, config: &mut Config) -> anyhow::Result<()> {
        // If the user chose no strategy, users sign in with passwords, as in every cloud.
        if is_default(config, "auth.strategy") {
            config.options.auth.strategy = AuthStrategy::Identity;
        }
        let options = &mut config.options;
        let strategy = options.auth.strategy;
        let has_own_access = matches!(strategy, AuthStrategy::Noauth2 | AuthStrategy::Identity);
        if !has_own_access && self.simulates() {
            return Err(ConfigErrors(vec![
                "simulated hosts write to placement as administrators without a password, so with \
                 auth.strategy other than noauth2 and identity there are none: say --hosts 0"
                    .to_owned(),
            ])
            .into());
        }
        if options.placement.tls_plain == PlainHttpMode::Refuse && self.simulates() {
            return Err(ConfigErrors(vec![
                "simulated hosts write to placement over HTTP, so with placement.tls_plain refuse \
                 there are none: say --hosts 0"
                    .to_owned(),
            ])
            .into());
        }
        // This process has cells of its own, so it is never one of several replicas.
        options.control.replica_address = None;
        if options.store.url.is_none() {
            let store = &mut options.store.path;
            store.get_or_insert_with(|| self.folder.join("control"));
        }
        if options.compute.listen.is_none() {
            options.compute.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, COMPUTE_PORT)));
        }
        if options.scheduler.listen.is_none() {
            options.scheduler.listen = Some(preferred_or_free(SCHEDULER_PORT)?);
        }
        if options.image.listen.is_none() {
            options.image.listen = Some(preferred_or_free(IMAGE_PORT)?);
        }
        let images = &mut options.image.folder;
        images.get_or_insert_with(|| self.folder.join("images"));
        if options.network.listen.is_none() {
            options.network.listen = Some(preferred_or_free(NETWORK_PORT)?);
        }
        if options.ui.listen.is_none() {
            options.ui.listen = Some(preferred_or_free(UI_PORT)?);
        }
        if options.control.listen.is_none() {
            options.control.listen = Some(preferred_or_free(CONTROL_PORT)?);
        }
        self.set_identity(options)?;
        self.set_authority_path(options);
        if options.health.listen.is_none() {
            options.health.listen = Some(preferred_or_free(HEALTH_PORT)?);
        }
        Ok(())
    }

    /// Sets where users sign in, and the file with the first passwords, if the installation has accounts of its own.
    fn set_identity(&self, options: &mut Options) -> std::io::Result<()> {
        if options.auth.strategy == AuthStrategy::Identity {
            if options.identity.listen.is_none() {
                options.identity.listen = Some(preferred_or_free(IDENTITY_PORT)?);
            }
            let file = &mut options.identity.clouds_file;
            file.get_or_insert_with(|| self.folder.join("clouds.yaml"));
        }
        Ok(())
    }

    /// Sets the folder of the authority, unless control has a certificate of another one. In that case the cells have
    /// no certificates.
    fn set_authority_path(&self, options: &mut Options) {
        if options.control.identity_path.is_none() {
            let authority = &mut options.control.authority_path;
            authority.get_or_insert_with(|| self.folder.join("pki"));
        }
    }

    /// Whether there are simulated hosts.
    fn simulates(&self) -> bool {
        self.nodes.is_some() || self.hosts > 0
    }

    fn simulation(&self) -> anyhow::Result<Simulation> {
        hosts::simulation(self.hosts, self.nodes.as_deref(), &self.build_ms, self.fail)
    }

    async fn serve(
        &self,
        config: &Config,
        simulation: Simulation,
        start: Instant,
    ) -> anyhow::Result<()> {
        let stops = signals::count_stops()?;
        let hang_ups = signals::hang_ups()?;
        Certificates::ensure_authority(&config.options)?;
        let Some(control) = RunningControl::start(config, &stops, self.cells as usize).await?
        else {
            // A signal came while the state was loaded.
            return Ok(());
        };
        control.reread_access_files(&config.options, hang_ups);
        let runtime = conductor_runtime(&control)?;
        demo_image::ensure(&config.options, runtime.control()).await?;
        let engine = control.engine.clone();
        let placement = placement_address(&control)?;
        let token = agents_token(&control);
        let mut summary = self.summary(config, &control, simulation.hosts.len())?;
        let mut cell_servers = JoinSet::new();
        let cells = self.start_cells(config, &control, (&stops, &mut cell_servers));
        let (cells, addresses) = cells.await?;
        summary.cells = addresses;
        control.log_ready(config, start).await?;
        let stops_of_serving = stops.clone();
        let hand_over = Arc::clone(&control.hand_over);
        let serve = async move { control.serve(&stops_of_serving).await };
        let mut serving = tokio::spawn(supervise(Task::Serving, serve));
        let agents = tokio::select! {
            agents = self.start_agents(simulation, &cells, (placement, token)) => agents?,
            () = wait_for_stops(&stops, 1) => Vec::new(),
        };
        tokio::select! {
            () = wait_until_ready(&agents, &runtime, summary.hosts) => {
                tracing::info!(hosts = summary.hosts, start_ms = start.elapsed().as_millis(), "up");
                summary.print()?;
                systemd::ready();
                systemd::feed_watchdog();
            }
            () = wait_for_stops(&stops, 1) => {}
            served = &mut serving => return served?,
        }
        tokio::select! {
            () = wait_for_stops(&stops, 1) => {}
            served = &mut serving => return served?,
        }
        tracing::info!("stopping: requests under way end first; a second signal ends it at once");
        systemd::stopping();
        let stopped = async {
            for agent in agents {
                agent.stop().await;
            }
            for cell in cells {
                cell.shutdown().await;
            }
            serving.await??;
            while cell_servers.join_next().await.is_some() {}
            running::close(Some(runtime), engine).await?;
            hand_over.finish();
            anyhow::Ok(())
        };
        tokio::select! {
            stopped = stopped => stopped?,
            () = wait_for_stops(&stops, 2) => bail!("ended at once by a second signal"),
        }
        tracing::info!("stopped");
        Ok(())
    }

    /// Opens all cells, adds them to control, and makes them listen for agents in other processes.
    async fn start_cells(
        &self,
        config: &Config,
        control: &RunningControl,
        (stops, cell_servers): (&Stops, &mut JoinSet<()>),
    ) -> anyhow::Result<(Vec<Arc<Cell>>, Vec<(CellId, SocketAddr)>)> {
        let runtime = conductor_runtime(control)?;
        let mut certificates = Certificates::open(&config.options, &self.folder)?;
        let (mut cells, mut addresses) = (Vec::new(), Vec::new());
        for number in 1..=self.cells {
            let cell = self.open_cell(config, &runtime, number).await?;
            let options = ServeOptions {
                credentials: certificates.ensure_for_cell(number)?,
                ..control.cell_server_options(&config.options)
            };
            let certificate_link = control.identity.certificate_link();
            let listener = self.listen(&cell, certificate_link, options, stops, cell_servers);
            addresses.push(listener.await?);
            cells.push(cell);
        }
        certificates.manage(&control.identity);
        Ok((cells, addresses))
    }

    /// The addresses to print when everything runs, without those of the cells.
    fn summary(
        &self,
        config: &Config,
        control: &RunningControl,
        hosts: usize,
    ) -> std::io::Result<summary::StartupSummary> {
        Ok(summary::StartupSummary {
            placement: control.url("placement")?.unwrap_or_default(),
            scheduler: control.url("scheduler")?,
            compute: control.url("compute")?,
            image: control.url("image")?,
            network: control.url("network")?,
            ui: control.url("ui")?,
            health: control.url("health")?,
            identity: control.url("identity")?,
            clouds_file: match control.own_identity() {
                Some(_) => OwnIdentity::clouds_file(&config.options),
                None => summary::open_clouds_file(&self.folder),
            },
            cells: Vec::new(),
            hosts,
        })
    }

    /// Opens a cell, and adds it to control.
    async fn open_cell(
        &self,
        config: &Config,
        runtime: &Arc<Runtime>,
        number: u32,
    ) -> anyhow::Result<Arc<Cell>> {
        // A cell has the same UUID after each restart.
        let id = CellId(Uuid::from_u128(
            0xce11_0000_0000_4000_8000_0000_0000_0000 + u128::from(number),
        ));
        let name = format!("cell{number}");
        let options = placewright_cell::Options {
            engine: option_conversion::cell_engine(&config.options),
            host_timeout: HOST_TIMEOUT,
            // A cell seals with control's keys: keys of its own would protect nothing, as all roles are one
            // process and all stores are below one folder.
            sealer: runtime.control().sealer().fork(),
            ..placewright_cell::Options::new(id)
        };
        let placement: Arc<ControlHandle> = Arc::new(runtime.control().clone());
        let directory = self.folder.join(&name);
        let cell = Cell::open(
            &directory,
            option_conversion::journal(&config.options),
            options,
            observer(),
            placement,
        );
        let cell = cell.await?;
        let link = Arc::clone(&cell) as _;
        let config = CellConfig {
            cell: id,
            name,
            link,
        };
        runtime.add_cell(config).await?;
        Ok(cell)
    }

    /// Makes a cell listen on loopback, for agents in other processes of this machine.
    async fn listen(
        &self,
        cell: &Arc<Cell>,
        certificates: Option<Arc<dyn CertificateLink>>,
        options: ServeOptions,
        stops: &Stops,
        cell_servers: &mut JoinSet<()>,
    ) -> anyhow::Result<(CellId, SocketAddr)> {
        let number = u16::try_from(cell_servers.len()).unwrap_or(0);
        let address = preferred_or_free(CELLS_PORT.saturating_add(number))?;
        let listener: TcpListener = bind(address, "cell")?.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let services = Services {
            cell: Some(Arc::clone(cell) as _),
            agents: Some(Arc::clone(cell) as _),
            placement: None,
            replica: None,
            certificates,
        };
        let stops = stops.clone();
        cell_servers.spawn(supervise(Task::CellServer, async move {
            let stop = async move { wait_for_stops(&stops, 1).await };
            if let Err(error) = placewright_rpc::serve(listener, services, options, stop).await {
                let message = format!("agents cannot reach the cell at {address}: {error}");
                placewright_tasks::task_ended(Task::CellServer, &message);
            }
        }));
        Ok((cell.id(), address))
    }

    async fn start_agents(
        &self,
        simulation: Simulation,
        cells: &[Arc<Cell>],
        (placement, token): (SocketAddr, Secret),
    ) -> anyhow::Result<Vec<Agent>> {
        let mut agents = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            let driver = simulation.driver(index, cells.len());
            let Some(driver) = driver else { continue };
            let directory = self.folder.join(format!("cell{}", index + 1));
            let options = placewright_agent::Options {
                guest_log: Some(directory.join("guests")),
                // Simulated guests do not outlive the machine, so their log need not be durable.
                is_guest_log_durable: false,
                placement: Some(placewright_agent::placement::Options::new(
                    format!("http://{placement}"),
                    placewright_agent::placement::Credentials::Token(token.expose().to_owned()),
                )),
                drain_timeout: AGENT_DRAIN,
                ..placewright_agent::Options::default()
            };
            let link = Arc::clone(cell) as _;
            agents.push(Agent::start(options, driver, link).await?);
        }
        Ok(agents)
    }
}

/// The runtime of control's conductor. There is one, because control was started with cells.
fn conductor_runtime(control: &RunningControl) -> anyhow::Result<Arc<Runtime>> {
    let runtime = control.runtime.clone();
    runtime.context("there is no conductor")
}

/// The token with which the simulated hosts write to placement.
fn agents_token(control: &RunningControl) -> Secret {
    match control.own_identity() {
        Some(own) => own.process_token().clone(),
        // The token of an administrator, with noauth2. With other strategies there are no simulated hosts.
        None => Secret::new("admin"),
    }
}

/// Waits until all hosts can get instances.
async fn wait_until_ready(agents: &[Agent], runtime: &Arc<Runtime>, hosts: usize) {
    for agent in agents {
        agent.wait_until_ready().await;
    }
    while runtime.host_count() < hosts {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Logs the events of the cells' engines. In this process the cells have no metrics.
fn observer() -> impl Observer {
    LoggingObserver(())
}
