//! The ends of the range of a term: its minimum and maximum over the feasible hosts of a class.

use super::bounds::Bounds;
use super::changes::{Changes, Position};
use super::fleet::Fleet;
use crate::block::{self, BLOCK_HOSTS, larger};
use crate::hosts::column::{OnLoss, on_loss};
use crate::hosts::table::HostChange;
use crate::weighers::Term;

/// From this many changes for each block on, starting over is cheaper than following each.
const CHANGES_MAX: usize = 16;

/// Which end of a term's range is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

impl Side {
    /// Maps a value to how far out it lies on this side: the extreme of either side has the largest
    /// such number, so that one search finds both. It is its own inverse.
    pub(super) fn outwardness(self, value: f64) -> f64 {
        match self {
            Self::Low => -value,
            Self::High => value,
        }
    }

    /// The outwardness of the extreme over the hosts of a mask; minus infinity for an empty mask.
    pub(super) fn extreme(self, term: &Term, values: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
        term.extremes(values, mask)[self as usize]
    }

    /// The hosts of a mask that are at the extreme.
    pub(super) fn hosts_at_extreme(self, values: &[f64; BLOCK_HOSTS], mask: u64) -> u64 {
        let (low, high) = block::range(values, mask);
        mask & match self {
            Self::Low => block::at_most(values, low),
            Self::High => block::at_least(values, high),
        }
    }
}

impl Term {
    /// Whether a loss of free capacity can move a host towards this end of the range.
    pub(super) fn moves_out_on_loss(&self, side: Side) -> bool {
        match on_loss(self.column) {
            OnLoss::Falls => side == Side::Low,
            OnLoss::Rises => side == Side::High,
            OnLoss::Stays => false,
        }
    }

    /// Whether a loss of free capacity can never raise the term's share of the score.
    pub(super) fn is_monotone_in_capacity(&self) -> bool {
        match on_loss(self.column) {
            OnLoss::Falls => self.multiplier >= 0.0,
            OnLoss::Rises => self.multiplier <= 0.0,
            OnLoss::Stays => true,
        }
    }

    /// The outwardness of the extremes on both sides over the hosts of a mask; minus infinity for
    /// an empty mask.
    pub(super) fn extremes(&self, values: &[f64; BLOCK_HOSTS], mask: u64) -> [f64; 2] {
        if mask == 0 {
            return [f64::NEG_INFINITY; 2];
        }
        let (low, high) = block::range(values, mask);
        [
            Side::Low.outwardness(self.bounded(low)),
            Side::High.outwardness(self.bounded(high)),
        ]
    }
}

/// The host at the end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremum {
    pub(super) slot: u32,
    /// Its value, mapped by [`Side::outwardness`].
    pub(super) outwardness: f64,
}

/// One end of the range of a term that the weigher does not declare, with the host that was found
/// there last.
#[derive(Debug)]
pub(super) struct RangeEnd {
    /// The index of the term.
    pub(super) term: usize,
    pub(super) side: Side,
    /// By block: an upper bound of the outwardness of its possibly feasible hosts.
    pub(super) bounds: Bounds,
    pub(super) extremum: Option<Extremum>,
    /// The position in the change log. It is not advanced while the extremum is the extreme of the
    /// whole fleet, because then nothing else matters.
    position: Position,
}

impl RangeEnd {
    /// Resets the list to the ends that have to be searched, in the order of the terms, low before
    /// high, without any knowledge.
    pub(super) fn reset_all(
        ends: &mut Vec<Self>,
        terms: &[Term],
        blocks: usize,
        position: Position,
    ) {
        let mut count = 0;
        for (number, term) in terms.iter().enumerate() {
            for (side, declared) in [(Side::Low, term.low), (Side::High, term.high)] {
                if declared.is_some() {
                    continue;
                }
                if ends.len() == count {
                    ends.push(Self {
                        term: number,
                        side,
                        bounds: Bounds::default(),
                        extremum: None,
                        position,
                    });
                }
                let end = &mut ends[count];
                (end.term, end.side, end.extremum) = (number, side, None);
                end.position = position;
                end.bounds.reset(blocks, f64::INFINITY);
                count += 1;
            }
        }
        ends.truncate(count);
    }

    /// Applies the changes since the last call; `feasible` is a superset of the feasible hosts.
    pub(super) fn catch_up(&mut self, feasible: &[u64], term: &Term, fleet: &Fleet<'_>) {
        let changes = fleet.log.since(self.position);
        self.position = fleet.log.end();
        // At most ends, a host cannot become the extreme by losing capacity.
        let needs_losses = term.moves_out_on_loss(self.side);
        let changes = changes.map(
            |Changes {
                 all,
                 capacity_gains,
             }| { if needs_losses { all } else { capacity_gains } },
        );
        let is_little = |changes: &&[HostChange]| changes.len() < CHANGES_MAX * feasible.len();
        let Some(changes) = changes.filter(is_little) else {
            self.extremum = None;
            self.bounds.fill(f64::INFINITY);
            return;
        };
        let column = &fleet.columns[term.column];
        let mut farthest = f64::NEG_INFINITY;
        for HostChange { slot, .. } in changes {
            let block = *slot as usize / BLOCK_HOSTS;
            // Branch-free, because feasibility varies from host to host and the branch predictor
            // cannot learn it.
            let is_feasible = feasible[block] >> (slot % 64) & 1 == 1;
            let here = self.side.outwardness(term.bounded(column.get(*slot)));
            let here = if is_feasible { here } else { f64::NEG_INFINITY };
            farthest = larger(farthest, here);
            self.bounds.raise(block, here);
        }
        let stays = |extremum: &Extremum| {
            let now = self
                .side
                .outwardness(term.bounded(column.get(extremum.slot)));
            now == extremum.outwardness && farthest <= now
        };
        self.extremum = self.extremum.filter(stays);
    }
}
