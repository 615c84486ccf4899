//! How an engine handles an append of which the store did not say whether it was made.
//!
//! A store on other machines may keep an append and lose its answer. Then the callers may get neither a success nor a
//! failure as their answer: after a failure a caller repeats its request, and after a success it relies on the
//! change. So the commands wait until the outcome is read from the store. Their changes are undone meanwhile, so that
//! reads see only durable changes. While the store cannot be read, commands that come later are refused, without
//! effect.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_journal::{Journal, JournalError, Resolution};

use crate::Machine;
use crate::error::{StoreError, SubmitError};
use crate::shared::{CommandBatch, Shared};
use crate::start_anew::start_anew;
use crate::submission::{Decided, Submission};
use crate::undo::{
    answer_unavailable, catch_up, publish_progress, requeue, submissions, undo_all,
    wait_for_second_thread,
};

/// The pause between two attempts to find out the outcome of an append.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Waits until the outcome of the append of `batches` is known. If the append was made, its entries are applied and
/// its commands answered; if not, its commands are decided again. Returns early when the queue is closed, and when
/// the store has lost entries, because then the outcome cannot be read from the store any more.
pub(crate) fn resolve_append<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    batches: VecDeque<CommandBatch<M>>,
    reason: StoreError,
) {
    *shared.append_failed.lock() = Some(Instant::now());
    let in_doubt = undo(shared, batches);
    shared.observer.append_unknown(&reason, in_doubt.len());
    // The journal tells the outcome once; it has forgotten the append then.
    let mut known_outcome = None;
    loop {
        let reason = match resolve(shared, journal, &mut known_outcome) {
            Ok(Resolution::Kept) => {
                *shared.append_failed.lock() = None;
                shared.observer.append_resolved(true);
                return in_doubt.into_iter().for_each(Decided::answer);
            }
            Ok(Resolution::NotKept) => {
                shared.observer.append_resolved(false);
                return requeue(shared, submissions(in_doubt));
            }
            Err(error @ StoreError::Journal(JournalError::Trimmed { .. })) => {
                // The entries that this process has not applied are trimmed already.
                return skip_trimmed(shared, journal, in_doubt, (known_outcome, error));
            }
            Err(error) => Arc::new(error),
        };
        let is_lost = matches!(
            &*reason,
            StoreError::Journal(JournalError::Lost { .. } | JournalError::Missing { .. })
        );
        if is_lost {
            shared.lost.suspect();
        }
        let (refused, is_closed) = {
            let mut queue = shared.queue.lock();
            (std::mem::take(&mut queue.waiting), queue.is_closed)
        };
        if !refused.is_empty() {
            answer_unavailable(shared, refused.into_iter(), &reason);
        }
        if is_closed || is_lost {
            for decided in in_doubt {
                let unknown = SubmitError::Unknown(Arc::clone(&reason));
                decided.submission.fail(unknown);
            }
            return;
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// Recovers the state from the newest snapshot, and ends the commands `in_doubt`: the journal no longer has the entries
/// that would show their outcome. If the journal told the outcome before, `known_outcome` has it. If the recovery
/// fails, the next append conflicts, and the recovery is tried again.
fn skip_trimmed<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    in_doubt: Vec<Decided<M>>,
    (known_outcome, reason): (Option<Resolution>, StoreError),
) {
    if let Err(error) = start_anew(shared, journal) {
        shared.observer.following_failed(&Arc::new(error));
    }
    if let Some(outcome) = known_outcome {
        shared.observer.append_resolved(outcome == Resolution::Kept);
    }
    match known_outcome {
        Some(Resolution::Kept) => in_doubt.into_iter().for_each(Decided::answer),
        Some(Resolution::NotKept) => requeue(shared, submissions(in_doubt)),
        None => {
            let reason = Arc::new(reason);
            for decided in in_doubt {
                (decided.submission).fail(SubmitError::Unknown(Arc::clone(&reason)));
            }
        }
    }
}

/// Undoes all changes that are not durable. Returns the commands of `batches`; those that were decided after
/// them are queued again.
fn undo<M: Machine>(shared: &Shared<M>, batches: VecDeque<CommandBatch<M>>) -> Vec<Decided<M>> {
    wait_for_second_thread(shared);
    let in_doubt_count = batches.iter().map(|batch| batch.decided.len()).sum();
    let mut state = shared.state.write();
    let mut undone = undo_all(shared, &mut state, batches);
    publish_progress(shared, &state);
    drop(state);
    let later: Vec<Submission<M>> = submissions(undone.split_off(in_doubt_count));
    requeue(shared, later);
    undone
}

/// Finds out whether the append was made, unless that is known, and applies the entries that are in the journal now.
fn resolve<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    known_outcome: &mut Option<Resolution>,
) -> Result<Resolution, StoreError> {
    let resolution = match *known_outcome {
        Some(resolution) => resolution,
        None => *known_outcome.insert(journal.resolve()?),
    };
    let mut state = shared.state.write();
    let caught_up = catch_up(shared, journal, &mut state);
    publish_progress(shared, &state);
    caught_up.map(|()| resolution)
}
