//! The walk over the candidates of one tree.
//!
//! It backtracks over the variables in a fixed order. Before it descends it proves that the
//! assignment can be completed, so it never enters a branch without a candidate.

use super::plan::{Plan, headroom};
use super::scratch::Scratch;
use super::sharing::Sharing;
use super::taken::Taken;
use super::tree::{Matches, TreeSearch};
use crate::ids::{ClassId, ProviderId};

impl TreeSearch {
    /// Starts the search of a tree, as if `taken` were already taken from its suppliers. False if it is clear at once
    /// that the tree has no candidate: some variable has no supplier, or all suppliers together have too little
    /// capacity.
    pub(crate) fn start(
        &mut self,
        plan: &Plan<'_>,
        matches: &Matches,
        sharing: &Sharing,
        taken: &Taken,
        root: ProviderId,
    ) -> bool {
        self.clear();
        self.root = root;
        self.position = plan.state.tree_changes().position();
        self.sharing_version = plan.state.tree_changes().sharing_version();
        self.add_members(plan, matches, taken, root);
        if !sharing.is_empty() {
            self.add_sharing(plan, matches, sharing, taken, root);
        }
        if self.domains.iter().any(Vec::is_empty) {
            return false;
        }
        let suppliers = self.suppliers.len();
        self.variable_counts.resize(suppliers, 0);
        self.suffixed_counts.resize(suppliers, 0);
        self.is_sharing.extend(
            self.suppliers
                .iter()
                .map(|id| !sharing.is_empty() && sharing.contains(*id)),
        );
        for id in &self.suppliers {
            let provider = plan.state.provider(*id);
            // For a class of which nothing is taken both arms give the same; the first one spares further look-ups.
            self.capacity_left.extend(plan.contended.iter().map(
                |class| match taken.of(*id, *class) {
                    0 => provider.map_or(-1, |provider| headroom(provider, *class)),
                    _ => headroom_left(plan, *id, *class, taken),
                },
            ));
            if !plan.may_use_several_per_tree {
                self.tree_of
                    .push(provider.map_or(*id, |provider| provider.root));
            }
        }
        if !self.has_total_capacity(plan) {
            return false;
        }
        self.fill_same_subtree_sets(plan);
        self.fill_collective_traits(plan);
        true
    }

    /// Advances to the next candidate; [`Self::provider_of`] reads it. False at the end.
    pub(crate) fn next(&mut self, plan: &Plan<'_>, scratch: &mut Scratch) -> bool {
        let count = self.order.len();
        let mut depth = 0;
        if self.is_under_way {
            depth = count - 1;
            self.unassign(plan, self.order[depth]);
            self.has_witness = false;
        } else {
            self.is_under_way = true;
            if count == 0 || !self.complete(plan, 0, scratch) {
                return false;
            }
            self.has_witness = true;
        }
        loop {
            if self.advance(plan, depth, scratch) {
                depth += 1;
                if depth == count {
                    self.found_count += 1;
                    return true;
                }
                self.cursors[depth] = 0;
                self.failed[depth].clear();
            } else if depth == 0 {
                return false;
            } else {
                depth -= 1;
                self.unassign(plan, self.order[depth]);
                self.has_witness = false;
            }
        }
    }

    /// Assigns the next feasible supplier at a depth; false if there is no further one.
    fn advance(&mut self, plan: &Plan<'_>, depth: usize, scratch: &mut Scratch) -> bool {
        let variable = self.order[depth];
        let condition = plan.variables[variable].condition;
        while let Some(supplier) = self.domains[condition].get(self.cursors[depth]).copied() {
            self.cursors[depth] += 1;
            if !self.may_assign(plan, variable, supplier)
                || !self.can_still_use_tree(plan, depth, supplier)
            {
                continue;
            }
            // A supplier that is interchangeable with a failed one fails too.
            if self.failed[depth]
                .iter()
                .any(|other| self.are_interchangeable(plan, *other, supplier))
            {
                continue;
            }
            self.assign(plan, variable, supplier);
            if (self.has_witness && self.witness[variable] == supplier)
                || self.complete(plan, depth + 1, scratch)
            {
                self.has_witness = true;
                return true;
            }
            self.unassign(plan, variable);
            self.failed[depth].push(supplier);
        }
        false
    }
}

/// As [`headroom`], after `taken` was taken: the largest amount of a class that one more consumer could take from a
/// provider. That is `max_unit`, or what is left of the capacity if that is less.
fn headroom_left(plan: &Plan<'_>, id: ProviderId, class: ClassId, taken: &Taken) -> i64 {
    let provider = plan.state.provider(id);
    let headroom = provider.map_or(-1, |provider| headroom(provider, class));
    headroom.min(taken.free(plan.state, id, class))
}
