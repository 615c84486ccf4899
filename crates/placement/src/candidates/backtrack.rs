//! The search of last resort: exhaustive backtracking with symmetry pruning.

use smallvec::SmallVec;

use super::plan::Plan;
use super::scratch::Scratch;
use super::tree::TreeSearch;

impl TreeSearch {
    /// Backtracks over all completions (see [`complete`](super::complete)), the variable with the fewest open
    /// suppliers first. Variables that are assigned already keep their suppliers. True if a completion was found:
    /// then `witness` holds the suppliers of the remaining variables. False if there is none, or if the step budget is
    /// used up.
    pub(super) fn backtrack(
        &mut self,
        plan: &Plan<'_>,
        remaining: &mut SmallVec<[usize; 32]>,
        scratch: &mut Scratch,
    ) -> bool {
        if remaining.is_empty() {
            return true;
        }
        if scratch.steps == 0 {
            return false;
        }
        scratch.steps -= 1;
        let (mut fewest_open, mut fewest_index) = (usize::MAX, 0);
        let mut open: Vec<Vec<u32>> = Vec::with_capacity(remaining.len());
        for (index, variable) in remaining.iter().enumerate() {
            let suppliers = self.open_suppliers(plan, *variable, scratch);
            (fewest_open, fewest_index) = (fewest_open, fewest_index).min((suppliers.len(), index));
            open.push(suppliers);
        }
        if fewest_open == 0
            || !self.sums_fit(plan, remaining, &open)
            || !self.counts_fit(plan, remaining, &open)
        {
            return false;
        }
        let suppliers = std::mem::take(&mut open[fewest_index]);
        let variable = remaining.remove(fewest_index);
        // A supplier that fails for this variable would also fail for each variable of the same symmetry class. So it
        // is marked as refuted for the class, until this call returns.
        let refuted_row = plan.variables[variable].symmetry_class * self.suppliers.len();
        let mut refuted: Vec<usize> = Vec::new();
        let mut is_found = false;
        let mut tried: SmallVec<[u32; 8]> = SmallVec::new();
        for supplier in &suppliers {
            if !tried
                .iter()
                .any(|other| self.are_interchangeable(plan, *other, *supplier))
            {
                tried.push(*supplier);
                self.assign(plan, variable, *supplier);
                is_found = self.backtrack(plan, remaining, scratch);
                self.unassign(plan, variable);
                if is_found {
                    self.witness[variable] = *supplier;
                    break;
                }
            }
            scratch.refuted[refuted_row + *supplier as usize] = true;
            refuted.push(refuted_row + *supplier as usize);
        }
        for index in refuted {
            scratch.refuted[index] = false;
        }
        remaining.insert(fewest_index, variable);
        is_found
    }

    /// The suppliers that may be assigned to a variable now, and are not refuted for it.
    fn open_suppliers(&self, plan: &Plan<'_>, variable: usize, scratch: &Scratch) -> Vec<u32> {
        let refuted_row = plan.variables[variable].symmetry_class * self.suppliers.len();
        self.domains[plan.variables[variable].condition]
            .iter()
            .copied()
            .filter(|supplier| {
                !scratch.refuted[refuted_row + *supplier as usize]
                    && self.may_assign(plan, variable, *supplier)
            })
            .collect()
    }

    /// Whether two suppliers are interchangeable for all variables that are not assigned yet: they may serve the same
    /// variables and have the same capacity left. If there are other rules than capacity, nothing may be assigned to
    /// either supplier, and each of these rules has to treat both alike:
    ///
    /// - collective traits: both suppliers cover the same ones;
    /// - one provider of each tree: both suppliers are in one tree;
    /// - `same_subtree`: both are leaves with the same ancestors.
    pub(super) fn are_interchangeable(&self, plan: &Plan<'_>, first: u32, second: u32) -> bool {
        let (first, second) = (first as usize, second as usize);
        let capacities = |supplier: usize| {
            let width = plan.contended.len();
            &self.capacity_left[supplier * width..(supplier + 1) * width]
        };
        let serve_alike = self.served_conditions[first] == self.served_conditions[second]
            && capacities(first) == capacities(second)
            && (!plan.isolates_groups
                || self.suffixed_counts[first] == self.suffixed_counts[second]);
        if !serve_alike || plan.only_capacity_matters() {
            return serve_alike;
        }
        // The lists for a rule that the plan does not have are empty: there `get` returns `None`, and the rule
        // does not distinguish the suppliers.
        let is_leaf = |supplier: usize| {
            self.descendants
                .get(supplier)
                .is_none_or(|descendants| descendants.len() <= 1)
        };
        // The ancestors of a supplier contain itself.
        let have_same_ancestors = || match (self.ancestors.get(first), self.ancestors.get(second)) {
            (Some(of_first), Some(of_second)) => {
                of_first.len() == of_second.len()
                    && of_first
                        .iter()
                        .all(|supplier| supplier == first || of_second.contains(supplier))
            }
            _ => true,
        };
        self.variable_counts[first] == 0
            && self.variable_counts[second] == 0
            && self.covered_traits.get(first) == self.covered_traits.get(second)
            && self.tree_of.get(first) == self.tree_of.get(second)
            && is_leaf(first)
            && is_leaf(second)
            && have_same_ancestors()
    }
}
