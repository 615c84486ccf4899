//! The ends of a term's range over the hosts that will do for a class of requests.

use placewright_placement::touch::What;

use super::{BLOCK_HOSTS, Column, Term, kernel, larger};
use crate::host_table::Touched;

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
        if mask == 0 {
            return f64::NEG_INFINITY;
        }
        let (low, high) = kernel::range(values, mask);
        let end = match self {
            Self::Low => low,
            Self::High => high,
        };
        self.far(term.bounded(end))
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
    pub(super) bounds: Vec<f64>,
    pub(super) holder: Option<Holder>,
}

impl End {
    /// Makes the ends that have to be looked for, in the order of the terms, the low one first.
    /// Nothing is known of them yet.
    pub(super) fn start_over(ends: &mut Vec<Self>, terms: &[Term], blocks: usize) {
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
                        bounds: Vec::new(),
                        holder: None,
                    });
                }
                let end = &mut ends[count];
                (end.term, end.side, end.holder) = (number, side, None);
                end.bounds.clear();
                end.bounds.resize(blocks, f64::INFINITY);
                count += 1;
            }
        }
        ends.truncate(count);
    }

    /// Takes note of hosts that changed; `mask` has those that may do now, or more of them.
    pub(super) fn follow(
        &mut self,
        changed: &[Touched],
        mask: &[u64],
        terms: &[Term],
        columns: &[Column],
    ) {
        let term = &terms[self.term];
        let column = &columns[term.column];
        let likes_less = term.likes_less();
        // A host that no slot has reaches farthest when there is no holder.
        let (mut held, mut far) = (u32::MAX, f64::INFINITY);
        if let Some(holder) = self.holder {
            (held, far) = (holder.slot, holder.far);
        }
        let mut is_moved = false;
        for touched in changed {
            let slot = touched.slot;
            is_moved |= slot == held;
            if touched.what == What::LessRoom && !likes_less {
                continue;
            }
            let block = slot as usize / BLOCK_HOSTS;
            if mask[block] >> (slot % 64) & 1 == 0 {
                continue;
            }
            let here = self.side.far(term.bounded(column.get(slot)));
            is_moved |= here > far;
            self.bounds[block] = larger(here, self.bounds[block]);
        }
        if is_moved {
            self.holder = None;
        }
    }
}
