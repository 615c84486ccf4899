//! Changes that did not become durable: undoes them, and brings the state in line with the journal.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use placewright_journal::Journal;

use crate::Machine;
use crate::entries::EntryChunk;
use crate::error::{StoreError, SubmitError};
use crate::shared::{CommandBatch, Decided, Progress, Shared, State, Submission};

/// Undoes everything that is not durable: `batches`, and the batches that were decided after them.
/// Returns the commands of all of them, in their order.
pub(crate) fn undo_all<M: Machine>(
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

pub(crate) fn submissions<M: Machine>(undone: Vec<Decided<M>>) -> Vec<Submission<M>> {
    undone
        .into_iter()
        .map(|decided| decided.submission)
        .collect()
}

pub(crate) fn publish_progress<M: Machine>(shared: &Shared<M>, state: &State<M>) {
    shared.progress.send_modify(|progress| {
        *progress = Progress {
            durable: state.applied,
            rollbacks: state.rollbacks,
            is_closed: progress.is_closed,
        };
    });
}

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

/// Returns undone commands to the front of the queue, in their order.
pub(crate) fn requeue<M: Machine>(shared: &Shared<M>, undone: Vec<Submission<M>>) {
    let mut queue = shared.queue.lock();
    for submission in undone.into_iter().rev() {
        queue.waiting.push_front(submission);
    }
}

/// Applies the entries that another writer has appended.
pub(crate) fn catch_up<M: Machine>(
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
