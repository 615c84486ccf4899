//! Requests of a cell to placement, the only requests of a cell's conductor to control.
//!
//! The claim requests for one instance are numbered in one sequence with the claims that control
//! makes for it. Control stores the number of the latest of them and, if that is a claim request, its
//! response. A claim request with the same number gets the same response, one with a smaller number gets
//! [`ClaimResponse::Stale`]: it takes effect once, however often it is delivered (idempotence).

use crate::fault::{Attempt, Fault};
use crate::ids::{InstanceId, MigrationId};
use crate::spec::Candidate;

/// One request of a cell to placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The instance whose allocations are concerned.
    pub instance: InstanceId,
    /// The number of the request, greater than those of all earlier claims and claim requests for the
    /// instance.
    pub number: u64,
    /// The change of allocations that is requested.
    pub change: ClaimChange,
}

/// The change of allocations that a cell requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// Claim the first candidate that fits, in place of the instance's present allocations.
    Swap {
        /// The candidates, the best first.
        candidates: Vec<Candidate>,
    },
    /// Release all allocations of the instance.
    Release {
        /// Whether the instance is deleted: then no record of it remains.
        is_deleted: bool,
        /// The attempts of a first build that failed on every host that the cell may try, where hosts of other cells
        /// may succeed; empty otherwise. Control may then take the instance from the cell: it answers
        /// [`ClaimResponse::Gone`].
        failed_attempts: Vec<Attempt>,
    },
    /// End a move on one of its sides.
    Settle {
        /// The UUID of the move.
        migration: MigrationId,
        /// Which allocations the instance keeps.
        keep: MoveSide,
        /// Why the move failed; `None` if it succeeded.
        fault: Option<Fault>,
    },
}

/// The side of a move that the instance stays on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveSide {
    /// The source: the allocations held by the migration go back to the instance.
    Source,
    /// The target: the allocations held by the migration are released.
    Target,
}

/// The response to a claim request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimResponse {
    /// The instance holds the candidate at this index, and nothing else.
    Swapped {
        /// The index into the list of candidates.
        index: u32,
    },
    /// None of the candidates fits; the allocations are unchanged.
    NothingFits,
    /// The release or the end of the move is done.
    Done,
    /// Control has no record of the instance, or none of the move that was to be settled, or has taken the instance
    /// from the cell.
    Gone,
    /// A claim request or claim that is later than this one was decided before it, so this one has no effect.
    Stale,
}
