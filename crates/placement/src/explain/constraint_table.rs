//! Which roots fail which constraint.

use std::cell::{Cell, RefCell};

use super::constraint::{ConstraintList, ResolvedConstraint};
use super::lineage::Lineage;
use super::relaxed::RelaxedQuery;
use super::tree_classes::{TreeClass, TreeClasses};
use crate::candidates::CandidateQuery;
use crate::candidates::lookup::room_for_total;
use crate::hash::Map;
use crate::ids::{AggregateId, ProviderId};
use crate::slot_set::bits;
use crate::state::State;

/// The number of tree searches that each part of an explanation may run.
///
/// One tree of each tree class is searched, so this bounds the number of classes, not of trees.
const SEARCHES_MAX: u32 = 1_000;

/// For every root of the fleet, the constraints that it can serve.
pub(super) struct ConstraintTable<'a> {
    pub(super) state: &'a State,
    pub(super) query: &'a CandidateQuery,
    pub(super) constraint_list: &'a ConstraintList,
    /// Bit mask of flat hosts (no tree, no sharing provider in reach): for them the constraints
    /// are independent.
    pub(super) hosts: Vec<u64>,
    /// Bit mask of all other roots.
    pub(super) trees: Vec<u64>,
    /// By constraint: bit mask of the roots that can serve it alone.
    pub(super) serving: Vec<Vec<u64>>,
    /// Trees that can serve each constraint alone but not all together; filled by the searches.
    pub(super) joint_infeasibilities: Vec<JointInfeasibility>,
    /// The number of trees that the budget did not suffice to search.
    pub(super) unsearched: usize,
    pub(super) lineage: &'a Lineage,
    /// The aggregates that have a sharing member, in rising order.
    shared_aggregates: &'a [AggregateId],
    /// Made when a tree is first searched.
    tree_classes: RefCell<Option<TreeClasses<'a>>>,
    /// The number of tree searches that remain of the budget of this part of the explanation.
    searches_left: Cell<u32>,
}

/// Trees of one tree class that can serve each constraint alone but not all together.
pub(super) struct JointInfeasibility {
    /// A representative of these trees.
    pub(super) example: ProviderId,
    /// The number of trees of this tree class.
    pub(super) tree_count: usize,
    /// The first constraint that the trees cannot serve together with all constraints before it.
    pub(super) first_failed: usize,
}

/// Look-ups that do not depend on the constraints.
pub(super) struct FleetIndex {
    lineage: Lineage,
    /// The aggregates that have a sharing member, in rising order.
    shared_aggregates: Vec<AggregateId>,
}

impl FleetIndex {
    pub(super) fn new(state: &State) -> Self {
        Self {
            lineage: Lineage::new(state),
            shared_aggregates: shared_aggregates(state),
        }
    }
}

/// Which roots can serve a query.
pub(super) struct FleetOutcome {
    /// By constraint: how many roots fail it, but can serve all constraints before it.
    pub(super) removed: Vec<usize>,
    /// The number of roots that remain.
    pub(super) left: usize,
    /// Bit mask of the roots that remain.
    pub(super) serving: Vec<u64>,
    /// Bit mask of the trees that can serve each constraint alone but were not searched.
    pub(super) unknown: Vec<u64>,
}

impl<'a> ConstraintTable<'a> {
    pub(super) fn new(
        state: &'a State,
        query: &'a CandidateQuery,
        constraint_list: &'a ConstraintList,
        fleet_index: &'a FleetIndex,
    ) -> Self {
        let words = state.provider_slots().div_ceil(64);
        let mut reached = Vec::new();
        for aggregate in &fleet_index.shared_aggregates {
            state.aggregate_members(*aggregate).union_into(&mut reached);
        }
        let tree_mask = |word: usize| {
            state.parents().word(word) | reached.get(word).copied().unwrap_or_default()
        };
        let roots = |word: usize| state.roots().word(word);
        let mut table = Self {
            state,
            query,
            constraint_list,
            hosts: (0..words)
                .map(|word| roots(word) & !tree_mask(word))
                .collect(),
            trees: (0..words)
                .map(|word| roots(word) & tree_mask(word))
                .collect(),
            serving: Vec::new(),
            joint_infeasibilities: Vec::new(),
            unsearched: 0,
            lineage: &fleet_index.lineage,
            shared_aggregates: &fleet_index.shared_aggregates,
            tree_classes: RefCell::new(None),
            searches_left: Cell::new(SEARCHES_MAX),
        };
        for index in 0..constraint_list.resolved.len() {
            let served = match table.equal_constraint(index) {
                Some(other) => table.serving[other].clone(),
                None => table.serving_alone(index),
            };
            table.serving.push(served);
        }
        table
    }

