//! A network between replicas in one process. Tests can cut its connections, lose its replies, and lose, delay, repeat
//! and damage the batches that leaders send.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use placewright_engine::{
    AppendedBatch, CommandId, ForwardReply, LeaderLink, Leadership, Machine, Replica,
    ReplicaOptions, SubmitError,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// The network between replicas.
pub struct Network<M: Machine> {
    shared: Arc<Shared<M>>,
}

/// The state of the network. `Relaxed` is enough for its atomics: each is a setting or a counter of its own.
struct Shared<M: Machine> {
    replicas: Mutex<BTreeMap<u64, Replica<M>>>,
    /// Pairs of replicas between which no message passes.
    cut: Mutex<BTreeSet<(u64, u64)>>,
    /// A reply whose number is divisible by this is lost. If this is 0, no reply is lost.
    lose_every: AtomicU64,
    /// How many replies were sent.
    replies: AtomicU64,
    /// Whether batches are lost, delayed, repeated and damaged at random.
    is_rough: AtomicBool,
    /// The state of a generator of random numbers.
    random: AtomicU64,
    /// Some of the batches that were sent, to be sent once more.
    remembered_batches: Mutex<Vec<AppendedBatch>>,
}

/// The maximum number of batches that are remembered to be sent once more.
const REMEMBERED_BATCHES_MAX: usize = 64;

impl<M: Machine> Clone for Network<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<M: Machine> Default for Network<M> {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                replicas: Mutex::default(),
                cut: Mutex::default(),
                lose_every: AtomicU64::new(0),
                replies: AtomicU64::new(0),
                is_rough: AtomicBool::new(false),
                random: AtomicU64::new(0),
                remembered_batches: Mutex::default(),
            }),
        }
    }
}

impl<M: Machine<Command: Clone>> Network<M> {
    /// The options of the replica with this number. Once its engine is open, pass the replica to [`Network::join`].
    pub fn options(&self, origin: u64) -> ReplicaOptions<M> {
        ReplicaOptions {
            origin,
            address: format!("replica {origin}"),
            link: Box::new(Link {
                origin,
                network: self.clone(),
            }),
            poll_interval: Duration::from_millis(1),
        }
    }
}

impl<M: Machine> Network<M> {
    /// Adds a replica, and sends the others the batches of entries that it appends.
    pub fn join(&self, origin: u64, replica: Replica<M>) {
        if let (Some(mut appended), Some(leadership)) = (replica.appended(), replica.leadership()) {
            let network = self.clone();
            std::thread::spawn(move || {
                // The latest epoch in which this replica led. Batches may be sent when it leads no more.
                let mut epoch = 0;
                while let Some(batch) = next_batch(&mut appended) {
                    let current = leadership.borrow();
                    if current.is_own {
                        epoch = current.epoch;
                    }
                    drop(current);
                    network.send_batch(origin, epoch, &batch);
                }
            });
        }
        self.shared.replicas.lock().insert(origin, replica);
    }

    /// Loses, delays, repeats and damages batches from now on.
    pub fn make_rough(&self, seed: u64) {
        self.shared.random.store(seed, Ordering::Relaxed);
        self.shared.is_rough.store(true, Ordering::Relaxed);
    }

    /// A random number below `bound` (SplitMix64).
    fn random(&self, bound: u64) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let random = &self.shared.random;
        let mut z = random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Sends a batch that `from` appended to all replicas that can be reached.
    fn send_batch(&self, from: u64, epoch: u64, batch: &AppendedBatch) {
        for to in self.others(from) {
            let Some(target) = self.target(from, to) else {
                continue;
            };
            if self.shared.is_rough.load(Ordering::Relaxed) {
                self.send_roughly(target, epoch, batch.clone());
            } else {
                target.take_appended(epoch, batch.clone());
            }
        }
    }

