//! Orders the feasible hosts of a request by their scores, the best first.
//!
//! There are two rankers. [`Linear`](linear::Linear) looks at every host; its few lines define the
//! correct result. [`Indexed`](indexed::Indexed) looks at few hosts, because it keeps data from one
//! decision to the next, and returns the same result. `Indexed` can only be used if all weighers of the
//! request read their values from columns.

pub mod basis;
pub mod feasibility;
pub mod indexed;
pub mod linear;
pub mod weights;

use feasibility::Feasibility;

/// Finds the best of the hosts that are feasible for a request.
///
/// [`Linear`](linear::Linear) is the definition: every other ranker returns the same hosts in the
/// same order. Tests with random fleets, requests and changes compare the two: `tests/scheduler/select.rs` of
/// this crate for whole decisions, `rank/indexed/tests.rs` for the index alone.
pub trait Ranker {
    /// The best `count` feasible hosts, best first; equal scores in the order of slots. Fewer if
    /// fewer are feasible. The score of a single feasible host is 0.
    fn best<F: Feasibility>(&mut self, count: usize, feasibility: &F) -> Vec<Ranked>;
}

/// A host with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The slot of the host.
    pub slot: u32,
    /// The score; higher is better. Comparable with other scores of the same search only.
    pub score: f64,
}
