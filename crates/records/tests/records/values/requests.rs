//! Rows and messages with the API request that they belong to. That field was added later, so the values in the
//! golden files lack it.

use placewright_conductor::message::{Envelope, Message};
use placewright_conductor::super_conductor::{Command, Move};
use placewright_conductor::{Action, Attempt};
use placewright_link::CellOperation;

use super::{AT, HOST, OTHER, fault, quotas};

/// A decided move with the request of the decision.
pub(crate) fn move_with_request() -> Move {
    Move {
        decision_request: Some(OTHER),
        ..quotas::move_with_usage()
    }
}

/// The history of an instance.
pub(crate) fn actions() -> Vec<Action> {
    vec![Action {
        name: "create".into(),
        started_at: AT,
        finished_at: Some(AT),
        attempts: vec![Attempt {
            host: HOST,
            attempt: 1,
            started_at: AT,
            finished_at: AT,
            failure: Some("f".into()),
        }],
        fault: Some(fault()),
        request: None,
    }]
}

/// The same with the request of each action.
pub(crate) fn actions_with_request() -> Vec<Action> {
    let with_request = |action| Action {
        request: Some(OTHER),
        ..action
    };
    actions().into_iter().map(with_request).collect()
}

/// One of each message to a cell.
pub(crate) fn envelopes() -> Vec<Envelope> {
    let mut envelopes = super::envelopes();
    for envelope in &mut envelopes {
        if let Message::ConfirmOrRevert { request, .. } = &mut envelope.message {
            *request = Some(OTHER);
        }
    }
    envelopes
}

/// One of each cell operation.
pub(crate) fn cell_operations() -> Vec<CellOperation> {
    let mut operations = super::cell_operations();
    for operation in &mut operations {
        match operation {
            CellOperation::Shelve { request, .. }
            | CellOperation::Rebuild { request, .. }
            | CellOperation::RefuseRebuild { request, .. } => *request = Some(OTHER),
            CellOperation::RemoveHost { .. } | CellOperation::Reconcile { .. } => {}
        }
    }
    operations
}

/// One of each command to the super conductor.
pub(crate) fn commands() -> Vec<Command> {
    let mut commands = super::images::all_commands();
    for command in &mut commands {
        match command {
            Command::ConfirmOrRevert { request, .. } => *request = Some(OTHER),
            Command::PlaceMove { ranking, .. } => *ranking = super::decisions::ranking_record(),
            _ => {}
        }
    }
    commands
}