    /// Takes one search from the budget. False when the budget is used up.
    pub(super) fn spend_search(&self) -> bool {
        let left = self.searches_left.get();
        self.searches_left.set(left.saturating_sub(1));
        left > 0
    }

    /// Resets the budget for the next part of the explanation.
    pub(super) fn reset_budget(&self) {
        self.set_budget(SEARCHES_MAX);
    }

    /// Sets the budget to a number of searches.
    pub(super) fn set_budget(&self, searches: u32) {
        self.searches_left.set(searches);
    }

    /// Whether the budget is used up.
    pub(super) fn budget_is_used_up(&self) -> bool {
        self.searches_left.get() == 0
    }

    /// The query reduced to the constraints that `includes` selects; `None` if no provider can serve them.
    pub(super) fn relaxed(&self, includes: impl Fn(usize) -> bool) -> Option<RelaxedQuery<'a>> {
        RelaxedQuery::new(self.state, self.query, self.constraint_list, includes)
    }

    /// The equivalence class of a tree; see [`TreeClasses`].
    pub(super) fn class_of_tree(&self, root: ProviderId) -> TreeClass {
        let mut tree_classes = self.tree_classes.borrow_mut();
        let new = || {
            TreeClasses::new(
                self.state,
                self.query,
                self.constraint_list,
                self.lineage,
                self.shared_aggregates,
            )
        };
        tree_classes.get_or_insert_with(new).class_of(root)
    }

    /// Whether roots that can serve each constraint of a set can serve all of them together.
    pub(super) fn are_independent(&self, includes: impl Fn(usize) -> bool) -> bool {
        self.constraint_list.are_independent(self.query, includes)
    }

    /// An earlier constraint that is equal except for the suffixed group; `None` if there is none.
    fn equal_constraint(&self, index: usize) -> Option<usize> {
        let resolved = &self.constraint_list.resolved[index];
        let (ResolvedConstraint::Resource(group, _, _) | ResolvedConstraint::Required(group, _)) =
            resolved
        else {
            return None;
        };
        let is_suffixed = |group: &usize| !self.query.groups[*group].suffix.is_empty();
        let condition = resolved.without_group();
        (0..index).find(|other| match &self.constraint_list.resolved[*other] {
            earlier @ (ResolvedConstraint::Resource(other_group, _, _)
            | ResolvedConstraint::Required(other_group, _)) => {
                is_suffixed(other_group)
                    && is_suffixed(group)
                    && earlier.without_group() == condition
            }
            _ => false,
        })
    }

    /// The roots that can serve a constraint alone. A relation between groups counts as served by every
    /// tree, because without the groups themselves it cannot fail.
    fn serving_alone(&self, index: usize) -> Vec<u64> {
        let words = self.hosts.len();
        let is_relation = match &self.constraint_list.resolved[index] {
            ResolvedConstraint::Unsatisfiable => return vec![0; words],
            ResolvedConstraint::Together(class, amount) => {
                return (0..words)
                    .map(|word| {
                        let hosts = self.hosts[word];
                        self.state.roots().word(word) & !hosts
                            | room_for_total(self.state, *class, *amount, word, hosts)
                    })
                    .collect();
            }
            ResolvedConstraint::Isolate
            | ResolvedConstraint::SameSubtree(_)
            | ResolvedConstraint::OneProviderOfTree => true,
            _ => false,
        };
        let Some(alone) = self.relaxed(|other| other == index) else {
            return vec![0; words];
        };
        let mut served = if is_relation {
            (0..words)
                .map(|word| self.state.roots().word(word))
                .collect()
        } else {
            alone.served_trees(&self.hosts, self.lineage)
        };
        for (word, served) in served.iter_mut().enumerate() {
            let hosts = self.hosts[word];
            *served = *served & !hosts | alone.serving_hosts(word) & hosts;
        }
        served
    }

    /// Whether a root can serve a constraint alone, according to `serving`.
    pub(super) fn serves(&self, index: usize, root: ProviderId) -> bool {
        self.serving[index][root.index() / 64] >> (root.0 % 64) & 1 == 1
    }

    /// How many roots fail a constraint even on its own.
    pub(super) fn removed_alone(&self, index: usize) -> usize {
        let serving: u32 = (self.serving[index].iter().enumerate())
            .map(|(word, served)| (served & self.state.roots().word(word)).count_ones())
            .sum();
        self.state.roots().len() - serving as usize
    }

    /// Applies the constraints in order and records which roots remain.
    pub(super) fn apply_in_order(&mut self) -> FleetOutcome {
        let count = self.constraint_list.resolved.len();
        let mut fleet_outcome = FleetOutcome {
            removed: vec![0; count],
            left: 0,
            serving: Vec::with_capacity(self.hosts.len()),
            unknown: vec![0; self.hosts.len()],
        };
        for (word, hosts) in self.hosts.iter().enumerate() {
            let left = self.apply_to_word(word, *hosts, count, &mut fleet_outcome.removed);
            fleet_outcome.left += left.count_ones() as usize;
            fleet_outcome.serving.push(left);
        }
        // As long as no two constraints can concern the same provider, masks are exact for trees
        // too.
        let independent_length = (1..=count)
            .take_while(|length| self.are_independent(|index| index < *length))
            .last()
            .unwrap_or(0);
        let mut trees = Vec::with_capacity(self.trees.len());
        for (word, trees_of_word) in self.trees.iter().enumerate() {
            // The masks also apply the constraint after the independent ones: a tree that fails it alone also fails it
            // together with other constraints.
            let length = (independent_length + 1).min(count);
            trees.push(self.apply_to_word(
                word,
                *trees_of_word,
                length,
                &mut fleet_outcome.removed,
            ));
        }
        if independent_length < count {
            self.search_trees(&trees, independent_length, &mut fleet_outcome);
        } else {
            for (serving, trees) in fleet_outcome.serving.iter_mut().zip(&trees) {
                fleet_outcome.left += trees.count_ones() as usize;
                *serving |= trees;
            }
        }
        fleet_outcome
    }

    /// Applies the first `length` constraints to some roots of a word and returns the roots that
    /// remain.
    fn apply_to_word(&self, word: usize, roots: u64, length: usize, removed: &mut [usize]) -> u64 {
        let mut left = roots;
        for (served, removed) in self.serving.iter().zip(removed).take(length) {
            *removed += (left & !served[word]).count_ones() as usize;
            left &= served[word];
        }
        left
    }

    /// Decides which trees, of those that can serve each constraint alone, serve all together,
    /// with one search for each tree class.
    fn search_trees(
        &mut self,
        trees: &[u64],
        independent_length: usize,
        fleet_outcome: &mut FleetOutcome,
    ) {
        let count = self.constraint_list.resolved.len();
        let mut prefixes = Prefixes {
            table: self,
            queries: (0..=count).map(|_| None).collect(),
            last_result: count,
            independent_length,
        };
        let mut outcome_indexes: Map<(TreeClass, usize), usize> = Map::default();
        let mut outcomes: Vec<TreeClassOutcome> = Vec::new();
        for (word, trees) in trees.iter().enumerate() {
            for root in bits(*trees, word).map(ProviderId) {
                let first_failed_alone =
                    (independent_length..count).find(|index| !self.serves(*index, root));
                let first_failed_alone = first_failed_alone.unwrap_or(count);
                let index = outcome_indexes
                    .entry((self.class_of_tree(root), first_failed_alone))
                    .or_insert_with(|| {
                        outcomes.push(TreeClassOutcome {
                            example: root,
                            tree_count: 0,
                            first_failed_alone,
                            first_failed: prefixes.first_failed(root, first_failed_alone),
                        });
                        outcomes.len() - 1
                    });
                let outcome = &mut outcomes[*index];
                outcome.tree_count += 1;
                let bit = 1 << (root.0 % 64);
                match outcome.first_failed {
                    Some(first) if first == count => fleet_outcome.serving[word] |= bit,
                    None if first_failed_alone == count => fleet_outcome.unknown[word] |= bit,
                    Some(_) | None => {}
                }
            }
        }
        for outcome in outcomes {
            match outcome.first_failed {
                Some(first) if first == count => fleet_outcome.left += outcome.tree_count,
                Some(first) => {
                    fleet_outcome.removed[first] += outcome.tree_count;
                    if outcome.first_failed_alone == count {
                        self.joint_infeasibilities.push(JointInfeasibility {
                            example: outcome.example,
                            tree_count: outcome.tree_count,
                            first_failed: first,
                        });
                    }
                }
                None => self.unsearched += outcome.tree_count,
            }
        }
    }
}

