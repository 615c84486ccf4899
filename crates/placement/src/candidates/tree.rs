//! One tree in the search: its suppliers, the variables that each can serve, and the assignment so far.

use smallvec::{SmallVec, smallvec};

use super::bits::Bits;
use super::plan::{Plan, ProviderCondition};
use super::sharing::Sharing;
use super::shuffle::Shuffle;
use super::taken::Taken;
use crate::hash::Map;
use crate::ids::ProviderId;

/// Marks a variable that no supplier is assigned to.
pub(crate) const UNASSIGNED: u32 = u32::MAX;

/// By condition: a bit mask of the providers that may serve it.
pub(crate) type Matches = Vec<Vec<u64>>;

/// For one condition: the distinct sets of collective traits that its suppliers cover, each with
/// one supplier that covers it.
pub(super) type TraitOffers = SmallVec<[(Bits, u32); 4]>;

/// One tree with the sharing providers in its reach, and the suppliers assigned to the variables of
/// a request.
///
/// Its methods are in several files. Each file uses only methods of the files named before it:
/// [`traits`](super::traits) and [`rules`](super::rules) check the rules between variables,
/// [`bounds`](super::bounds) has cheap proofs that an assignment cannot be completed,
/// [`scratch`](super::scratch) computes which suppliers the rules still allow each variable,
/// [`backtrack`](super::backtrack) and [`complete`](super::complete) decide whether a partial
/// assignment can be completed, and [`walk`](super::walk) goes from candidate to candidate.
pub(crate) struct TreeSearch {
    /// The root of the tree.
    pub(super) root: ProviderId,
    /// The position in the tree change log, and the version of the sharing providers, at which the
    /// search was last known to be current.
    pub(super) position: u64,
    pub(super) sharing_version: u64,
    /// The suppliers: the providers that may serve at least one variable. First the members of the
    /// tree, from the root downwards, then the sharing providers. Elsewhere a supplier is an index
    /// in this list.
    pub(super) suppliers: Vec<ProviderId>,
    /// By condition: the suppliers that may serve it, in the order of trial.
    pub(super) domains: Vec<Vec<u32>>,
    /// By supplier: the conditions that it may serve.
    pub(super) served_conditions: Vec<Bits>,
    /// By supplier and contended class: what is left of the headroom, which is at most `max_unit`.
    pub(super) capacity_left: Vec<i64>,
    /// By supplier: whether it is a sharing provider, which other trees can use too.
    pub(super) is_sharing: Vec<bool>,
    /// By supplier: its ancestors and itself. Filled only with `same_subtree`.
    pub(super) ancestors: Vec<Bits>,
    /// By supplier: its descendants and itself. Filled only with `same_subtree`.
    pub(super) descendants: Vec<Bits>,
    /// By condition: the suppliers that may serve it, as a set. Filled only with `same_subtree`.
    pub(super) domain_sets: Vec<Bits>,
    /// By supplier: the collective trait lists that it satisfies. Filled only with such lists.
    pub(super) covered_traits: Vec<Bits>,
    /// By condition: the collective traits that its suppliers offer. Filled only with such lists.
    pub(super) trait_offers: Vec<TraitOffers>,
    /// By supplier: the root of its tree. Filled only when a candidate may use no more than one
    /// provider of each tree.
    pub(super) tree_of: Vec<ProviderId>,
    /// By supplier: the number of variables assigned to it, and of suffixed groups among them.
    pub(super) variable_counts: Vec<u32>,
    pub(super) suffixed_counts: Vec<u32>,
    /// The variables in the order of assignment.
    pub(super) order: Vec<usize>,
    /// By variable: the assigned supplier, or [`UNASSIGNED`].
    pub(super) assigned: Vec<u32>,
    /// By depth: the index of the next supplier to try.
    pub(super) cursors: Vec<usize>,
    /// By depth: suppliers that were tried and proved infeasible.
    pub(super) failed: Vec<SmallVec<[u32; 4]>>,
    /// By variable: its supplier in a completion that was found. It completes the current assignment
    /// while `has_witness`; otherwise it is only where the next search for a completion starts.
    pub(super) witness: Vec<u32>,
    /// Whether the witness completes the current assignment.
    pub(super) has_witness: bool,
    /// Whether candidates that use sharing providers only are skipped, because another tree
    /// produced them.
    pub(super) skip_shared_only: bool,
    /// The number of candidates found in this tree.
    pub(super) found_count: usize,
    /// Whether [`Self::next`] was called since the start, so that the next candidate follows the present assignment.
    pub(super) is_under_way: bool,
}

