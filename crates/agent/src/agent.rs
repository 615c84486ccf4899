//! Runs hosts: the connection to their cell, the driver's work, what placement hears.
//!
//! One task looks after all hosts of an agent. There is no task or timer for a guest: work under way
//! is a future among others, and a guest with which nothing is done costs nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::HostId;
use placewright_link::AgentLink;
use placewright_tasks::{Task, watched};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::description::{BadDescription, HostDescription};
use crate::driver::{Driver, DriverError};
use crate::placement::{self, Placement, PlacementError};
use crate::record::{Record, RecordError};

mod inventory;
mod reconcile;
mod runner;
mod work;

/// How an agent runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the service that looks after the hosts. Nothing: each host has a service of its
    /// own name.
    pub service_host: Option<String>,
    /// The file with the record of guests. Nothing: it is in memory, and an agent that is started
    /// again says that its hosts have lost their guests.
    pub record: Option<PathBuf>,
    /// Whether the record has to outlive a crash of the machine, and not just of the agent.
    pub is_record_durable: bool,
    /// Placement. Nothing: somebody else says what the hosts have.
    pub placement: Option<placement::Options>,
    /// Placement is compared with the hosts after so long; 0 for never.
    pub resync: Duration,
    /// Hosts are looked at after so long; 0 for never.
    pub inspect: Duration,
    /// The cell hears after so long at the latest that the hosts are there.
    pub heartbeat: Duration,
    /// Changes of hosts' soft state are gathered for so long.
    pub gather: Duration,
    /// How long devices may take to be ready.
    pub prepare_timeout: Duration,
    /// The most builds at the same time on one host; others wait.
    pub builds_max: usize,
    /// The longest wait before the cell is tried again.
    pub reconnect_max: Duration,
    /// How long work under way may go on when the agent is to stop.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            service_host: None,
            record: None,
            is_record_durable: true,
            placement: None,
            resync: Duration::from_secs(600),
            inspect: Duration::from_secs(60),
            heartbeat: Duration::from_secs(5),
            gather: Duration::from_millis(50),
            prepare_timeout: Duration::from_secs(60),
            builds_max: 10,
            reconnect_max: Duration::from_secs(5),
            drain: Duration::from_secs(10),
        }
    }
}

/// Why an agent cannot start.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The driver does not say what hosts it has, or which guests.
    #[error("the driver cannot say what there is: {0}")]
    Driver(#[from] DriverError),
    /// What it says makes no sense.
    #[error("the driver describes hosts wrongly: {0}")]
    Description(#[from] BadDescription),
    /// There are no hosts.
    #[error("the driver has no hosts")]
    NoHosts,
    /// The record of guests cannot be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Placement cannot be used.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The system refuses something.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// How far an agent's start is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ready {
    has_sessions: bool,
    is_in_placement: bool,
}

/// An agent that runs.
#[derive(Debug)]
pub struct Agent {
    stop: watch::Sender<bool>,
    ready: watch::Receiver<Ready>,
    runner: JoinHandle<()>,
    helpers: Vec<JoinHandle<()>>,
}

impl Agent {
    /// Starts: asks the driver what there is, removes what was half built, then connects to the
    /// cell and writes to placement for as long as it runs.
    ///
    /// # Errors
    ///
    /// [`AgentError`] for what waiting does not mend. A cell or placement that cannot be reached is
    /// tried again and again.
    pub async fn start(
        options: Options,
        driver: Arc<dyn Driver>,
        link: Arc<dyn AgentLink>,
    ) -> Result<Self, AgentError> {
        let hosts = checked(driver.inspect().await?)?;
        if hosts.is_empty() {
            return Err(AgentError::NoHosts);
        }
        let mut record = match &options.record {
            Some(file) => Record::open(file, options.is_record_durable)?,
            None => Record::in_memory(),
        };
        reconcile::reconcile(&mut record, &hosts, &*driver).await?;
        record.write()?;
        let placement = options.placement.as_ref();
        let placement = placement.map(Placement::new).transpose()?;

        let (stop, stopped) = watch::channel(false);
        let (ready, is_ready) = watch::channel(Ready {
            has_sessions: false,
            is_in_placement: placement.is_none(),
        });
        let ready = Arc::new(ready);
        let (to_placement, for_placement) = mpsc::unbounded_channel();
        let (seen, to_see) = mpsc::channel(1);
        let mut helpers = Vec::new();
        if let Some(placement) = placement {
            let every = options.resync;
            let ready = Arc::clone(&ready);
            let follow = inventory::follow(placement, for_placement, every, ready);
            helpers.push(tokio::spawn(watched(Task::AgentPlacement, follow)));
        }
        if !options.inspect.is_zero() {
            let (driver, every) = (Arc::clone(&driver), options.inspect);
            let watch = inventory::watch(driver, every, seen);
            helpers.push(tokio::spawn(watched(Task::AgentInspect, watch)));
        }
        let runner = runner::Runner::new(options, driver, record, hosts, to_placement, ready);
        let run = runner.run(link, stopped, to_see);
        let runner = tokio::spawn(watched(Task::AgentRunner, run));
        Ok(Self {
            stop,
            ready: is_ready,
            runner,
            helpers,
        })
    }

    /// Waits until each host has told its cell of itself, and placement knows them all.
    pub async fn ready(&self) {
        let mut ready = self.ready.clone();
        let all = |ready: &Ready| ready.has_sessions && ready.is_in_placement;
        // It ends early only if the agent does.
        let _ = ready.wait_for(all).await;
    }

    /// Stops. Work under way may end, for a while; guests stay.
    pub async fn stop(self) {
        // Nobody listens if it ended already.
        let _ = self.stop.send(true);
        if let Err(error) = self.runner.await {
            tracing::error!(%error, "the agent broke down");
        }
        for helper in self.helpers {
            helper.abort();
        }
    }
}

/// Descriptions by host, each of which makes sense.
fn checked(
    hosts: Vec<HostDescription>,
) -> Result<BTreeMap<HostId, Arc<HostDescription>>, BadDescription> {
    let mut checked = BTreeMap::new();
    for host in hosts {
        host.check()?;
        let name = host.name.clone();
        if checked.insert(host.id(), Arc::new(host)).is_some() {
            return Err(BadDescription::Twice(name));
        }
    }
    Ok(checked)
}