/// The outcome of the trees of one tree class.
struct TreeClassOutcome {
    /// The first of these trees.
    example: ProviderId,
    tree_count: usize,
    /// The first constraint that the trees cannot serve even alone; the number of constraints if there is none.
    first_failed_alone: usize,
    /// The first constraint that the trees cannot serve together with all constraints before it; `None` if not
    /// searched.
    first_failed: Option<usize>,
}

/// The prefixes of the query: its first constraint, its first two, and so on.
struct Prefixes<'l, 'a> {
    table: &'l ConstraintTable<'a>,
    /// By length: the prefix as a query. The outer `None` if it was not built yet, the inner one if no
    /// provider can serve it.
    queries: Vec<Option<Option<RelaxedQuery<'a>>>>,
    /// The result for the previous tree. It is the first guess for the next, as many trees are alike.
    last_result: usize,
    /// The length of the longest prefix all of whose constraints a tree can serve together if it can
    /// serve each alone.
    independent_length: usize,
}

impl Prefixes<'_, '_> {
    /// Whether a tree can serve the first `length` constraints; `None` when the budget is used up.
    fn fits(&mut self, root: ProviderId, length: usize) -> Option<bool> {
        if !self.table.spend_search() {
            return None;
        }
        let table = self.table;
        let prefix =
            self.queries[length].get_or_insert_with(|| table.relaxed(|index| index < length));
        Some(prefix.as_mut().is_some_and(|prefix| prefix.root_fits(root)))
    }

