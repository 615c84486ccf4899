//! Orders the feasible hosts of a request by their scores.

pub mod admission;
pub mod indexed;

/// A host with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The slot of the host.
    pub slot: u32,
    /// The score, higher is better; comparable within one search only.
    pub score: f64,
}
