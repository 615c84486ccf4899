//! Which hosts may be feasible for a class of requests.

use super::feasibility_cache::FeasibilityCache;
use crate::rank::feasibility::Feasibility;

/// Supersets of the feasible hosts of the class.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// A superset of the hosts that satisfy everything but capacity. A host that gains capacity is
    /// put back into `feasible` only if it is in here.
    pub(super) eligible: Vec<u64>,
    /// A superset of the feasible hosts.
    pub(super) feasible: Vec<u64>,
    /// Whether `eligible` is narrowed; not for a request that most likely never comes again.
    pub(super) narrows_eligible: bool,
}

impl Candidates {
    /// Removes the hosts of a block that are infeasible now, and returns the remaining ones.
    pub(super) fn retain_feasible<F: Feasibility>(
        &mut self,
        block: usize,
        tests: &mut FeasibilityCache<'_, F>,
    ) -> u64 {
        let possible = tests.possible_for_class(block);
        let feasible = &mut self.feasible[block];
        if *feasible & !possible != 0 {
            *feasible &= possible;
            if self.narrows_eligible {
                self.eligible[block] = tests.eligible(block);
            }
        }
        *feasible
    }

    /// Removes a host that failed the exact test, and the other infeasible hosts of its block.
    pub(super) fn remove<F: Feasibility>(
        &mut self,
        block: usize,
        bit: usize,
        tests: &mut FeasibilityCache<'_, F>,
    ) {
        self.retain_feasible(block, tests);
        self.feasible[block] &= !(1 << bit);
    }
}
