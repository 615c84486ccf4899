//! The part of an engine in a group of replicas: who leads, and which commands wait for a leader.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::Machine;
use crate::appended::{AppendedBatches, ReceivedBatches};
use crate::error::SubmitError;
use crate::leadership::Leadership;
use crate::submission::Submission;

/// How an engine takes part as one of several replicas.
pub struct ReplicaOptions<M: Machine> {
    /// A random number, so that no other replica has it, and this one has another number after its next start.
    pub origin: u64,
    /// The address at which the other replicas reach this one.
    pub address: String,
    /// How this replica reaches the others.
    pub link: Box<dyn LeaderLink<M>>,
    /// How long a follower waits for new entries before it reads the journal again. A journal that is notified of new
    /// entries ends the wait earlier.
    pub poll_interval: Duration,
}

/// How a replica hands commands to the one that leads.
pub trait LeaderLink<M: Machine>: Send + Sync + 'static {
    /// Sends a command to the replica that leads, whose engine takes it with [`crate::Replica::receive`]. `number` is
    /// that of the command at this replica ([`crate::CommandId::number`]). The reply comes back with
    /// [`crate::Replica::answered`]. If the command or the reply may be lost, [`crate::Replica::leader_is_gone`] has to
    /// be called; otherwise the command may wait for ever.
    ///
    /// Called with locks held, so it only queues the command.
    fn send(&self, leadership: &Leadership, number: u64, command: &M::Command);

    /// Whether commands are handed over. If they are not, a replica that does not lead refuses its commands with
    /// [`SubmitError::NotLeading`]. Active/passive replicas do so: their callers find the replica that leads.
    fn hands_commands_over(&self) -> bool {
        true
    }

    /// A replica leads from now on. Called before the first command is sent to it.
    fn leader_changed(&self, leadership: &Leadership) {
        let _ = leadership;
    }
}

/// The reply of the leader to a command that was handed over.
#[derive(Debug)]
pub enum ForwardReply {
    /// The command made this entry.
    Entry(u64),
    /// The command was refused, or changed nothing, on the state after this entry.
    NoEntry(u64),
    /// The receiving replica does not lead, or leads in another epoch. The command has no effect.
    NotLeading,
    /// The command was neither carried out nor refused, for this reason. It has no effect, unless the reason is
    /// [`SubmitError::Unknown`].
    Failed(SubmitError),
}

/// The part of a replica in a running engine.
pub(crate) struct ReplicaState<M: Machine> {
    pub(crate) origin: u64,
    pub(crate) address: String,
    pub(crate) link: Box<dyn LeaderLink<M>>,
    pub(crate) poll_interval: Duration,
    /// Changed only while `pending` is locked.
    pub(crate) leadership: watch::Sender<Leadership>,
    pub(crate) pending: Mutex<PendingCommands<M>>,
    /// The newest epoch whose leader was reported to be gone; 0 if there is none.
    pub(crate) lost_epoch: AtomicU64,
    /// The replica to which this one is to hand over the leadership, if it leads.
    pub(crate) next_leader: Mutex<Option<NextLeader>>,
    /// How many commands were sent to other replicas.
    pub(crate) sent_commands: AtomicU64,
    /// The last entry that the journal had when a confirmed read last asked the journal for its end.
    pub(crate) known_end: AtomicU64,
    /// How often another replica, or this one, began to lead since the start.
    pub(crate) takeovers: AtomicU64,
    /// The batches that this replica appends while it leads.
    pub(crate) appended: AppendedBatches,
    /// The batches that the leader has appended, and this replica has not applied yet. Their epoch is that of
    /// `leadership`.
    pub(crate) received: ReceivedBatches,
    /// When this replica last read the store while it followed, or tried to.
    pub(crate) store_read_at: Mutex<Instant>,
}

/// The replica to which a leader hands over the leadership.
#[derive(Debug)]
pub(crate) struct NextLeader {
    pub(crate) origin: u64,
    pub(crate) address: String,
}

/// The commands that a follower has taken and not answered yet.
pub(crate) struct PendingCommands<M: Machine> {
    /// The number that the next command gets.
    pub(crate) next_number: u64,
    /// The commands by the number that this process gave them.
    pub(crate) commands: BTreeMap<u64, PendingCommand<M>>,
    /// Whether `commands` may have some that no leader has taken, and that have to be sent once one is known.
    pub(crate) has_unsent: bool,
    /// Whether the engine is being shut down, so that soon nothing answers commands any more.
    pub(crate) is_closed: bool,
}

/// A command that a follower has taken and not answered yet.
pub(crate) struct PendingCommand<M: Machine> {
    pub(crate) submission: Submission<M>,
    /// The epoch of the leader that was sent the command, so that the journal may have its entry. 0 if it was sent to
    /// none, or only to replicas that are known not to have made an entry of it.
    pub(crate) sent_in_epoch: u64,
    /// The leader refused the command, or it changed nothing, on the state after this entry; `None` without such a
    /// reply.
    pub(crate) no_entry_at: Option<u64>,
}

impl<M: Machine> ReplicaState<M> {
    /// `leader` is the replica that leads according to the entries that were recovered. If it is not known, this
    /// replica takes over.
    pub(crate) fn new(options: ReplicaOptions<M>, leader: Option<Leadership>) -> Self {
        let leadership = leader.unwrap_or_default();
        options.link.leader_changed(&leadership);
        let received = ReceivedBatches::default();
        received.begin(leadership.epoch);
        Self {
            origin: options.origin,
            address: options.address,
            link: options.link,
            poll_interval: options.poll_interval,
            leadership: watch::Sender::new(leadership),
            pending: Mutex::new(PendingCommands {
                next_number: 1,
                commands: BTreeMap::new(),
                has_unsent: false,
                is_closed: false,
            }),
            lost_epoch: AtomicU64::new(0),
            next_leader: Mutex::new(None),
            sent_commands: AtomicU64::new(0),
            known_end: AtomicU64::new(0),
            takeovers: AtomicU64::new(0),
            appended: AppendedBatches::default(),
            received,
            store_read_at: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.leadership.borrow().is_own
    }
}