impl TreeSearch {
    /// Allocates buffers for searching trees with this plan.
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let variables = plan.variables.len();
        Self {
            root: ProviderId(0),
            position: 0,
            sharing_version: 0,
            suppliers: Vec::new(),
            domains: vec![Vec::new(); plan.conditions.len()],
            served_conditions: Vec::new(),
            capacity_left: Vec::new(),
            is_sharing: Vec::new(),
            ancestors: Vec::new(),
            descendants: Vec::new(),
            domain_sets: Vec::new(),
            covered_traits: Vec::new(),
            trait_offers: Vec::new(),
            tree_of: Vec::new(),
            variable_counts: Vec::new(),
            suffixed_counts: Vec::new(),
            order: (0..variables).collect(),
            assigned: vec![UNASSIGNED; variables],
            cursors: vec![0; variables],
            failed: vec![SmallVec::new(); variables],
            witness: vec![UNASSIGNED; variables],
            has_witness: false,
            skip_shared_only: false,
            found_count: 0,
            is_under_way: false,
        }
    }

    /// The measured cost of starting the search of the tree, in steps of about 10 ns.
    pub(super) fn start_steps(&self, plan: &Plan<'_>) -> usize {
        // Members that serve nothing were scanned as well, but most trees have few of them.
        8 + self.suppliers.len() * (2 + plan.conditions.len() / 2)
    }

    /// Forgets the tree and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.suppliers.clear();
        for domain in &mut self.domains {
            domain.clear();
        }
        self.served_conditions.clear();
        self.capacity_left.clear();
        self.is_sharing.clear();
        self.ancestors.clear();
        self.descendants.clear();
        self.domain_sets.clear();
        self.covered_traits.clear();
        self.trait_offers.clear();
        self.tree_of.clear();
        self.variable_counts.clear();
        self.suffixed_counts.clear();
        self.assigned.fill(UNASSIGNED);
        self.witness.fill(UNASSIGNED);
        self.cursors.fill(0);
        self.failed.iter_mut().for_each(SmallVec::clear);
        for (depth, variable) in self.order.iter_mut().enumerate() {
            *variable = depth;
        }
        self.has_witness = false;
        self.skip_shared_only = false;
        self.found_count = 0;
        self.is_under_way = false;
    }

    /// Whether neither the tree nor a sharing provider changed since the search was started. If so, the
    /// position in the change log is updated, so that the next call is fast.
    #[inline]
    pub(super) fn is_current(&mut self, plan: &Plan<'_>) -> bool {
        let log = plan.state.tree_changes();
        if self.position == log.position() {
            return true;
        }
        let is_current = log.last_change(self.root) <= self.position
            && log.sharing_version() == self.sharing_version;
        if is_current {
            self.position = log.position();
        }
        is_current
    }

    /// Adds the members of the tree that may serve some variable with what is left of them after `taken`.
    pub(super) fn add_members(
        &mut self,
        plan: &Plan<'_>,
        matches: &Matches,
        taken: &Taken,
        root: ProviderId,
    ) {
        let mut stack: SmallVec<[ProviderId; 16]> = smallvec![root];
        while let Some(id) = stack.pop() {
            self.add_supplier(
                matches,
                id,
                |condition| {
                    condition.provider_or_root.required.is_empty()
                        || condition.provider_or_root.admits(plan.state, id)
                        || condition.provider_or_root.admits(plan.state, root)
                },
                plan,
                taken,
            );
            if let Some(provider) = plan.state.provider(id) {
                stack.extend(provider.children.iter().rev().copied());
            }
        }
    }

    /// Adds the sharing providers in reach of any member.
    pub(super) fn add_sharing(
        &mut self,
        plan: &Plan<'_>,
        matches: &Matches,
        sharing: &Sharing,
        taken: &Taken,
        root: ProviderId,
    ) {
        let mut sharers = Vec::new();
        for member in plan.state.subtree(root) {
            sharing.collect(plan, member, &mut sharers);
        }
        sharers.sort_unstable();
        sharers.dedup();
        for id in sharers {
            if plan.state.provider(id).map(|provider| provider.root) != Some(root) {
                self.add_supplier(
                    matches,
                    id,
                    |condition| {
                        condition.takes_shared && condition.provider_or_root.admits(plan.state, id)
                    },
                    plan,
                    taken,
                );
            }
        }
    }

    /// Adds a provider to the suppliers, if it may serve some condition.
    fn add_supplier(
        &mut self,
        matches: &Matches,
        id: ProviderId,
        may_serve: impl Fn(&ProviderCondition) -> bool,
        plan: &Plan<'_>,
        taken: &Taken,
    ) {
        let (word, bit) = (id.index() / 64, id.0 % 64);
        let supplier = u32::try_from(self.suppliers.len()).unwrap_or(UNASSIGNED);
        let mut served_conditions = Bits::default();
        for (number, condition) in plan.conditions.iter().enumerate() {
            let is_match = match matches.get(number) {
                Some(words) => words[word] >> bit & 1 == 1,
                None => condition.admits(plan.state, id),
            };
            if is_match
                && may_serve(condition)
                && taken.leaves(plan.state, id, &condition.resources)
            {
                self.domains[number].push(supplier);
                served_conditions.insert(number);
            }
        }
        if !served_conditions.is_empty() {
            self.suppliers.push(id);
            self.served_conditions.push(served_conditions);
        }
    }

    /// Fills the sets that the check of `same_subtree` reads, if the query has any: the ancestors and the descendants
    /// of each supplier, and the domains as sets.
    pub(super) fn fill_same_subtree_sets(&mut self, plan: &Plan<'_>) {
        if plan.subtrees.is_empty() {
            return;
        }
        let supplier_of: Map<ProviderId, usize> = (0..)
            .zip(&self.suppliers)
            .map(|(index, id)| (*id, index))
            .collect();
        for (supplier, id) in self.suppliers.iter().enumerate() {
            let mut ancestors = Bits::default();
            ancestors.insert(supplier);
            let mut parent = plan
                .state
                .provider(*id)
                .and_then(|provider| provider.parent);
            while let Some(id) = parent {
                if let Some(supplier) = supplier_of.get(&id) {
                    ancestors.insert(*supplier);
                }
                parent = plan.state.provider(id).and_then(|provider| provider.parent);
            }
            self.ancestors.push(ancestors);
        }
        self.descendants
            .resize(self.suppliers.len(), Bits::default());
        for (supplier, ancestors) in self.ancestors.iter().enumerate() {
            for ancestor in ancestors.iter() {
                self.descendants[ancestor].insert(supplier);
            }
        }
        for domain in &self.domains {
            let mut domain_set = Bits::default();
            for supplier in domain {
                domain_set.insert(*supplier as usize);
            }
            self.domain_sets.push(domain_set);
        }
    }

    /// Shuffles the order of the variables and of the suppliers in each domain.
    pub(crate) fn shuffle(&mut self, shuffle: &mut Shuffle) {
        shuffle.order(&mut self.order);
        for domain in &mut self.domains {
            shuffle.order(domain);
        }
    }

    /// A signature of the sharing providers that each condition can use: trees with equal
    /// signatures produce the same sharing-only candidates. Empty when some condition has none.
    pub(crate) fn sharing_signature(&self) -> Vec<u32> {
        let mut signature = Vec::new();
        for domain in &self.domains {
            let before = signature.len();
            signature.extend(
                domain
                    .iter()
                    .filter(|supplier| self.is_sharing[**supplier as usize])
                    .map(|supplier| self.suppliers[*supplier as usize].0),
            );
            signature[before..].sort_unstable();
            if signature.len() == before {
                return Vec::new();
            }
            // A separator, which is no slot of a provider.
            signature.push(UNASSIGNED);
        }
        signature
    }

    /// Whether the tree itself has a supplier.
    pub(crate) fn has_own_supplier(&self) -> bool {
        self.is_sharing.contains(&false)
    }

    /// Whether the assignment uses sharing providers only.
    pub(crate) fn uses_sharing_only(&self) -> bool {
        self.assigned
            .iter()
            .all(|supplier| self.is_sharing[*supplier as usize])
    }

    /// The provider assigned to a variable.
    pub(crate) fn provider_of(&self, variable: usize) -> ProviderId {
        self.suppliers[self.assigned[variable] as usize]
    }
}
