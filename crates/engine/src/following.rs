//! What the writer's thread does while another replica leads: it applies the entries of the journal, and takes over when
//! the leader is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use placewright_journal::{AppendError, Journal, JournalError, Resolution};

use crate::envelope;
use crate::error::StoreError;
use crate::pending;
use crate::recover::{self, Recovered};
use crate::replica_state::ReplicaState;
use crate::resolve::RETRY_PAUSE;
use crate::shared::Shared;
use crate::throttle::Throttle;
use crate::undo::{self, publish_progress};
use crate::{Machine, RecoverError};

/// Follows the journal for a moment. False if the engine is being shut down.
pub(crate) fn follow_journal<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
) -> bool {
    {
        // Commands that were queued while the leader changed.
        let mut pending = replica.pending.lock();
        let mut queue = shared.queue.lock();
        let waiting = std::mem::take(&mut queue.waiting);
        let is_closed = queue.is_closed;
        drop(queue);
        pending::give_back(replica, &mut pending, waiting);
        pending::send_unsent(replica, &mut pending);
        if is_closed {
            return false;
        }
    }
    let waited = if is_leader_gone(replica) {
        Ok(())
    } else {
        journal.wait_for_entries(shared.durable(), replica.poll_interval)
    };
    if let Err(error) =
        (waited.map_err(StoreError::Journal)).and_then(|()| read_and_apply(shared, journal))
    {
        stall(shared, replica, error);
        return true;
    }
    // A leader that this replica cannot reach may append all the time, so it is not waited for a pause: of attempts
    // that follow each other at once, one will come between two of its appends.
    if is_leader_gone(replica) {
        take_over(shared, replica, journal);
    }
    true
}

/// Finds out whether this replica, which has been idle, still leads: without appends it does not notice that another
/// one took over.
pub(crate) fn check_leadership<M: Machine>(shared: &Shared<M>, journal: &mut dyn Journal) {
    // An error shows at the next append.
    let _ = read_and_apply(shared, journal);
}

fn is_leader_gone<M: Machine>(replica: &ReplicaState<M>) -> bool {
    let leadership = replica.leadership.borrow();
    !leadership.is_own && replica.lost_epoch.load(Ordering::Acquire) >= leadership.epoch
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

/// Recovers the state from the newest snapshot, after the entries that come next were trimmed.
fn start_anew<M: Machine>(shared: &Shared<M>, journal: &mut dyn Journal) -> Result<(), StoreError> {
    let unlimited = &mut Throttle::unlimited();
    let recovered = recover::recover_until(journal, u64::MAX, &(), unlimited);
    let Recovered {
        machine,
        sequence,
        leader,
        ..
    } = recovered.map_err(|error| match error {
        RecoverError::Store(error) => error,
        error => StoreError::Recovery(error.to_string()),
    })?;
    let mut state = shared.state.write();
    state.machine = machine;
    state.applied = sequence;
    state.rollbacks += 1;
    shared.durable.store(sequence, Ordering::Release);
    publish_progress(shared, &state);
    shared.recent.write().clear();
    drop(state);
    if let Some(replica) = &shared.replica {
        // Their entries may be among those that were skipped.
        pending::forget_sent(replica);
        if let Some(leader) = leader {
            pending::change_leader(shared, replica, leader);
        }
    }
    Ok(())
}

/// Appends an entry by which this replica leads. Reading that entry makes it lead.
fn take_over<M: Machine>(shared: &Shared<M>, replica: &ReplicaState<M>, journal: &mut dyn Journal) {
    let mut record = Vec::new();
    envelope::begin_leader(replica.origin, &replica.address, &mut record);
    M::encode(&[], &mut record);
    match journal.append(shared.durable() + 1, &[&record]) {
        // In both cases the entry that follows says who leads.
        Ok(()) | Err(AppendError::Conflict { .. }) => {}
        Err(AppendError::Failed(error)) => stall(shared, replica, StoreError::Journal(error)),
        Err(AppendError::Unknown(_)) => resolve(shared, replica, journal),
    }
}

/// Waits until it is known whether the entry by which a replica leads is kept.
pub(crate) fn resolve<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
) {
    while !shared.queue.lock().is_closed {
        match journal.resolve() {
            Ok(Resolution::Kept | Resolution::NotKept) => return,
            Err(error) => stall(shared, replica, StoreError::Journal(error)),
        }
    }
}

/// Reports that the journal cannot be read or written, refuses what waits for a leader, and pauses.
fn stall<M: Machine>(shared: &Shared<M>, replica: &ReplicaState<M>, error: StoreError) {
    let reason = Arc::new(error);
    shared.observer.following_failed(&reason);
    pending::refuse_unsent(replica, &reason);
    std::thread::sleep(RETRY_PAUSE);
}
