//! The rules that restrict the assignment of variables within one tree.

use super::bits::Bits;
use super::plan::{Plan, SearchVariable};
use super::tree::{TreeSearch, UNASSIGNED};

impl TreeSearch {
    /// Whether a supplier has capacity for one more variable.
    #[inline]
    pub(super) fn has_capacity(
        &self,
        plan: &Plan<'_>,
        variable: &SearchVariable,
        supplier: u32,
    ) -> bool {
        let supplier = supplier as usize;
        if plan.isolates_groups && variable.suffixed && self.suffixed_counts[supplier] > 0 {
            return false;
        }
        let row = supplier * plan.contended.len();
        variable
            .contended
            .iter()
            .all(|(class, amount)| self.capacity_left[row + class] >= *amount)
    }

    /// Takes the capacity that a variable needs at a supplier.
    #[inline]
    pub(super) fn take_capacity(
        &mut self,
        plan: &Plan<'_>,
        variable: &SearchVariable,
        supplier: u32,
    ) {
        let supplier = supplier as usize;
        self.variable_counts[supplier] += 1;
        self.suffixed_counts[supplier] += u32::from(variable.suffixed);
        let row = supplier * plan.contended.len();
        for (class, amount) in &variable.contended {
            self.capacity_left[row + class] -= amount;
        }
    }

    /// Releases the capacity that a variable took.
    #[inline]
    pub(super) fn release_capacity(
        &mut self,
        plan: &Plan<'_>,
        variable: &SearchVariable,
        supplier: u32,
    ) {
        let supplier = supplier as usize;
        self.variable_counts[supplier] -= 1;
        self.suffixed_counts[supplier] -= u32::from(variable.suffixed);
        let row = supplier * plan.contended.len();
        for (class, amount) in &variable.contended {
            self.capacity_left[row + class] += amount;
        }
    }

    /// Assigns a supplier to a variable and takes the capacity.
    pub(super) fn assign(&mut self, plan: &Plan<'_>, variable: usize, supplier: u32) {
        self.take_capacity(plan, &plan.variables[variable], supplier);
        self.assigned[variable] = supplier;
    }

    /// Releases the supplier of a variable and its capacity; the inverse of [`Self::assign`].
    pub(super) fn unassign(&mut self, plan: &Plan<'_>, variable: usize) {
        self.release_capacity(plan, &plan.variables[variable], self.assigned[variable]);
        self.assigned[variable] = UNASSIGNED;
    }

    /// Whether a supplier is open to a variable, as far as the assignment so far and the domain of each other variable
    /// tell. The other variables are looked at one by one, so this is necessary for a completion, not sufficient.
    pub(super) fn may_assign(&self, plan: &Plan<'_>, variable: usize, supplier: u32) -> bool {
        self.has_capacity(plan, &plan.variables[variable], supplier)
            && self.leaves_rules_satisfiable(plan, variable, supplier)
    }

    /// As [`Self::may_assign`], regardless of capacity: whether the rules allow the supplier.
    pub(super) fn leaves_rules_satisfiable(
        &self,
        plan: &Plan<'_>,
        variable: usize,
        supplier: u32,
    ) -> bool {
        (plan.may_use_several_per_tree || self.is_only_one_of_tree(supplier))
            && (plan.collective.is_empty()
                || self.leaves_traits_satisfiable(plan, variable, supplier))
            && plan.variables[variable].subtrees.iter().all(|set| {
                self.leaves_subtree_satisfiable(plan, &plan.subtrees[*set], variable, supplier)
            })
    }

    /// Whether no other provider of the supplier's tree is in use.
    fn is_only_one_of_tree(&self, supplier: u32) -> bool {
        let tree = self.tree_of[supplier as usize];
        self.assigned.iter().all(|other| {
            *other == UNASSIGNED || *other == supplier || self.tree_of[*other as usize] != tree
        })
    }

