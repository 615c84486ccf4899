//! Appends decided batches to the journal, or undoes them.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use placewright_journal::{AppendError, Journal};

use crate::entries::EntryChunk;
use crate::error::{StoreError, SubmitError};
use crate::shared::{CommandBatch, Decided, Progress, Shared, State};
use crate::{Commit, Machine, snapshot};

/// Figures of a successful append, by which the writer decides how long to wait for commands before the next one.
pub(crate) struct Appended {
    /// How long the append took.
    pub(crate) append_time: Duration,
    /// When the callers got their answers.
    pub(crate) answered_at: Instant,
    /// The number of commands in the append.
    pub(crate) commands: usize,
    /// The number of commands that were waiting after the append and before its answers.
    pub(crate) waiting: usize,
}

/// Appends the batches and answers their commands. `None` if there was nothing to append, or the append
/// failed.
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
        // No command of the batches changed something, and the state on which they were decided has become
        // durable meanwhile.
        answer_and_recycle(shared, batches);
        return None;
    }
    let started = Instant::now();
    let appended = journal.append(shared.durable() + 1, &records);
    let append_time = started.elapsed();
    let entries = records.len();
    match appended {
        Ok(()) => {
            let appended = publish_append(shared, batches, entries, append_time);
            // The writer does the deferred work itself, although the next commands may already wait: waking
            // another thread costs more processor time, and more commands gather for the next append.
            journal.finish_deferred();
            return Some(appended);
        }
        Err(AppendError::Conflict { .. }) => requeue_after_conflict(shared, journal, batches),
        Err(AppendError::Failed(error)) => {
            undo_failed_append(shared, batches, &Arc::new(StoreError::Journal(error)));
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

fn publish_append<M: Machine>(
    shared: &Shared<M>,
    batches: VecDeque<CommandBatch<M>>,
    entries: usize,
    append_time: Duration,
) -> Appended {
    let mut commit = Commit {
        sequence: shared.durable() + entries as u64,
        commands: 0,
        entries,
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
        commands: commit.commands,
        waiting: commit.queued,
    }
}

/// Undoes everything that is not durable: `batches`, and the batches that were decided after them.
/// Returns the commands of all of them, in their order.
fn undo_all<M: Machine>(
    shared: &Shared<M>,
    state: &mut State<M>,
    mut batches: VecDeque<CommandBatch<M>>,
) -> Vec<Decided<M>> {
    {
        // A deciding thread holds the state's lock until its batch is in the queue, so all batches with
        // applied changes are in the queue now.
        let mut queue = shared.queue.lock();
        batches.append(&mut queue.decided);
        queue.decided_commands = 0;
        queue.decided_bytes = 0;
        queue.is_appending = false;
    }
    for batch in batches.iter_mut().rev() {
        for undo in batch.undos.drain(..).rev() {
            state.machine.undo(undo);
        }
    }
    state.applied = shared.durable();
    state.rollbacks += 1;
    batches
        .into_iter()
        .flat_map(|batch| batch.decided)
        .collect()
}

fn publish_progress<M: Machine>(shared: &Shared<M>, state: &State<M>) {
    shared.progress.send_modify(|progress| {
        *progress = Progress {
            durable: state.applied,
            rollbacks: state.rollbacks,
            is_closed: progress.is_closed,
        };
    });
}

fn answer_unavailable<M: Machine>(
    shared: &Shared<M>,
    undone: Vec<Decided<M>>,
    reason: &Arc<StoreError>,
) {
    let commands = undone.len();
    for decided in undone {
        decided
            .submission
            .fail(SubmitError::Unavailable(Arc::clone(reason)));
    }
    shared.observer.append_failed(reason, commands);
}

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
    answer_unavailable(shared, undone, reason);
}

/// Handles the conflict with another writer: applies the other writer's entries, and returns the commands to
/// the front of the queue.
fn requeue_after_conflict<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    batches: VecDeque<CommandBatch<M>>,
) {
    let mut state = shared.state.write();
    let undone = undo_all(shared, &mut state, batches);
    let applied_before = state.applied;
    let caught_up = catch_up(shared, journal, &mut state);
    publish_progress(shared, &state);
    let missed = state.applied - applied_before;
    drop(state);
    match caught_up {
        Ok(()) => {
            shared.observer.conflict(undone.len(), missed);
            let mut queue = shared.queue.lock();
            for decided in undone.into_iter().rev() {
                queue.waiting.push_front(decided.submission);
            }
        }
        Err(reason) => answer_unavailable(shared, undone, &Arc::new(reason)),
    }
}

/// Applies the entries that another writer has appended.
fn catch_up<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    state: &mut State<M>,
) -> Result<(), StoreError> {
    let mut chunk = EntryChunk::new(state.applied + 1, Vec::new(), Vec::new());
    let mut decode_error = None;
    let read = journal.read(
        state.applied + 1,
        &mut |sequence, record| match M::decode(record) {
            Ok(changes) => {
                changes
                    .iter()
                    .for_each(|change| state.machine.replay(change));
                state.applied = sequence;
                chunk.push(record);
                ControlFlow::Continue(())
            }
            Err(source) => {
                decode_error = Some(StoreError::Record { sequence, source });
                ControlFlow::Break(())
            }
        },
    );
    if !chunk.is_empty() {
        shared.recent.write().push(chunk);
    }
    shared.durable.store(state.applied, Ordering::Release);
    read?;
    decode_error.map_or(Ok(()), Err)
}
