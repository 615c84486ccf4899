//! The work of the writer's thread while another replica leads: it applies the entries of the journal, and takes over
//! when the leader is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use placewright_journal::{AppendError, Journal, JournalError, Resolution};

use crate::Machine;
use crate::entries::EntryChunk;
use crate::envelope::{self, LeaderNote};
use crate::error::StoreError;
use crate::leadership::{TakeoverReason, now_ms};
use crate::pending;
use crate::replica_state::ReplicaState;
use crate::resolve::RETRY_PAUSE;
use crate::shared::Shared;
use crate::start_anew::start_anew;
use crate::undo::{self, publish_progress};

/// How long a follower waits before it sends again the commands that no replica has taken. The new leader may not have
/// read yet that it leads.
const UNSENT_PAUSE: Duration = Duration::from_millis(20);
/// How long a follower applies the leader's batches without reading the store. Reading shows that this replica, too,
/// reaches the store; without the store it can confirm no reads.
const STORE_READ_INTERVAL: Duration = Duration::from_millis(500);

/// Waits a short time for entries of the journal, applies them, and takes over if the leader is gone. False if the
/// engine is being shut down.
pub(crate) fn follow_journal<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
) -> bool {
    let has_unsent = {
        // The commands that wait in the queue arrived while the leader changed.
        let mut pending = replica.pending.lock();
        let mut queue = shared.queue.lock();
        let waiting = std::mem::take(&mut queue.waiting);
        let is_closed = queue.is_closed;
        drop(queue);
        if is_closed {
            drop(pending);
            pending::refuse_at_shutdown(waiting);
            return false;
        }
        pending::give_back(replica, &mut pending, waiting);
        pending::send_unsent(replica, &mut pending);
        pending.has_unsent
    };
    let timeout = match has_unsent {
        true => replica.poll_interval.min(UNSENT_PAUSE),
        false => replica.poll_interval,
    };
    let waited = match reason_to_take_over(replica) {
        Some(_) => Ok(()),
        None if replica.received.has(shared.durable() + 1) => Ok(()),
        None => journal.wait_for_entries(shared.durable(), timeout),
    };
    let received = match waited {
        Ok(()) => take_received(shared, replica, journal),
        Err(_) => None,
    };
    if let Some(received) = received {
        if let Err(error) = apply(shared, received) {
            report_failure_and_pause(shared, replica, error);
            return true;
        }
    } else {
        let read = waited.map_err(StoreError::Journal);
        let read = read.and_then(|()| read_and_apply(shared, journal));
        let is_read = read.is_ok();
        if let Err(error) = read {
            report_failure_and_pause(shared, replica, error);
        }
        *replica.store_read_at.lock() = Instant::now();
        if !is_read {
            return true;
        }
        // The journal can be read, so the last failure to append or to follow is over.
        *shared.append_failed.lock() = None;
    }
    // A leader that only this replica cannot reach may append all the time. Then the append with which this replica
    // takes over conflicts with one of the leader's. So this replica tries again at once, without waiting for a pause
    // between the leader's appends, until one of its attempts is appended first.
    if let Some(reason) = reason_to_take_over(replica) {
        take_over(shared, replica, journal, reason);
    }
    true
}

/// Finds out whether this replica still leads, after it has appended nothing for a while. Without an append, only this
/// check shows that another replica took over.
pub(crate) fn check_leadership<M: Machine>(shared: &Shared<M>, journal: &mut dyn Journal) {
    // Other errors show at the next append.
    if let Err(StoreError::Journal(error)) = read_and_apply(shared, journal) {
        shared.lost.suspect_by(&error);
    }
}

/// The reason why this replica has to take over now; `None` if there is none.
fn reason_to_take_over<M: Machine>(replica: &ReplicaState<M>) -> Option<TakeoverReason> {
    let leadership = replica.leadership.borrow();
    if leadership.is_own {
        return None;
    }
    if leadership.epoch == 0 {
        return Some(TakeoverReason::NoneKnown);
    }
    let is_gone = replica.lost_epoch.load(Ordering::Acquire) >= leadership.epoch;
    is_gone.then_some(TakeoverReason::Unreachable)
}

/// The next entries that the leader has sent. `None` if it has sent none, or if it is time to read the store again.
fn take_received<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
) -> Option<EntryChunk> {
    let is_store_due = replica.store_read_at.lock().elapsed() >= STORE_READ_INTERVAL;
    if is_store_due {
        return None;
    }
    replica.received.take(journal, shared.durable() + 1)
}

/// Reads entries, and applies them; nothing is locked while they are read.
fn read_and_apply<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
) -> Result<(), StoreError> {
    let chunk = match undo::read_entries(journal, shared.durable() + 1) {
        Err(StoreError::Journal(JournalError::Trimmed { .. })) => {
            return start_anew(shared, journal);
        }
        read => read?,
    };
    apply(shared, chunk)
}

/// Applies entries, and answers those commands of this replica whose outcome they show.
fn apply<M: Machine>(shared: &Shared<M>, chunk: EntryChunk) -> Result<(), StoreError> {
    if chunk.is_empty() {
        return Ok(());
    }
    let mut state = shared.state.write();
    let applied = undo::apply_entries(shared, &mut state, chunk);
    publish_progress(shared, &state);
    drop(state);
    if let Some(replica) = &shared.replica {
        pending::decide_without_entry(shared, replica, &shared.state.read());
    }
    applied
}

/// Appends an entry that names this replica as the leader. Once this replica reads the entry, it leads.
fn take_over<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
    reason: TakeoverReason,
) {
    let mut record = Vec::new();
    let note = LeaderNote {
        origin: replica.origin,
        address: &replica.address,
        since_ms: now_ms(),
        reason,
    };
    envelope::begin_leader(&note, &mut record);
    M::encode(&[], &mut record);
    match journal.append(shared.durable() + 1, &[&record]) {
        // This entry was appended, or another one was first. In both cases the next entries show which replica leads.
        Ok(()) | Err(AppendError::Conflict { .. }) => {}
        Err(AppendError::Failed(error)) => {
            report_failure_and_pause(shared, replica, StoreError::Journal(error));
        }
        Err(AppendError::Unknown(_)) => resolve(shared, replica, journal),
    }
}

/// Waits until it is known whether the journal has the entry that names a new leader. Returns early when the engine is
/// shut down, or the store has lost entries.
pub(crate) fn resolve<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
) {
    while !shared.queue.lock().is_closed {
        match journal.resolve() {
            // If the entry is trimmed, the next reading of the journal recovers the state from a snapshot.
            Ok(Resolution::Kept | Resolution::NotKept) | Err(JournalError::Trimmed { .. }) => {
                return;
            }
            Err(error @ JournalError::Lost { .. }) => {
                return report_failure_and_pause(shared, replica, StoreError::Journal(error));
            }
            Err(error) => report_failure_and_pause(shared, replica, StoreError::Journal(error)),
        }
    }
}

/// Reports that the journal cannot be read or written, refuses the commands that wait for a leader, and pauses.
fn report_failure_and_pause<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    error: StoreError,
) {
    if let StoreError::Journal(error) = &error {
        shared.lost.suspect_by(error);
    }
    *shared.append_failed.lock() = Some(Instant::now());
    let reason = Arc::new(error);
    shared.observer.following_failed(&reason);
    pending::refuse_unsent(replica, &reason);
    std::thread::sleep(RETRY_PAUSE);
}
