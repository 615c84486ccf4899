//! The whole state of control: placement and the super conductor, with a single order of changes.
//!
//! [`ControlState`] has the interface that an engine runs: decide, apply, undo. The forms of its
//! records and snapshots are in `placewright-records`.

use placewright_placement::{self as placement, Timestamp};
use thiserror::Error;

use crate::ids::InstanceId;
use crate::spec::Spec;
use crate::super_conductor;
use crate::table::SpecRow;

/// Placement and super conductor together.
#[derive(Clone, Debug, Default)]
pub struct ControlState {
    /// Providers, inventories, allocations and groups.
    pub placement: placement::State,
    /// Cells, instances, moves and the tables of the compute API.
    pub conductor: super_conductor::State,
}

/// A command to control.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A command to placement alone.
    Placement(placement::Command),
    /// A command to the conductor, which may change placement too.
    Conductor {
        /// The command to the conductor.
        command: super_conductor::Command,
        /// The time of the decision.
        at: Timestamp,
    },
}

/// A change of one of the two states.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A change of the state of placement.
    Placement(placement::Change),
    /// A change of the state of the conductor.
    Conductor(super_conductor::Change),
}

impl SpecRow for Change {
    fn spec(&self) -> Option<(InstanceId, &Spec)> {
        match self {
            Self::Placement(_) => None,
            Self::Conductor(change) => change.spec(),
        }
    }

    fn from_spec(instance: InstanceId, spec: Box<Spec>) -> Self {
        Self::Conductor(super_conductor::Change::from_spec(instance, spec))
    }
}

/// The answer to an accepted command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The outcome of a command to placement.
    Placement(placement::Outcome),
    /// The outcome of a command to the conductor.
    Conductor(super_conductor::Outcome),
}

/// A typed refusal by placement or the conductor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Placement refuses the command.
    #[error(transparent)]
    Placement(placement::Refusal),
    /// The conductor refuses the command.
    #[error(transparent)]
    Conductor(super_conductor::Refusal),
}

/// Undoes one applied change.
#[derive(Debug)]
pub enum Undo {
    /// Undoes a change of placement.
    Placement(placement::Undo),
    /// Undoes a change of the conductor.
    Conductor(super_conductor::Undo),
}

impl ControlState {
    /// Decides a command. The changes are appended to `changes`; apply them in that order.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `changes` may then hold changes of the abandoned decision.
    pub fn decide(&self, command: &Command, changes: &mut Vec<Change>) -> Result<Outcome, Refusal> {
        match command {
            Command::Placement(command) => {
                let mut of_placement = Vec::new();
                let outcome = placement::decide(&self.placement, command, &mut of_placement);
                changes.extend(of_placement.into_iter().map(Change::Placement));
                outcome.map(Outcome::Placement).map_err(Refusal::Placement)
            }
            Command::Conductor { command, at } => {
                let (mut of_placement, mut of_conductor) = (Vec::new(), Vec::new());
                let outcome = super_conductor::decide(
                    &self.conductor,
                    &self.placement,
                    command,
                    *at,
                    (&mut of_placement, &mut of_conductor),
                );
                changes.extend(of_placement.into_iter().map(Change::Placement));
                changes.extend(of_conductor.into_iter().map(Change::Conductor));
                outcome.map(Outcome::Conductor).map_err(Refusal::Conductor)
            }
        }
    }

    /// Applies a change. The result undoes it.
    pub fn apply(&mut self, change: &Change) -> Undo {
        match change {
            Change::Placement(change) => Undo::Placement(self.placement.apply(change)),
            Change::Conductor(change) => Undo::Conductor(self.conductor.apply(change)),
        }
    }

    /// Undoes the latest applied change that was not yet undone.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Placement(undo) => self.placement.undo(undo),
            Undo::Conductor(undo) => self.conductor.undo(undo),
        }
    }

    /// The effects of changes that were just applied.
    #[must_use]
    pub fn effects_of(&self, changes: &[Change]) -> Vec<super_conductor::Effect> {
        let of_conductor = changes.iter().filter_map(|change| match change {
            Change::Conductor(change) => Some(change),
            Change::Placement(_) => None,
        });
        self.conductor.effects_of(of_conductor)
    }
}
