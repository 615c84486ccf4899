//! `placewright agent`: manages hosts until it is told to stop.

mod hosts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use placewright_agent::{Agent, AgentError, Driver, placement};
use placewright_auth::ServiceUser;
use placewright_identity::Role;
use placewright_link::AgentLink;
use placewright_rpc::{
    AgentClient, CertificatesClient, ClientIdentity, ClientOptions, ServerRole, Token,
};

use placewright_tasks::{Task, supervise};

use crate::config::{AgentFlags, Config, ConfigErrors, Environment};
use crate::control::signals::{self, wait_for_stops};
use crate::control::{logs, option_conversion, systemd};
use crate::identities::{self, ManagedCredentials};
use crate::options::{AgentOptions, DriverKind, Number, Options};
use crate::{secrets, traces, warnings};

/// Arguments of `placewright agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Gets the agent's certificate from its cell, into agent.identity_path, with a word of `placewright pki
    /// invite`, unless there is a certificate already. Takes the word, or a file that has it: other users of
    /// the machine can see a word on the command line, but not the content of a file
    #[arg(long, value_name = "WORD|FILE")]
    enrol: Option<String>,

    #[command(flatten)]
    flags: AgentFlags,
}

/// Runs the agent until a signal ends it.
///
/// # Errors
///
/// The agent cannot start, with the reason; [`ConfigErrors`] for errors in the configuration.
pub fn run(arguments: &AgentArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let config = Config::load(&arguments.flags, &Environment::of_process())?;
    let log = logs::start(&config.options.log)?;
    secrets::forbid_core_dumps(&config.options.secrets);
    let options = &config.options.agent;
    let checked = check(&config)?;
    warnings::log(&checked.warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let serve = serve(options, arguments.enrol.as_deref(), checked, start);
    let serve = traces::exporting(&config.options.traces, serve);
    let result = runtime.block_on(supervise(Task::Main, serve));
    runtime.shutdown_background();
    drop(log);
    result
}

/// The result of checking the options and reading the files that they name.
pub struct Checked {
    /// The driver that the options select, with its hosts.
    driver: Arc<dyn Driver>,
    /// How the agent reaches placement.
    placement: placement::Options,
    /// The secret that the agent sends to its cell, if there is one.
    token: Option<Token>,
    /// Settings that are allowed but probably not intended.
    pub warnings: Vec<String>,
}

/// Checks combinations of options, and reads the files that they name.
///
/// # Errors
///
/// The first error that would keep the agent from starting.
pub fn check(config: &Config) -> Result<Checked, ConfigErrors> {
    let options = &config.options.agent;
    let token = options.token_file.as_deref().map(Token::read).transpose();
    Ok(Checked {
        driver: hosts::create_driver(options)?,
        placement: placement_options(&config.options)?,
        token: token.map_err(|error| config_error("token_file", &error))?,
        warnings: warnings::agent_warnings(config),
    })
}

/// The options of the agent's connection to its cell. If the agent has a certificate, this also starts
/// the task that keeps the certificate valid.
fn cell_client_options(
    options: &AgentOptions,
    token: Option<Token>,
) -> Result<ClientOptions, ConfigErrors> {
    let mut client = ClientOptions {
        token,
        ..ClientOptions::new(&options.cell)
    };
    let Some(folder) = options.identity_path.as_deref() else {
        return Ok(client);
    };
    let key = "agent.identity_path";
    let is_agent = |role: &Role| matches!(role, Role::Agent(_));
    let revocation_list = None;
    let whose = "that of an agent";
    let credentials = identities::load(key, folder, revocation_list, whose, is_agent)?;
    let cell = credentials
        .current()
        .identity()
        .cell()
        .unwrap_or_default()
        .to_owned();
    client.identity = Some(ClientIdentity {
        credentials: Arc::clone(&credentials),
        server: ServerRole::Cell(cell),
    });
    let cell_link = CertificatesClient::new(client.clone());
    let cell_link = cell_link.map_err(|error| config_error("cell", &error))?;
    // The cell forwards renewals to the authority, and has the revocation list.
    let managed = ManagedCredentials::new(
        credentials,
        Some(Arc::new(cell_link.clone())),
        Some(cell_link),
    );
    placewright_tasks::spawn(Task::Certificates, identities::manage(vec![managed]));
    Ok(client)
}

async fn serve(
    options: &AgentOptions,
    word_or_file: Option<&str>,
    checked: Checked,
    start: Instant,
) -> anyhow::Result<()> {
    let Checked {
        driver,
        placement,
        token,
        ..
    } = checked;
    let stops = signals::count_stops()?;
    signals::ignore_hang_ups()?;
    let folder = options.identity_path.as_deref();
    identities::enrol("agent", word_or_file, folder, &options.cell).await?;
    let link = AgentClient::new(cell_client_options(options, token)?);
    let link: Arc<dyn AgentLink> = Arc::new(link.map_err(|error| config_error("cell", &error))?);
    let agent_options = agent_options(options, placement);
    let guest_log = agent_options.guest_log.clone().unwrap_or_default();
    let agent = Agent::start(agent_options, driver, link).await;
    let agent = agent.map_err(|error| match error {
        AgentError::Placement(error) => anyhow::Error::from(config_error("placement_url", &error)),
        error => anyhow::Error::from(error),
    })?;
    systemd::ready();
    systemd::feed_watchdog();
    tokio::select! {
        () = agent.wait_until_ready() => tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            driver = options.driver.text(),
            cell = options.cell,
            placement = options.placement_url,
            record = %guest_log.display(),
            start_ms = start.elapsed().as_millis(),
            "ready"
        ),
        () = wait_for_stops(&stops, 1) => {}
    }
    wait_for_stops(&stops, 1).await;
    tracing::info!("stopping: work under way may end; guests stay");
    systemd::stopping();
    tokio::select! {
        () = agent.stop() => {}
        () = wait_for_stops(&stops, 2) => bail!("ended at once by a second signal"),
    }
    tracing::info!("stopped");
    Ok(())
}

