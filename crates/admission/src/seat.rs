//! The requests that arrive at the level of tenants, and the seats in which they run.

use std::time::Duration;

use crate::cost::{Kind, LaterWork};
use crate::pool_kind::PoolKind;

/// A request that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct IncomingRequest {
    /// The project of the request, whose fair share of the level the request uses.
    pub project: u64,
    /// The user of the request, whose fair share of the project's share the request uses.
    pub user: u64,
    /// The route and method of the request, from which its cost is estimated.
    pub kind: Kind,
    /// The work behind the API that the request causes unless it is refused.
    pub later_work: LaterWork,
}

/// The seat of a request that runs, or the seat that a waiting request will get. It is given back with
/// [`TenantLevel::finish`](crate::TenantLevel::finish).
#[derive(Debug)]
#[must_use = "a seat that is not given back stays taken"]
pub struct Seat {
    pub(crate) request: IncomingRequest,
    pub(crate) pool: PoolKind,
    /// The estimated cost of the request, in microseconds.
    pub(crate) estimate: u64,
    /// How many requests the project had open when the request arrived, including this one.
    pub(crate) crowd: u64,
    /// When the request got the seat.
    pub(crate) taken_at: Duration,
    /// Whether several projects were present when the request got the seat.
    pub(crate) was_shared: bool,
    /// Whether the request occupies the seat. False while the request waits, and after the seat was given back early.
    pub(crate) is_taken: bool,
    /// Whether the request was refused, so that no instances are built.
    pub(crate) is_refused: bool,
}

impl Seat {
    /// The pool that the seat belongs to.
    #[must_use]
    pub fn pool(&self) -> PoolKind {
        self.pool
    }

    /// Records that the request was refused, so that it causes no work behind the API.
    pub fn note_refused(&mut self) {
        self.is_refused = true;
    }

    /// How much more the project has to be charged for the request than was estimated when it arrived; negative if
    /// less. As in the charge for the estimate, the cost is multiplied by `crowd`, so that a project gains nothing by
    /// opening more connections.
    pub(crate) fn more_than_estimated(&self, actual: u64) -> i64 {
        let [actual, estimate, crowd] = [actual, self.estimate, self.crowd]
            .map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        actual.saturating_sub(estimate).saturating_mul(crowd)
    }
}
