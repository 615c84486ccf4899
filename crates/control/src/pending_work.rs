//! The work that the state calls for. It is kept as keys, and read from the state again when it is carried
//! out, so that no obsolete work is done.

use placewright_conductor::control::{Change, ControlState};
use placewright_conductor::super_conductor::{self, BuildStage, Effect, MoveStage};
use placewright_conductor::{CellId, InstanceId, Message, MigrationId};

use crate::placement_queue::WaitingForHost;

/// The key of a message to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum MessageKey {
    /// An instance: its creation or its deletion.
    Instance(InstanceId),
    /// A move of an instance.
    Move(MigrationId),
}

/// A piece of work that the state calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingWork {
    /// Select a host for a build or a move that has none yet.
    Schedule(WaitingForHost),
    /// Send the message with this key to a cell.
    Send(CellId, MessageKey),
}

/// The work that these changes call for.
pub(crate) fn of_changes<'a>(
    control: &'a ControlState,
    changes: &'a [Change],
) -> impl Iterator<Item = PendingWork> + 'a {
    use super_conductor::Change as ConductorChange;
    changes.iter().filter_map(|change| match change {
        Change::Conductor(ConductorChange::Build(instance, Some(_))) => {
            work_of_build(control, *instance)
        }
        Change::Conductor(ConductorChange::Deletion(instance, Some(_))) => {
            work_of_deletion(control, *instance)
        }
        Change::Conductor(ConductorChange::Move(migration, Some(_))) => {
            work_of_move(control, *migration)
        }
        Change::Conductor(_) | Change::Placement(_) => None,
    })
}

/// All work that the state calls for.
pub(crate) fn all(control: &ControlState) -> impl Iterator<Item = PendingWork> + '_ {
    let state = &control.conductor;
    let builds = state.builds().keys();
    let deletions = state.deletions().keys();
    let moves = state.moves().keys();
    builds
        .filter_map(|instance| work_of_build(control, *instance))
        .chain(deletions.filter_map(|instance| work_of_deletion(control, *instance)))
        .chain(moves.filter_map(|migration| work_of_move(control, *migration)))
}

fn work_of_build(control: &ControlState, instance: InstanceId) -> Option<PendingWork> {
    let build = control.conductor.builds().get(&instance)?;
    match build.stage {
        BuildStage::Waiting => Some(PendingWork::Schedule(WaitingForHost::Instance {
            reservation: build.reservation,
            instance,
            project: project(control, instance),
        })),
        BuildStage::Placed { .. } => {
            work_of_message(control, instance, MessageKey::Instance(instance))
        }
    }
}

fn work_of_deletion(control: &ControlState, instance: InstanceId) -> Option<PendingWork> {
    control.conductor.deletions().get(&instance)?;
    work_of_message(control, instance, MessageKey::Instance(instance))
}

fn work_of_move(control: &ControlState, migration: MigrationId) -> Option<PendingWork> {
    let row = control.conductor.moves().get(&migration)?;
    match &row.stage {
        MoveStage::Reserved => Some(PendingWork::Schedule(WaitingForHost::Move {
            migration,
            project: project(control, row.instance),
        })),
        // The cell is carrying out the move. There is nothing to tell it until the user decides to confirm or revert.
        MoveStage::InCell if row.decision.is_none() => None,
        MoveStage::Requested
        | MoveStage::Placed { .. }
        | MoveStage::Cancelling
        | MoveStage::InCell => work_of_message(control, row.instance, MessageKey::Move(migration)),
    }
}

/// The project of an instance; empty if control has no mapping for it.
fn project(control: &ControlState, instance: InstanceId) -> String {
    let mapping = control.conductor.mappings().get(&instance);
    mapping.map_or_else(String::new, |mapping| mapping.project.clone())
}

/// The work of sending a message to the cell of an instance; `None` if the instance has no cell.
fn work_of_message(
    control: &ControlState,
    instance: InstanceId,
    key: MessageKey,
) -> Option<PendingWork> {
    let cell = control.conductor.mappings().get(&instance)?.cell?;
    Some(PendingWork::Send(cell, key))
}

/// The present messages for these keys to one cell. A key has no message if the state does not call for one any more,
/// or if its instance is in another cell. The latter happens if the placement for which the key was queued was undone,
/// because its entry was not appended, and the instance was then placed anew.
pub(crate) fn messages(
    control: &ControlState,
    to: CellId,
    keys: &[MessageKey],
) -> Vec<(MessageKey, Message)> {
    use super_conductor::Change as ConductorChange;
    let state = &control.conductor;
    let mut messages = Vec::with_capacity(keys.len());
    for key in keys {
        // `effects_of` takes changes, so the present row is wrapped in the change that would store it.
        let change = match key {
            MessageKey::Instance(instance) => {
                let build = state.builds().get(instance);
                let build =
                    build.map(|row| ConductorChange::Build(*instance, Some(Box::new(row.clone()))));
                let deletion = state.deletions().get(instance);
                build.or_else(|| {
                    deletion.map(|row| {
                        ConductorChange::Deletion(*instance, Some(Box::new(row.clone())))
                    })
                })
            }
            MessageKey::Move(migration) => {
                let row = state.moves().get(migration);
                row.map(|row| ConductorChange::Move(*migration, Some(Box::new(row.clone()))))
            }
        };
        for effect in state.effects_of(change.iter()) {
            match effect {
                Effect::Send { cell, message } if cell == to => messages.push((*key, message)),
                _ => {}
            }
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use placewright_conductor::super_conductor::{Change as ConductorChange, Deletion, Mapping};
    use placewright_testing::site::{cell, instance};

    use super::*;
    use crate::handle::now;

    #[test]
    fn a_key_has_a_message_to_the_cell_of_its_instance_only() {
        let mut control = ControlState::default();
        let at = now();
        let mapping = Mapping {
            cell: Some(cell(1)),
            project: "p".into(),
            user: "u".into(),
            created_at: at,
            is_deleting: true,
            claim_number: 1,
            claim_response: None,
            move_number: 0,
            migrations: Vec::new(),
            decisions: Vec::new(),
            reschedule: Default::default(),
        };
        let rows = [
            ConductorChange::Mapping(instance(1), Some(Box::new(mapping))),
            ConductorChange::Deletion(instance(1), Some(Box::new(Deletion { at }))),
        ];
        for row in rows {
            control.apply(&Change::Conductor(row));
        }
        let keys = [MessageKey::Instance(instance(1))];
        assert_eq!(messages(&control, cell(1), &keys).len(), 1);
        assert_eq!(messages(&control, cell(0), &keys), []);
    }
}
