//! Messages from control to a cell. Each may be delivered any number of times.

use std::sync::Arc;

use placewright_placement::Timestamp;
use uuid::Uuid;

use crate::ids::{InstanceId, MigrationId};
use crate::spec::{Candidate, Spec};

/// A message to the cell of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Take over an instance and build it.
    Create(Box<Create>),
    /// Delete an instance: destroy its guests, then release its allocations.
    Delete {
        /// The instance to delete.
        instance: InstanceId,
        /// The number of the last claim or claim request that control knows.
        claim_number: u64,
    },
    /// Block other jobs of an instance, because a target is being sought for a move.
    Reserve {
        /// The instance to reserve.
        instance: InstanceId,
        /// The UUID of the move.
        migration: MigrationId,
        /// The kind of the move.
        kind: MoveKind,
        /// The number of the move within the instance, so that an old message reserves nothing.
        move_number: u32,
    },
    /// Carry out a reserved move.
    Move(Box<MoveOrder>),
    /// Cancel a reserved move, because no target was found.
    Cancel {
        /// The instance that is reserved.
        instance: InstanceId,
        /// The UUID of the move.
        migration: MigrationId,
    },
    /// End a move that waits for confirmation or reversal.
    ConfirmOrRevert {
        /// The instance that was moved.
        instance: InstanceId,
        /// The UUID of the move.
        migration: MigrationId,
        /// Whether to confirm or to revert.
        decision: MoveDecision,
        /// The UUID of the API request with the decision, if it is known.
        request: Option<Uuid>,
    },
}

/// A claimed instance that a cell has to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The UUID of the instance.
    pub instance: InstanceId,
    /// The specification of the instance.
    pub spec: Spec,
    /// The host that is claimed, with the allocations.
    pub selection: Arc<Candidate>,
    /// Further candidates for the build, the best first.
    pub alternates: Arc<[Candidate]>,
    /// The number of the claim; see [`crate::claim_request`].
    pub claim_number: u64,
}

/// A move whose target is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveOrder {
    /// The UUID of the instance.
    pub instance: InstanceId,
    /// The move, which is also the consumer of the former allocations.
    pub migration: MigrationId,
    /// The host that is claimed, with the allocations.
    pub selection: Arc<Candidate>,
    /// Further candidates for the move, the best first.
    pub alternates: Arc<[Candidate]>,
    /// The new specification, if the move changes it.
    pub spec: Option<Spec>,
    /// The number of the claim; see [`crate::claim_request`].
    pub claim_number: u64,
}

/// The kind of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKind {
    /// To another host, with the guest stopped.
    ColdMigrate,
    /// To another flavor, with the guest stopped; possibly on the same host.
    Resize,
    /// To another host, with the guest running.
    LiveMigrate,
    /// Away from a host that is down.
    Evacuate,
    /// From no host to a host, which ends the shelving of the instance.
    Unshelve,
}

impl MoveKind {
    /// The name of the action in the compute API that begins such a move.
    #[must_use]
    pub const fn action_name(self) -> &'static str {
        match self {
            Self::ColdMigrate => "migrate",
            Self::Resize => "resize",
            Self::LiveMigrate => "live-migration",
            Self::Evacuate => "evacuate",
            Self::Unshelve => "unshelve",
        }
    }
}

/// The decision of the owner about a move that waits for confirmation or reversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveDecision {
    /// The instance stays on the target.
    Confirm,
    /// The instance goes back to the source.
    Revert,
}

impl MoveDecision {
    /// The name of the action in the compute API that makes this decision.
    #[must_use]
    pub const fn action_name(self) -> &'static str {
        match self {
            Self::Confirm => "confirmResize",
            Self::Revert => "revertResize",
        }
    }
}

/// The reply of a cell to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The cell does not refuse the message: its journal has what the message changes, from this delivery or an earlier
    /// one, or there is nothing to change. If `ConfirmOrRevert` arrives before the move waits for a decision, it is
    /// accepted without an effect, and control sends it again.
    Accepted,
    /// The cell refuses the message for this reason. It would also refuse another copy of the same delivery.
    Refused(String),
}

impl Message {
    /// The instance that the message concerns.
    #[must_use]
    pub fn instance(&self) -> InstanceId {
        match self {
            Self::Create(create) => create.instance,
            Self::Move(order) => order.instance,
            Self::Delete { instance, .. }
            | Self::Reserve { instance, .. }
            | Self::Cancel { instance, .. }
            | Self::ConfirmOrRevert { instance, .. } => *instance,
        }
    }
}

/// A message with its time of sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The time of this delivery. A cell remembers deletions only for a while. It refuses to create instances from
    /// messages that were sent before the time up to which it has forgotten deletions.
    pub sent_at: Timestamp,
    /// The message to the cell.
    pub message: Message,
}
