//! Follows the replica that leads: hands it commands, receives its new entries, and finds out when it is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_engine::{Leadership, Replica};
use placewright_link::{
    FollowStart, FromLeader, LeaderConnection, LeaderNews, LinkError, ReplicaAddress, ToLeader,
};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::false_alarms::{AcceptedConnection, FalseAlarms};
use super::followers::Followers;
use super::machine::ReplicatedMachine;
use super::outgoing::Outgoing;
use super::peers::Peers;
use super::wake::Wake;
use super::{HEARTBEAT, SILENT_TICKS_MAX, ThisReplica, leader, outcome};

/// The time-out for connecting to the leader and for its first answer.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// The pause before the next attempt to follow a replica that did not know yet that it leads.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How many times, [`RETRY_PAUSE`] apart, a replica that has to hand over looks for a follower that can take over,
/// before it gives up.
const SUCCESSOR_ATTEMPTS: usize = 50;

/// The task of a replica that follows.
pub(crate) struct Follower<M: ReplicatedMachine> {
    /// The replicas that follow this one while this one leads.
    pub(crate) followers: Arc<Followers>,
    /// The identity of this replica.
    pub(crate) own: Arc<ThisReplica>,
    /// The engine's functions for a replica.
    pub(crate) replica: Replica<M>,
    /// The commands that this replica hands over to the leader.
    pub(crate) outgoing: Arc<Outgoing>,
    /// Wakes the engine when there are new entries in the journal.
    pub(crate) wake: Arc<Wake>,
    /// The list of the other replicas, which this task keeps up to date.
    pub(crate) peers: Arc<Peers>,
}

/// How a stream to the leader ended.
enum Ended {
    /// The leader cannot be reached, or the connection was lost.
    Lost(String),
    /// The leader or its store does not answer, or another process has the leader's address. To connect again would not
    /// help.
    Gone(String),
    /// The replica that was asked does not lead, or does not know yet that it leads.
    NotLeading,
}

impl<M: ReplicatedMachine> Follower<M> {
    /// Follows whichever replica leads, as long as the engine runs.
    pub(crate) async fn run(self) {
        let mut leaders = self.outgoing.leader();
        let mut alarms = FalseAlarms::default();
        // Whether this replica led until the present leader took over.
        let mut led_before = false;
        // The replica that last took over from this one, if this one cannot reach it.
        let mut unreachable = None;
        loop {
            let leader = leaders.borrow_and_update().clone();
            // Epoch 0 means that no replica has led yet.
            if leader.epoch == 0 || leader.is_own {
                led_before = leader.is_own;
                if leader.is_own {
                    // The replicas that follow this one are added to the list as they join.
                    self.peers.begin(leader.epoch, None, Instant::now());
                    let why = leader.reason.text();
                    tracing::info!(epoch = leader.epoch, why, "this replica leads");
                }
                let changed = tokio::select! {
                    changed = leaders.changed() => changed,
                    () = self.hand_over_if_unreachable(unreachable.take()) => leaders.changed().await,
                };
                if changed.is_err() {
                    return;
                }
                continue;
            }
            tracing::info!(
                epoch = leader.epoch,
                address = leader.address,
                why = leader.reason.text(),
                "another replica leads"
            );
            // Between two replicas that take over from one another there is no third leader.
            unreachable = None;
            alarms.note_leader(leader.origin, Instant::now());
            self.begin_peers(&leader);
            let until_gone = async {
                let why = self.follow(&leader, &mut alarms).await;
                self.wake.set_has_leader(false);
                tokio::time::sleep(alarms.pause(leader.origin, Instant::now())).await;
                alarms.note_reported_as_gone(leader.origin, Instant::now());
                tracing::warn!(
                    epoch = leader.epoch,
                    address = leader.address,
                    why,
                    "the leader is gone"
                );
                unreachable = led_before.then_some(leader.origin);
                self.replica.leader_is_gone(leader.epoch);
                self.wake.wake_now();
                // The engine now has a replica take over, perhaps this one. Then `leaders` changes, which ends the
                // wait.
                std::future::pending::<()>().await;
            };
            tokio::select! {
                changed = leaders.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = until_gone => {}
            }
            led_before = false;
            self.wake.set_has_leader(false);
        }
    }

