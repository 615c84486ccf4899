//! Rows and messages of instances that are built in another cell. Their fields were added later, so the values in older
//! golden files lack them.

use placewright_conductor::cell_conductor as cell;
use placewright_conductor::super_conductor::{Change, Command, LeftCell, Mapping, Reschedule};
use placewright_conductor::{ClaimChange, ClaimRequest, control};

use super::{AT, CELL, INSTANCE, decisions, requests, some};

/// The cell that an instance has left.
pub(crate) fn left_cell() -> LeftCell {
    LeftCell {
        cell: CELL,
        at: AT,
        attempts: requests::actions().remove(0).attempts,
        first_number: 1 << 21,
    }
}

/// Each state of an instance towards other cells.
pub(crate) fn reschedules() -> Vec<Reschedule> {
    vec![
        Reschedule::Never,
        Reschedule::Allowed,
        Reschedule::Done(Box::new(left_cell())),
    ]
}

/// A mapping of an instance that has left a cell.
pub(crate) fn mapping() -> Mapping {
    Mapping {
        reschedule: Reschedule::Done(Box::new(left_cell())),
        ..decisions::mapping()
    }
}

/// Changes of mappings with each state.
pub(crate) fn mapping_changes() -> Vec<control::Change> {
    let changes = reschedules().into_iter().map(|reschedule| {
        let mapping = Mapping {
            reschedule,
            ..decisions::mapping()
        };
        control::Change::Conductor(Change::Mapping(INSTANCE, some(mapping)))
    });
    changes.collect()
}

/// The changes of a cell, with a job whose build may go elsewhere.
pub(crate) fn cell_changes() -> Vec<cell::Change> {
    let mut changes = super::cell_changes();
    for change in &mut changes {
        if let cell::Change::Job(_, Some(job)) = change {
            job.may_go_elsewhere = true;
        }
    }
    changes
}

/// One of each claim request, with failed attempts.
pub(crate) fn claim_requests() -> Vec<ClaimRequest> {
    let mut claim_requests = super::claim_requests();
    for request in &mut claim_requests {
        if let ClaimChange::Release {
            failed_attempts, ..
        } = &mut request.change
        {
            *failed_attempts = left_cell().attempts;
        }
    }
    claim_requests
}

/// One of each command to the super conductor.
pub(crate) fn commands() -> Vec<Command> {
    let mut commands = requests::commands();
    for command in &mut commands {
        match command {
            Command::Place { may_reschedule, .. } => *may_reschedule = true,
            Command::CreateAccepted {
                claim_number,
                is_built,
                ..
            } => (*claim_number, *is_built) = (300, true),
            Command::RequestClaim(request) => {
                if let ClaimChange::Release {
                    failed_attempts, ..
                } = &mut request.change
                {
                    *failed_attempts = left_cell().attempts;
                }
            }
            _ => {}
        }
    }
    commands
}
