//! The commands that a follower has accepted: it hands them to the leader, and answers them when it knows their
//! outcome.
//!
//! Lock order: `state`, then `pending`, then `queue`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Machine;
use crate::envelope::CommandId;
use crate::error::{StoreError, SubmitError};
use crate::leadership::Leadership;
use crate::replica_state::{ForwardReply, PendingCommand, PendingCommands, ReplicaState};
use crate::shared::{Shared, State};
use crate::submission::{Answer, CommandReply, Submission};

/// Accepts a command at a follower, sends it to the leader if there is one, and returns `None`. Returns the command if
/// this replica leads itself.
pub(crate) fn accept_at_follower<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    submission: Submission<M>,
) -> Result<Option<Submission<M>>, SubmitError> {
    let mut pending = replica.pending.lock();
    if replica.is_leading() {
        return Ok(Some(submission));
    }
    if !replica.link.hands_commands_over() {
        return Err(SubmitError::NotLeading);
    }
    if pending.is_closed {
        return Err(SubmitError::ShuttingDown);
    }
    if pending.commands.len() >= shared.options.queue_commands_max {
        return Err(SubmitError::Overloaded);
    }
    add(replica, &mut pending, submission);
    Ok(None)
}

/// Adds a command to those without an answer, and sends it if a leader is known and was not reported as gone.
fn add<M: Machine>(
    replica: &ReplicaState<M>,
    pending: &mut PendingCommands<M>,
    submission: Submission<M>,
) {
    let number = pending.next_number;
    pending.next_number += 1;
    let mut command = PendingCommand {
        submission,
        sent_in_epoch: 0,
        no_entry_at: None,
    };
    send(replica, number, &mut command);
    pending.has_unsent |= command.sent_in_epoch == 0;
    pending.commands.insert(number, command);
}

/// Sends a command to the leader, unless no leader is known or it was reported as gone. `sent_in_epoch` tells whether
/// the command was sent.
fn send<M: Machine>(replica: &ReplicaState<M>, number: u64, command: &mut PendingCommand<M>) {
    let leadership = replica.leadership.borrow();
    let is_gone = replica.lost_epoch.load(Ordering::Acquire) >= leadership.epoch;
    if leadership.epoch == 0 || leadership.is_own || is_gone {
        return;
    }
    replica.sent_commands.fetch_add(1, Ordering::Relaxed);
    command.sent_in_epoch = leadership.epoch;
    command.no_entry_at = None;
    (replica.link).send(&leadership, number, &command.submission.command);
}

/// Sends the commands that no leader has: those that were never sent, and those to which the reply was `NotLeading`.
pub(crate) fn send_unsent<M: Machine>(replica: &ReplicaState<M>, pending: &mut PendingCommands<M>) {
    if !std::mem::take(&mut pending.has_unsent) {
        return;
    }
    for (number, command) in &mut pending.commands {
        if command.sent_in_epoch == 0 {
            send(replica, *number, command);
            pending.has_unsent |= command.sent_in_epoch == 0;
        }
    }
}

/// Handles the leader's reply to a command. If the command made an entry, it is answered when this replica applies the
/// entry.
pub(crate) fn take_reply<M: Machine>(
    shared: &Shared<M>,
    epoch: u64,
    number: u64,
    reply: ForwardReply,
) {
    let Some(replica) = &shared.replica else {
        return;
    };
    let at = {
        let mut pending = replica.pending.lock();
        let Some(command) = pending.commands.get_mut(&number) else {
            return;
        };
        if command.sent_in_epoch != epoch {
            return;
        }
        match reply {
            ForwardReply::Entry(_) => return,
            ForwardReply::NotLeading => {
                // [`send_unsent`] sends the command again after a pause. The replica may lead and not know it yet,
                // because it has not read its own entry. If a third one leads by now, this one reads that in the
                // journal.
                command.sent_in_epoch = 0;
                pending.has_unsent = true;
                return;
            }
            ForwardReply::NoEntry(at) => {
                command.no_entry_at = Some(at);
                at
            }
            ForwardReply::Failed(error) => {
                let failed = pending.commands.remove(&number);
                drop(pending);
                if let Some(failed) = failed {
                    failed.submission.fail(error);
                }
                return;
            }
        }
    };
    if shared.durable() >= at {
        decide_without_entry(shared, replica, &shared.state.read());
    }
}

