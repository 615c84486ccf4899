//! Replicas: several processes of one role that share a journal. This module checks their options, and connects each of
//! them with the one that leads.
//!
//! The engine decides which replica leads (`replica.rs` of `placewright-engine`). This module has the streams between
//! replicas: `follower.rs` is the follower's end, and `leader.rs` the leader's. `peers.rs` has the links to all others.

mod checks;
mod entry_batches;
mod false_alarms;
mod follower;
mod followers;
mod in_process;
mod leader;
mod machine;
mod outcome;
mod outgoing;
mod peers;
mod update_queue;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use placewright_control::FollowerReport;
use placewright_engine::{Engine, Observer, RecoverError, ReplicaOptions};
use placewright_journal::Journal;
use placewright_link::ReplicaLink;
use placewright_rpc::{ClientOptions, ReplicaClient};
use placewright_tasks::Task;
use uuid::Uuid;

pub(crate) use checks::{check_cell, check_control};
use follower::Follower;
use followers::Followers;
pub use in_process::ReplicasInProcess;
use leader::LeadingReplica;
use machine::ReplicatedMachine;
use outgoing::{Outgoing, OutgoingLink};
use peers::{Connect, Peers};
use wake::{Wake, WakingJournal};

/// The interval at which each side of a stream sends a message if it has nothing else to send.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// The number of a replica's own heartbeats without a message from another replica, after which the other one counts as
/// gone.
const SILENT_TICKS_MAX: u32 = 6;
/// How long a follower waits for new entries from the leader before it reads the store itself.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long a leader waits, in each attempt to hand over the leadership, until the journal has an entry that names
/// another leader.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of attempts of a leader to hand over the leadership.
const HAND_OVER_ATTEMPTS: usize = 3;

/// How this replica is known to the others.
#[derive(Debug)]
struct ThisReplica {
    /// Its number, which no other replica has, and which is a new one at each start.
    origin: u64,
    /// The address at which the other replicas reach it.
    address: String,
}

/// This process as one of the replicas of its role.
pub(crate) struct ReplicaGroup<M: ReplicatedMachine> {
    engine: Engine<M>,
    /// The link on which the other replicas call this one.
    link: Arc<LeadingReplica<M>>,
    /// The replicas that follow this one while it leads.
    followers: Arc<Followers>,
    /// The other replicas, with the links to them.
    peers: Arc<Peers>,
}

impl<M: ReplicatedMachine> ReplicaGroup<M> {
    /// Opens the engine of a replica. Blocks. `client_options` makes the options for the connection to the replica at
    /// an address.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub(crate) fn open(
        journal: Box<dyn Journal>,
        (engine_options, observer): (placewright_engine::Options, impl Observer),
        address: &str,
        client_options: impl Fn(&str) -> ClientOptions + Send + Sync + 'static,
    ) -> Result<Self, RecoverError> {
        let connect: Connect = Arc::new(move |address| {
            let client = ReplicaClient::new(&client_options(address));
            let client = client.map_err(|error| error.to_string())?;
            Ok(Arc::new(client) as _)
        });
        Self::open_with_links(journal, (engine_options, observer), address, connect)
    }

    /// As [`Self::open`], with the function that makes the link to the replica at an address.
    fn open_with_links(
        journal: Box<dyn Journal>,
        (engine_options, observer): (placewright_engine::Options, impl Observer),
        address: &str,
        connect: Connect,
    ) -> Result<Self, RecoverError> {
        let own = Arc::new(ThisReplica {
            origin: Uuid::new_v4().as_u64_pair().0,
            address: address.to_owned(),
        });
        let outgoing = Arc::new(Outgoing::default());
        let wake = Arc::new(Wake::default());
        let options = ReplicaOptions {
            origin: own.origin,
            address: own.address.clone(),
            link: Box::new(OutgoingLink(Arc::clone(&outgoing))),
            poll_interval: POLL_INTERVAL,
        };
        let journal = WakingJournal {
            inner: journal,
            wake: Arc::clone(&wake),
        };
        let engine = Engine::open_replica(journal, engine_options, observer, options)?;
        let peers = Arc::new(Peers::new(Arc::clone(&own), connect));
        let followers = Arc::new(Followers::new(Arc::clone(&peers)));
        let follower = Follower {
            followers: Arc::clone(&followers),
            own: Arc::clone(&own),
            replica: engine.replica(),
            outgoing,
            wake,
            peers: Arc::clone(&peers),
        };
        placewright_tasks::spawn(Task::ReplicaLink, follower.run());
        let link = Arc::new(LeadingReplica {
            own,
            replica: engine.replica(),
            followers: Arc::clone(&followers),
        });
        Ok(Self {
            engine,
            link,
            followers,
            peers,
        })
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Engine<M> {
        &self.engine
    }

    /// The service for the other replicas.
    pub(crate) fn link(&self) -> Arc<dyn ReplicaLink> {
        Arc::clone(&self.link) as _
    }

    /// The other replicas that are known here: for requests that one of them has to answer, or that all of them get.
    pub(crate) fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.peers)
    }

    /// The replicas that follow this one, while it leads.
    pub(crate) fn followers(&self) -> Vec<FollowerReport> {
        self.followers.report()
    }

    /// Makes another replica lead, if this one leads and another one follows it. Returns when that is done, or has
    /// failed [`HAND_OVER_ATTEMPTS`] times. The latter is only logged.
    pub(crate) async fn hand_over(&self) {
        let replica = self.engine.replica();
        let Some(mut leadership) = replica.leadership() else {
            return;
        };
        for _ in 0..HAND_OVER_ATTEMPTS {
            if !leadership.borrow().is_own {
                return;
            }
            // No replica has the number 0, so no follower is excluded.
            let Some((origin, address)) = self.followers.best_except(0) else {
                return;
            };
            tracing::info!(address, "handing over to another replica");
            replica.hand_over(origin, &address);
            let handed_over = leadership.wait_for(|leadership| !leadership.is_own);
            // Without an answer in time, the next attempt may choose another replica.
            let _ = tokio::time::timeout(HAND_OVER_TIMEOUT, handed_over).await;
        }
        tracing::warn!("no other replica has taken over: one will when this one is gone");
    }
}
