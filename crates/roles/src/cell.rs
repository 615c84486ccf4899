//! `placewright cell`: runs one cell until it is told to stop.
//!
//! The order of a start: configuration, log, token, ports, store; then the cell listens. Steps that can
//! fail quickly come before the store is loaded.

mod metrics;
mod opening;
mod uuid_file;

use opening::OpenCell;
pub use uuid_file::UUID_FILE;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use placewright_cell::Cell;
use placewright_conductor::{CellId, cell_conductor};
use placewright_identity::Role;
use placewright_pki::Credentials;
use placewright_rpc::{
    CertificatesClient, ClientIdentity, ClientOptions, PlacementClient, ServeOptions, ServerRole,
    Services, Token, serve as serve_grpc,
};
use placewright_secrets::Sealer;
use placewright_tasks::{Task, supervise};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::audit_log;
use crate::config::{CellFlags, Config, ConfigErrors, Environment};
use crate::control::journal_metrics::JournalMetrics;
use crate::control::observer::LoggingObserver;
use crate::control::signals::{self, Stops, wait_for_stops};
use crate::control::sockets::Socket;
use crate::control::{BACKLOG, bind, descriptors, health, logs, option_conversion, systemd};
use crate::handshakes::HandshakeThreads;
use crate::identities::{self, ManagedCredentials};
use crate::options::{CellOptions, Number, Options};
use crate::replica::ReplicaGroup;
use crate::store::Store;
use crate::{replica, secrets, traces, warnings};

/// Arguments of `placewright cell`.
#[derive(Debug, Args)]
pub struct CellArgs {
    /// Gets the cell's certificate from control, into cell.identity_path, with a word of `placewright pki
    /// invite`, unless there is a certificate already. Takes the word, or a file that has it: other users of
    /// the machine can see a word on the command line, but not the content of a file
    #[arg(long, value_name = "WORD|FILE")]
    enrol: Option<String>,

    #[command(flatten)]
    flags: CellFlags,
}

/// Runs the cell until a signal ends it.
///
/// # Errors
///
/// The cell cannot start, with the reason; [`ConfigErrors`] for errors in the configuration.
pub fn run(arguments: &CellArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let config = Config::load(&arguments.flags, &Environment::of_process())?;
    let log = logs::start(&config.options.log)?;
    secrets::forbid_core_dumps(&config.options.secrets);
    let (token, warnings) = check(&config)?;
    warnings::log(&warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let serve = serve(&config, arguments.enrol.as_deref(), token, start);
    let serve = traces::exporting(&config.options.traces, serve);
    let result = runtime.block_on(supervise(Task::Main, serve));
    audit_log::close();
    // If the store is still being loaded, the thread that loads it is not waited for.
    runtime.shutdown_background();
    drop(log);
    result
}

/// Checks combinations of options, and reads the token. Also returns warnings about settings that are
/// allowed but probably not intended.
///
/// # Errors
///
/// The first error that would keep the cell from starting.
pub fn check(config: &Config) -> Result<(Option<Token>, Vec<String>), ConfigErrors> {
    let options = &config.options;
    let cell = &options.cell;
    let mut warnings = warnings::cell_warnings(config);
    let token = cell.token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|error| ConfigErrors(vec![format!("cell.token_file: {error}")]))?;
    if cell.uuid.is_some_and(|uuid| uuid.is_nil()) {
        return Err(ConfigErrors(vec![
            "cell.uuid: all zeros is the cell of instances without a host; it has no process"
                .to_owned(),
        ]));
    }
    // Without a certificate the listener has no TLS: only the token, if there is one, keeps other programs from making
    // the calls that are meant for control and agents.
    let is_open = !cell.listen.ip().is_loopback() && cell.identity_path.is_none();
    if is_open && !options.auth.i_know_this_is_open {
        return Err(ConfigErrors(vec![identities::open_listener_error(
            "cell",
            cell.listen,
        )]));
    }
    if is_open {
        warnings.push(identities::open_listener_warning(
            "cell",
            cell.listen,
            token.is_some(),
        ));
    }
    let store = Store::of_cell(cell, option_conversion::journal(options))?;
    replica::check_cell(options, &store)?;
    secrets::check(&options.secrets, &cell.directory())?;
    Ok((token, warnings))
}

/// Loads the cell's certificate, if it has one.
fn load_credentials(options: &CellOptions) -> Result<Option<Arc<Credentials>>, ConfigErrors> {
    let folder = options.identity_path.as_deref();
    let load = |folder| {
        let is_cell = |role: &Role| matches!(role, Role::Cell(_));
        let (key, whose) = ("cell.identity_path", "that of a cell");
        let revocation_list = None;
        identities::load(key, folder, revocation_list, whose, is_cell)
    };
    folder.map(load).transpose()
}