    /// Whether a `same_subtree` set can still be satisfied when this supplier is assigned to the
    /// variable.
    fn leaves_subtree_satisfiable(
        &self,
        plan: &Plan<'_>,
        set: &[usize],
        variable: usize,
        supplier: u32,
    ) -> bool {
        let others = || set.iter().copied().filter(|other| *other != variable);
        let mut common_ancestors = self.ancestors[supplier as usize].clone();
        for other in others() {
            if self.assigned[other] != UNASSIGNED {
                common_ancestors.intersect(&self.ancestors[self.assigned[other] as usize]);
            }
        }
        // Which suppliers could be the common ancestor: assigned ones, and those that another
        // variable of the set may take.
        let mut possible_tops = Bits::default();
        possible_tops.insert(supplier as usize);
        for other in others() {
            match self.assigned[other] {
                UNASSIGNED => {
                    possible_tops.union(&self.domain_sets[plan.variables[other].condition]);
                }
                assigned => possible_tops.insert(assigned as usize),
            }
        }
        possible_tops.intersect(&common_ancestors);
        // All of them lie on the path from `supplier` to its root, so the one nearest to the root, which
        // has the fewest ancestors, has the most descendants.
        let Some(top) = possible_tops
            .iter()
            .min_by_key(|top| self.ancestors[*top].len())
        else {
            return false;
        };
        others().all(|other| {
            self.assigned[other] != UNASSIGNED
                || self.descendants[top].meets(&self.domain_sets[plan.variables[other].condition])
        })
    }

    /// Whether one of the suppliers of a set of variables is an ancestor of all the others.
    pub(super) fn in_one_subtree(&self, set: &[usize], supplier_of: impl Fn(usize) -> u32) -> bool {
        let mut common_ancestors = self.ancestors[supplier_of(set[0]) as usize].clone();
        for variable in &set[1..] {
            common_ancestors.intersect(&self.ancestors[supplier_of(*variable) as usize]);
        }
        set.iter()
            .any(|variable| common_ancestors.contains(supplier_of(*variable) as usize))
    }

    /// Whether a complete assignment satisfies every rule except capacity.
    pub(super) fn satisfies_rules(
        &self,
        plan: &Plan<'_>,
        supplier_of: impl Fn(usize) -> u32,
    ) -> bool {
        let uses_one_per_tree = || {
            (0..self.assigned.len()).all(|later| {
                (0..later).all(|earlier| {
                    let (later, earlier) = (supplier_of(later), supplier_of(earlier));
                    later == earlier
                        || self.tree_of[later as usize] != self.tree_of[earlier as usize]
                })
            })
        };
        let covers_traits = || {
            let mut covered = Bits::default();
            for (index, variable) in plan.variables.iter().enumerate() {
                if !variable.suffixed {
                    covered.union(&self.covered_traits[supplier_of(index) as usize]);
                }
            }
            covered.covers(&Bits::all_below(plan.collective.len()))
        };
        plan.subtrees
            .iter()
            .all(|set| self.in_one_subtree(set, &supplier_of))
            && (plan.may_use_several_per_tree || uses_one_per_tree())
            && (plan.collective.is_empty() || covers_traits())
    }

    /// Whether the candidate has, or can still get, a supplier in the tree itself and not only sharing providers, once
    /// this supplier is assigned at this depth. Always true unless candidates of sharing providers only are skipped.
    pub(super) fn can_still_use_tree(&self, plan: &Plan<'_>, depth: usize, supplier: u32) -> bool {
        let is_own = |other: u32| !self.is_sharing[other as usize];
        !self.skip_shared_only
            || is_own(supplier)
            || self.order[..depth]
                .iter()
                .any(|variable| is_own(self.assigned[*variable]))
            || self.order[depth + 1..].iter().any(|variable| {
                let condition = plan.variables[*variable].condition;
                self.domains[condition].iter().any(|other| is_own(*other))
            })
    }
}
