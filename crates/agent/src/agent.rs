//! Runs hosts: the connection to their cell, the driver's work, and the reports to placement.
//!
//! One task manages all hosts of an agent, and polls the futures of all work under way. Guests have
//! no tasks or timers of their own, so an idle guest costs no processor time.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::HostId;
use placewright_link::AgentLink;
use placewright_tasks::{Task, supervise};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::description::{BadDescription, HostDescription};
use crate::driver::{Driver, DriverError};
use crate::guest_log::{GuestLog, GuestLogError};
use crate::placement::{self, PlacementError, PlacementWriter};

mod build_span;
mod connection;
mod inventory;
mod listed_guests;
mod runner;
mod work;

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the compute service that manages the hosts. If none, each host has a service of
    /// its own name.
    pub service_host: Option<String>,
    /// The file of the guest log. If none, the log is in memory only, and a restarted agent knows no guests but those
    /// that its driver lists.
    pub guest_log: Option<PathBuf>,
    /// Whether the guest log is synced to disk, so that it outlives a crash of the machine and not
    /// only of the agent.
    pub is_guest_log_durable: bool,
    /// How to reach placement. If none, somebody else reports the hosts' inventories.
    pub placement: Option<placement::Options>,
    /// The interval at which all hosts are compared with placement again, changed or not; 0 for never.
    pub resync_interval: Duration,
    /// The interval at which the driver inspects its hosts; 0 for never.
    pub inspect_interval: Duration,
    /// The interval between two heartbeats to the cell.
    pub heartbeat_interval: Duration,
    /// The shortest time between two reports of changed soft state. The changes in between are sent together.
    pub gather_time: Duration,
    /// Time-out for the preparation of devices.
    pub prepare_timeout: Duration,
    /// The maximum number of concurrent builds on one host; further builds wait.
    pub builds_max: usize,
    /// The longest delay before another attempt to connect to the cell.
    pub reconnect_delay_max: Duration,
    /// How long work under way may continue after [`Agent::stop`] was called.
    pub drain_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            service_host: None,
            guest_log: None,
            is_guest_log_durable: true,
            placement: None,
            resync_interval: Duration::from_secs(600),
            inspect_interval: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(5),
            gather_time: Duration::from_millis(50),
            prepare_timeout: Duration::from_secs(60),
            builds_max: 10,
            reconnect_delay_max: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Why an agent cannot start.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The driver cannot list its hosts or guests.
    #[error("the driver cannot say what there is: {0}")]
    Driver(#[from] DriverError),
    /// The driver describes a host that is not valid.
    #[error("the driver describes hosts wrongly: {0}")]
    Description(#[from] BadDescription),
    /// The driver has no hosts.
    #[error("the driver has no hosts")]
    NoHosts,
    /// The guest log cannot be used.
    #[error(transparent)]
    GuestLog(#[from] GuestLogError),
    /// The options for placement cannot be used.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The operating system reported an error.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Which conditions of [`Agent::wait_until_ready`] hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Readiness {
    has_sessions: bool,
    is_in_placement: bool,
}

/// A running agent. It runs until [`Agent::stop`] is called or this value is dropped.
#[derive(Debug)]
pub struct Agent {
    stop: watch::Sender<bool>,
    readiness: watch::Receiver<Readiness>,
    runner: JoinHandle<()>,
    background_tasks: Vec<JoinHandle<()>>,
}

impl Agent {
    /// Starts an agent: lists hosts and guests, and removes the guests whose build or removal was interrupted. Then it
    /// connects to the cell and writes to placement until it is stopped.
    ///
    /// # Errors
    ///
    /// [`AgentError`] if the driver, its hosts, the guest log or the options cannot be used. A cell or a placement that
    /// cannot be reached is no error: the agent tries again without end.
    pub async fn start(
        options: Options,
        driver: Arc<dyn Driver>,
        link: Arc<dyn AgentLink>,
    ) -> Result<Self, AgentError> {
        let hosts = check_hosts(driver.inspect().await?)?;
        if hosts.is_empty() {
            return Err(AgentError::NoHosts);
        }
        let mut guest_log = match &options.guest_log {
            Some(file) => GuestLog::open(file, options.is_guest_log_durable)?,
            None => GuestLog::in_memory(),
        };
        listed_guests::correct_guest_log(&mut guest_log, &hosts, &*driver).await?;
        guest_log.write()?;
        let placement = options.placement.as_ref();
        let placement = placement.map(PlacementWriter::new).transpose()?;

        let (stop, stopped) = watch::channel(false);
        let (readiness_sender, readiness) = watch::channel(Readiness {
            has_sessions: false,
            // An agent that does not write to placement does not wait for it either.
            is_in_placement: placement.is_none(),
        });
        let readiness_sender = Arc::new(readiness_sender);
        let (to_placement, for_placement) = mpsc::unbounded_channel();
        let (to_runner, hosts_news) = mpsc::channel(1);
        let mut background_tasks = Vec::new();
        if let Some(placement) = placement {
            let interval = options.resync_interval;
            let readiness = Arc::clone(&readiness_sender);
            let to_runner = to_runner.clone();
            let write =
                inventory::write_changed(placement, for_placement, to_runner, interval, readiness);
            background_tasks.push(tokio::spawn(supervise(Task::AgentPlacement, write)));
        }
        if !options.inspect_interval.is_zero() {
            let (driver, interval) = (Arc::clone(&driver), options.inspect_interval);
            let inspect = inventory::inspect_periodically(driver, interval, to_runner);
            background_tasks.push(tokio::spawn(supervise(Task::AgentInspect, inspect)));
        }
        let runner = runner::Runner::new(
            options,
            driver,
            guest_log,
            hosts,
            to_placement,
            readiness_sender,
        );
        let run = runner.run(link, stopped, hosts_news);
        let runner = tokio::spawn(supervise(Task::AgentRunner, run));
        Ok(Self {
            stop,
            readiness,
            runner,
            background_tasks,
        })
    }

    /// Waits until every host has begun a session with its cell, and placement has them all.
    pub async fn wait_until_ready(&self) {
        let mut readiness = self.readiness.clone();
        let is_ready = |readiness: &Readiness| readiness.has_sessions && readiness.is_in_placement;
        // This ends early only if the agent ends.
        let _ = readiness.wait_for(is_ready).await;
    }

    /// Stops the agent. Work under way may end first, for at most [`Options::drain_timeout`]; guests stay.
    pub async fn stop(self) {
        // There is no receiver if the agent has ended already.
        let _ = self.stop.send(true);
        if let Err(error) = self.runner.await {
            tracing::error!(%error, "the agent broke down");
        }
        for task in self.background_tasks {
            task.abort();
        }
    }
}

/// Checks the descriptions of all hosts, and returns them by host, each with the trait that marks providers of the
/// compute service ([`HostDescription::claim_ownership`]).
fn check_hosts(
    hosts: Vec<HostDescription>,
) -> Result<BTreeMap<HostId, Arc<HostDescription>>, BadDescription> {
    let mut checked = BTreeMap::new();
    for mut host in hosts {
        host.check()?;
        host.claim_ownership();
        let name = host.name.clone();
        if checked.insert(host.id(), Arc::new(host)).is_some() {
            return Err(BadDescription::DuplicateName(name));
        }
    }
    Ok(checked)
}