/// The address of placement and the credentials for it.
fn placement_options(all_options: &Options) -> Result<placement::Options, ConfigErrors> {
    let options = &all_options.agent;
    let credentials = match (&options.placement_user, &options.placement_password_file) {
        (None, None) if options.placement_keystone => {
            let user =
                ServiceUser::new(&option_conversion::keystone(all_options)).map_err(|error| {
                    ConfigErrors(vec![format!("[keystone] {}", crate::config::chain(&error))])
                })?;
            placement::Credentials::Service(Arc::new(user))
        }
        (Some(_), _) if options.placement_keystone => {
            let message = "does not go together with placement_keystone";
            return Err(config_error("placement_user", &message));
        }
        (Some(user), Some(file)) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| config_error("placement_password_file", &error))?;
            let password = text.lines().next().unwrap_or_default().to_owned();
            placement::Credentials::Password(user.clone(), password)
        }
        (None, None) => placement::Credentials::Token(options.placement_token.clone()),
        _ => {
            let message = "goes together with placement_password_file";
            return Err(config_error("placement_user", &message));
        }
    };
    Ok(placement::Options::new(&options.placement_url, credentials))
}

fn agent_options(
    options: &AgentOptions,
    placement: placement::Options,
) -> placewright_agent::Options {
    let is_simulated = options.driver == DriverKind::Simulated;
    placewright_agent::Options {
        service_host: options.service_host.clone(),
        guest_log: Some(options.directory().join("guests")),
        // Simulated guests do not outlive the machine, so their log need not be durable.
        is_guest_log_durable: !is_simulated,
        placement: Some(placement),
        resync_interval: seconds(options.resync_s),
        // Simulated hosts do not change by themselves.
        inspect_interval: match is_simulated {
            true => Duration::ZERO,
            false => seconds(options.inspect_s),
        },
        heartbeat_interval: milliseconds(options.heartbeat_ms),
        gather_time: milliseconds(options.gather_ms),
        prepare_timeout: milliseconds(options.prepare_timeout_ms),
        builds_max: options.builds_max.count(),
        drain_timeout: milliseconds(options.drain_timeout_ms),
        ..placewright_agent::Options::default()
    }
}

impl AgentOptions {
    /// The directory of the data that the agent needs after a restart, configured or default.
    pub fn directory(&self) -> PathBuf {
        let state = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        self.state_path.clone().unwrap_or_else(|| {
            state()
                .unwrap_or_else(|| PathBuf::from("placewright-data"))
                .join("agent")
        })
    }
}

fn config_error(name: &str, why: &dyn std::fmt::Display) -> ConfigErrors {
    ConfigErrors(vec![format!("agent.{name}: {why}")])
}

fn milliseconds<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Duration {
    Duration::from_millis(u64::try_from(number.get()).unwrap_or(0))
}

fn seconds<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> Duration {
    Duration::from_secs(u64::try_from(number.get()).unwrap_or(0))
}
