//! Several engines on one journal: replicas, of which one leads.
//!
//! Each replica holds the whole state and serves reads. One of them leads: it decides all commands and appends their
//! entries. The others follow the journal, and hand the commands that they get to the one that leads.
//!
//! - **Who leads** is an entry of the journal: a replica that finds the leader gone appends an entry that names itself.
//!   Its sequence is the epoch. This append alone keeps a former leader out: it succeeds only if the replica has read
//!   every entry before it, and the former leader's next append conflicts with it. There is no lease, and no decision
//!   depends on a clock.
//! - **A command that was handed over** has an id, which stays in its entry. The follower that sent the command reads
//!   the entry as it follows the journal, and decides the command itself, on its own state right before that entry.
//!   Deciding is pure, so the outcome is the same as the leader's, and the follower needs no answer from the leader.
//! - **A refusal** makes no entry. The leader replies with the entry after which it decided. The follower decides the
//!   command on that state or a later one, and hands it over again if it is not refused there.
//! - **A command that makes no entry** is fenced by no append, so the replica that took the command asks the journal
//!   for its end before it answers, as for a read. If another replica has taken over meanwhile, the command is decided
//!   anew.
//! - **Entries come from the leader**, as soon as their append is acknowledged, or else are read from the store
//!   (`appended.rs`).
//! - **A leader that ends** appends the entry by which another replica leads.
//! - **After a change of the leader** a command that has no entry before the new leader's first entry has had no effect
//!   and never will have, so it is handed to the new leader. Each command that is handed over names the epoch for which
//!   it is meant, and a replica accepts only those for its present epoch.
//!
//! This is state machine replication as in Raft, with the agreement on the log left to the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{broadcast, oneshot, watch};

use crate::appended::AppendedBatch;
use crate::envelope::CommandId;
use crate::error::SubmitError;
use crate::leadership::Leadership;
use crate::replica_state::{ForwardReply, NextLeader};
use crate::shared::{Shared, wake_writer};
use crate::submission::{CommandReply, Submission};
use crate::{Machine, pending};

/// A handle on an engine's part as a replica, for the links between replicas.
pub struct Replica<M: Machine> {
    pub(crate) shared: Weak<Shared<M>>,
}

impl<M: Machine> Clone for Replica<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Weak::clone(&self.shared),
        }
    }
}

impl<M: Machine> Replica<M> {
    /// `None` if the engine was dropped.
    fn shared(&self) -> Option<Arc<Shared<M>>> {
        self.shared.upgrade()
    }

    /// Takes a command that another replica hands over in the belief that this one leads since `epoch`.
    pub async fn receive(&self, epoch: u64, id: CommandId, command: M::Command) -> ForwardReply {
        let Some(receiver) = self.enqueue_received(epoch, id, command) else {
            return ForwardReply::NotLeading;
        };
        match receiver {
            Err(error) => ForwardReply::Failed(error),
            Ok(receiver) => match receiver.await {
                Ok(reply) => reply.into_forward_reply(),
                Err(_) => ForwardReply::Failed(SubmitError::ShuttingDown),
            },
        }
    }