/// Answers the commands that made no entry at the leader, if they change nothing on this replica's state either. A
/// command that would change something is sent again. `state` is the present state.
pub(crate) fn decide_without_entry<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    state: &State<M>,
) {
    if state.applied > shared.durable() {
        // This replica leads by now. When it began to lead, it queued all these commands itself.
        return;
    }
    let mut pending = replica.pending.lock();
    let is_due =
        |command: &PendingCommand<M>| command.no_entry_at.is_some_and(|at| at <= state.applied);
    let due: Vec<u64> = (pending.commands.iter())
        .filter(|(_, command)| is_due(command))
        .map(|(number, _)| *number)
        .collect();
    for number in due {
        let Some(mut command) = pending.commands.remove(&number) else {
            continue;
        };
        let mut changes = Vec::new();
        let result = (state.machine).decide(&command.submission.command, &mut changes);
        if result.is_ok() && !changes.is_empty() {
            command.no_entry_at = None;
            command.sent_in_epoch = 0;
            pending.has_unsent = true;
            send(replica, number, &mut command);
            pending.commands.insert(number, command);
        } else {
            let Submission { command, reply, .. } = command.submission;
            let _ = reply.send(CommandReply {
                answer: Ok(result),
                sequence: None,
                depends_on: state.applied,
                command,
            });
        }
    }
}

/// A command of this replica whose entry is being applied, with the outcome of the command.
pub(crate) struct OwnEntry<M: Machine> {
    submission: Submission<M>,
    answer: Answer<M>,
    sequence: u64,
}

impl<M: Machine> OwnEntry<M> {
    /// Answers the command. To be called when its entry is applied.
    pub(crate) fn answer(self) {
        let Submission { command, reply, .. } = self.submission;
        let _ = reply.send(CommandReply {
            answer: self.answer,
            sequence: Some(self.sequence),
            depends_on: self.sequence,
            command,
        });
    }
}

/// Decides a command of this replica whose entry is to be applied next, on the state before that entry. `None` if
/// another replica submitted the command, or if it was answered already.
pub(crate) fn decide_own_entry<M: Machine>(
    replica: &ReplicaState<M>,
    state: &State<M>,
    id: CommandId,
    sequence: u64,
) -> Option<OwnEntry<M>> {
    if id.origin != replica.origin {
        return None;
    }
    let command = replica.pending.lock().commands.remove(&id.number)?;
    let mut changes = Vec::new();
    let result = (state.machine).decide(&command.submission.command, &mut changes);
    // Deciding is pure, so a leader of the same release had the same outcome. A leader of another release may have
    // accepted a command that this release refuses. Then the entry counts, and the outcome is unknown here.
    let answer = if result.is_ok() {
        Ok(result)
    } else {
        Err(SubmitError::HandedOver)
    };
    Some(OwnEntry {
        submission: command.submission,
        answer,
        sequence,
    })
}

/// Records which replica leads, after the entry with which it began to lead was applied.
pub(crate) fn change_leader<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    mut leadership: Leadership,
) {
    leadership.is_own = leadership.origin == replica.origin;
    replica.takeovers.fetch_add(1, Ordering::Relaxed);
    replica.received.begin(leadership.epoch);
    if leadership.is_own {
        lead(shared, replica, leadership);
    } else {
        follow(shared, replica, leadership);
    }
}

/// Follows another leader from the entry `leadership.epoch` on, and sends it all commands without an answer. Every
/// command whose entry is in the journal was answered when the entry was applied, so these commands have had no effect.
fn follow<M: Machine>(shared: &Shared<M>, replica: &ReplicaState<M>, leadership: Leadership) {
    let mut pending = replica.pending.lock();
    *replica.next_leader.lock() = None;
    replica.link.leader_changed(&leadership);
    replica.leadership.send_replace(leadership);
    for command in pending.commands.values_mut() {
        command.sent_in_epoch = 0;
    }
    pending.has_unsent = true;
    send_unsent(replica, &mut pending);
    let waiting = std::mem::take(&mut shared.queue.lock().waiting);
    give_back(replica, &mut pending, waiting);
}

