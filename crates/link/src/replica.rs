//! The interface between the replicas of one journal.

use std::sync::Arc;

use placewright_types::host_state::{NumberedUpdate, Receipt};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::LinkFuture;

/// A replica's interface towards the other replicas.
pub trait ReplicaLink: Send + Sync + 'static {
    /// The identity of the replica, and the replica that leads, as far as it knows.
    fn identify(&self) -> LinkFuture<'_, ReplicaIdentity>;

    /// Follows the replica, which leads according to the caller.
    fn follow(&self, start: FollowStart) -> LinkFuture<'_, LeaderConnection>;

    /// The candidate with this UUID that the replica offered, in the form of `offer` of `placewright-records`. `None`
    /// if the replica does not keep such a candidate.
    fn find_offer(&self, candidate: Uuid) -> LinkFuture<'_, Option<Vec<u8>>>;

    /// Applies updates of hosts that another replica got, in their order. Returns the receipt of each update; `None`
    /// for one that the replica cannot read.
    fn take_host_updates(&self, updates: Vec<PostedUpdate>)
    -> LinkFuture<'_, Vec<Option<Receipt>>>;
}

/// An update of a host that an agent has sent to a replica's scheduler API, and that this replica passes on to the
/// others.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedUpdate {
    /// The UUID of the host, which is also that of its root provider.
    pub host: Uuid,
    /// The change, with the position in the host's stream by which each replica sees whether it missed one before.
    pub update: Arc<NumberedUpdate>,
}

/// A replica: its identity, the versions that it knows, and how much of the journal it has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaIdentity {
    /// The number of the replica, which no other replica has, and which is a new one at each of its starts.
    pub origin: u64,
    /// Where the other replicas reach it, as HOST:PORT.
    pub address: String,
    /// The release of its program.
    pub release: String,
    /// The versions of commands that it knows.
    pub versions: CommandVersions,
    /// The version of the records that it writes.
    pub record_version: u32,
    /// The last entry of the journal that it has applied.
    pub sequence: u64,
    /// The replica that leads, as far as it knows.
    pub leader: Leader,
}

/// The versions of commands that a replica knows: all from the oldest to the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandVersions {
    /// The oldest version.
    pub oldest: u32,
    /// The newest version.
    pub newest: u32,
}

/// A replica that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leader {
    /// The entry of the journal with which the replica began to lead; 0 if no leader is known.
    pub epoch: u64,
    /// The replica's number, as in [`ReplicaIdentity`].
    pub origin: u64,
    /// The address at which the replica is reached.
    pub address: String,
}

/// The beginning of a stream to the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowStart {
    /// The follower's number.
    pub origin: u64,
    /// The follower's address.
    pub address: String,
    /// The release of the follower's program.
    pub release: String,
    /// The versions of commands that the follower knows.
    pub versions: CommandVersions,
    /// The replica that leads according to the follower.
    pub leader: Leader,
    /// Whether the leader is to send the batches of entries that it appends.
    pub takes_entries: bool,
}

/// A follower's half of a stream. It ends when either side drops its half.
#[derive(Debug)]
pub struct LeaderConnection {
    /// Messages to the leader.
    pub to_leader: mpsc::Sender<ToLeader>,
    /// Messages from the leader.
    pub from_leader: mpsc::Receiver<FromLeader>,
}

/// A message from a follower to the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToLeader {
    /// Commands that the leader is to carry out, in no particular order.
    pub commands: Vec<HandedCommand>,
    /// The last entry of the journal that the follower has applied.
    pub sequence: u64,
}

/// A command that a follower hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedCommand {
    /// Its number among the follower's commands.
    pub number: u64,
    /// The version of its form.
    pub version: u32,
    /// The command in that form.
    pub bytes: Vec<u8>,
}

/// A message from the leader to a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromLeader {
    /// The called replica leads, and takes commands from now on.
    Welcome {
        /// The newest version of commands that both replicas know. Releases that encode each command in the oldest
        /// version that has it do not need the number.
        version: u32,
    },
    /// The called replica does not lead (any more), or it began to lead with another entry than the follower named. The
    /// stream ends.
    NotLeading {
        /// The number of the replica that answers.
        origin: u64,
        /// The replica that leads, as far as it knows.
        leader: Leader,
    },
    /// The leader's store does not answer. Another replica should lead, so the stream ends.
    StoreUnavailable,
    /// The leader has news.
    News(LeaderNews),
}

/// The news that a leader sends to a follower while it leads: replies, new entries of the journal, how far they are
/// durable, and the followers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderNews {
    /// Replies to commands that made no entry, each with the number of the command.
    pub replies: Vec<(u64, HandedOutcome)>,
    /// The newest entry of the journal that will not be lost.
    pub durable: u64,
    /// Batches of entries that the leader has appended and that will not be lost, in their order. Some may be left out.
    pub batches: Vec<EntryBatch>,
    /// All replicas that follow the leader, in the first message and after each change. An empty list means that there
    /// is no change: a list of followers always has at least the replica that receives the message.
    pub followers: Vec<ReplicaAddress>,
}

/// The number of a replica, and the address at which the other replicas reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaAddress {
    /// Its number, as in [`ReplicaIdentity`].
    pub origin: u64,
    /// Its address, as HOST:PORT.
    pub address: String,
}

/// A batch of the journal's entries, as it is in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryBatch {
    /// Its first entry.
    pub first: u64,
    /// Its last entry.
    pub last: u64,
    /// The checksum of the batch before it.
    pub previous: u32,
    /// Its checksum, which covers `previous`, too.
    pub checksum: u32,
    /// Its records: for each one its length as four little-endian bytes, then its bytes.
    pub payload: Vec<u8>,
}

/// The outcome of a command that made no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandedOutcome {
    /// The command was refused, or changed nothing. It was decided on the state after this entry.
    NoEntry(u64),
    /// The replica does not lead any more. The command has no effect.
    NotLeading,
    /// The command was not carried out, for this reason, or its outcome is not known.
    Failed(HandedFailure),
}

/// Why a command that was handed over was not carried out. It has no effect; only with
/// [`HandedFailure::UnknownOutcome`] it may have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandedFailure {
    /// The store failed, for the named reason.
    Unavailable(String),
    /// Too many commands wait at the leader.
    Overloaded,
    /// The command would make too large a record.
    TooLarge {
        /// The size of the record.
        bytes: u64,
        /// The maximum.
        bytes_max: u64,
    },
    /// It is not known whether the entry is kept: the leader ended before its store had answered, or sent a reply
    /// that this release does not know.
    UnknownOutcome(String),
    /// The leader cannot read the command, for the named reason.
    Unreadable(String),
    /// Deciding the command panicked, which is a bug.
    Panicked,
    /// Another reason.
    Other(String),
}
