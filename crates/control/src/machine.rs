//! The state machine of control, in the form that the engine runs.

use std::io;

use placewright_conductor::control::{Change, Command, ControlState, Outcome, Refusal, Undo};
use placewright_engine::{DecodeError, LoadError, Machine};
use placewright_placement as placement;
use placewright_records::{ReadError, control as form};

/// The state of control: placement and the super conductor, whose commands have one common order. A store that has
/// records of placement only is read as a state with an empty super conductor.
#[derive(Debug, Default)]
pub struct ControlMachine {
    /// The state that commands are decided on and changes applied to.
    pub state: ControlState,
}

impl ControlMachine {
    /// The state of placement: resource providers, inventories, allocations.
    #[must_use]
    pub fn placement(&self) -> &placement::State {
        &self.state.placement
    }
}

impl Machine for ControlMachine {
    type Command = Command;
    type Change = Change;
    type Outcome = Outcome;
    type Refusal = Refusal;
    type Undo = Undo;

    fn empty() -> Self {
        Self::default()
    }

    fn decide(&self, command: &Command, changes: &mut Vec<Change>) -> Result<Outcome, Refusal> {
        self.state.decide(command, changes)
    }

    fn apply(&mut self, change: &Change) -> Undo {
        self.state.apply(change)
    }

    fn undo(&mut self, undo: Undo) {
        self.state.undo(undo);
    }

    fn take_place_of(&mut self, former: &Self) {
        self.state.placement.take_place_of(&former.state.placement);
    }

    fn encode(changes: &[Change], out: &mut Vec<u8>) {
        form::encode(changes, out);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Change>, DecodeError> {
        form::decode(bytes).map_err(|error| match error {
            ReadError::NewerVersion { found, supported } => DecodeError::Newer {
                found: found.into(),
                supported: supported.into(),
            },
            error @ (ReadError::Io(_) | ReadError::Damaged(_)) => {
                DecodeError::Damaged(error.to_string())
            }
        })
    }

    fn save(&self, out: &mut dyn io::Write) -> io::Result<()> {
        form::save(&self.state, out)
    }

    fn load(input: &mut dyn io::Read) -> Result<Self, LoadError> {
        let loaded = form::load(input).map(|state| Self { state });
        loaded.map_err(|error| match error {
            ReadError::Io(error) => LoadError::Io(error),
            ReadError::NewerVersion { found, supported } => LoadError::Newer {
                found: found.into(),
                supported: supported.into(),
            },
            ReadError::Damaged(what) => LoadError::Damaged(what),
        })
    }

    fn digest(&self) -> u128 {
        form::digest(&self.state)
    }
}
