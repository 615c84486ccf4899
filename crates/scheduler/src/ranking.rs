//! The best of very many hosts, found again and again without looking at all of them.
//!
//! The score of a host is the sum of `multiplier * (value - low) / (high - low)`, as in Nova, where
//! `low` and `high` are the term's ends over the hosts that will do for the request. In a fleet that
//! a scheduler has spread load over, thousands of hosts score within a hair of the best; every
//! shortcut that rests on bounds of scores has to look at them all. So scores are kept, and brought
//! up to date for the hosts that changed:
//!
//! - A [`Board`](board::Board) holds the score of every host under one scale, and the best score of
//!   each block of 64 hosts, whoever may do. Requests of many classes meet on the same board, since
//!   the hosts at the ends will do for most of them.
//! - A [`Ranking`] belongs to one class of requests. It knows which hosts may do for the class, and
//!   for each block a bound of the scores among them. A host that changed raises its block's bound
//!   or leaves it; a bound that is too high comes out on top, and the block is looked at.
//! - The ends of ranges are found in the same way: bounds of all classes and of the one class for
//!   each block, and a look at the block with the highest. Where a host lies farthest out of all and
//!   will do for the class, nothing is looked for, nor followed until that ends.
//! - Bounds come in two layers, so that a search opens few groups of blocks.
//! - [`Standing`] holds what all classes share that weigh alike: the boards, and how far each block
//!   reaches in each term.
//!
//! So a decision looks at few blocks, and it costs little more to decide for a class that was never
//! seen. A kept mask may have too many hosts, never too few: a host is looked at closely when it
//! comes out on top, and leaves the mask if it will not do. What costs more than a look at a mask
//! (trees, rules that lead through topology) is asked only of such hosts: see [`Admission`].

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

/// Hosts in a block, one bit each in a word of a mask.
pub const BLOCK_HOSTS: usize = 64;

/// Blocks in a group.
const GROUP_BLOCKS: usize = 16;

/// A host and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The host.
    pub slot: u32,
    /// Its score: higher is better. Comparable within one search only.
    pub score: f64,
}

/// All hosts as they are now.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    /// Which of them changed lately.
    pub log: &'a ChangeLog,
    /// The values that are weighed.
    pub columns: &'a [Column],
    /// The slots that hold a host. No other slot ever will do.
    pub hosts: &'a SlotSet,
}

/// One number for each host, by slot; the length is a multiple of [`BLOCK_HOSTS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    values: Vec<f64>,
    /// The first value that was set, which hosts have until they get one of their own.
    usual: f64,
    /// How many hosts have another.
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

    /// The value that all hosts have, if they all have the same.
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

    /// Which of the 64 hosts of a block have at least so much.
    #[must_use]
    pub fn at_least(&self, block: usize, least: f64) -> u64 {
        kernel::at_least(self.block(block), least)
    }

    /// The 64 values of a block; zeros, which no mask admits, beyond the last host.
    fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        static ZEROS: [f64; BLOCK_HOSTS] = [0.0; BLOCK_HOSTS];
        let start = block * BLOCK_HOSTS;
        let values = self.values.get(start..start + BLOCK_HOSTS);
        values
            .and_then(|values| values.try_into().ok())
            .unwrap_or(&ZEROS)
    }
}

/// One weigher's part of the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Which column holds its raw values.
    pub column: usize,
    /// How much it counts.
    pub multiplier: f64,
    /// The low end of its range, if the weigher declares one.
    pub low: Option<f64>,
    /// The high end of its range, if the weigher declares one.
    pub high: Option<f64>,
}

impl Term {
    /// A raw value within the bounds that the weigher declares.
    #[inline]
    fn bounded(&self, raw: f64) -> f64 {
        let (low, high) = self.bounds();
        smaller(larger(raw, low), high)
    }

    /// Whether a host that has less room than before may come to lie at an end.
    fn likes_less(&self, side: Side) -> bool {
        match self.column {
            column::RAM_FREE_MB | column::CPUS_FREE | column::DISK_FREE_MB => side == Side::Low,
            column::FEW_DEVICES => side == Side::High,
            // No other column follows what is free.
            _ => false,
        }
    }

    /// Whether a host scores no higher with less room.
    fn prefers_room(&self) -> bool {
        match self.column {
            column::RAM_FREE_MB | column::CPUS_FREE | column::DISK_FREE_MB => {
                self.multiplier >= 0.0
            }
            column::FEW_DEVICES => self.multiplier <= 0.0,
            _ => true,
        }
    }

    /// How far out the hosts of a mask reach on either side; minus infinity without any.
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

    /// The bounds that the weigher declares, or none.
    fn bounds(&self) -> (f64, f64) {
        (self.low.unwrap_or(f64::MIN), self.high.unwrap_or(f64::MAX))
    }
}

/// The range of a term over some hosts, and with it the meaning of its raw values.
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

/// A few numbers, one a term.
type Few<T> = SmallVec<[T; 6]>;

/// The larger of two numbers, neither of them NaN: one instruction, unlike `f64::max`.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers, neither of them NaN.
#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
