//! The leader's side of the streams between replicas: takes the followers' commands, and replies to them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use placewright_engine::{CommandId, Leadership, Replica};
use placewright_link::{
    CommandVersions, FollowStart, FromLeader, HandedCommand, HandedFailure, HandedOutcome, Leader,
    LeaderConnection, LeaderNews, LinkError, LinkFuture, PostedUpdate, ReplicaAddress,
    ReplicaIdentity, ReplicaLink, ToLeader,
};
use placewright_scheduler::host_state::Receipt;
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::entry_batches::EntryBatches;
use super::followers::{Followers, Joined};
use super::machine::ReplicatedMachine;
use super::{HEARTBEAT, SILENT_TICKS_MAX, ThisReplica, outcome};

/// The most messages that are queued for each direction of a stream.
const QUEUE_MESSAGES: usize = 4;
/// The most commands of one follower that are being carried out; further ones are not read from the connection yet.
const COMMANDS_MAX: usize = 65_536;
/// How many further outcomes are added to a message at a time, before the stream handles other events again.
const REPLIES_AT_A_TIME: usize = 1_024;

/// If commands of a follower are being carried out and none has had an outcome for this number of heartbeats, the
/// follower is told that the store does not answer.
const STALLED_TICKS_MAX: u32 = 4;
/// If appends have failed for this time, the followers are told that the store does not answer.
const FAILING_MAX: Duration = Duration::from_secs(1);

/// This replica as a leader: the link on which the other replicas call it.
pub(crate) struct LeadingReplica<M: ReplicatedMachine> {
    pub(crate) own: Arc<ThisReplica>,
    pub(crate) replica: Replica<M>,
    pub(crate) followers: Arc<Followers>,
}

/// Converts a leader to the type of the link.
pub(crate) fn to_link(leadership: &Leadership) -> Leader {
    Leader {
        epoch: leadership.epoch,
        origin: leadership.origin,
        address: leadership.address.clone(),
    }
}

impl<M: ReplicatedMachine> LeadingReplica<M> {
    fn unavailable(&self) -> LinkError {
        LinkError::Unavailable {
            peer: self.own.address.clone(),
            why: "this replica is ending".into(),
        }
    }

    /// The answer to a replica that asks which one this is.
    fn get_identity(&self) -> Result<ReplicaIdentity, LinkError> {
        let leadership = self.replica.leadership();
        let leadership = leadership.ok_or_else(|| self.unavailable())?;
        let leader = to_link(&leadership.borrow());
        Ok(ReplicaIdentity {
            origin: self.own.origin,
            address: self.own.address.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            versions: M::COMMAND_VERSIONS,
            record_version: M::RECORD_VERSION,
            sequence: self.replica.durable_sequence(),
            leader,
        })
    }

    /// Opens a stream for a follower. If this replica leads in the epoch that the follower names, it serves the stream.
    /// Otherwise the only message of the stream says that it does not lead.
    fn accept(&self, start: FollowStart) -> Result<LeaderConnection, LinkError> {
        let leadership = self.replica.leadership();
        let leadership = leadership.ok_or_else(|| self.unavailable())?;
        let version = common_version(M::COMMAND_VERSIONS, start.versions);
        let version = version.ok_or_else(|| LinkError::Refused {
            peer: self.own.address.clone(),
            why: format!(
                "there is no common version of commands: this release knows {:?}, the follower {:?}",
                M::COMMAND_VERSIONS,
                start.versions
            ),
        })?;
        let (to_leader, from_follower) = mpsc::channel(QUEUE_MESSAGES);
        let (to_follower, from_leader) = mpsc::channel(QUEUE_MESSAGES);
        let current = leadership.borrow().clone();
        let leads = current.is_own && current.epoch == start.leader.epoch;
        let first_message = if leads {
            FromLeader::Welcome { version }
        } else {
            self.not_leading(&current)
        };
        // The channel is new, so it is not full.
        let _ = to_follower.try_send(first_message);
        if leads {
            let appended = (start.takes_entries).then(|| self.replica.appended());
            let batches = EntryBatches::new(appended.flatten());
            let mut follower_addresses = self.followers.addresses();
            // The first message has the addresses of all followers, whether they have changed or not.
            follower_addresses.mark_changed();
            let follower = FollowerStream {
                own: Arc::clone(&self.own),
                replica: self.replica.clone(),
                joined: self.followers.join(&start),
                start,
                news: LeaderNews::default(),
                batches,
                follower_addresses,
                has_news: true,
                silent_ticks: 0,
                stalled_ticks: 0,
            };
            let serve = follower.serve(from_follower, to_follower, leadership);
            spawn_contained(ContainedWork::GrpcStream, serve);
        }
        Ok(LeaderConnection {
            to_leader,
            from_leader,
        })
    }

