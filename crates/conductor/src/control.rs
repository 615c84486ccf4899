//! The whole state of control: placement and the super conductor, with a single order of changes.
//!
//! [`Control`] has the interface that an engine runs: decide, apply, undo, encode, decode, save,
//! load, digest. Changes of placement alone are recorded in placement's own format, so a journal
//! from before there were conductors is a valid journal of control.

use std::io;

use placewright_placement::record::{self, RecordError};
use placewright_placement::snapshot::SnapshotError;
use placewright_placement::{self as placement, Timestamp};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::ids::InstanceId;
use crate::packed::{Packer, SpecRow, Unpacker};
use crate::spec::Spec;
use crate::super_conductor;
use crate::table::ReadError;

/// The version of records with changes of the conductor. Placement's own version is 1.
pub const RECORD_VERSION: u8 = 2;

/// The version of records with changes of the conductor in which the common parts of specs are
/// written once.
pub const PACKED_RECORD_VERSION: u8 = 3;

/// Placement and super conductor together.
#[derive(Clone, Debug, Default)]
pub struct Control {
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

/// A fact about one of the two states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A fact about placement's state.
    Placement(placement::Change),
    /// A fact about the conductor's state.
    Conductor(super_conductor::Change),
}

impl SpecRow for Change {
    fn spec(&self) -> Option<(InstanceId, &Spec)> {
        match self {
            Self::Placement(_) => None,
            Self::Conductor(change) => change.spec(),
        }
    }

    fn of_spec(instance: InstanceId, spec: Box<Spec>) -> Self {
        Self::Conductor(super_conductor::Change::of_spec(instance, spec))
    }
}

/// Changes of placement alone, serialised in placement's own format.
struct OfPlacement<'a>(&'a [Change]);

impl Serialize for OfPlacement<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let changes = self.0.iter().filter_map(|change| match change {
            Change::Placement(change) => Some(change),
            Change::Conductor(_) => None,
        });
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for change in changes {
            list.serialize_element(change)?;
        }
        list.end()
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

/// A typed refusal of one of the two.
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

impl Control {
    /// Decides a command. The facts are appended to `changes`; apply them in that order.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; `changes` may then hold facts of the abandoned decision.
    pub fn decide(&self, command: &Command, changes: &mut Vec<Change>) -> Result<Outcome, Refusal> {
        match command {
            Command::Placement(command) => {
                let mut facts = Vec::new();
                let outcome = placement::decide(&self.placement, command, &mut facts);
                changes.extend(facts.into_iter().map(Change::Placement));
                outcome.map(Outcome::Placement).map_err(Refusal::Placement)
            }
            Command::Conductor { command, at } => {
                let mut facts = (Vec::new(), Vec::new());
                let (conductor, placement) = (&self.conductor, &self.placement);
                let outcome =
                    super_conductor::decide(conductor, placement, command, *at, &mut facts);
                changes.extend(facts.0.into_iter().map(Change::Placement));
                changes.extend(facts.1.into_iter().map(Change::Conductor));
                outcome.map(Outcome::Conductor).map_err(Refusal::Conductor)
            }
        }
    }

    /// Applies a fact. The result undoes it.
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

    /// Appends the record of one command's changes to a buffer.
    pub fn encode(changes: &[Change], out: &mut Vec<u8>) {
        let of_placement = |change: &Change| matches!(change, Change::Placement(_));
        let specs = changes.iter().filter_map(SpecRow::spec);
        let packer = Packer::of(specs.map(|(_, spec)| spec));
        if packer.shares() {
            pack(changes, packer, out);
            return;
        }
        let mut start = std::mem::take(out);
        let written = if changes.iter().all(of_placement) {
            start.push(record::RECORD_VERSION);
            postcard::to_extend(&OfPlacement(changes), start)
        } else {
            start.push(RECORD_VERSION);
            postcard::to_extend(changes, start)
        };
        *out = written.expect("plain data written to memory always has an encoding");
    }

    /// Whether a record may contain changes of the conductor, judged by its version.
    #[must_use]
    pub fn may_concern_conductor(record: &[u8]) -> bool {
        matches!(
            record.first(),
            Some(&(RECORD_VERSION | PACKED_RECORD_VERSION))
        )
    }

    /// Decodes the changes of a record, also of one written by placement alone.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the bytes are not a record that this release knows.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Change>, ReadError> {
        if let Some((&RECORD_VERSION, body)) = bytes.split_first() {
            let read = postcard::from_bytes(body);
            return read.map_err(|error| ReadError::Damaged(error.to_string()));
        }
        if let Some((&PACKED_RECORD_VERSION, body)) = bytes.split_first() {
            return unpack(body);
        }
        match record::decode(bytes) {
            Ok(changes) => Ok(changes.into_iter().map(Change::Placement).collect()),
            Err(RecordError::NewerVersion { found }) => Err(ReadError::NewerVersion {
                found,
                supported: PACKED_RECORD_VERSION,
            }),
            Err(error @ (RecordError::Empty | RecordError::Malformed(_))) => {
                Err(ReadError::Damaged(error.to_string()))
            }
        }
    }

    /// Writes the whole state: placement's snapshot, followed by the conductor's.
    ///
    /// # Errors
    ///
    /// Only those of `out`.
    pub fn save(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.placement.save(out)?;
        self.conductor.save(out)
    }

    /// Reads a saved state, also one saved by placement alone.
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the bytes are no saved state.
    pub fn load(input: &mut dyn io::Read) -> Result<Self, ReadError> {
        let placement = placement::State::load(input).map_err(|error| match error {
            SnapshotError::Io(error) => ReadError::Io(error),
            SnapshotError::NewerVersion { found } => ReadError::NewerVersion {
                found: u8::try_from(found).unwrap_or(u8::MAX),
                supported: 1,
            },
            SnapshotError::Damaged(what) => ReadError::Damaged(what.to_owned()),
        })?;
        Ok(Self {
            placement,
            conductor: super_conductor::State::load(input)?,
        })
    }

    /// A digest of the whole state: equal states have equal digests.
    #[must_use]
    pub fn digest(&self) -> u128 {
        crate::table::digest(|out| {
            self.placement.save(out)?;
            self.conductor.save_plain(out)
        })
    }

    /// The effects of changes that were just applied.
    #[must_use]
    pub fn effects_of(&self, changes: &[Change]) -> Vec<super_conductor::Effect> {
        let own = changes.iter().filter_map(|change| match change {
            Change::Conductor(change) => Some(change),
            Change::Placement(_) => None,
        });
        self.conductor.effects_of(own)
    }
}

fn pack(changes: &[Change], mut packer: Packer<'_>, out: &mut Vec<u8>) {
    out.push(PACKED_RECORD_VERSION);
    for change in changes {
        let packed = packer.pack(change, |bytes| {
            out.extend_from_slice(&bytes);
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = packed;
    }
}

fn unpack(mut bytes: &[u8]) -> Result<Vec<Change>, ReadError> {
    let mut unpacker = Unpacker::default();
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (change, rest) = unpacker.read(bytes)?;
        changes.extend(change);
        bytes = rest;
    }
    Ok(changes)
}
