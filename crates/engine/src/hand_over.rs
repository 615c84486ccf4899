//! How a replica that leads makes another one lead.
//!
//! The leader appends the entry that names the other replica as the leader. So the two never append at the same time,
//! and no command has to wait until somebody finds out that the leader is gone.

use std::collections::VecDeque;

use placewright_journal::{AppendError, Journal, JournalError};

use crate::envelope::{self, LeaderNote};
use crate::error::StoreError;
use crate::leadership::{TakeoverReason, now_ms};
use crate::replica_state::{NextLeader, ReplicaState};
use crate::shared::Shared;
use crate::start_anew::start_anew;
use crate::undo::{
    catch_up, publish_progress, requeue, submissions, undo_all, wait_for_second_thread,
};
use crate::{Machine, following};

/// Makes `next_leader` lead. Commands that were decided and not appended are undone, and go to the next leader. If the
/// store fails, this replica continues to lead.
pub(crate) fn hand_over<M: Machine>(
    shared: &Shared<M>,
    replica: &ReplicaState<M>,
    journal: &mut dyn Journal,
    next_leader: &NextLeader,
) {
    wait_for_second_thread(shared);
    let undone = {
        let mut state = shared.state.write();
        let undone = undo_all(shared, &mut state, VecDeque::new());
        publish_progress(shared, &state);
        undone
    };
    let mut record = Vec::new();
    let note = LeaderNote {
        origin: next_leader.origin,
        address: &next_leader.address,
        since_ms: now_ms(),
        reason: TakeoverReason::HandedOver,
    };
    envelope::begin_leader(&note, &mut record);
    M::encode(&[], &mut record);
    // After a success or a conflict, the entries that are read next show which replica leads. After a failure, the
    // next append shows whether the store is back.
    if let Err(AppendError::Unknown(_)) = journal.append(shared.durable() + 1, &[&record]) {
        following::resolve(shared, replica, journal);
    }
    let caught_up = {
        let mut state = shared.state.write();
        let caught_up = catch_up(shared, journal, &mut state);
        publish_progress(shared, &state);
        caught_up
    };
    // Any other error shows at the next append, and so does a failure to start anew.
    if let Err(StoreError::Journal(JournalError::Trimmed { .. })) = caught_up {
        let _ = start_anew(shared, journal);
    }
    requeue(shared, submissions(undone));
}