    /// Sends a batch, or loses it, at random. A batch that is sent may be damaged, late, or preceded by an old batch.
    fn send_roughly(&self, target: Replica<M>, epoch: u64, mut batch: AppendedBatch) {
        let repeated = {
            let mut remembered = self.shared.remembered_batches.lock();
            let index = usize::try_from(self.random(REMEMBERED_BATCHES_MAX as u64)).unwrap_or(0);
            if remembered.len() < REMEMBERED_BATCHES_MAX {
                remembered.push(batch.clone());
            } else {
                remembered[index] = batch.clone();
            }
            remembered.get(index).cloned()
        };
        match self.random(8) {
            0 => return,
            1 => {
                if let Some(byte) = batch.payload.last_mut() {
                    *byte ^= 1;
                }
            }
            2 => {
                // An old batch, as if the present leader had sent it.
                let current_epoch = target
                    .leadership()
                    .map(|leadership| leadership.borrow().epoch);
                if let (Some(epoch), Some(repeated)) = (current_epoch, repeated) {
                    target.take_appended(epoch, repeated);
                }
            }
            3 | 4 => {
                let delay = Duration::from_micros(self.random(3_000));
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    target.take_appended(epoch, batch);
                });
                return;
            }
            _ => {}
        }
        target.take_appended(epoch, batch);
    }

    /// Removes a replica from the network: no message reaches it any more. Those that follow it notice that it is gone,
    /// because their connections to it end.
    pub fn leave(&self, origin: u64) {
        let others: Vec<Replica<M>> = {
            let mut replicas = self.shared.replicas.lock();
            replicas.remove(&origin);
            replicas.values().cloned().collect()
        };
        for other in others {
            let leadership = other.leadership().map(|watch| watch.borrow().clone());
            if let Some(current) =
                leadership.filter(|current| current.epoch > 0 && current.origin == origin)
            {
                other.leader_is_gone(current.epoch);
            }
        }
    }

    /// Cuts two replicas off from each other.
    pub fn cut(&self, one: u64, other: u64) {
        self.shared.cut.lock().extend([(one, other), (other, one)]);
    }

    /// Cuts a replica off from all others.
    pub fn isolate(&self, origin: u64) {
        for other in self.others(origin) {
            self.cut(origin, other);
        }
    }

    /// Lets all replicas reach each other again.
    pub fn heal(&self) {
        self.shared.cut.lock().clear();
    }

    /// Loses one in this many replies from now on; 0 to lose none.
    pub fn lose_every(&self, replies: u64) {
        self.shared.lose_every.store(replies, Ordering::Relaxed);
    }

    fn others(&self, origin: u64) -> Vec<u64> {
        let replicas = self.shared.replicas.lock();
        replicas
            .keys()
            .copied()
            .filter(|other| *other != origin)
            .collect()
    }

    /// The replica `to`; `None` if it is not in the network, or no message from `from` reaches it.
    fn target(&self, from: u64, to: u64) -> Option<Replica<M>> {
        if self.shared.cut.lock().contains(&(from, to)) {
            return None;
        }
        self.shared.replicas.lock().get(&to).cloned()
    }

    /// Counts a reply, and returns whether it is lost.
    fn count_and_maybe_lose_reply(&self) -> bool {
        let every = self.shared.lose_every.load(Ordering::Relaxed);
        let reply = self.shared.replies.fetch_add(1, Ordering::Relaxed);
        every > 0 && reply.is_multiple_of(every)
    }
}

/// The next batch that a replica appends; `None` once its engine was dropped.
fn next_batch(appended: &mut Receiver<Arc<AppendedBatch>>) -> Option<Arc<AppendedBatch>> {
    loop {
        match appended.blocking_recv() {
            Ok(batch) => return Some(batch),
            // Some batches were dropped from the full channel. They are lost, as they may be on any network.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// The link of one replica. It is called with locks held, so each message is sent on a thread of its own. Replies
/// therefore come in any order.
struct Link<M: Machine> {
    origin: u64,
    network: Network<M>,
}

impl<M: Machine<Command: Clone>> LeaderLink<M> for Link<M> {
    fn send(&self, leadership: &Leadership, number: u64, command: &M::Command) {
        let (origin, network) = (self.origin, self.network.clone());
        let (epoch, leader, command) = (leadership.epoch, leadership.origin, command.clone());
        std::thread::spawn(move || {
            let reply = network.target(origin, leader).map(|target| {
                let id = CommandId { origin, number };
                block_on(target.receive(epoch, id, command))
            });
            let Some(own) = network.target(origin, origin) else {
                return;
            };
            match reply {
                // A leader that is shutting down has closed its connections, so it sends no reply.
                None | Some(ForwardReply::Failed(SubmitError::ShuttingDown)) => {
                    own.leader_is_gone(epoch);
                }
                Some(_) if network.count_and_maybe_lose_reply() => own.leader_is_gone(epoch),
                Some(reply) => own.answered(epoch, number, reply),
            }
        });
    }

    fn leader_changed(&self, leadership: &Leadership) {
        let (origin, network) = (self.origin, self.network.clone());
        let (epoch, leader) = (leadership.epoch, leadership.origin);
        if epoch > 0 && leader != origin && network.target(origin, leader).is_none() {
            std::thread::spawn(move || {
                if let Some(own) = network.target(origin, origin) {
                    own.leader_is_gone(epoch);
                }
            });
        }
    }
}

/// Runs a future to completion without a runtime, because the engine needs none.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
