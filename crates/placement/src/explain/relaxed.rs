//! A query reduced to some of its constraints, evaluated root by root.

use super::constraint::ConstraintList;
use super::lineage::Lineage;
use crate::candidates::plan::{Plan, Relaxation};
use crate::candidates::root_selection::RootSelection;
use crate::candidates::scratch::Scratch;
use crate::candidates::tree::TreeSearch;
use crate::candidates::{CandidateQuery, Taken};
use crate::ids::ProviderId;
use crate::slot_set::bits;
use crate::state::State;

/// A query reduced to some of its constraints.
pub(super) struct RelaxedQuery<'a> {
    plan: Plan<'a>,
    root_selection: RootSelection,
    search: TreeSearch,
    scratch: Scratch,
}

impl<'a> RelaxedQuery<'a> {
    /// The query with the constraints for whose indexes `includes` is true; `None` if no provider can serve them.
    pub(super) fn new(
        state: &'a State,
        query: &CandidateQuery,
        constraint_list: &ConstraintList,
        includes: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        let selected = constraint_list.select(query, includes);
        if selected.is_unsatisfiable {
            return None;
        }
        let relaxation = Relaxation {
            allows_bare_groups: true,
            unchecked_sums: selected.unchecked_sums,
        };
        let plan = Plan::relaxed(
            state,
            &selected.query,
            &selected.root,
            selected.groups,
            &relaxation,
        );
        Some(Self {
            // Few trees are searched, so their classification is computed on demand.
            root_selection: RootSelection::by_host(&plan),
            search: TreeSearch::new(&plan),
            scratch: Scratch::new(&plan),
            plan,
        })
    }

    /// The flat hosts of a word that can serve the query.
    pub(super) fn serving_hosts(&self, word: usize) -> u64 {
        self.root_selection.word(&self.plan, word).hosts
    }

    /// Gives the next search the whole budget of steps. All searches between two calls share one budget.
    pub(super) fn reset_steps(&mut self) {
        self.scratch.reset_steps();
    }

    /// Whether a root can serve the query, as a tree or as a flat host.
    pub(super) fn root_fits(&mut self, root: ProviderId) -> bool {
        self.root_fits_without(root, &Taken::default())
    }

    /// As [`Self::root_fits`], when `taken` is taken from the providers of the root's tree.
    pub(super) fn root_fits_without(&mut self, root: ProviderId, taken: &Taken) -> bool {
        let root_mask = self.root_selection.classify(&self.plan, root);
        // A root in reach of a sharing provider counts as a flat host when nothing shared is
        // requested.
        if root_mask.hosts != 0 {
            return self
                .root_selection
                .flat
                .fits_without(&self.plan, root, taken);
        }
        // Without variables only the root has conditions, which `classify` has tested.
        root_mask.trees != 0
            && (self.plan.variables.is_empty()
                || self.search.start(
                    &self.plan,
                    &self.root_selection.matches,
                    &self.root_selection.sharing,
                    taken,
                    root,
                ) && self.search.next(&self.plan, &mut self.scratch))
    }
}

impl RelaxedQuery<'_> {
    /// The roots of the trees that can serve a query of at most one variable. The flat hosts in
    /// `flat_hosts` are left out.
    pub(super) fn served_trees(&self, flat_hosts: &[u64], lineage: &Lineage) -> Vec<u64> {
        let plan = &self.plan;
        let words = self.root_selection.word_count;
        let root_filter = |word: usize, mask: u64| plan.root.word(plan.state, word, mask);
        let Some(condition) = plan.conditions.first() else {
            return (0..words)
                .map(|word| root_filter(word, plan.state.roots().word(word)))
                .collect();
        };
        let serves = |word: usize, considered: u64| {
            let mask = condition.word(plan.state, word, considered);
            condition.provider_or_root.word(plan.state, word, mask)
        };
        let mut roots = vec![0; words];
        let mark = |roots: &mut [u64], word: usize, mask: u64| {
            let root_mask = plan.state.roots().word(word);
            roots[word] |= mask & root_mask;
            for slot in bits(mask & !root_mask, word) {
                let root = lineage.root_of(slot);
                roots[root as usize / 64] |= 1 << (root % 64);
            }
        };
        for word in 0..words {
            let flat_hosts = flat_hosts.get(word).copied().unwrap_or_default();
            let considered = plan.state.existing_word(word) & !flat_hosts;
            if considered != 0 {
                mark(&mut roots, word, serves(word, considered));
            }
        }
        if condition.takes_shared {
            for (id, aggregates) in self.root_selection.sharing.providers(plan) {
                if serves(id.index() / 64, 1 << (id.0 % 64)) == 0 {
                    continue;
                }
                for aggregate in aggregates {
                    let members = plan.state.aggregate_members(*aggregate);
                    for word in 0..members.word_count().min(words) {
                        mark(&mut roots, word, members.word(word));
                    }
                }
            }
        }
        for (word, roots) in roots.iter_mut().enumerate() {
            *roots = root_filter(word, *roots);
        }
        roots
    }
}
