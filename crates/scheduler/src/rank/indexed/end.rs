//! The extremes of a term over the feasible hosts of a class of requests.

use super::Fleet;
use super::bounds::Bounds;
use super::changes::{Changes, Position};
use crate::block::{self, BLOCK_HOSTS, larger};
use crate::hosts::column;
use crate::hosts::table::Touched;
use crate::weighers::Term;

/// From this many changes for each block on, starting over is cheaper than following each.
const CHANGED_MAX: usize = 16;

/// Which end of a term's range is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

impl Side {
    /// Maps a value so that larger means farther out on this side. Its own inverse.
    pub(super) fn far(self, value: f64) -> f64 {
        match self {
            Self::Low => -value,
            Self::High => value,
        }
    }

    /// The extreme over the hosts of a mask; minus infinity for an empty mask.
    pub(super) fn reach(self, term: &Term, values: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
        term.reaches(values, mask)[self as usize]
    }

    /// The hosts of a mask that are at the extreme.
    pub(super) fn farthest(self, values: &[f64; BLOCK_HOSTS], mask: u64) -> u64 {
        let (low, high) = block::range(values, mask);
        mask & match self {
            Self::Low => block::at_most(values, low),
            Self::High => block::at_least(values, high),
        }
    }
}

impl Term {
    /// Whether less free capacity can move a host towards this end of the range.
    pub(super) fn likes_less(&self, side: Side) -> bool {
        match self.column {
            column::RAM_FREE_MB | column::CPUS_FREE | column::DISK_FREE_MB => side == Side::Low,
            column::FEW_DEVICES => side == Side::High,
            // No other column depends on free capacity.
            _ => false,
        }
    }

    /// Whether less free capacity can never raise the term's share of the score.
    pub(super) fn prefers_room(&self) -> bool {
        match self.column {
            column::RAM_FREE_MB | column::CPUS_FREE | column::DISK_FREE_MB => {
                self.multiplier >= 0.0
            }
            column::FEW_DEVICES => self.multiplier <= 0.0,
            _ => true,
        }
    }

    /// The extremes on both sides over the hosts of a mask; minus infinity for an empty mask.
    pub(super) fn reaches(&self, values: &[f64; BLOCK_HOSTS], mask: u64) -> [f64; 2] {
        if mask == 0 {
            return [f64::NEG_INFINITY; 2];
        }
        let (low, high) = block::range(values, mask);
        [
            Side::Low.far(self.bounded(low)),
            Side::High.far(self.bounded(high)),
        ]
    }
}

/// The host at the end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) slot: u32,
    /// Its value, mapped by [`Side::far`].
    pub(super) far: f64,
}

/// One end of a term that no weigher declares, with cached bounds and the host that was found
/// last.
#[derive(Debug)]
pub(super) struct End {
    /// The index of the term.
    pub(super) term: usize,
    pub(super) side: Side,
    /// By block: an upper bound of how far out its possibly feasible hosts lie.
    pub(super) bounds: Bounds,
    pub(super) holder: Option<Holder>,
    /// The position in the change log. It is not advanced while the holder is at the extreme of
    /// the whole fleet, because then nothing else matters.
    position: Position,
}

impl End {
    /// Resets the list to the ends that have to be searched, in the order of the terms, low before
    /// high, without any knowledge.
    pub(super) fn start_over(
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
                        holder: None,
                        position,
                    });
                }
                let end = &mut ends[count];
                (end.term, end.side, end.holder) = (number, side, None);
                end.position = position;
                end.bounds.reset(blocks, f64::INFINITY);
                count += 1;
            }
        }
        ends.truncate(count);
    }

    /// Applies the changes since the last call; `mask` is a superset of the feasible hosts.
    pub(super) fn follow(&mut self, mask: &[u64], term: &Term, fleet: &Fleet<'_>) {
        let changed = fleet.log.since(self.position);
        self.position = fleet.log.end();
        // At most ends, a host cannot become the extreme by losing capacity.
        let likes_less = term.likes_less(self.side);
        let changed = changed.map(|Changes { all, gains }| if likes_less { all } else { gains });
        let Some(changed) = changed.filter(|some| some.len() < CHANGED_MAX * mask.len()) else {
            self.holder = None;
            self.bounds.fill(f64::INFINITY);
            return;
        };
        let column = &fleet.columns[term.column];
        let mut farthest = f64::NEG_INFINITY;
        for Touched { slot, .. } in changed {
            let block = *slot as usize / BLOCK_HOSTS;
            // Branch-free, because feasibility varies from host to host and the branch predictor
            // cannot learn it.
            let may_do = mask[block] >> (slot % 64) & 1 == 1;
            let here = self.side.far(term.bounded(column.get(*slot)));
            let here = if may_do { here } else { f64::NEG_INFINITY };
            farthest = larger(farthest, here);
            self.bounds.raise(block, here);
        }
        let stays = |holder: &Holder| {
            let now = self.side.far(term.bounded(column.get(holder.slot)));
            now == holder.far && farthest <= now
        };
        self.holder = self.holder.filter(stays);
    }
}