    /// The first constraint that a tree cannot serve together with all before it, or the number of
    /// constraints if it can serve all; `None` when the budget is used up. `first_failed_alone` is the
    /// first constraint that it cannot serve even alone.
    fn first_failed(&mut self, root: ProviderId, first_failed_alone: usize) -> Option<usize> {
        // Binary search: the first `low` constraints can be served, the first `high` cannot.
        let (mut low, mut high) = (self.independent_length, first_failed_alone);
        if high <= low || self.fits(root, high)? {
            self.last_result = high;
            return Some(high);
        }
        let mut probe = self.last_result;
        while high - low > 1 {
            if probe <= low || probe >= high {
                probe = low.midpoint(high);
            }
            if self.fits(root, probe)? {
                low = probe;
                probe += 1;
            } else {
                high = probe;
                probe -= 1;
            }
        }
        self.last_result = high - 1;
        Some(high - 1)
    }
}

/// The aggregates that have a sharing member, in rising order.
fn shared_aggregates(state: &State) -> Vec<AggregateId> {
    let Some(sharing) = state.sharing_trait() else {
        return Vec::new();
    };
    let mut aggregates: Vec<_> = state
        .trait_members(sharing)
        .iter()
        .filter_map(|slot| state.provider(ProviderId(slot)))
        .flat_map(|provider| provider.aggregates.iter().copied())
        .collect();
    aggregates.sort_unstable();
    aggregates.dedup();
    aggregates
}
