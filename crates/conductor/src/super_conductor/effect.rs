//! The effects of control, derived from its state.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::rows::{BuildRequest, BuildStage, Move, MoveStage};
use super::state::{Change, State};
use crate::ids::{CellId, InstanceId, MigrationId};
use crate::message::{Create, Message, MoveOrder};
use crate::quota::Usage;
use crate::spec::Spec;

/// An external action that the state requires. It is required until a command removes its reason,
/// and must be idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Rank hosts for these instances. The effect ends for an instance when `Command::Place` claims a host
    /// for it, `Command::Bury` moves it to cell0, or it is deleted.
    Schedule {
        /// The UUID of the API request that created the instances.
        reservation: Uuid,
        /// The waiting instances of that request, in rising order. From [`State::effects_of`] only those that the
        /// changes concern, in the order of the changes.
        instances: Vec<InstanceId>,
    },
    /// Rank targets for a move in the cell of its instance. `Command::PlaceMove` or
    /// `Command::FailMove` ends the effect.
    ScheduleMove {
        /// The UUID of the move.
        migration: MigrationId,
    },
    /// Send a message to a cell.
    Send {
        /// The UUID of the cell.
        cell: CellId,
        /// The message to send.
        message: Message,
    },
}

impl State {
    /// All effects of the state. To be carried out after a start, and periodically.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        let mut waiting = BTreeMap::new();
        let mut effects = Vec::new();
        for (instance, build) in &self.builds {
            self.build_effect(*instance, build, &mut waiting, &mut effects);
        }
        for instance in self.deletions.keys() {
            effects.extend(self.deletion_effect(*instance));
        }
        for (migration, row) in &self.moves {
            effects.extend(self.move_effect(*migration, row));
        }
        scheduled_first(waiting, effects)
    }

    /// The effects of changes that were just applied.
    #[must_use]
    pub fn effects_of<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> Vec<Effect> {
        let mut waiting = BTreeMap::new();
        let mut effects = Vec::new();
        for change in changes {
            match change {
                Change::Build(instance, Some(build)) => {
                    self.build_effect(*instance, build, &mut waiting, &mut effects);
                }
                Change::Deletion(instance, Some(_)) => {
                    effects.extend(self.deletion_effect(*instance));
                }
                Change::Move(migration, Some(row)) => {
                    effects.extend(self.move_effect(*migration, row));
                }
                _ => {}
            }
        }
        scheduled_first(waiting, effects)
    }

    /// Adds the effect of a build request: its instance to those waiting under the same reservation,
    /// or a message to the effects.
    fn build_effect(
        &self,
        instance: InstanceId,
        build: &BuildRequest,
        waiting: &mut BTreeMap<Uuid, Vec<InstanceId>>,
        effects: &mut Vec<Effect>,
    ) {
        match &build.stage {
            BuildStage::Waiting => waiting.entry(build.reservation).or_default().push(instance),
            BuildStage::Placed {
                selection,
                alternates,
            } => {
                let spec = self.specs.get(&instance);
                let mapping = self.mappings.get(&instance);
                let (Some(spec), Some(mapping)) = (spec, mapping) else {
                    return;
                };
                let create = Create {
                    instance,
                    spec: for_cell(spec),
                    selection: Arc::clone(selection),
                    alternates: Arc::clone(alternates),
                    claim_number: mapping.claim_number,
                };
                effects.extend(self.send_effect(instance, Message::Create(Box::new(create))));
            }
        }
    }

    fn deletion_effect(&self, instance: InstanceId) -> Option<Effect> {
        let claim_number = self.mappings.get(&instance)?.claim_number;
        self.send_effect(
            instance,
            Message::Delete {
                instance,
                claim_number,
            },
        )
    }

    fn move_effect(&self, migration: MigrationId, row: &Move) -> Option<Effect> {
        let instance = row.instance;
        let message = match &row.stage {
            MoveStage::Requested => Message::Reserve {
                instance,
                migration,
                kind: row.kind,
                move_number: row.move_number,
            },
            MoveStage::Reserved => return Some(Effect::ScheduleMove { migration }),
            MoveStage::Placed {
                selection,
                alternates,
                claim_number,
            } => Message::Move(Box::new(MoveOrder {
                instance,
                migration,
                selection: Arc::clone(selection),
                alternates: Arc::clone(alternates),
                spec: row.spec.as_ref().map(for_cell),
                claim_number: *claim_number,
            })),
            MoveStage::Cancelling => Message::Cancel {
                instance,
                migration,
            },
            MoveStage::InCell => Message::ConfirmOrRevert {
                instance,
                migration,
                decision: row.decision?,
                request: row.decision_request,
            },
        };
        self.send_effect(instance, message)
    }

    /// The effect that sends a message to the cell of an instance; `None` without a cell.
    fn send_effect(&self, instance: InstanceId, message: Message) -> Option<Effect> {
        let cell = self.mappings.get(&instance)?.cell?;
        Some(Effect::Send { cell, message })
    }
}

/// A specification without the usage, which only control needs to know.
fn for_cell(spec: &Spec) -> Spec {
    Spec {
        usage: Usage::default(),
        ..spec.clone()
    }
}

/// The effects that schedule the waiting instances of each reservation, followed by the other effects.
fn scheduled_first(
    waiting: BTreeMap<Uuid, Vec<InstanceId>>,
    mut effects: Vec<Effect>,
) -> Vec<Effect> {
    let schedule = waiting
        .into_iter()
        .map(|(reservation, instances)| Effect::Schedule {
            reservation,
            instances,
        });
    let mut all: Vec<Effect> = schedule.collect();
    all.append(&mut effects);
    all
}
