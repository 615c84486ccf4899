//! The ends of a term's range over the hosts that will do for a class of requests.

use super::bounds::Bounds;
use super::changes::{Changes, Position};
use super::{BLOCK_HOSTS, Fleet, Term, kernel, larger};
use crate::host_table::Touched;
/// After so many changes a block it is cheaper to start over than to look at each.
const CHANGED_MAX: usize = 16;

/// Which end of a term's range is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

impl Side {
    /// How far out a value lies on this side: more is farther. Its own inverse.
    pub(super) fn far(self, value: f64) -> f64 {
        match self {
            Self::Low => -value,
            Self::High => value,
        }
    }

    /// How far out the hosts of a mask reach; minus infinity without any.
    pub(super) fn reach(self, term: &Term, values: &[f64; BLOCK_HOSTS], mask: u64) -> f64 {
        term.reaches(values, mask)[self as usize]
    }

    /// The hosts of a mask that reach farthest out.
    pub(super) fn farthest(self, values: &[f64; BLOCK_HOSTS], mask: u64) -> u64 {
        let (low, high) = kernel::range(values, mask);
        mask & match self {
            Self::Low => kernel::at_most(values, low),
            Self::High => kernel::at_least(values, high),
        }
    }
}

/// A host at the end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) slot: u32,
    /// How far out it lies.
    pub(super) far: f64,
}

/// One end of one term that no weigher declares, as far as it is known.
#[derive(Debug)]
pub(super) struct End {
    /// The number of the term.
    pub(super) term: usize,
    pub(super) side: Side,
    /// For each block, how far out a host of the mask can reach; none reaches farther.
    pub(super) bounds: Bounds,
    pub(super) holder: Option<Holder>,
    /// How much of the change log all of this knows. It stays behind for as long as the holder lies
    /// farthest out of all hosts, whoever may do: then nothing else matters.
    position: Position,
}

impl End {
    /// Makes the ends that have to be looked for, in the order of the terms, the low one first.
    /// Nothing is known of them yet.
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

    /// Takes note of the hosts that changed since the last time; `mask` has those that may do now, or
    /// more of them.
    pub(super) fn follow(&mut self, mask: &[u64], term: &Term, fleet: &Fleet<'_>) {
        let changed = fleet.log.since(self.position);
        self.position = fleet.log.end();
        // A host that has less room than before cannot come to lie at most ends.
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
            // No jump depends on whether the host may do: nobody could foresee it.
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