    /// Queues a command of another replica. `None` if this replica does not lead in `epoch`, or the engine was dropped.
    #[allow(
        clippy::type_complexity,
        reason = "the reply's channel, or why there is none"
    )]
    fn enqueue_received(
        &self,
        epoch: u64,
        id: CommandId,
        command: M::Command,
    ) -> Option<Result<oneshot::Receiver<CommandReply<M>>, SubmitError>> {
        let shared = self.shared()?;
        let replica = shared.replica.as_ref()?;
        // The epoch cannot change while `pending` is locked. When the epoch changes, the commands that wait in the
        // queue are returned to their senders, so none is decided in another epoch.
        let _pending = replica.pending.lock();
        {
            let leadership = replica.leadership.borrow();
            if !leadership.is_own || leadership.epoch != epoch {
                return None;
            }
        }
        let (reply, receiver) = oneshot::channel();
        let submission = Submission {
            command: Box::new(command),
            reply,
            forwarded: Some(id),
            made_after_rollbacks: None,
        };
        Some(shared.enqueue(submission).map(|()| receiver))
    }

    /// Takes the leader's reply to the command `number`, which was sent in `epoch`.
    pub fn answered(&self, epoch: u64, number: u64, reply: ForwardReply) {
        let Some(shared) = self.shared() else { return };
        pending::take_reply(&shared, epoch, number, reply);
    }

    /// The batches that this replica appends from now on, for the stream to a follower; see [`Replica::take_appended`].
    /// A stream that is slow misses some. Batches that are very large, or whose outcome was unknown at first, are left
    /// out. Followers read what they miss from the store. `None` if the engine was dropped.
    pub fn appended(&self) -> Option<broadcast::Receiver<Arc<AppendedBatch>>> {
        Some(self.shared()?.replica.as_ref()?.appended.subscribe())
    }

    /// Takes a batch that the leader of `epoch` has sent from [`Replica::appended`]. It is applied instead of being
    /// read from the store, if it follows the last entry that this replica has applied. Batches may come in any order,
    /// several times, or not at all.
    pub fn take_appended(&self, epoch: u64, batch: AppendedBatch) {
        let Some(shared) = self.shared() else { return };
        if let Some(replica) = &shared.replica {
            replica.received.add(epoch, shared.durable(), batch);
        }
    }

    /// Reports that the leader of `epoch` cannot be reached, so that it is probably gone. This replica then takes
    /// over, unless another one is faster. If the leader is not gone, this only costs time.
    pub fn leader_is_gone(&self, epoch: u64) {
        let Some(shared) = self.shared() else { return };
        if let Some(replica) = &shared.replica {
            replica.lost_epoch.fetch_max(epoch, Ordering::AcqRel);
        }
    }

    /// Makes another replica lead, if this one does. [`Replica::leadership`] shows when the other one leads. This one
    /// goes on leading if the store fails.
    pub fn hand_over(&self, origin: u64, address: &str) {
        let Some(shared) = self.shared() else { return };
        let Some(replica) = &shared.replica else {
            return;
        };
        let _pending = replica.pending.lock();
        if replica.is_leading() {
            *replica.next_leader.lock() = Some(NextLeader {
                origin,
                address: address.to_owned(),
            });
            wake_writer(&shared, &mut shared.queue.lock());
        }
    }

    /// Whether commands wait that were sent to the leader of `epoch`. A caller who finds that these commands or their
    /// replies may be lost has to call [`Replica::leader_is_gone`].
    pub fn has_sent(&self, epoch: u64) -> bool {
        let Some(shared) = self.shared() else {
            return false;
        };
        let Some(replica) = &shared.replica else {
            return false;
        };
        let pending = replica.pending.lock();
        let mut commands = pending.commands.values();
        commands.any(|command| command.sent_in_epoch == epoch)
    }

    /// The time since an append last failed, or since this replica last failed to follow the journal; `None` once
    /// appending or following has succeeded again.
    pub fn time_since_failed_append(&self) -> Option<Duration> {
        let failed = *self.shared()?.append_failed.lock();
        failed.map(|failed_at| failed_at.elapsed())
    }

    /// The last durable entry; 0 if the engine was dropped.
    pub fn durable_sequence(&self) -> u64 {
        self.shared().map_or(0, |shared| shared.durable())
    }

    /// The last durable entry, as soon as it is after `after`. `None` if the engine is shut down before.
    pub async fn durable_after(&self, after: u64) -> Option<u64> {
        let mut progress = self.shared()?.progress.subscribe();
        let reached = progress
            .wait_for(|progress| progress.durable > after || progress.is_closed)
            .await
            .ok()?;
        (reached.durable > after).then_some(reached.durable)
    }

    /// The state of this replica, as operators see it. `None` if the engine was dropped, or is no replica.
    pub fn status(&self) -> Option<ReplicaStatus> {
        let shared = self.shared()?;
        let replica = shared.replica.as_ref()?;
        let durable = shared.durable();
        Some(ReplicaStatus {
            origin: replica.origin,
            address: replica.address.clone(),
            leadership: replica.leadership.borrow().clone(),
            applied: durable,
            known_end: replica.known_end.load(Ordering::Relaxed).max(durable),
            sent_commands: replica.sent_commands.load(Ordering::Relaxed),
            waiting_commands: replica.pending.lock().commands.len(),
            takeovers: replica.takeovers.load(Ordering::Relaxed),
        })
    }

    /// Which replica leads, as far as this replica knows, and each change of that. `None` if the engine was dropped, or
    /// is no replica.
    pub fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        let shared = self.shared()?;
        let replica = shared.replica.as_ref()?;
        Some(replica.leadership.subscribe())
    }
}

/// The state of a replica and of its work with the other replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The number of this replica, which is new at each start.
    pub origin: u64,
    /// The address at which the other replicas reach this one.
    pub address: String,
    /// Who leads, as far as this replica knows.
    pub leadership: Leadership,
    /// The last entry that this replica has applied.
    pub applied: u64,
    /// The last entry of the journal that this replica knows of, applied or not.
    pub known_end: u64,
    /// The number of commands that this replica has sent to leaders since its start.
    pub sent_commands: u64,
    /// The number of commands that wait for another replica now.
    pub waiting_commands: usize,
    /// How often the leader changed since the start of this replica.
    pub takeovers: u64,
}

impl<M: Machine> CommandReply<M> {
    /// What the replica that handed the command over is told.
    fn into_forward_reply(self) -> ForwardReply {
        match (self.answer, self.sequence) {
            (Ok(_), Some(sequence)) => ForwardReply::Entry(sequence),
            (Ok(_), None) => ForwardReply::NoEntry(self.depends_on),
            (Err(SubmitError::NotLeading), _) => ForwardReply::NotLeading,
            (Err(error), _) => ForwardReply::Failed(error),
        }
    }
}
