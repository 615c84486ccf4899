//! Decides whether the remaining variables of a request can be served, by finding a completion or
//! by a counting argument. A *completion* assigns a supplier to each variable that has none yet.
//!
//! First, suppliers are assigned to the variables one by one along augmenting paths, as in bipartite matching. This
//! finds a completion in nearly all cases. Two variables compete if one supplier may be unable to serve both: they
//! request a common class, or they are suffixed groups that must not share a supplier. If all variables that compete
//! take the same amounts, a failure proves that there is no completion; `CompiledQuery::augmenting_decides` says it
//! more exactly.
//!
//! Augmenting paths do not look at the rules on the whole assignment: collective traits, `same_subtree`, and one
//! provider per tree. So the witness from which they start is first made to cover the collective traits. If the
//! completion that they find breaks a rule, only the variables of violated `same_subtree` sets are reassigned, and if
//! that fails, all of them.
//!
//! If the amounts of competing variables differ, or a rule is broken, a bounded backtracking search follows, which
//! skips symmetric branches. In each step it first tries to prove that there is no completion: because more of a class
//! is requested than the open suppliers have, or because they cannot serve that many variables, which a bipartite
//! matching shows.

use smallvec::SmallVec;

use super::plan::Plan;
use super::scratch::Scratch;
use super::tree::{TreeSearch, UNASSIGNED};

impl TreeSearch {
    /// Whether the variables from a depth on, in the order of assignment, can all get suppliers. If so, `witness` holds
    /// a completion. False also if the step budget is used up before that is known.
    pub(super) fn complete(
        &mut self,
        plan: &Plan<'_>,
        depth: usize,
        scratch: &mut Scratch,
    ) -> bool {
        if depth == self.order.len() {
            return true;
        }
        let mut remaining: SmallVec<[usize; 32]> = SmallVec::from_slice(&self.order[depth..]);
        // The suppliers that the rules allow depend on the assignment, so what earlier calls stored of them is invalid.
        scratch.call += 1;
        if !plan.collective.is_empty() && !self.make_witness_cover_traits(plan, &remaining, scratch)
        {
            return false;
        }
        if !self.find_by_augmenting(plan, &remaining, scratch) {
            // Where augmenting paths decide, there is no completion, so an exhaustive search is not needed.
            return !plan.augmenting_decides
                && self.find_exhaustively(plan, &mut remaining, scratch);
        }
        let supplier_of = |variable: usize| match self.assigned[variable] {
            UNASSIGNED => scratch.completion[variable],
            supplier => supplier,
        };
        if plan.only_capacity_matters() || self.satisfies_rules(plan, supplier_of) {
            for variable in &remaining {
                self.witness[*variable] = scratch.completion[*variable];
            }
            return true;
        }
        let in_violated_sets: SmallVec<[usize; 16]> = plan
            .subtrees
            .iter()
            .filter(|set| !self.in_one_subtree(set, supplier_of))
            .flatten()
            .copied()
            .collect();
        self.repair_subtrees(plan, &remaining, &in_violated_sets, scratch)
            || self.find_exhaustively(plan, &mut remaining, scratch)
    }

    /// Keeps the completion except for the variables of violated `same_subtree` sets, and searches
    /// exhaustively for other suppliers of these variables. True if `witness` then holds a completion.
    fn repair_subtrees(
        &mut self,
        plan: &Plan<'_>,
        remaining: &[usize],
        in_violated_sets: &[usize],
        scratch: &mut Scratch,
    ) -> bool {
        let (mut reassigned, kept): (SmallVec<[usize; 32]>, SmallVec<[usize; 32]>) = remaining
            .iter()
            .copied()
            .partition(|variable| in_violated_sets.contains(variable));
        if reassigned.is_empty() || kept.is_empty() {
            return false;
        }
        for variable in &kept {
            self.assign(plan, *variable, scratch.completion[*variable]);
        }
        let is_repaired = self.find_exhaustively(plan, &mut reassigned, scratch)
            && self.satisfies_rules(plan, |variable| match self.assigned[variable] {
                UNASSIGNED => self.witness[variable],
                supplier => supplier,
            });
        for variable in &kept {
            if is_repaired {
                self.witness[*variable] = self.assigned[*variable];
            }
            self.unassign(plan, *variable);
        }
        is_repaired
    }

