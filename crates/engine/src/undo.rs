//! Changes that did not become durable: undoes them, and brings the state in line with the journal.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use placewright_journal::Journal;

use crate::Machine;
use crate::entries::EntryChunk;
use crate::envelope::{self, Envelope};
use crate::error::{StoreError, SubmitError};
use crate::pending;
use crate::shared::{CommandBatch, Progress, Shared, State};
use crate::submission::{Decided, Submission};

/// The approximate number of bytes of entries that are read and applied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Undoes everything that is not durable: `batches`, and the batches that were decided after them.
/// Returns the commands of all of them, in their order.
pub(crate) fn undo_all<M: Machine>(
    shared: &Shared<M>,
    state: &mut State<M>,
    mut batches: VecDeque<CommandBatch<M>>,
) -> Vec<Decided<M>> {
    {
        // A deciding thread holds the state's lock until its batch is in the queue, so all batches with
        // applied changes are in `batches` or in the queue now.
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

pub(crate) fn submissions<M: Machine>(undone: Vec<Decided<M>>) -> Vec<Submission<M>> {
    undone
        .into_iter()
        .map(|decided| decided.submission)
        .collect()
}

/// Publishes the progress. Called when everything that the state has is durable.
pub(crate) fn publish_progress<M: Machine>(shared: &Shared<M>, state: &State<M>) {
    shared.progress.send_modify(|progress| {
        *progress = Progress {
            durable: state.applied,
            rollbacks: state.rollbacks,
            is_closed: progress.is_closed,
        };
    });
}

/// Refuses commands because the store cannot be used, and reports that to the observer.
pub(crate) fn answer_unavailable<M: Machine>(
    shared: &Shared<M>,
    refused: impl ExactSizeIterator<Item = Submission<M>>,
    reason: &Arc<StoreError>,
) {
    let commands = refused.len();
    for submission in refused {
        submission.fail(SubmitError::Unavailable(Arc::clone(reason)));
    }
    shared.observer.append_failed(reason, commands);
}

/// Returns undone commands to the front of the queue, in their order; or, if another replica leads by now, gives them
/// back as [`pending::give_back`] does.
pub(crate) fn requeue<M: Machine>(shared: &Shared<M>, undone: Vec<Submission<M>>) {
    if let Some(replica) = &shared.replica {
        // The lock keeps the leader from changing meanwhile.
        let mut pending = replica.pending.lock();
        if !replica.is_leading() {
            return pending::give_back(replica, &mut pending, undone);
        }
        return requeue_here(shared, undone);
    }
    requeue_here(shared, undone);
}

/// Returns undone commands to the front of this process's queue, in their order.
fn requeue_here<M: Machine>(shared: &Shared<M>, undone: Vec<Submission<M>>) {
    let mut queue = shared.queue.lock();
    for submission in undone.into_iter().rev() {
        queue.waiting.push_front(submission);
    }
}

/// Waits until the second thread, which decides ahead of the writer (`writer.rs`), has stopped deciding. From then on
/// nothing is decided until the next append, so no change is made on top of a state that is about to be changed by
/// entries of another writer.
pub(crate) fn wait_for_second_thread<M: Machine>(shared: &Shared<M>) {
    let mut queue = shared.queue.lock();
    queue.is_appending = false;
    while queue.is_deciding_ahead {
        queue.writer_wakes_at = 1;
        shared.writer_wake.wait(&mut queue);
    }
    queue.writer_wakes_at = 0;
}

/// Applies the entries that are in the journal and not in this state.
pub(crate) fn catch_up<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    state: &mut State<M>,
) -> Result<(), StoreError> {
    loop {
        let chunk = read_entries(journal, state.applied + 1)?;
        if chunk.is_empty() {
            return Ok(());
        }
        apply_entries(shared, state, chunk)?;
    }
}

/// Reads the entries from `from` on, up to [`CHUNK_BYTES`]; none at the journal's end. Entries before a damaged one are
/// returned, and the next call returns the error.
pub(crate) fn read_entries(journal: &mut dyn Journal, from: u64) -> Result<EntryChunk, StoreError> {
    let mut chunk = EntryChunk::new(from, Vec::new(), Vec::new());
    let read = journal.read(from, &mut |_, record| {
        chunk.push(record);
        if chunk.bytes() >= CHUNK_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    match read {
        Err(error) if chunk.is_empty() => Err(error.into()),
        _ => Ok(chunk),
    }
}

/// Applies entries that follow the last one that was applied, answers this replica's commands that made some of
/// them, and notes which replica leads.
pub(crate) fn apply_entries<M: Machine>(
    shared: &Shared<M>,
    state: &mut State<M>,
    mut chunk: EntryChunk,
) -> Result<(), StoreError> {
    let mut answers = Vec::new();
    let mut leader = None;
    let mut applied_count = 0;
    let mut error = None;
    for (sequence, record) in chunk.records() {
        let opened = envelope::open(record);
        let decoded = opened.and_then(|(envelope, inner)| Ok((envelope, M::decode(inner)?)));
        let (envelope, changes) = match decoded {
            Ok(decoded) => decoded,
            Err(source) => {
                error = Some(StoreError::Record { sequence, source });
                break;
            }
        };
        match (envelope, &shared.replica) {
            (Envelope::Command(id), Some(replica)) => {
                answers.extend(pending::decide_own_entry(replica, state, id, sequence));
            }
            (Envelope::Leader(note), _) => leader = Some(note.leadership(sequence)),
            _ => {}
        }
        (changes.iter()).for_each(|change| state.machine.replay(change));
        state.applied = sequence;
        applied_count += 1;
    }
    chunk.truncate(applied_count);
    if !chunk.is_empty() {
        shared.recent.write().push(chunk);
    }
    shared.durable.store(state.applied, Ordering::Release);
    if let (Some(leader), Some(replica)) = (leader, &shared.replica) {
        pending::change_leader(shared, replica, leader);
    }
    answers.into_iter().for_each(pending::OwnEntry::answer);
    error.map_or(Ok(()), Err)
}
