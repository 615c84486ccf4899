//! Finds the best of very many hosts, repeatedly, without visiting all of them.
//!
//! The score of a host is the sum of `multiplier * (value - low) / (high - low)`, as in Nova,
//! where `low` and `high` are the term's extremes over the feasible hosts of the request. In a
//! fleet with balanced load, thousands of hosts score within a hair of the best, so pruning by
//! upper bounds that are computed anew for each request would have to visit them all. Therefore
//! scores are cached and updated for the hosts that changed:
//!
//! - A [`Board`](board::Board) caches the score of every host under one set of scales, and the
//!   best score of each block of 64 hosts, regardless of feasibility. Requests of many classes
//!   share a board, because the hosts at the extremes are feasible for most of them.
//! - A [`Ranking`] belongs to one class of requests. It caches a superset of the feasible hosts,
//!   and for each block an upper bound of their scores. A change of a host can raise its block's
//!   bound and never lowers it; a bound that is too high comes first in the search and is then
//!   corrected.
//! - The extremes are found in the same way, with bounds for each block. While the host at the
//!   extreme of the whole fleet is feasible for the class, it is the answer, and the bounds are
//!   not even updated.
//! - Bounds have two layers, blocks and groups of blocks, so that a search opens few groups.
//! - [`Standing`] holds what all classes with the same weighers share: the boards, and the
//!   extremes of each block in each term.
//!
//! So a decision visits few blocks, and deciding for a new class costs little more. A cached mask
//! may contain infeasible hosts but never misses a feasible one: a host is examined when it has
//! the best score, and removed from the mask if it is infeasible. Checks that cost more than a
//! mask (trees, topology rules) are made only for such hosts: see [`Admission`](super::admission::Admission).

use placewright_placement::slot_set::SlotSet;
use smallvec::SmallVec;

use crate::hosts::column::Column;

mod board;
mod bounds;
mod changes;
mod end;
mod frontier;
mod memo;
mod search;
#[cfg(test)]
mod tests;

pub use board::Standing;
pub use changes::ChangeLog;
pub use search::Ranking;

/// The number of blocks in a group.
const GROUP_BLOCKS: usize = 16;

/// The current state of all hosts.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    /// The log of recent changes.
    pub log: &'a ChangeLog,
    /// The columns with the weighed values.
    pub columns: &'a [Column],
    /// The slots that hold a host.
    pub hosts: &'a SlotSet,
}

/// The affine map from raw values to shares of the score, given the range over some hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    factor: f64,
}

impl Scale {
    fn new(multiplier: f64, low: f64, high: f64) -> Self {
        let factor = if high > low {
            multiplier / (high - low)
        } else {
            0.0
        };
        Self { low, high, factor }
    }
}

/// A small vector with one entry for each term.
type Few<T> = SmallVec<[T; 6]>;
