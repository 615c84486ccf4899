//! The search for the end of a term's range, and for a host at it.

use super::block_search::BlockSearch;
use super::class_masks::ClassMasks;
use super::feasibility_cache::{FeasibilityCache, slot_of};
use super::fleet::Fleet;
use super::range_end::{ExtremeHost, RangeEnd};
use super::scores::ScoreCache;
use crate::block::BLOCK_HOSTS;
use crate::rank::feasibility::Feasibility;

/// The conditions that a host has to satisfy to be at an end of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conditions {
    /// The conditions of the request class.
    OfClass,
    /// The conditions of the request class and of the single request.
    All,
}

/// A search for one end of a range.
pub(super) struct RangeSearch<'a> {
    pub(super) scores: &'a ScoreCache,
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) masks: &'a mut ClassMasks,
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
        let block_and_bit = |extreme_host: &ExtremeHost| {
            let bit = extreme_host.slot as usize % BLOCK_HOSTS;
            (extreme_host.slot as usize / BLOCK_HOSTS, bit)
        };
        let term = &self.scores.terms()[end.term];
        if let Some(extreme_host) = &mut end.extreme_host {
            let raw = self.fleet.columns[term.column].get(extreme_host.slot);
            let outwardness = end.side.outwardness(term.clamp(raw));
            let (block, bit) = block_and_bit(extreme_host);
            if outwardness >= self.scores.fleet_extreme(end.term, end.side)
                && feasibility_cache.is_feasible_for_class(block, bit)
                && feasibility_cache.is_feasible_for_request(block, bit)
            {
                extreme_host.outwardness = outwardness;
                return end.side.outwardness(outwardness);
            }
        }
        end.catch_up(&self.masks.feasible, term, self.fleet);
        let class_extreme = end.extreme_host.filter(|extreme_host| {
            let (block, bit) = block_and_bit(extreme_host);
            feasibility_cache.is_feasible_for_class(block, bit)
        });
        let class_extreme = class_extreme
            .or_else(|| self.extreme_host(end, Conditions::OfClass, feasibility_cache, search));
        end.extreme_host = class_extreme;
        let request_extreme = class_extreme.filter(|extreme_host| {
            let (block, bit) = block_and_bit(extreme_host);
            feasibility_cache.is_feasible_for_request(block, bit)
        });
        let request_extreme = match class_extreme {
            Some(_) if request_extreme.is_none() => {
                self.extreme_host(end, Conditions::All, feasibility_cache, search)
            }
            _ => request_extreme,
        };
        let outwardness =
            request_extreme.map_or(f64::NEG_INFINITY, |extreme_host| extreme_host.outwardness);
        // Outwardness is its own inverse, so this is the value.
        end.side.outwardness(outwardness)
    }

    /// A host at the extreme of the hosts that satisfy these conditions; `None` if no host satisfies them.
    fn extreme_host<F: Feasibility>(
        &mut self,
        end: &mut RangeEnd,
        conditions: Conditions,
        feasibility_cache: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> Option<ExtremeHost> {
        let term = &self.scores.terms()[end.term];
        let block_extremes = self.scores.block_extremes(end.term, end.side);
        search.start(&end.bounds, block_extremes);
        while let Some((block, bound)) = search.next(&mut end.bounds, block_extremes) {
            let values = self.fleet.columns[term.column].block(block);
            let mut considered = self.masks.feasible[block];
            let mut outwardness = end.side.extreme(term, values, considered);
            if outwardness >= bound {
                let mut remaining = self.masks.retain_feasible(block, feasibility_cache);
                if conditions == Conditions::All {
                    remaining &= feasibility_cache.possible_for_request(block);
                }
                if remaining != considered {
                    considered = remaining;
                    outwardness = end.side.extreme(term, values, considered);
                }
            }
            if outwardness < bound {
                // The bounds of `end` are those of the class, so conditions of the single request do not
                // lower them.
                let class_bound = end.side.extreme(term, values, self.masks.feasible[block]);
                end.bounds.lower(block, class_bound);
                search.set_bound(block, outwardness);
                continue;
            }
            let bit = end
                .side
                .hosts_at_extreme(values, considered)
                .trailing_zeros() as usize;
            // If the host is infeasible, the test removed it from the cached masks, and the search
            // yields the block again.
            if feasibility_cache.is_feasible_for_class(block, bit)
                && (conditions == Conditions::OfClass
                    || feasibility_cache.is_feasible_for_request(block, bit))
            {
                let slot = slot_of(block, bit);
                return Some(ExtremeHost { slot, outwardness });
            }
        }
        None
    }
}