    /// Hands the leadership over to another follower if `unreachable` names a replica: one that took over from this one
    /// although this one was running, and that this one cannot reach. Without a third replica as leader, the two would
    /// take over from one another again and again.
    async fn hand_over_if_unreachable(&self, unreachable: Option<u64>) {
        let Some(unreachable) = unreachable else {
            return std::future::pending().await;
        };
        for _ in 0..SUCCESSOR_ATTEMPTS {
            if let Some((origin, address)) = self.followers.best_except(unreachable) {
                tracing::info!(address, "handing over to a replica that others reach");
                return self.replica.hand_over(origin, &address);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Begins the list of other replicas for a new leader: until the leader has named its followers, only the leader
    /// itself is known.
    fn begin_peers(&self, leader: &Leadership) {
        let address = address_of(leader);
        // If the leader has the address of this replica, it was this replica before its last start, and is gone.
        let other = (leader.address != self.own.address).then_some(&address);
        self.peers.begin(leader.epoch, other, Instant::now());
    }

    /// Follows a leader until it seems to be gone. Returns why it seems to be gone, as a text for the log.
    async fn follow(&self, leader: &Leadership, alarms: &mut FalseAlarms) -> String {
        if leader.address == self.own.address {
            return "it was this replica before its last start".into();
        }
        // Whether a connection was lost since the leader last accepted this replica. If the next one is lost before the
        // leader accepts this replica again, the leader is believed to be gone.
        let mut has_failed = false;
        loop {
            let mut has_sent = false;
            let mut was_accepted = false;
            let ended = self
                .follow_once(leader, &mut has_sent, &mut was_accepted, alarms)
                .await;
            self.wake.set_has_leader(false);
            has_failed &= !was_accepted;
            match ended {
                Ended::Gone(why) => return why,
                // A command that was sent, or its reply, may be lost with the connection. Only the next leader can tell
                // what became of it.
                Ended::Lost(why) if has_sent && self.replica.has_sent(leader.epoch) => {
                    return why;
                }
                Ended::Lost(why) if has_failed => return why,
                Ended::Lost(_) => has_failed = true,
                Ended::NotLeading => {
                    // If another replica leads, an entry of the journal will name it.
                    self.wake.wake_now();
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Follows the leader over one connection, until the connection ends. Sets `has_sent` if commands were sent over
    /// it, and `was_accepted` if the leader has accepted this replica.
    async fn follow_once(
        &self,
        leader: &Leadership,
        has_sent: &mut bool,
        was_accepted: &mut bool,
        alarms: &mut FalseAlarms,
    ) -> Ended {
        let mut connection = match self.open(leader).await {
            Ok(connection) => connection,
            Err(ended) => return ended,
        };
        let first_message = connection.from_leader.recv();
        match tokio::time::timeout(CONNECT_TIMEOUT, first_message).await {
            Err(_) => return Ended::Gone("it does not answer".into()),
            Ok(None) => return Ended::Lost("it ended the connection".into()),
            Ok(Some(FromLeader::Welcome { .. })) => {}
            Ok(Some(message)) => return ended_by(leader, &message),
        }
        *was_accepted = true;
        self.wake.set_has_leader(true);
        self.serve(leader, connection, has_sent, alarms).await
    }

    /// Opens a stream to the leader.
    async fn open(&self, leader: &Leadership) -> Result<LeaderConnection, Ended> {
        let link = self.peers.connect(&leader.address).map_err(Ended::Lost)?;
        let start = FollowStart {
            origin: self.own.origin,
            address: self.own.address.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            versions: M::COMMAND_VERSIONS,
            leader: leader::to_link(leader),
            takes_entries: true,
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, link.follow(start)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error @ LinkError::TimedOut { .. })) => Err(Ended::Gone(error.to_string())),
            Ok(Err(error)) => Err(Ended::Lost(error.to_string())),
            Err(_) => Err(Ended::Gone("it does not answer".into())),
        }
    }

    /// Sends commands and takes replies until the stream ends.
    async fn serve(
        &self,
        leader: &Leadership,
        mut connection: LeaderConnection,
        has_sent: &mut bool,
        alarms: &mut FalseAlarms,
    ) -> Ended {
        let mut accepted = AcceptedConnection::new(leader.origin, Instant::now());
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        // A process that was suspended for a while must read messages before it counts the leader as silent, so missed
        // ticks are not made up for.
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent_ticks = 0;
        loop {
            tokio::select! {
                message = connection.from_leader.recv() => {
                    silent_ticks = 0;
                    match message {
                        None => return Ended::Lost("the connection was lost".into()),
                        Some(FromLeader::News(news)) => {
                            alarms.note_durable_end(&mut accepted, news.durable, Instant::now());
                            self.handle_news(leader, news);
                        }
                        Some(message) => return ended_by(leader, &message),
                    }
                }
                permit = self.until_sendable(&connection.to_leader) => {
                    let Ok(permit) = permit else {
                        return Ended::Lost("the connection was lost".into());
                    };
                    let commands = self.outgoing.take(leader.epoch);
                    *has_sent |= !commands.is_empty();
                    permit.send(self.message(commands));
                }
                _ = heartbeat.tick() => {
                    silent_ticks += 1;
                    if silent_ticks > SILENT_TICKS_MAX {
                        return Ended::Gone("it is silent".into());
                    }
                    // If the queue is full, the messages in it show already that this replica is alive.
                    let _ = connection.to_leader.try_send(self.message(Vec::new()));
                }
            }
        }
    }

    /// Waits until there are commands to send, and room for one more message to the leader.
    async fn until_sendable<'c>(
        &self,
        to_leader: &'c mpsc::Sender<ToLeader>,
    ) -> Result<mpsc::Permit<'c, ToLeader>, mpsc::error::SendError<()>> {
        self.outgoing.until_queued().await;
        to_leader.reserve().await
    }

    /// A message to the leader with these commands, and with the number of the last entry that this replica has.
    fn message(&self, commands: Vec<placewright_link::HandedCommand>) -> ToLeader {
        ToLeader {
            commands,
            sequence: self.replica.durable_sequence(),
        }
    }

    /// Handles news from the leader: new entries, the end of the journal, replies to commands, and other followers.
    fn handle_news(&self, leader: &Leadership, news: LeaderNews) {
        let epoch = leader.epoch;
        if !news.followers.is_empty() {
            let mut replicas = news.followers;
            replicas.push(address_of(leader));
            self.peers.set(epoch, &replicas, Instant::now());
        }
        for batch in news.batches {
            self.replica
                .take_appended(epoch, outcome::to_appended_batch(batch));
        }
        self.wake.note_end_from_leader(news.durable);
        for (number, handed) in news.replies {
            let reply = outcome::from_leader(handed);
            let must_be_sent_again = matches!(reply, placewright_engine::ForwardReply::NotLeading);
            self.replica.answered(epoch, number, reply);
            // The journal may say by now which replica leads. The engine reads it, and sends the command again.
            if must_be_sent_again {
                self.wake.wake_now();
            }
        }
    }
}

/// The number and the address of the replica that leads.
fn address_of(leader: &Leadership) -> ReplicaAddress {
    ReplicaAddress {
        origin: leader.origin,
        address: leader.address.clone(),
    }
}

/// How the stream has ended, according to the last message of the other replica.
fn ended_by(leader: &Leadership, message: &FromLeader) -> Ended {
    match message {
        FromLeader::StoreUnavailable => Ended::Gone("its store does not answer".into()),
        FromLeader::NotLeading { origin, .. } if *origin != leader.origin => {
            Ended::Gone("another process has its address".into())
        }
        _ => Ended::NotLeading,
    }
}
