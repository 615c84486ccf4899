//! How a replica goes on when the entries that it needs next were trimmed.

use std::sync::atomic::Ordering;

use placewright_journal::Journal;

use crate::error::StoreError;
use crate::pending;
use crate::recover::{self, Recovered};
use crate::shared::Shared;
use crate::throttle::Throttle;
use crate::undo::publish_progress;
use crate::{Machine, RecoverError};

/// Recovers the state from the newest snapshot, because the entries that this replica needs next were trimmed.
pub(crate) fn start_anew<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
) -> Result<(), StoreError> {
    let (to_the_end, no_observer) = (u64::MAX, &());
    let unlimited = &mut Throttle::unlimited();
    let recovered = recover::recover_until::<M>(journal, to_the_end, no_observer, unlimited);
    let Recovered {
        mut machine,
        sequence,
        leader,
        ..
    } = recovered.map_err(|error| match error {
        RecoverError::Store(error) => error,
        error => StoreError::Recovery(error.to_string()),
    })?;
    let mut state = shared.state.write();
    machine.take_place_of(&state.machine);
    state.machine = machine;
    state.applied = sequence;
    state.rollbacks += 1;
    shared.durable.store(sequence, Ordering::Release);
    shared.recent.write().clear();
    if let Some(replica) = &shared.replica {
        // The entries of the commands that were sent may be among the entries that this replica has skipped.
        pending::fail_sent(replica);
        match leader {
            Some(leader) => pending::change_leader(shared, replica, leader),
            // The entry that names the leader is among the skipped ones, so another replica may lead by now.
            None => pending::forget_leader(shared, replica),
        }
    }
    // Whoever waits for this has to see that the leader has changed, and must not trust a value of the old state.
    publish_progress(shared, &state);
    drop(state);
    *shared.append_failed.lock() = None;
    Ok(())
}
