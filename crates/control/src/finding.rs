//! The findings of an audit, and their repairs.

use placewright_conductor::{CellId, HostId, MigrationId};
use serde::Serialize;
use uuid::Uuid;

/// An inconsistency that an audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of inconsistency.
    pub kind: FindingKind,
    /// The UUID of the consumer, instance or move that is inconsistent.
    pub id: Uuid,
    /// The cell concerned, if any.
    pub cell: Option<CellId>,
    /// The host concerned, if any.
    pub host: Option<HostId>,
    /// The inconsistency in a sentence.
    pub what: String,
    /// A description of the repair, for operators; `None` if an operator has to decide.
    pub repair: Option<&'static str>,
    /// The result of the repair, if it was tried: `done`, or why it failed.
    pub outcome: Option<String>,
    /// The repair that [`Self::repair`] describes.
    #[serde(skip)]
    pub(crate) repair_kind: Option<Repair>,
}

impl Finding {
    pub(crate) fn new(
        kind: FindingKind,
        id: Uuid,
        what: impl Into<String>,
        repair_kind: Option<Repair>,
    ) -> Self {
        Self {
            kind,
            id,
            cell: None,
            host: None,
            what: what.into(),
            repair: repair_kind.as_ref().map(Repair::description),
            outcome: None,
            repair_kind,
        }
    }

    pub(crate) fn at(self, cell: Option<CellId>, host: Option<HostId>) -> Self {
        Self { cell, host, ..self }
    }
}

/// The kinds of inconsistency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Resources are allocated for an instance or move that does not exist.
    OrphanAllocation,
    /// An instance is on a host without an allocation there.
    MissingAllocation,
    /// Control has an instance that its cell does not have.
    LostInstance,
    /// Control has an instance that is not being built and that no cell has.
    LostRequest,
    /// A cell has an instance that control does not have, or has in another cell.
    UnknownInstance,
    /// A job makes no progress although its cell is up.
    Stuck,
    /// A host has a guest of an instance that its cell does not have, or does not have on this host.
    UnknownGuest,
    /// A host that is up does not have the guest of an active instance.
    MissingGuest,
}

impl FindingKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::OrphanAllocation,
        Self::MissingAllocation,
        Self::LostInstance,
        Self::LostRequest,
        Self::UnknownInstance,
        Self::Stuck,
        Self::UnknownGuest,
        Self::MissingGuest,
    ];

    /// The name of the kind in metrics and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OrphanAllocation => "orphan_allocation",
            Self::MissingAllocation => "missing_allocation",
            Self::LostInstance => "lost_instance",
            Self::LostRequest => "lost_request",
            Self::UnknownInstance => "unknown_instance",
            Self::Stuck => "stuck",
            Self::UnknownGuest => "unknown_guest",
            Self::MissingGuest => "missing_guest",
        }
    }
}

/// A repair of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Release an allocation without an owner.
    Release,
    /// Delete the record of the instance.
    Forget,
    /// Delete the record of the instance, and release its allocation.
    ForgetWithClaim,
    /// Make the cell delete an instance that control does not have.
    DeleteInCell,
    /// Claim the resources that the instance needs on its host, if they fit.
    Reclaim,
    /// Fail the build request, with a fault.
    Bury,
    /// Fail the move; the instance stays where it is.
    FailMove(MigrationId),
    /// Make the cell cancel the reservation of an instance for a move that control does not have.
    CancelReservation(MigrationId),
    /// Send the pending message about the instance to its cell again: to build it, to delete it, or to
    /// reserve it for a move, carry the move out or cancel it.
    Resend,
    /// Make the agents of these hosts begin new sessions, so that steps are requested again.
    Reconcile(Vec<HostId>),
    /// Make the host's agent begin a new session. If it does not report the guest then, the cell
    /// puts the instance in the error state.
    ReconcileGuest,
    /// Make the host destroy the guests that it has and that its cell does not know.
    DestroyGuest,
}

impl Repair {
    /// A description of the repair, for operators.
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::Release => "releases what is held",
            Self::Forget => "deletes the record",
            Self::ForgetWithClaim => "deletes the record and what is held for it",
            Self::DeleteInCell => "has the cell delete it",
            Self::Reclaim => "claims what it needs there, if that fits",
            Self::Bury => "fails the request, with a fault that says so",
            Self::FailMove(_) => "fails the move; the instance stays where it is",
            Self::CancelReservation(_) => "has the cell cancel the move",
            Self::Resend => "sends the message to the cell again",
            Self::Reconcile(_) => {
                "has the agent begin a session anew, and the step asked for again"
            }
            Self::ReconcileGuest => {
                "has the agent begin a session anew; if it does not have the instance then, that is \
                 in ERROR, with a fault that says so"
            }
            Self::DestroyGuest => "--destroy-unknown-guests has the host destroy it",
        }
    }
}
