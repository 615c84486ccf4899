//! The state machine of a cell, in the form that the engine runs.

use std::io;

use placewright_conductor::Reply;
use placewright_conductor::cell_conductor::{self, Change, Event, Refusal, State, Undo};
use placewright_engine::{DecodeError, LoadError, Machine};
use placewright_placement::Timestamp;
use placewright_records::{ReadError, cell as form};

/// The state of a cell: its instances, hosts and jobs.
#[derive(Debug, Default)]
pub struct CellMachine {
    /// The state that events are decided on and changes applied to.
    pub state: State,
}

/// A command for the engine: an event, and the values besides the state on which its decision depends.
#[derive(Clone, Debug)]
pub struct TimedEvent {
    /// The event to decide.
    pub event: Event,
    /// The time at which the event was submitted.
    pub at: Timestamp,
    /// The time-outs of agents' steps.
    pub options: cell_conductor::Options,
}

impl Machine for CellMachine {
    type Command = TimedEvent;
    type Change = Change;
    type Outcome = Reply;
    type Refusal = Refusal;
    type Undo = Undo;

    fn empty() -> Self {
        Self::default()
    }

    fn decide(&self, command: &TimedEvent, changes: &mut Vec<Change>) -> Result<Reply, Refusal> {
        let TimedEvent { event, at, options } = command;
        cell_conductor::decide(&self.state, event, *at, options, changes)
    }

    fn apply(&mut self, change: &Change) -> Undo {
        self.state.apply(change)
    }

    fn undo(&mut self, undo: Undo) {
        self.state.undo(undo);
    }

    fn encode(changes: &[Change], out: &mut Vec<u8>) {
        form::encode(changes, out);
    }

    fn decode(record: &[u8]) -> Result<Vec<Change>, DecodeError> {
        form::decode(record).map_err(|error| match error {
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