/// Notes that it is not known which replica leads, as at the start of an engine whose entries name none. This replica
/// follows until it has read the journal, and takes over if no entry names a leader.
pub(crate) fn forget_leader<M: Machine>(shared: &Shared<M>, replica: &ReplicaState<M>) {
    let mut pending = replica.pending.lock();
    *replica.next_leader.lock() = None;
    let unknown = Leadership::default();
    replica.received.begin(unknown.epoch);
    replica.link.leader_changed(&unknown);
    replica.leadership.send_replace(unknown);
    let waiting = std::mem::take(&mut shared.queue.lock().waiting);
    give_back(replica, &mut pending, waiting);
}

/// Disposes of the commands that were waiting, or were undone, at a replica that does not lead any more. Its own
/// commands go to the leader, as soon as one is known. Those of other replicas, and all if commands are not handed
/// over, fail with `NotLeading`.
pub(crate) fn give_back<M: Machine>(
    replica: &ReplicaState<M>,
    pending: &mut PendingCommands<M>,
    submissions: impl IntoIterator<Item = Submission<M>>,
) {
    let hands_over = replica.link.hands_commands_over();
    for submission in submissions {
        if submission.forwarded.is_some() || !hands_over {
            submission.fail(SubmitError::NotLeading);
        } else {
            add(replica, pending, submission);
        }
    }
}

/// Refuses commands that wait in the queue of an engine that is being shut down. They have had no effect.
pub(crate) fn refuse_at_shutdown<M: Machine>(waiting: impl IntoIterator<Item = Submission<M>>) {
    for submission in waiting {
        // The replica that sent the command hands it to the next leader.
        let error = match submission.forwarded {
            Some(_) => SubmitError::NotLeading,
            None => SubmitError::ShuttingDown,
        };
        submission.fail(error);
    }
}

/// Leads from the entry `leadership.epoch` on, and queues all commands without an answer. Every command whose entry is
/// in the journal was answered when the entry was applied, so these commands have had no effect.
fn lead<M: Machine>(shared: &Shared<M>, replica: &ReplicaState<M>, leadership: Leadership) {
    let mut pending = replica.pending.lock();
    replica.link.leader_changed(&leadership);
    replica.leadership.send_replace(leadership);
    let commands = std::mem::take(&mut pending.commands);
    let mut queue = shared.queue.lock();
    let submissions = commands.into_values().map(|command| command.submission);
    queue.waiting.extend(submissions);
}

/// Refuses the commands that no leader has taken, because the store cannot be used and so no leader can be found. All
/// other commands may have made entries, so they wait on.
pub(crate) fn refuse_unsent<M: Machine>(replica: &ReplicaState<M>, reason: &Arc<StoreError>) {
    let mut pending = replica.pending.lock();
    let commands = std::mem::take(&mut pending.commands);
    for (number, command) in commands {
        if command.sent_in_epoch == 0 {
            command
                .submission
                .fail(SubmitError::Unavailable(Arc::clone(reason)));
        } else {
            pending.commands.insert(number, command);
        }
    }
}

/// Answers all commands when the engine is shut down, and takes no more.
pub(crate) fn close<M: Machine>(replica: &ReplicaState<M>) {
    let commands = {
        let mut pending = replica.pending.lock();
        pending.is_closed = true;
        std::mem::take(&mut pending.commands)
    };
    for command in commands.into_values() {
        let error = if command.sent_in_epoch == 0 {
            SubmitError::ShuttingDown
        } else {
            SubmitError::HandedOver
        };
        command.submission.fail(error);
    }
}

/// Fails the commands that were sent to a leader. Their outcome cannot be learnt here: this replica has skipped entries
/// of the journal, and the commands' entries may be among the skipped ones.
pub(crate) fn fail_sent<M: Machine>(replica: &ReplicaState<M>) {
    let mut pending = replica.pending.lock();
    let commands = std::mem::take(&mut pending.commands);
    for (number, command) in commands {
        if command.sent_in_epoch == 0 {
            pending.commands.insert(number, command);
        } else {
            command.submission.fail(SubmitError::HandedOver);
        }
    }
}