    fn not_leading(&self, leadership: &Leadership) -> FromLeader {
        FromLeader::NotLeading {
            origin: self.own.origin,
            leader: to_link(leadership),
        }
    }
}

/// The newest version that both replicas know; `None` if there is no such version.
fn common_version(own: CommandVersions, other: CommandVersions) -> Option<u32> {
    let newest = own.newest.min(other.newest);
    (newest >= own.oldest.max(other.oldest)).then_some(newest)
}

impl<M: ReplicatedMachine> ReplicaLink for LeadingReplica<M> {
    fn identify(&self) -> LinkFuture<'_, ReplicaIdentity> {
        Box::pin(async { self.get_identity() })
    }

    fn follow(&self, start: FollowStart) -> LinkFuture<'_, LeaderConnection> {
        Box::pin(async { self.accept(start) })
    }

    /// Only replicas of control offer candidates and have hosts; see `ControlLink`.
    fn find_offer(&self, _: Uuid) -> LinkFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(None) })
    }

    fn take_host_updates(
        &self,
        updates: Vec<PostedUpdate>,
    ) -> LinkFuture<'_, Vec<Option<Receipt>>> {
        Box::pin(async move { Ok(vec![None; updates.len()]) })
    }
}

/// The stream of one follower.
struct FollowerStream<M: ReplicatedMachine> {
    own: Arc<ThisReplica>,
    replica: Replica<M>,
    /// The message with which the follower opened the stream.
    start: FollowStart,
    /// Keeps the follower on the list of followers until the stream ends.
    joined: Joined,
    /// The content of the next message to the follower.
    news: LeaderNews,
    /// Collects the batches for the next message.
    batches: EntryBatches,
    /// The addresses of all followers.
    follower_addresses: watch::Receiver<Vec<ReplicaAddress>>,
    /// Whether `news` has to be sent now.
    has_news: bool,
    /// Heartbeats since the follower's last message.
    silent_ticks: u32,
    /// The number of heartbeats since a command last had an outcome; 0 while no command is being carried out.
    stalled_ticks: u32,
}