/// The options of the cell's connections to control.
fn control_client_options(
    options: &CellOptions,
    token: Option<Token>,
    credentials: Option<&Arc<Credentials>>,
) -> ClientOptions {
    ClientOptions {
        token,
        identity: credentials.map(|credentials| ClientIdentity {
            credentials: Arc::clone(credentials),
            server: ServerRole::Control,
        }),
        call_timeout: milliseconds(options.ask_timeout_ms),
        ..ClientOptions::new(&options.placement)
    }
}

/// The link to the authority for the cell's agents, whose renewals the cell forwards; `None` if the cell has no
/// certificate. Also starts the task that keeps the cell's own certificate valid.
fn authority_link(
    client_options: &ClientOptions,
    credentials: Option<&Arc<Credentials>>,
) -> Result<Option<Arc<CertificatesClient>>, ConfigErrors> {
    let Some(credentials) = credentials else {
        return Ok(None);
    };
    let new_link = || {
        let link = CertificatesClient::new(client_options.clone());
        link.map_err(|error| ConfigErrors(vec![format!("cell.placement: {error}")]))
    };
    let own_link = new_link()?;
    // Control has the authority and the revocation list.
    let managed = ManagedCredentials::new(
        Arc::clone(credentials),
        Some(Arc::new(own_link.clone())),
        Some(own_link),
    );
    placewright_tasks::spawn(Task::Certificates, identities::manage(vec![managed]));
    Ok(Some(Arc::new(new_link()?.forwarding_renewals())))
}

