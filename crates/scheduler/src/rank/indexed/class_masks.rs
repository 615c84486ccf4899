//! The masks of the hosts that may be feasible for a request class.

use super::feasibility_cache::FeasibilityCache;
use crate::rank::feasibility::Feasibility;

/// Supersets of the feasible hosts of the class.
#[derive(Debug, Default)]
pub(super) struct ClassMasks {
    /// A superset of the eligible hosts. A host that gains capacity is added to `feasible` only if
    /// it is eligible.
    pub(super) eligible: Vec<u64>,
    /// A superset of the feasible hosts.
    pub(super) feasible: Vec<u64>,
    /// Whether hosts that are not eligible are removed from `eligible`, whenever infeasible hosts of a block are found
    /// in `feasible`. Their removal is not worth its cost for a one-off request.
    pub(super) removes_ineligible: bool,
}

impl ClassMasks {
    /// Removes the hosts of a block that are infeasible now, and returns the remaining ones.
    pub(super) fn retain_feasible<F: Feasibility>(
        &mut self,
        block: usize,
        feasibility_cache: &mut FeasibilityCache<'_, F>,
    ) -> u64 {
        let possible = feasibility_cache.possible_for_class(block);
        let feasible = &mut self.feasible[block];
        if *feasible & !possible != 0 {
            *feasible &= possible;
            if self.removes_ineligible {
                self.eligible[block] = feasibility_cache.eligible(block);
            }
        }
        *feasible
    }

    /// Removes a host that failed the exact test, and the other infeasible hosts of its block.
    pub(super) fn remove<F: Feasibility>(
        &mut self,
        block: usize,
        bit: usize,
        feasibility_cache: &mut FeasibilityCache<'_, F>,
    ) {
        self.retain_feasible(block, feasibility_cache);
        self.feasible[block] &= !(1 << bit);
    }
}