    /// Searches for a completion of the remaining variables by backtracking, within the step budget. True if `witness`
    /// then holds one.
    fn find_exhaustively(
        &mut self,
        plan: &Plan<'_>,
        remaining: &mut SmallVec<[usize; 32]>,
        scratch: &mut Scratch,
    ) -> bool {
        // Suppliers are refuted only within one search: whether one fails depends on the assignment.
        scratch.refuted.clear();
        scratch
            .refuted
            .resize(plan.variables.len() * self.suppliers.len(), false);
        self.backtrack(plan, remaining, scratch)
    }

    /// Looks for a completion along augmenting paths, and leaves it in `scratch.completion`. The capacity that is taken
    /// meanwhile is released at the end. False if some variable got no supplier.
    fn find_by_augmenting(
        &mut self,
        plan: &Plan<'_>,
        remaining: &[usize],
        scratch: &mut Scratch,
    ) -> bool {
        // The last completion that was found is the start; most of its suppliers are still open.
        for variable in remaining {
            let witness = self.witness[*variable];
            scratch.completion[*variable] = UNASSIGNED;
            let is_open = witness != UNASSIGNED && self.may_assign(plan, *variable, witness);
            if is_open {
                self.take_capacity(plan, &plan.variables[*variable], witness);
                scratch.completion[*variable] = witness;
            }
        }
        let visited_len = plan.variables.len() * self.suppliers.len();
        if scratch.visited.len() < visited_len {
            scratch.visited.resize(visited_len, 0);
        }
        let is_complete = remaining.iter().all(|variable| {
            scratch.round += 1;
            scratch.completion[*variable] != UNASSIGNED
                || self.assign_by_augmenting(plan, remaining, *variable, scratch)
        });
        for variable in remaining {
            if scratch.completion[*variable] != UNASSIGNED {
                self.release_capacity(
                    plan,
                    &plan.variables[*variable],
                    scratch.completion[*variable],
                );
            }
        }
        is_complete
    }

    /// Assigns a supplier to one variable. If no supplier has capacity left, moves variables of the same component to
    /// other suppliers, along augmenting paths that were not tried in this round. False if that fails.
    fn assign_by_augmenting(
        &mut self,
        plan: &Plan<'_>,
        remaining: &[usize],
        variable: usize,
        scratch: &mut Scratch,
    ) -> bool {
        let unserved = &plan.variables[variable];
        let allowed_count = self.allowed_count(plan, variable, scratch);
        for index in 0..allowed_count {
            let supplier = self.allowed_supplier(plan, variable, index, scratch);
            if self.has_capacity(plan, unserved, supplier) {
                self.take_capacity(plan, unserved, supplier);
                scratch.completion[variable] = supplier;
                return true;
            }
        }
        for index in 0..allowed_count {
            let supplier = self.allowed_supplier(plan, variable, index, scratch);
            let visited_index = supplier as usize * plan.variables.len() + unserved.component;
            if scratch.visited[visited_index] == scratch.round {
                continue;
            }
            scratch.visited[visited_index] = scratch.round;
            for other in remaining {
                let moved = &plan.variables[*other];
                if scratch.completion[*other] != supplier || moved.component != unserved.component {
                    continue;
                }
                self.release_capacity(plan, moved, supplier);
                scratch.completion[*other] = UNASSIGNED;
                if self.has_capacity(plan, unserved, supplier) {
                    self.take_capacity(plan, unserved, supplier);
                    scratch.completion[variable] = supplier;
                    if self.assign_by_augmenting(plan, remaining, *other, scratch) {
                        return true;
                    }
                    self.release_capacity(plan, unserved, supplier);
                    scratch.completion[variable] = UNASSIGNED;
                }
                self.take_capacity(plan, moved, supplier);
                scratch.completion[*other] = supplier;
            }
        }
        false
    }
}
