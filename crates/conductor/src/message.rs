//! What control tells a cell. Each may be sent any number of times.

use placewright_placement::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{InstanceId, MigrationId};
use crate::spec::{Candidate, Spec};

/// A message to the cell of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Have this instance.
    Create(Box<Create>),
    /// Have it no longer: destroy its guests, then release all that it holds.
    Delete {
        /// The instance.
        instance: InstanceId,
        /// The number of the last claim or ask that control knows.
        claim: u64,
    },
    /// Let nothing else begin with the instance: a place is looked for to move it to.
    Reserve {
        /// The instance.
        instance: InstanceId,
        /// The move.
        migration: MigrationId,
        /// What kind of move.
        kind: MoveKind,
        /// Counts the moves of the instance, so that an old message reserves nothing.
        turn: u32,
    },
    /// Carry a reserved move out.
    Move(Box<MoveOrder>),
    /// There is no place for a reserved move.
    Cancel {
        /// The instance.
        instance: InstanceId,
        /// The move.
        migration: MigrationId,
    },
    /// End a move that waits to be confirmed or reverted.
    Conclude {
        /// The instance.
        instance: InstanceId,
        /// The move.
        migration: MigrationId,
        /// Which way.
        verdict: Verdict,
    },
}

/// An instance for a cell, its place claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// The instance.
    pub instance: InstanceId,
    /// What it is to be.
    pub spec: Spec,
    /// The claimed host.
    pub selection: Candidate,
    /// Where it may be built instead, best first.
    pub alternates: Vec<Candidate>,
    /// The number of the claim.
    pub claim: u64,
}

/// A move, its target claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveOrder {
    /// The instance.
    pub instance: InstanceId,
    /// The move; the consumer of what the instance held before.
    pub migration: MigrationId,
    /// The claimed host.
    pub selection: Candidate,
    /// Where it may go instead, best first.
    pub alternates: Vec<Candidate>,
    /// What it is to be there, if that changes.
    pub spec: Option<Spec>,
    /// The number of the claim.
    pub claim: u64,
}

/// What kind of move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MoveKind {
    /// To another host, stopped.
    ColdMigrate,
    /// To another flavor, stopped; perhaps on the same host.
    Resize,
    /// To another host, running.
    LiveMigrate,
    /// Away from a host that is down.
    Evacuate,
    /// From no host at all.
    Unshelve,
}

/// How a move that waits is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The instance stays where it went.
    Confirm,
    /// It goes back.
    Revert,
}

/// What a cell answers to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The cell has it in its journal (perhaps for long).
    Accepted,
    /// The cell will not do it, now or later.
    Refused(String),
}

impl Message {
    /// The instance that it is about.
    #[must_use]
    pub fn instance(&self) -> InstanceId {
        match self {
            Self::Create(create) => create.instance,
            Self::Move(order) => order.instance,
            Self::Delete { instance, .. }
            | Self::Reserve { instance, .. }
            | Self::Cancel { instance, .. }
            | Self::Conclude { instance, .. } => *instance,
        }
    }
}

/// A message as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// When it was sent, this time. A cell refuses to create what was sent before the time from
    /// which on it remembers deletions.
    pub sent_at: Timestamp,
    /// The message.
    pub message: Message,
}
