//! The ends of a term's range: its minimum and maximum over the feasible hosts of a request class.

use super::bounds::Bounds;
use super::changes::{Changes, Position};
use super::fleet::Fleet;
use crate::block::{self, BLOCK_HOSTS, larger};
use crate::hosts::column::{OnCapacityLoss, on_capacity_loss};
use crate::hosts::table::HostChange;
use crate::weighers::Term;

/// From this number of changes for each block on, resetting all bounds is cheaper than applying each change.
const CHANGES_PER_BLOCK_MAX: usize = 16;

/// One of the two ends of a term's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

impl Side {
    /// Maps a value so that the extreme of this side is the largest: the value itself on the high
    /// side, its negation on the low side. So one search for a maximum serves both sides. The map is
    /// its own inverse.
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
        let (low, high) = block::masked_range(values, mask);
        mask & match self {
            Self::Low => block::at_most(values, low),
            Self::High => block::at_least(values, high),
        }
    }
}

impl Term {
    /// Whether a loss of free capacity can move a host towards this end of the range.
    pub(super) fn moves_out_on_capacity_loss(&self, side: Side) -> bool {
        match on_capacity_loss(self.column) {
            OnCapacityLoss::Falls => side == Side::Low,
            OnCapacityLoss::Rises => side == Side::High,
            OnCapacityLoss::Stays => false,
        }
    }

    /// Whether a loss of free capacity can never raise the term's share of the score.
    pub(super) fn is_monotone_in_capacity(&self) -> bool {
        match on_capacity_loss(self.column) {
            OnCapacityLoss::Falls => self.multiplier >= 0.0,
            OnCapacityLoss::Rises => self.multiplier <= 0.0,
            OnCapacityLoss::Stays => true,
        }
    }

    /// The outwardness of the extremes on both sides over the hosts of a mask, the low side first; minus infinity for
    /// an empty mask.
    pub(super) fn extremes(&self, values: &[f64; BLOCK_HOSTS], mask: u64) -> [f64; 2] {
        if mask == 0 {
            return [f64::NEG_INFINITY; 2];
        }
        let (low, high) = block::masked_range(values, mask);
        [
            Side::Low.outwardness(self.clamp(low)),
            Side::High.outwardness(self.clamp(high)),
        ]
    }
}

/// A host at the end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtremeHost {
    pub(super) slot: u32,
    /// The value of the host, mapped by [`Side::outwardness`].
    pub(super) outwardness: f64,
}

/// An end of a term's range that the weigher does not declare, with the host that was last found at
/// it.
#[derive(Debug)]
pub(super) struct RangeEnd {
    /// The index of the term.
    pub(super) term: usize,
    pub(super) side: Side,
    /// By block: an upper bound of the outwardness of its possibly feasible hosts.
    pub(super) bounds: Bounds,
    /// The host that was last found at this end.
    pub(super) extreme_host: Option<ExtremeHost>,
    /// The position in the change log up to which the bounds are valid. It is not advanced while
    /// `extreme_host` is at the extreme of the whole fleet, because the bounds are not needed then.
    position: Position,
}

impl RangeEnd {
    /// Resets a list to the ends that the terms do not declare, in the order of the terms, low
    /// before high, with infinite bounds.
    pub(super) fn reset_all(
        ends: &mut Vec<Self>,
        terms: &[Term],
        block_count: usize,
        position: Position,
    ) {
        let mut count = 0;
        for (index, term) in terms.iter().enumerate() {
            for (side, declared) in [(Side::Low, term.low), (Side::High, term.high)] {
                if declared.is_some() {
                    continue;
                }
                if ends.len() == count {
                    ends.push(Self {
                        term: index,
                        side,
                        bounds: Bounds::default(),
                        extreme_host: None,
                        position,
                    });
                }
                let end = &mut ends[count];
                (end.term, end.side, end.extreme_host) = (index, side, None);
                end.position = position;
                end.bounds.reset(block_count, f64::INFINITY);
                count += 1;
            }
        }
        ends.truncate(count);
    }

    /// Applies the changes since the last call; `feasible` is a superset of the feasible hosts.
    pub(super) fn catch_up(&mut self, feasible: &[u64], term: &Term, fleet: &Fleet<'_>) {
        let changes = fleet.log.since(self.position);
        self.position = fleet.log.end();
        // A loss of capacity moves a host towards one end of a term's range at the most. For any other end, the changes
        // that are losses, about half of all, are skipped.
        let needs_capacity_losses = term.moves_out_on_capacity_loss(self.side);
        let changes = changes.map(
            |Changes {
                 all,
                 capacity_gains,
             }| {
                if needs_capacity_losses {
                    all
                } else {
                    capacity_gains
                }
            },
        );
        let are_few =
            |changes: &&[HostChange]| changes.len() < CHANGES_PER_BLOCK_MAX * feasible.len();
        let Some(changes) = changes.filter(are_few) else {
            self.extreme_host = None;
            self.bounds.fill(f64::INFINITY);
            return;
        };
        let column = &fleet.columns[term.column];
        // The largest outwardness of the feasible hosts that changed.
        let mut farthest = f64::NEG_INFINITY;
        for HostChange { slot, .. } in changes {
            let block = *slot as usize / BLOCK_HOSTS;
            // Branch-free, because feasibility varies from host to host and the branch predictor
            // cannot learn it.
            let is_feasible = feasible[block] >> (slot % 64) & 1 == 1;
            let outwardness = self.side.outwardness(term.clamp(column.get(*slot)));
            let outwardness = if is_feasible {
                outwardness
            } else {
                f64::NEG_INFINITY
            };
            farthest = larger(farthest, outwardness);
            self.bounds.raise(block, outwardness);
        }
        let stays = |extreme_host: &ExtremeHost| {
            let current = self
                .side
                .outwardness(term.clamp(column.get(extreme_host.slot)));
            current == extreme_host.outwardness && farthest <= current
        };
        self.extreme_host = self.extreme_host.filter(stays);
    }
}
