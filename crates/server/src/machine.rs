//! Placement's state as the machine that the engine runs.

use std::io;

use placewright_engine::{DecodeError, LoadError, Machine};
use placewright_placement::record::{self, RECORD_VERSION, RecordError};
use placewright_placement::snapshot::{SNAPSHOT_VERSION, SnapshotError};
use placewright_placement::{Change, Command, Outcome, Refusal, State, Undo, decide};

/// Placement: resource providers, inventories, allocations.
#[derive(Debug)]
pub struct Placement(pub State);

impl Machine for Placement {
    type Command = Command;
    type Change = Change;
    type Outcome = Outcome;
    type Refusal = Refusal;
    type Undo = Undo;

    fn empty() -> Self {
        Self(State::default())
    }

    fn decide(&self, command: &Command, changes: &mut Vec<Change>) -> Result<Outcome, Refusal> {
        decide(&self.0, command, changes)
    }

    fn apply(&mut self, change: &Change) -> Undo {
        self.0.apply(change)
    }

    fn undo(&mut self, undo: Undo) {
        self.0.undo(undo);
    }

    fn encode(changes: &[Change], out: &mut Vec<u8>) {
        record::encode(changes, out);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Change>, DecodeError> {
        record::decode(bytes).map_err(|error| match error {
            RecordError::NewerVersion { found } => DecodeError::Newer {
                found: found.into(),
                supported: RECORD_VERSION.into(),
            },
            error @ (RecordError::Empty | RecordError::Malformed(_)) => {
                DecodeError::Damaged(error.to_string())
            }
        })
    }

    fn save(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.0.save(out)
    }

    fn load(input: &mut dyn io::Read) -> Result<Self, LoadError> {
        State::load(input).map(Self).map_err(|error| match error {
            SnapshotError::Io(error) => LoadError::Io(error),
            SnapshotError::NewerVersion { found } => LoadError::Newer {
                found,
                supported: SNAPSHOT_VERSION,
            },
            SnapshotError::Damaged(what) => LoadError::Damaged(what.to_owned()),
        })
    }

    fn digest(&self) -> u128 {
        self.0.digest()
    }
}
