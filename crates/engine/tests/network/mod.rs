//! Replicas in one process, with a network between them that can be cut.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use placewright_engine::{
    CommandId, Engine, ForwardReply, LeaderLink, Leadership, Options, Replica, ReplicaOptions,
    SubmitError,
};
use placewright_journal::{Faults, Faulty, Journal};
use placewright_testing::counters::{Command, Counters};

use crate::toy::block_on;

/// The network between replicas.
#[derive(Clone, Default)]
pub(crate) struct Network {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    replicas: Mutex<BTreeMap<u64, Replica<Counters>>>,
    /// Pairs between which nothing passes.
    cut: Mutex<BTreeSet<(u64, u64)>>,
    /// Every reply whose number this divides is lost; 0 if none is.
    lose_every: AtomicU64,
    replies: AtomicU64,
}

impl Network {
    /// Cuts two replicas off from each other.
    pub(crate) fn cut(&self, one: u64, other: u64) {
        self.shared.cut.lock().extend([(one, other), (other, one)]);
    }

    /// Cuts a replica off from all others.
    pub(crate) fn isolate(&self, origin: u64) {
        let others: Vec<u64> = self.shared.replicas.lock().keys().copied().collect();
        for other in others.into_iter().filter(|other| *other != origin) {
            self.cut(origin, other);
        }
    }

    pub(crate) fn heal(&self) {
        self.shared.cut.lock().clear();
    }

    pub(crate) fn lose_every(&self, replies: u64) {
        self.shared.lose_every.store(replies, Ordering::Relaxed);
    }

    fn leave(&self, origin: u64) {
        self.shared.replicas.lock().remove(&origin);
    }

    fn target(&self, from: u64, to: u64) -> Option<Replica<Counters>> {
        if self.shared.cut.lock().contains(&(from, to)) {
            return None;
        }
        self.shared.replicas.lock().get(&to).cloned()
    }

    fn loses_reply(&self) -> bool {
        let every = self.shared.lose_every.load(Ordering::Relaxed);
        let reply = self.shared.replies.fetch_add(1, Ordering::Relaxed);
        every > 0 && reply.is_multiple_of(every)
    }
}

/// The link of one replica.
struct Link {
    origin: u64,
    network: Network,
}

impl LeaderLink<Counters> for Link {
    fn send(&self, leadership: &Leadership, number: u64, command: &Command) {
        let (origin, network) = (self.origin, self.network.clone());
        let (epoch, leader, command) = (leadership.epoch, leadership.origin, command.clone());
        // A thread for each command, so that replies come in any order.
        std::thread::spawn(move || {
            let reply = network.target(origin, leader).map(|target| {
                let id = CommandId { origin, number };
                block_on(target.receive(epoch, id, command))
            });
            let Some(own) = network.target(origin, origin) else {
                return;
            };
            match reply {
                // A leader that is shutting down has closed its connections.
                None | Some(ForwardReply::Failed(SubmitError::ShuttingDown)) => {
                    own.leader_is_gone(epoch);
                }
                Some(_) if network.loses_reply() => own.leader_is_gone(epoch),
                Some(reply) => own.answered(epoch, number, reply),
            }
        });
    }

    fn leader_changed(&self, leadership: &Leadership) {
        let (origin, network) = (self.origin, self.network.clone());
        let (epoch, leader) = (leadership.epoch, leadership.origin);
        if epoch > 0 && leader != origin && network.target(origin, leader).is_none() {
            // On a thread of its own, because it is called with locks held.
            std::thread::spawn(move || {
                if let Some(own) = network.target(origin, origin) {
                    own.leader_is_gone(epoch);
                }
            });
        }
    }
}

/// One replica of the counters.
pub(crate) struct Member {
    pub(crate) origin: u64,
    pub(crate) engine: Engine<Counters>,
    pub(crate) faults: Faults,
    network: Network,
}

impl Member {
    pub(crate) fn start(journal: &dyn Journal, network: &Network, origin: u64) -> Self {
        Self::start_with(journal, network, origin, Options::default())
    }

    pub(crate) fn start_with(
        journal: &dyn Journal,
        network: &Network,
        origin: u64,
        options: Options,
    ) -> Self {
        let faults = Faults::new();
        let faulty = Faulty::new(journal.try_clone().unwrap(), faults.clone());
        let replica = ReplicaOptions {
            origin,
            address: format!("replica {origin}"),
            link: Box::new(Link {
                origin,
                network: network.clone(),
            }),
            poll_interval: Duration::from_millis(1),
        };
        let engine = Engine::open_replica(faulty, options, (), replica).unwrap();
        (network.shared.replicas.lock()).insert(origin, engine.replica());
        Self {
            origin,
            engine,
            faults,
            network: network.clone(),
        }
    }

    pub(crate) fn leadership(&self) -> Leadership {
        let leadership = self.engine.replica().leadership().unwrap();
        leadership.borrow().clone()
    }

    /// Stops the replica as a crash would, as far as the others can see: nothing reaches it any more.
    pub(crate) fn crash(self) {
        self.network.leave(self.origin);
        self.engine.shutdown();
    }

    pub(crate) fn add(&self, counter: usize, amount: u64) -> placewright_testing::counters::Answer {
        self.engine
            .submit_blocking(Command::Add { counter, amount })
    }

    /// The values, after everything that was acknowledged.
    pub(crate) fn values(&self) -> Vec<u64> {
        block_on(self.engine.confirm()).unwrap();
        block_on(self.engine.read(|counters| counters.values().to_vec()))
    }
}

/// The replica that the others follow, once they agree on one of these.
pub(crate) fn wait_for_leader(members: &[Member]) -> u64 {
    let mut leader = 0;
    crate::toy::eventually(|| {
        let leaders: BTreeSet<u64> = members.iter().map(|m| m.leadership().origin).collect();
        leader = leaders.first().copied().unwrap_or(0);
        leaders.len() == 1 && members.iter().any(|member| member.origin == leader)
    });
    leader
}
