//! The search for the host at one end of a term's range.

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
    pub(super) hosts: &'a mut Candidates,
}

impl RangeSearch<'_> {
    /// The end of a term's range over the feasible hosts; infinite if there are none.
    ///
    /// While the host that was found last is at the extreme of the whole fleet and still feasible,
    /// it is the answer, and no other host is looked at.
    pub(super) fn end<F: Feasibility>(
        mut self,
        end: &mut RangeEnd,
        tests: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> f64 {
        let place = |one: &Extremum| {
            let bit = one.slot as usize % BLOCK_HOSTS;
            (one.slot as usize / BLOCK_HOSTS, bit)
        };
        let term = &self.scores.terms()[end.term];
        if let Some(extremum) = &mut end.extremum {
            let raw = self.fleet.columns[term.column].get(extremum.slot);
            let now = end.side.outwardness(term.bounded(raw));
            let (block, bit) = place(extremum);
            if now >= self.scores.fleet_extreme(end.term, end.side)
                && tests.is_feasible_for_class(block, bit)
                && tests.is_feasible_for_request(block, bit)
            {
                extremum.outwardness = now;
                return end.side.outwardness(now);
            }
        }
        end.catch_up(&self.hosts.feasible, term, self.fleet);
        let for_class = end.extremum.filter(|extremum| {
            let (block, bit) = place(extremum);
            tests.is_feasible_for_class(block, bit)
        });
        let for_class = for_class.or_else(|| self.extremum(end, false, tests, search));
        end.extremum = for_class;
        let found = for_class.filter(|extremum| {
            let (block, bit) = place(extremum);
            tests.is_feasible_for_request(block, bit)
        });
        let found = match for_class {
            Some(_) if found.is_none() => self.extremum(end, true, tests, search),
            _ => found,
        };
        let outwardness = found.map_or(f64::NEG_INFINITY, |one| one.outwardness);
        end.side.outwardness(outwardness)
    }

    /// The feasible host at the extreme: feasible for the class, or for the single request as
    /// well.
    fn extremum<F: Feasibility>(
        &mut self,
        end: &mut RangeEnd,
        for_request: bool,
        tests: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> Option<Extremum> {
        let term = &self.scores.terms()[end.term];
        let of_blocks = self.scores.block_extremes(end.term, end.side);
        search.start(&end.bounds, of_blocks);
        while let Some((block, bound)) = search.next(&mut end.bounds, of_blocks) {
            let values = self.fleet.columns[term.column].block(block);
            let mut among = self.hosts.feasible[block];
            let mut outwardness = end.side.extreme(term, values, among);
            if outwardness >= bound {
                let mut left = self.hosts.retain_feasible(block, tests);
                if for_request {
                    left &= tests.possible_for_request(block);
                }
                if left != among {
                    among = left;
                    outwardness = end.side.extreme(term, values, among);
                }
            }
            if outwardness < bound {
                let of_class = end.side.extreme(term, values, self.hosts.feasible[block]);
                end.bounds.lower(block, of_class);
                search.set(block, outwardness);
                continue;
            }
            let bit = end.side.hosts_at_extreme(values, among).trailing_zeros() as usize;
            // A host that is not feasible leaves the cached tests, and the block comes up again.
            if tests.is_feasible_for_class(block, bit)
                && (!for_request || tests.is_feasible_for_request(block, bit))
            {
                let slot = slot_of(block, bit);
                return Some(Extremum { slot, outwardness });
            }
        }
        None
    }
}