async fn serve(
    config: &Config,
    word_or_file: Option<&str>,
    token: Option<Token>,
    start: Instant,
) -> anyhow::Result<()> {
    let options = &config.options.cell;
    let stops = signals::count_stops()?;
    signals::ignore_hang_ups()?;
    let folder = options.identity_path.as_deref();
    identities::enrol("cell", word_or_file, folder, &options.placement).await?;
    let credentials = load_credentials(options)?;
    let client_options = control_client_options(options, token.clone(), credentials.as_ref());
    let placement = placement_client(client_options.clone())?;
    let socket = bind(options.listen, "cell")?;
    // The listener for the metrics of a cell has no TLS.
    let (metrics, tls) = (options.metrics_listen, None);
    let metrics = metrics.map(|listen| bind(listen, "cell.metrics"));
    let (health_handle, _) = health::start(metrics.transpose()?.map(Socket::Bound), tls)?;
    let connection_limits = descriptors::raise_and_divide_for_cell(&config.options);
    let directory = options.directory();
    let id = uuid_file::read_or_create(&directory, options.uuid)?;
    let mut registry = Registry::default();
    placewright_spans::register(registry.sub_registry_with_prefix("placewright"));
    let observer = LoggingObserver(JournalMetrics::new(&mut registry));
    let cell_options = placewright_cell::Options {
        sealer: open_sealer(config, &mut registry).await?,
        ..cell_options(&config.options, CellId(id))
    };
    let client = opening::replica_client_options(token.clone(), credentials.clone());
    let parts = (observer, placement as _);
    let open = tokio::select! {
        open = OpenCell::open(&config.options, cell_options, parts, client) => open?,
        () = wait_for_stops(&stops, 1) => {
            tracing::info!("stopped while the state was being loaded");
            return Ok(());
        }
    };
    let cell = &open.cell;
    metrics::register(&mut registry, cell);
    audit_log::start(&config.options.audit, &directory, &mut registry)?;
    let listener = socket.listen(BACKLOG)?;
    log_ready(config, &listener, cell, &directory, start)?;
    health_handle.set(metrics::CellHealth::new(registry, stops.clone(), cell));
    systemd::ready();
    systemd::feed_watchdog();

    let authority = authority_link(&client_options, credentials.as_ref())?;
    let services = services(&open, authority);
    let threads = HandshakeThreads::start(&config.options, credentials.is_some())?;
    let serve_options = ServeOptions {
        token,
        credentials,
        handshakes: threads.handshakes(),
        drain_timeout: milliseconds(options.drain_timeout_ms),
        ..option_conversion::grpc_of_cell(&config.options, connection_limits.cell)
    };
    serve_until_stopped(&open, (listener, services, serve_options), &stops).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Serves until the first signal, or until the server fails, and then ends the cell.
async fn serve_until_stopped(
    open: &OpenCell,
    (listener, services, options): (TcpListener, Services, ServeOptions),
    stops: &Stops,
) -> anyhow::Result<()> {
    let (stop_serving, until_ended) = oneshot::channel();
    let serving = serve_grpc(listener, services, options, async {
        // An error would mean that the sender was dropped, which happens only together with the server.
        let _ = until_ended.await;
    });
    let serving = async { stops.stop_if_failed(serving.await.map_err(anyhow::Error::from)) };
    let stopping = async {
        wait_for_stops(stops, 1).await;
        tracing::info!(
            "stopping: what was accepted is made durable; a second signal ends it at once"
        );
        systemd::stopping();
        // This also ends the streams of agents and followers, for which the server would wait.
        open.shutdown().await;
        // An error means that the server has already ended by itself.
        let _ = stop_serving.send(());
    };
    tokio::select! {
        (served, ()) = async { tokio::join!(serving, stopping) } => served?,
        () = wait_for_stops(stops, 2) => bail!("ended at once by a second signal"),
    }
    Ok(())
}

/// Reads the keys for secrets, on a thread that may block, because a command may have to be run to get them.
async fn open_sealer(config: &Config, registry: &mut Registry) -> anyhow::Result<Sealer> {
    let options = config.options.secrets.clone();
    let store = config.options.cell.directory();
    let opened = tokio::task::spawn_blocking(move || secrets::open_sealer(&options, &store));
    let sealer = opened.await??;
    let registry = registry.sub_registry_with_prefix("placewright_cell");
    secrets::register(registry, &sealer);
    Ok(sealer)
}

/// The gRPC services of the cell, for control, its agents and its other replicas.
fn services(open: &OpenCell, certificates: Option<Arc<CertificatesClient>>) -> Services {
    Services {
        cell: Some(Arc::clone(&open.cell) as _),
        agents: Some(Arc::clone(&open.cell) as _),
        replica: open.group.as_ref().map(ReplicaGroup::link),
        certificates: certificates.map(|link| link as _),
        ..Services::default()
    }
}

/// The link through which the cell reaches placement.
fn placement_client(options: ClientOptions) -> Result<Arc<PlacementClient>, ConfigErrors> {
    let client = PlacementClient::new(options);
    let client = client.map_err(|error| ConfigErrors(vec![format!("cell.placement: {error}")]))?;
    Ok(Arc::new(client))
}

fn cell_options(options: &Options, id: CellId) -> placewright_cell::Options {
    let cell = &options.cell;
    placewright_cell::Options {
        conductor: cell_conductor::Options {
            step_timeout_ms: u32::try_from(cell.step_timeout_ms.get()).unwrap_or(u32::MAX),
        },
        engine: option_conversion::cell_engine(options),
        host_timeout: milliseconds(cell.host_timeout_ms),
        resend_after: milliseconds(cell.resend_ms),
        placement_timeout: milliseconds(cell.ask_timeout_ms),
        // `milliseconds` takes the number as milliseconds, but this option is in seconds.
        remember_deleted: milliseconds(cell.remember_deleted_s) * 1000,
        hosts_max: cell.hosts_max.count(),
        ..placewright_cell::Options::new(id)
    }
}

fn milliseconds<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Duration {
    Duration::from_millis(u64::try_from(number.get()).unwrap_or(0))
}

/// Logs that the cell is ready, with its version, addresses and store.
fn log_ready(
    config: &Config,
    listener: &TcpListener,
    cell: &Cell,
    directory: &Path,
    start: Instant,
) -> anyhow::Result<()> {
    let metrics = cell.metrics();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cell = %cell.id(),
        grpc = %listener.local_addr()?,
        placement = config.options.cell.placement,
        config = %config.file.as_deref().map_or("none".into(), Path::to_string_lossy),
        store = %directory.display(),
        sequence = cell.engine().durable_sequence(),
        instances = metrics.instances,
        hosts = metrics.hosts,
        start_ms = start.elapsed().as_millis(),
        "ready"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OPTIONS;

    #[test]
    fn the_defaults_of_the_options_are_those_of_the_cell_crate() {
        let texts: Vec<&str> = OPTIONS.iter().map(|spec| spec.default).collect();
        let options = Options::from_texts(&texts).unwrap();
        let id = CellId(uuid::Uuid::from_u128(1));
        let converted = format!("{:#?}", cell_options(&options, id));
        assert_eq!(
            converted,
            format!("{:#?}", placewright_cell::Options::new(id))
        );
    }
}