impl<M: ReplicatedMachine> FollowerStream<M> {
    /// Takes the follower's commands and sends their outcomes, until the follower is gone or this replica does not lead
    /// any more.
    async fn serve(
        mut self,
        mut from_follower: mpsc::Receiver<ToLeader>,
        to_follower: mpsc::Sender<FromLeader>,
        mut leadership: watch::Receiver<Leadership>,
    ) {
        let replica = self.replica.clone();
        let epoch = self.start.leader.epoch;
        let mut under_way = FuturesUnordered::new();
        let mut durable = std::pin::pin!(replica.durable_after(0));
        let mut leadership_ended = std::pin::pin!(async move {
            let has_ended = |current: &Leadership| !current.is_own || current.epoch != epoch;
            let next = leadership.wait_for(has_ended).await;
            next.map(|next| next.clone()).ok()
        });
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = from_follower.recv(), if under_way.len() < COMMANDS_MAX => {
                    let Some(message) = message else { return };
                    for (id, command) in self.take_message(message) {
                        let received = replica.receive(epoch, id, command);
                        under_way.push(async move { (id.number, received.await) });
                    }
                }
                Some((number, reply)) = under_way.next(), if !under_way.is_empty() => {
                    self.stalled_ticks = 0;
                    self.add_reply(number, outcome::to_follower(reply));
                    // Outcomes that are known already are sent in the same message.
                    let further = std::iter::from_fn(|| under_way.next().now_or_never().flatten());
                    for (number, reply) in further.take(REPLIES_AT_A_TIME) {
                        self.add_reply(number, outcome::to_follower(reply));
                    }
                }
                durable_end = &mut durable => {
                    let Some(durable_end) = durable_end else { return };
                    self.batches.gather_ready();
                    self.note_durable(durable_end);
                    durable.set(replica.durable_after(durable_end));
                }
                durable_end = self.batches.gather() => {
                    let Some(durable_end) = durable_end else { return };
                    self.note_durable(durable_end);
                }
                Ok(()) = self.follower_addresses.changed() => self.add_followers(),
                permit = to_follower.reserve(), if self.has_news => {
                    let Ok(permit) = permit else { return };
                    permit.send(FromLeader::News(self.take_news()));
                }
                next = &mut leadership_ended => {
                    if let Some(next) = next {
                        let leader = to_link(&next);
                        let origin = self.own.origin;
                        // A closed channel means that the follower is gone.
                        let _ = to_follower.send(FromLeader::NotLeading { origin, leader }).await;
                    }
                    return;
                }
                _ = heartbeat.tick() => {
                    if let Some(last) = self.handle_heartbeat(!under_way.is_empty()) {
                        // A closed channel means that the follower is gone.
                        let _ = to_follower.try_send(last);
                        return;
                    }
                }
            }
        }
    }

    /// Records that the journal is durable up to an entry, so that the follower is told now.
    fn note_durable(&mut self, sequence: u64) {
        self.news.durable = self.news.durable.max(sequence);
        self.has_news = true;
    }

    /// Records that the next message has to name all followers.
    fn add_followers(&mut self) {
        let addresses = self.follower_addresses.borrow_and_update();
        self.news.followers.clone_from(&addresses);
        self.has_news = true;
    }

    /// Causes a message to be sent at a heartbeat, even if there is nothing new. If the stream has to end, returns
    /// its last message.
    fn handle_heartbeat(&mut self, has_commands: bool) -> Option<FromLeader> {
        self.has_news = true;
        self.silent_ticks += 1;
        if self.silent_ticks > SILENT_TICKS_MAX {
            tracing::warn!(follower = self.start.address, "a follower is silent");
            return Some(FromLeader::News(self.take_news()));
        }
        self.stalled_ticks = if has_commands {
            self.stalled_ticks + 1
        } else {
            0
        };
        let failing = self.replica.time_since_failed_append();
        let is_failing = failing.is_some_and(|failing| failing > FAILING_MAX);
        if is_failing || self.stalled_ticks > STALLED_TICKS_MAX {
            tracing::warn!("the store does not answer: another replica may lead");
            return Some(FromLeader::StoreUnavailable);
        }
        None
    }

    /// Takes a message of the follower; returns its commands.
    fn take_message(&mut self, message: ToLeader) -> Vec<(CommandId, M::Command)> {
        self.silent_ticks = 0;
        self.joined.note_applied(message.sequence);
        let origin = self.start.origin;
        let commands = message.commands.into_iter();
        let decoded = commands.filter_map(|command| {
            let (number, command) = self.decode(command);
            Some((CommandId { origin, number }, command?))
        });
        decoded.collect()
    }

    /// Decodes a command; returns its number and the command. If it cannot be decoded, replies with a failure and
    /// returns `None` as the command.
    fn decode(&mut self, command: HandedCommand) -> (u64, Option<M::Command>) {
        match M::decode_command(command.version, &command.bytes) {
            Ok(decoded) => (command.number, Some(decoded)),
            Err(why) => {
                let follower = &self.start.address;
                tracing::error!(follower, why, "a command of another replica cannot be read");
                let failed = HandedOutcome::Failed(HandedFailure::Unreadable(why));
                self.add_reply(command.number, Some(failed));
                (command.number, None)
            }
        }
    }

    /// Adds the outcome of the command `number` to the next message, if the follower has to be told the outcome.
    fn add_reply(&mut self, number: u64, outcome: Option<HandedOutcome>) {
        if let Some(outcome) = outcome {
            self.news.replies.push((number, outcome));
            self.has_news = true;
        }
    }

    /// Takes the content of the next message to the follower.
    fn take_news(&mut self) -> LeaderNews {
        self.has_news = false;
        LeaderNews {
            replies: std::mem::take(&mut self.news.replies),
            durable: self.news.durable,
            batches: self.batches.take(),
            followers: std::mem::take(&mut self.news.followers),
        }
    }
}
