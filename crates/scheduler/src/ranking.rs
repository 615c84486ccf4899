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
//! mask (trees, topology rules) are made only for such hosts: see [`Admission`].

use placewright_placement::slot_set::SlotSet;
use smallvec::SmallVec;

use crate::host_table::column;
use end::Side;

mod admission;
mod board;
mod bounds;
mod changes;
mod end;
mod frontier;
mod kernel;
mod search;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Admitted};
pub use board::Standing;
pub use changes::ChangeLog;
pub use search::Ranking;

/// The number of hosts in a block: the bits of one mask word.
pub const BLOCK_HOSTS: usize = 64;

/// The number of blocks in a group.
const GROUP_BLOCKS: usize = 16;

/// A host with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The slot of the host.
    pub slot: u32,
    /// The score, higher is better; comparable within one search only.
    pub score: f64,
}

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

/// One number for each host, by slot; the length is a multiple of [`BLOCK_HOSTS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    values: Vec<f64>,
    /// The first value that was set, which is the default of all hosts.
    usual: f64,
    /// The number of hosts with another value.
    unusual: usize,
}

impl Column {
    /// The value of a host.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> f64 {
        match self.values.get(slot as usize) {
            Some(value) => *value,
            None => self.usual,
        }
    }

    /// The common value of all hosts, if they all have the same.
    #[must_use]
    pub fn uniform(&self) -> Option<f64> {
        (self.unusual == 0).then_some(self.usual)
    }

    /// Sets the value of a host.
    pub fn set(&mut self, slot: u32, value: f64) {
        if self.values.is_empty() {
            self.usual = value;
        }
        let index = slot as usize;
        if index >= self.values.len() {
            self.values
                .resize((index / BLOCK_HOSTS + 1) * BLOCK_HOSTS, self.usual);
        }
        let is_usual = |value: f64| value.to_bits() == self.usual.to_bits();
        let was_usual = is_usual(self.values[index]);
        if was_usual && !is_usual(value) {
            self.unusual += 1;
        } else if !was_usual && is_usual(value) {
            self.unusual -= 1;
        }
        self.values[index] = value;
    }

    /// Which of the 64 hosts of a block have at least this value.
    #[must_use]
    pub fn at_least(&self, block: usize, least: f64) -> u64 {
        kernel::at_least(self.block(block), least)
    }

    /// The 64 values of a block; zeros beyond the last host, which no mask contains.
    fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        static ZEROS: [f64; BLOCK_HOSTS] = [0.0; BLOCK_HOSTS];
        let start = block * BLOCK_HOSTS;
        let values = self.values.get(start..start + BLOCK_HOSTS);
        values
            .and_then(|values| values.try_into().ok())
            .unwrap_or(&ZEROS)
    }
}

/// The contribution of one weigher to the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// The index of the column with the raw values.
    pub column: usize,
    /// The weight of the term in the sum.
    pub multiplier: f64,
    /// The lower end of the scale, if the weigher declares one.
    pub low: Option<f64>,
    /// The upper end of the scale, if the weigher declares one.
    pub high: Option<f64>,
}

impl Term {
    /// Clamps a raw value to the declared ends.
    #[inline]
    fn bounded(&self, raw: f64) -> f64 {
        let (low, high) = self.bounds();
        smaller(larger(raw, low), high)
    }

    /// Whether less free capacity can move a host towards this end of the range.
    fn likes_less(&self, side: Side) -> bool {
        match self.column {
            column::RAM_FREE_MB | column::CPUS_FREE | column::DISK_FREE_MB => side == Side::Low,
            column::FEW_DEVICES => side == Side::High,
            // No other column depends on free capacity.
            _ => false,
        }
    }

    /// Whether less free capacity can never raise the term's share of the score.
    fn prefers_room(&self) -> bool {
        match self.column {
            column::RAM_FREE_MB | column::CPUS_FREE | column::DISK_FREE_MB => {
                self.multiplier >= 0.0
            }
            column::FEW_DEVICES => self.multiplier <= 0.0,
            _ => true,
        }
    }

    /// The extremes on both sides over the hosts of a mask; minus infinity for an empty mask.
    fn reaches(&self, values: &[f64; BLOCK_HOSTS], mask: u64) -> [f64; 2] {
        if mask == 0 {
            return [f64::NEG_INFINITY; 2];
        }
        let (low, high) = kernel::range(values, mask);
        [
            Side::Low.far(self.bounded(low)),
            Side::High.far(self.bounded(high)),
        ]
    }

    /// The declared ends of the scale, or the widest possible ones.
    fn bounds(&self) -> (f64, f64) {
        (self.low.unwrap_or(f64::MIN), self.high.unwrap_or(f64::MAX))
    }
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

/// The maximum of two numbers that are not NaN: one instruction, unlike `f64::max`.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The minimum of two numbers that are not NaN.
#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
