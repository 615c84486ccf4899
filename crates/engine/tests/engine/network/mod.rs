//! Replicas in one process, with a network between them that can be cut.

use std::collections::BTreeSet;

use placewright_engine::{Engine, Leadership, Options};
use placewright_journal::{Faults, Faulty, Journal};
use placewright_testing::counters::{Command, Counters};

use crate::toy::{SubmitBlocking, block_on};

pub(crate) type Network = placewright_testing::replicas::Network<Counters>;

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
        let replica = network.options(origin);
        let engine = Engine::open_replica(faulty, options, (), replica).unwrap();
        network.join(origin, engine.replica());
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

    /// Stops the replica as a crash would, as the other replicas see it: no message reaches it any more.
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

/// The replica that leads, once all these replicas agree on one of them.
pub(crate) fn wait_for_leader(members: &[Member]) -> u64 {
    let mut leader = 0;
    crate::toy::eventually(|| {
        let leaders: BTreeSet<u64> = members.iter().map(|m| m.leadership().origin).collect();
        leader = leaders.first().copied().unwrap_or(0);
        leaders.len() == 1 && members.iter().any(|member| member.origin == leader)
    });
    leader
}
