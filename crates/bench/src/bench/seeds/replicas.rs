//! Schedulers that are replicas of control on one journal, in this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use placewright_control::{ClaimMetrics, ControlMachine, Placement, SchedulerHandle};
use placewright_engine::{Commit, Engine, Observer, Options};
use placewright_roles::Store;
use placewright_roles::in_process::ReplicasInProcess;
use placewright_scheduler::config::SchedulerConfig;

use super::fleet::{self, Filling};

/// Where the journal of an experiment is.
#[derive(Debug, Clone)]
pub(super) enum JournalPlace {
    /// A directory, for a single scheduler.
    Sqlite(PathBuf),
    /// The address of a store in etcd, for any number of schedulers.
    Etcd(String),
}

/// One scheduler: a replica of control with its own copy of the state.
pub(super) struct Replica {
    pub(super) engine: Engine<ControlMachine>,
    pub(super) scheduler: SchedulerHandle,
    pub(super) placement: Placement,
}

/// The schedulers of an experiment.
pub(super) struct Replicas {
    pub(super) all: Vec<Arc<Replica>>,
    /// The appends, whichever replica made them.
    appends: Appends,
}

/// An append that is durable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Append {
    /// Its last entry.
    pub(super) sequence: u64,
    pub(super) durable_at: Instant,
    /// How long the store took.
    pub(super) time: Duration,
}

/// Records the appends, in their order.
#[derive(Clone, Default)]
struct Appends(Arc<Mutex<Vec<Append>>>);

impl Observer for Appends {
    fn committed(&self, commit: &Commit) {
        if commit.entries > 0 {
            self.0.lock().push(Append {
                sequence: commit.sequence,
                durable_at: Instant::now(),
                time: commit.append_time,
            });
        }
    }
}

impl Replicas {
    /// Starts this many schedulers on an empty store, and loads the fleet.
    ///
    /// # Errors
    ///
    /// The store cannot be used.
    pub(super) async fn start(
        place: &JournalPlace,
        count: usize,
        (hosts, filling): (u32, Filling),
    ) -> anyhow::Result<Self> {
        let appends = Appends::default();
        let network = ReplicasInProcess::default();
        let first = open(place, &network, 0, appends.clone()).await?;
        fleet::load_with(&first, hosts, |number| {
            filling.instances_at_start(hosts, number)
        })
        .await?;
        if count > 1 {
            // The others begin with the snapshot, and need not apply each entry.
            first.snapshot().await?;
        }
        let mut all = vec![Arc::new(Replica::new(first, hosts)?)];
        for number in 1..count {
            let engine = open(place, &network, number, appends.clone()).await?;
            all.push(Arc::new(Replica::new(engine, hosts)?));
        }
        let replicas = Self { all, appends };
        replicas.confirm().await?;
        Ok(replicas)
    }

    /// Waits until each scheduler has all changes that were acknowledged before.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(super) async fn confirm(&self) -> anyhow::Result<()> {
        for replica in &self.all {
            if let Some(confirming) = replica.placement.confirm() {
                confirming.await?;
            }
            // The scheduler catches up with the state now, as it does in a service that has other requests.
            replica.scheduler.with_state(|_, _| ());
        }
        Ok(())
    }

    /// The appends since the last call.
    pub(super) fn take_appends(&self) -> Vec<Append> {
        std::mem::take(&mut self.appends.0.lock())
    }

    /// Ends all schedulers; the one that leads ends last, so that no other takes over.
    ///
    /// # Errors
    ///
    /// A thread of an engine panicked.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for replica in self.all.into_iter().rev() {
            let engine = replica.engine.clone();
            drop(replica);
            tokio::task::spawn_blocking(move || engine.shutdown()).await?;
        }
        Ok(())
    }
}

impl Replica {
    fn new(engine: Engine<ControlMachine>, hosts: u32) -> anyhow::Result<Self> {
        let scheduler = fleet::scheduler(hosts, SchedulerConfig::default())?;
        Ok(Self {
            scheduler: SchedulerHandle::new(engine.clone(), scheduler),
            placement: Placement::new(engine.clone(), ClaimMetrics::default()),
            engine,
        })
    }

    /// A number by which this scheduler differs from those that race with it for the same hosts. It is a part of the
    /// random number that identifies the replica.
    pub(super) fn number(&self) -> usize {
        usize::try_from(self.engine.origin() % (1 << 16)).unwrap_or(0)
    }
}

async fn open(
    place: &JournalPlace,
    network: &ReplicasInProcess,
    number: usize,
    appends: Appends,
) -> anyhow::Result<Engine<ControlMachine>> {
    let (place, network) = (place.clone(), network.clone());
    let opening = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
        Ok(match place {
            JournalPlace::Sqlite(directory) => {
                let store =
                    Store::Directory(directory, placewright_journal::SqliteOptions::default());
                Engine::open(store.open()?, Options::default(), appends)?
            }
            JournalPlace::Etcd(address) => {
                let store = Store::parse(&address).map_err(anyhow::Error::msg)?;
                network.open(store, &format!("scheduler {number}"), appends)?
            }
        })
    });
    opening.await?.context("the store of an experiment")
}
