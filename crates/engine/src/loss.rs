//! How an engine handles the loss of acknowledged entries: the store does not have them any more, because a backup of
//! the store was restored, or a failover dropped them.
//!
//! The state of this process is then ahead of its journal, so nothing that it decides can be appended. The engine
//! stops: it refuses commands and confirmed reads, and reports which entries are missing. It continues when the journal
//! has these entries again, because an operator told a process that still has them in memory to append them. The engine
//! never does that by itself, because the operator may prefer the older state, and start all processes anew.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use placewright_journal::{AppendError, Journal, Resolution};

use crate::error::{AppendAgainError, StoreError};
use crate::lost_entries::Loss;
use crate::shared::Shared;
use crate::undo::{
    answer_unavailable, publish_progress, submissions, undo_all, wait_for_second_thread,
};
use crate::{Machine, pending};

/// The interval of checks whether the journal has the lost entries again.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// If something points to a loss, finds out whether entries are lost, and waits until the journal has them again. If it
/// cannot find that out, because the journal cannot be read, it does not wait, and the next call tries again. Called by
/// the writer. False if the engine is being shut down.
pub(crate) fn wait_while_lost<M: Machine>(shared: &Shared<M>, journal: &mut dyn Journal) -> bool {
    let lost = &shared.lost;
    if !lost.is_suspected.load(Ordering::Acquire) {
        lost.requests.lock().drain(..).for_each(|request| {
            let _ = request.send(Err(AppendAgainError::NothingLost));
        });
        return true;
    }
    if let Some(replica) = &shared.replica {
        // The received batches may be among the lost entries.
        replica.received.clear();
    }
    loop {
        match find_loss(shared, journal) {
            Ok(None) => {
                lost.is_suspected.store(false, Ordering::Release);
                // The other handles on the journal remember an end, too. They have to accept an end that is before it,
                // or that follows other entries.
                lost.end_acceptances.fetch_add(1, Ordering::AcqRel);
                if lost.loss.borrow().is_some() {
                    lost.set(None);
                    shared.observer.entries_back();
                }
                return true;
            }
            Ok(Some(loss)) => {
                if lost.loss.borrow().as_ref() != Some(&loss) {
                    shared.observer.entries_lost(&loss);
                    lost.set(Some(loss));
                }
            }
            // The store cannot be read. Once it can, the next call finds out whether entries are lost.
            Err(_) if lost.loss.borrow().is_none() => return true,
            Err(_) => {}
        }
        refuse_commands(shared);
        if shared.queue.lock().is_closed {
            return false;
        }
        answer_requests(shared, journal);
        wait_for_requests(shared);
    }
}

/// Undoes all changes that are not durable, and refuses all commands that wait.
fn refuse_commands<M: Machine>(shared: &Shared<M>) {
    let Some(error) = shared.lost.error() else {
        return;
    };
    let reason = Arc::new(error);
    // The second thread is the one that decides ahead of the writer (`writer.rs`).
    wait_for_second_thread(shared);
    let undone = {
        let mut state = shared.state.write();
        if state.applied == shared.durable() {
            Vec::new()
        } else {
            let undone = undo_all(shared, &mut state, std::collections::VecDeque::new());
            publish_progress(shared, &state);
            undone
        }
    };
    let waiting = std::mem::take(&mut shared.queue.lock().waiting);
    let refused: Vec<_> = submissions(undone).into_iter().chain(waiting).collect();
    if !refused.is_empty() {
        answer_unavailable(shared, refused.into_iter(), &reason);
    }
    if let Some(replica) = &shared.replica {
        pending::refuse_unsent(replica, &reason);
    }
}

/// Waits until a command or a request to append the lost entries again arrives, or the engine is shut down, for
/// [`CHECK_INTERVAL`] at most.
fn wait_for_requests<M: Machine>(shared: &Shared<M>) {
    let until = Instant::now() + CHECK_INTERVAL;
    let mut queue = shared.queue.lock();
    if queue.waiting.is_empty() && !queue.is_closed && shared.lost.requests.lock().is_empty() {
        // The writer is woken when this number of commands waits.
        queue.writer_wakes_at = 1;
        shared.writer_wake.wait_until(&mut queue, until);
        queue.writer_wakes_at = 0;
    }
}

