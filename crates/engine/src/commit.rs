//! Appends decided batches to the journal, or undoes them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use placewright_journal::{AppendError, Journal, JournalError};

use crate::entries::EntryChunk;
use crate::error::StoreError;
use crate::shared::{CommandBatch, Shared};
use crate::start_anew::start_anew;
use crate::submission::Decided;
use crate::undo::{
    answer_unavailable, catch_up, publish_progress, requeue, submissions, undo_all,
    wait_for_second_thread,
};
use crate::{Commit, Machine, resolve, snapshot};

/// Figures of a successful append, by which the writer decides how long to wait for commands before the next append.
pub(crate) struct Appended {
    /// How long the append took.
    pub(crate) append_time: Duration,
    /// When the callers got their answers.
    pub(crate) answered_at: Instant,
    /// The number of commands in the append.
    pub(crate) command_count: usize,
    /// The number of commands that were waiting after the append and before its answers.
    pub(crate) waiting_count: usize,
}

/// Appends the batches and answers their commands. `None` if there was nothing to append, or the store did not confirm
/// the append at once: it failed, conflicted with another writer's append, or has an unknown outcome.
pub(crate) fn commit<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    batches: VecDeque<CommandBatch<M>>,
) -> Option<Appended> {
    let mut records: Vec<&[u8]> = Vec::new();
    for batch in &batches {
        let mut start = 0;
        for &end in &batch.ends {
            records.push(&batch.buffer[start..end]);
            start = end;
        }
    }
    if records.is_empty() {
        // None of these commands changed anything, so there is nothing to append, and the state on which they were
        // decided has become durable meanwhile.
        answer_and_recycle(shared, batches);
        return None;
    }
    let started = Instant::now();
    let appended = journal.append(shared.durable() + 1, &records);
    let append_time = started.elapsed();
    let entry_count = records.len();
    match appended {
        Ok(()) => {
            if let Some(replica) = &shared.replica {
                replica.appended.publish(journal, &records);
            }
            let appended = publish_append(shared, batches, entry_count, append_time);
            // The writer does the journal's deferred work itself, although the next commands may already wait: waking
            // another thread would cost more processor time, and meanwhile more commands gather for the next append.
            journal.finish_deferred();
            return Some(appended);
        }
        Err(AppendError::Conflict { next_sequence }) => {
            // The journal ends before an entry that was already durable.
            if next_sequence <= shared.durable() {
                shared.lost.suspect();
            }
            requeue_after_conflict(shared, journal, batches);
        }
        Err(AppendError::Failed(error)) => {
            shared.lost.suspect_by(&error);
            undo_failed_append(shared, batches, &Arc::new(StoreError::Journal(error)));
        }
        Err(AppendError::Unknown(error)) => {
            resolve::resolve_append(shared, journal, batches, StoreError::Journal(error));
        }
    }
    None
}

/// Answers the batches' commands and recycles the batches' memory.
fn answer_and_recycle<M: Machine>(shared: &Shared<M>, mut batches: VecDeque<CommandBatch<M>>) {
    for batch in &mut batches {
        batch.decided.drain(..).for_each(Decided::answer);
    }
    // Undo data is dropped after the answers, so that no caller waits for it.
    for batch in &mut batches {
        batch.undos.clear();
        batch.buffer.clear();
        batch.ends.clear();
    }
    let mut queue = shared.queue.lock();
    for batch in batches {
        queue.recycle(batch);
    }
}

/// Makes an append that succeeded known: to readers and followers, then to the callers of its commands, then to the
/// observer.
fn publish_append<M: Machine>(
    shared: &Shared<M>,
    batches: VecDeque<CommandBatch<M>>,
    entry_count: usize,
    append_time: Duration,
) -> Appended {
    let mut commit = Commit {
        sequence: shared.durable() + entry_count as u64,
        commands: 0,
        entries: entry_count,
        bytes: 0,
        decide_time: Duration::ZERO,
        append_time,
        queued: 0,
    };
    *shared.append_failed.lock() = None;
    {
        let mut recent = shared.recent.write();
        for batch in &batches {
            commit.commands += batch.decided.len();
            commit.bytes += batch.buffer.len();
            commit.decide_time += batch.decide_time;
            if !batch.ends.is_empty() {
                recent.push(EntryChunk::new(
                    batch.first,
                    batch.buffer.clone(),
                    batch.ends.clone(),
                ));
            }
        }
    }
    shared.durable.store(commit.sequence, Ordering::Release);
    shared
        .progress
        .send_modify(|progress| progress.durable = commit.sequence);
    // Counted before the answers, because answered callers submit their next commands.
    commit.queued = shared.queue.lock().waiting.len();
    answer_and_recycle(shared, batches);
    let answered_at = Instant::now();
    shared.observer.committed(&commit);
    snapshot::request_if_due(shared, commit.bytes as u64);
    Appended {
        append_time,
        answered_at,
        command_count: commit.commands,
        waiting_count: commit.queued,
    }
}

/// Undoes the changes of an append that failed, and all later ones, and refuses their commands.
fn undo_failed_append<M: Machine>(
    shared: &Shared<M>,
    batches: VecDeque<CommandBatch<M>>,
    reason: &Arc<StoreError>,
) {
    *shared.append_failed.lock() = Some(Instant::now());
    let undone = {
        let mut state = shared.state.write();
        let undone = undo_all(shared, &mut state, batches);
        publish_progress(shared, &state);
        undone
    };
    answer_unavailable(shared, submissions(undone).into_iter(), reason);
}

/// Handles the conflict with another writer: applies the other writer's entries, and returns the commands to
/// the front of the queue.
fn requeue_after_conflict<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    batches: VecDeque<CommandBatch<M>>,
) {
    wait_for_second_thread(shared);
    let mut state = shared.state.write();
    let undone = undo_all(shared, &mut state, batches);
    let applied_before = state.applied;
    let caught_up = catch_up(shared, journal, &mut state);
    publish_progress(shared, &state);
    let missed = state.applied - applied_before;
    drop(state);
    let caught_up = match caught_up {
        // This replica was away for so long that the entries of the other writer were trimmed.
        Err(StoreError::Journal(JournalError::Trimmed { .. })) => start_anew(shared, journal),
        caught_up => caught_up,
    };
    match caught_up {
        Ok(()) => {
            shared.observer.conflict(undone.len(), missed);
            requeue(shared, submissions(undone));
        }
        Err(reason) => {
            answer_unavailable(shared, submissions(undone).into_iter(), &Arc::new(reason));
        }
    }
}
