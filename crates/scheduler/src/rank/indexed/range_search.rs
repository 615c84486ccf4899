//! The search for the end of a term's range, and for a host at it.

use super::block_search::BlockSearch;
use super::candidates::Candidates;
use super::feasibility_cache::{FeasibilityCache, slot_of};
use super::fleet::Fleet;
use super::range_end::{Extremum, RangeEnd};
use super::scores::ScoreCache;
use crate::block::BLOCK_HOSTS;
use crate::rank::feasibility::Feasibility;

/// A search for one end of a range.
pub(super) struct RangeSearch<'a> {
    pub(super) scores: &'a ScoreCache,
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) candidates: &'a mut Candidates,
}

impl RangeSearch<'_> {
    /// The value at an end of a term's range over the feasible hosts; infinite if there are none.
    ///
    /// While the host that was last found is at the extreme of the whole fleet and feasible, its
    /// value is the result, and no other host is looked at.
    pub(super) fn find<F: Feasibility>(
        mut self,
        end: &mut RangeEnd,
        feasibility_cache: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> f64 {
        let block_and_bit = |extremum: &Extremum| {
            let bit = extremum.slot as usize % BLOCK_HOSTS;
            (extremum.slot as usize / BLOCK_HOSTS, bit)
        };
        let term = &self.scores.terms()[end.term];
        if let Some(extremum) = &mut end.extremum {
            let raw = self.fleet.columns[term.column].get(extremum.slot);
            let outwardness = end.side.outwardness(term.clamp(raw));
            let (block, bit) = block_and_bit(extremum);
            if outwardness >= self.scores.fleet_extreme(end.term, end.side)
                && feasibility_cache.is_feasible_for_class(block, bit)
                && feasibility_cache.is_feasible_for_request(block, bit)
            {
                extremum.outwardness = outwardness;
                return end.side.outwardness(outwardness);
            }
        }
        end.catch_up(&self.candidates.feasible, term, self.fleet);
        let for_class = end.extremum.filter(|extremum| {
            let (block, bit) = block_and_bit(extremum);
            feasibility_cache.is_feasible_for_class(block, bit)
        });
        let for_class = for_class.or_else(|| self.extremum(end, false, feasibility_cache, search));
        end.extremum = for_class;
        let for_request = for_class.filter(|extremum| {
            let (block, bit) = block_and_bit(extremum);
            feasibility_cache.is_feasible_for_request(block, bit)
        });
        let for_request = match for_class {
            Some(_) if for_request.is_none() => self.extremum(end, true, feasibility_cache, search),
            _ => for_request,
        };
        let outwardness = for_request.map_or(f64::NEG_INFINITY, |extremum| extremum.outwardness);
        end.side.outwardness(outwardness)
    }

    /// A host at the extreme of the hosts that are feasible for the class or, `for_request`, for
    /// the single request too.
    fn extremum<F: Feasibility>(
        &mut self,
        end: &mut RangeEnd,
        for_request: bool,
        feasibility_cache: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> Option<Extremum> {
        let term = &self.scores.terms()[end.term];
        let block_extremes = self.scores.block_extremes(end.term, end.side);
        search.start(&end.bounds, block_extremes);
        while let Some((block, bound)) = search.next(&mut end.bounds, block_extremes) {
            let values = self.fleet.columns[term.column].block(block);
            let mut considered = self.candidates.feasible[block];
            let mut outwardness = end.side.extreme(term, values, considered);
            if outwardness >= bound {
                let mut remaining = self.candidates.retain_feasible(block, feasibility_cache);
                if for_request {
                    remaining &= feasibility_cache.possible_for_request(block);
                }
                if remaining != considered {
                    considered = remaining;
                    outwardness = end.side.extreme(term, values, considered);
                }
            }
            if outwardness < bound {
                let class_extreme = end
                    .side
                    .extreme(term, values, self.candidates.feasible[block]);
                end.bounds.lower(block, class_extreme);
                search.set(block, outwardness);
                continue;
            }
            let bit = end
                .side
                .hosts_at_extreme(values, considered)
                .trailing_zeros() as usize;
            // If the host is infeasible, the test removed it from the cached masks, and the search
            // yields the block again.
            if feasibility_cache.is_feasible_for_class(block, bit)
                && (!for_request || feasibility_cache.is_feasible_for_request(block, bit))
            {
                let slot = slot_of(block, bit);
                return Some(Extremum { slot, outwardness });
            }
        }
        None
    }
}