/// Appends the lost entries again if callers have requested that, and answers these requests.
fn answer_requests<M: Machine>(shared: &Shared<M>, journal: &mut dyn Journal) {
    let requests = std::mem::take(&mut *shared.lost.requests.lock());
    for request in requests {
        // An earlier one of these requests may have appended the entries, so that the journal lacks nothing any more.
        let answer = match find_loss(shared, journal) {
            Ok(None) => Err(AppendAgainError::NothingLost),
            Ok(Some(loss)) => append_again(shared, journal, &loss),
            Err(error) => Err(AppendAgainError::Store(Arc::new(error))),
        };
        let _ = request.send(answer);
    }
}

/// Compares the entries that this process has applied with the journal as it is now. `None` if the journal has all of
/// them.
fn find_loss<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
) -> Result<Option<Loss>, StoreError> {
    // From here on this handle takes the journal as it is, even if it ends before the end that the handle remembers.
    let end = journal.accept_present_end()?;
    let last = shared.durable();
    let first_in_memory = shared.recent.read().first().filter(|first| *first <= last);
    let replaced = first_replaced(shared, journal, end.min(last))?;
    // Even a journal that is long enough may have other entries in place of those that were applied. If no entry is in
    // memory to compare with, this cannot be excluded, and the last entry counts as replaced.
    let cannot_compare = first_in_memory.is_none() && end >= last;
    let first = match replaced {
        Some(first) => first,
        None if end < last => end + 1,
        None if cannot_compare => last,
        None => return Ok(None),
    };
    Ok(Some(Loss {
        first,
        last,
        first_in_memory,
        is_replaced: replaced.is_some() || cannot_compare,
    }))
}

/// The first of the entries in memory, up to `until`, in whose place the journal has another entry; `None` if there is
/// none.
fn first_replaced<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    until: u64,
) -> Result<Option<u64>, StoreError> {
    let Some(first) = shared.recent.read().first() else {
        return Ok(None);
    };
    let mut next = first.max(journal.first_held()?);
    let mut replaced = None;
    while next <= until && replaced.is_none() {
        next = journal.read(next, &mut |sequence, record| {
            let in_memory = shared.recent.read().get(sequence);
            let is_same = in_memory.is_none_or(|entries| entries.raw(sequence) == Some(record));
            if !is_same {
                replaced = Some(sequence);
            }
            if is_same && sequence < until {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
    }
    Ok(replaced)
}

/// Appends lost entries from memory. Returns the first and the last one.
fn append_again<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    loss: &Loss,
) -> Result<(u64, u64), AppendAgainError> {
    if let Some(reason) = loss.reason_against_appending() {
        return Err(reason);
    }
    let Loss { first, last, .. } = *loss;
    let mut next = first;
    while next <= last {
        let entries = shared.recent.read().get(next);
        let entries = entries.ok_or(AppendAgainError::NotInMemory { first: next, last })?;
        let mut bytes = 0;
        // The first record is appended whatever its size is.
        let fits = |record: &&[u8]| {
            bytes += record.len();
            bytes <= shared.options.batch_bytes_max || bytes == record.len()
        };
        let records: Vec<&[u8]> = entries
            .raw_from(next)
            .map(|(_, record)| record)
            .take_while(fits)
            .collect();
        match journal.append(next, &records) {
            Ok(()) => next += records.len() as u64,
            Err(AppendError::Conflict { .. }) => {
                return Err(AppendAgainError::Replaced { first: next, last });
            }
            Err(AppendError::Failed(error)) => return Err(AppendAgainError::of(error)),
            Err(AppendError::Unknown(error)) => match journal.resolve() {
                Ok(Resolution::Kept) => next += records.len() as u64,
                Ok(Resolution::NotKept) => return Err(AppendAgainError::of(error)),
                Err(error) => return Err(AppendAgainError::of(error)),
            },
        }
    }
    shared.observer.entries_appended_again(first, last);
    Ok((first, last))
}
