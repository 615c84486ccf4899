//! A query compiled for the search: its decision variables, which providers may serve each, and the
//! rules between them.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::bits::Bits;
use super::lookup::{ProviderSet, SetFilter, capacity_word};
use super::query::{CandidateQuery, GroupPolicy};
use super::resolve::{ResolvedGroup, ResolvedRoot};
use crate::ids::{ClassId, ProviderId};
use crate::rows::Provider;
use crate::slot_set::SlotSet;
use crate::state::State;

/// A decision variable of the search: a suffixed group, or one resource class of the unsuffixed
/// group.
#[derive(Debug)]
pub(crate) struct SearchVariable {
    /// The index of the variable's group in the query.
    pub(crate) group: usize,
    /// The index of the variable's [`ProviderCondition`] in the compiled query.
    pub(crate) condition: usize,
    /// The amounts that the variable takes of contended classes: (index in [`CompiledQuery::contended`], amount).
    pub(crate) contended: SmallVec<[(usize, i64); 4]>,
    /// Indexes of the sets in [`CompiledQuery::subtrees`] that contain the variable.
    pub(crate) subtrees: SmallVec<[usize; 2]>,
    /// Symmetry class: variables with the same number are interchangeable. The number is the index of
    /// the first of them.
    pub(crate) symmetry_class: usize,
    /// Connected component: variables that compete with each other, directly or through others. The number is
    /// the index of a variable of the component.
    pub(crate) component: usize,
    /// Whether the variable stands for a whole suffixed group.
    pub(crate) suffixed: bool,
}

/// The condition that a provider must meet to serve a variable. Equal suffixed groups share one condition.
#[derive(Debug)]
pub(crate) struct ProviderCondition {
    pub(crate) resources: SmallVec<[(ClassId, i64); 4]>,
    pub(crate) filter: SetFilter,
    /// For the unsuffixed group: the aggregates that the provider or its root must be in.
    pub(crate) provider_or_root: SetFilter,
    /// The members of the only tree that may serve the variable, if its group names one (`in_tree`).
    pub(crate) tree: Option<SlotSet>,
    /// Whether a sharing provider of another tree may serve the variable.
    pub(crate) takes_shared: bool,
}

impl ProviderCondition {
    /// Which of the 64 providers from `64 * word` on meet the condition, apart from `provider_or_root`.
    pub(crate) fn word(&self, state: &State, word: usize, mut mask: u64) -> u64 {
        mask = self.filter.word(state, word, mask);
        if let Some(tree) = &self.tree {
            mask &= tree.word(word);
        }
        for (class, amount) in &self.resources {
            mask = capacity_word(state, *class, *amount, word, mask);
        }
        mask
    }

    /// Whether one provider meets the condition, apart from `provider_or_root`.
    pub(crate) fn admits(&self, state: &State, id: ProviderId) -> bool {
        self.word(state, id.index() / 64, 1 << (id.0 % 64)) != 0
    }
}

/// The rules of a query that an explanation relaxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relaxation {
    /// Whether a group without resources is allowed: any provider serves it, or with `in_tree` any of
    /// that tree.
    pub(crate) allows_bare_groups: bool,
    /// Contended classes whose sum over all groups is not checked.
    pub(crate) unchecked_sums: SmallVec<[ClassId; 4]>,
}

/// A compiled query bound to the state on which it is evaluated.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    pub(crate) state: &'a State,
    pub(crate) compiled: Arc<CompiledQuery>,
}

impl Deref for Plan<'_> {
    type Target = CompiledQuery;

    fn deref(&self) -> &CompiledQuery {
        &self.compiled
    }
}

/// A query in which every name is resolved to a number.
#[derive(Debug)]
pub(crate) struct CompiledQuery {
    /// The variables, in the order of their groups.
    pub(crate) variables: Vec<SearchVariable>,
    pub(crate) conditions: Vec<ProviderCondition>,
    /// The number of groups of the query.
    pub(crate) group_count: usize,
    /// The conditions on the root of a tree.
    pub(crate) root: SetFilter,
    /// The contended classes: those that more than one variable requests.
    pub(crate) contended: SmallVec<[ClassId; 4]>,
    /// By contended class: the sum that all variables request.
    pub(crate) requested: SmallVec<[i64; 4]>,
    /// Whether suffixed groups must be served by different providers (`group_policy=isolate`).
    pub(crate) isolates_groups: bool,
    /// The number of suffixed groups.
    pub(crate) suffixed_count: usize,
    /// The indexes of the conditions of suffixed groups.
    pub(crate) suffixed_conditions: Bits,
    /// The `same_subtree` sets, as indexes of variables: one provider of each set must be an ancestor of all the
    /// others.
    pub(crate) subtrees: Vec<SmallVec<[usize; 4]>>,
    /// Collective traits: of each list, at least one of the providers of the unsuffixed group must
    /// have a trait.
    pub(crate) collective: Vec<SmallVec<[ProviderSet; 2]>>,
    /// Whether a candidate may use several providers of one tree ([`CandidateQuery::nested`]).
    pub(crate) may_use_several_per_tree: bool,
    /// Whether augmenting paths decide: if they find no completion, there is none. They do if all variables of each
    /// component take the same amounts; with [`Self::isolates_groups`], if no component has both suffixed groups and
    /// classes of the unsuffixed group.
    pub(crate) augmenting_decides: bool,
    /// The groups with their names resolved, by index.
    pub(crate) resolved: Vec<ResolvedGroup>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        state: &'a State,
        query: &CandidateQuery,
        root: &ResolvedRoot,
        groups: Vec<ResolvedGroup>,
    ) -> Self {
        Self::relaxed(state, query, root, groups, &Relaxation::default())
    }

    /// As [`Self::new`], with some rules relaxed.
    pub(crate) fn relaxed(
        state: &'a State,
        query: &CandidateQuery,
        root: &ResolvedRoot,
        groups: Vec<ResolvedGroup>,
        relaxation: &Relaxation,
    ) -> Self {
        let mut contended = contended_classes(&groups);
        contended.retain(|class| !relaxation.unchecked_sums.contains(class));
        let mut compiled = CompiledQuery {
            variables: Vec::new(),
            conditions: Vec::new(),
            group_count: groups.len(),
            root: SetFilter::default(),
            requested: SmallVec::from_elem(0, contended.len()),
            contended,
            suffixed_count: groups.iter().filter(|group| group.suffixed).count(),
            suffixed_conditions: Bits::default(),
            isolates_groups: query.group_policy == Some(GroupPolicy::Isolate),
            subtrees: Vec::new(),
            collective: Vec::new(),
            may_use_several_per_tree: query.nested,
            augmenting_decides: true,
            resolved: Vec::new(),
        };
        compiled.root.require_traits(&root.required);
        compiled.root.forbid_traits(&root.forbidden);
        let mut condition_of_group: Vec<usize> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let next_condition = compiled.conditions.len();
            if group.suffixed {
                let equal_group = (0..index).find(|other| groups[*other] == *group);
                let condition =
                    equal_group.map_or(next_condition, |other| condition_of_group[other]);
                if condition == next_condition {
                    compiled.suffixed_conditions.insert(condition);
                    compiled.conditions.push(suffixed_condition(
                        state,
                        group,
                        relaxation.allows_bare_groups,
                    ));
                }
                condition_of_group.push(condition);
                compiled.add_variable(index, condition, &group.resources, group.suffixed);
            } else {
                condition_of_group.push(next_condition);
                compiled.add_unsuffixed(state, index, group);
            }
        }
        compiled.resolved = groups;
        for suffixes in &query.same_subtree {
            let is_named =
                |variable: &SearchVariable| suffixes.contains(&query.groups[variable.group].suffix);
            compiled.subtrees.push(
                (0..compiled.variables.len())
                    .filter(|variable| is_named(&compiled.variables[*variable]))
                    .collect(),
            );
        }
        compiled.subtrees.retain(|set| set.len() > 1);
        compiled.number_symmetry_classes();
        compiled.number_components();
        Self {
            state,
            compiled: Arc::new(compiled),
        }
    }
}

impl CompiledQuery {
    /// Adds the conditions and the variables of the unsuffixed group: one for each resource class.
    fn add_unsuffixed(&mut self, state: &State, index: usize, group: &ResolvedGroup) {
        self.root.forbid_aggregates(&group.forbidden_aggregates);
        let mut required_traits = SetFilter::default();
        required_traits.require_traits(&group.required);
        // A single class is served by a single provider, which must itself have all required
        // traits.
        let is_single_class = group.resources.len() <= 1;
        if !is_single_class {
            self.collective = required_traits.required.iter().cloned().collect();
        }
        let mut add_condition = |resources: &[(ClassId, i64)]| {
            let mut condition = ProviderCondition {
                resources: SmallVec::from_slice(resources),
                filter: if is_single_class {
                    required_traits.clone()
                } else {
                    SetFilter::default()
                },
                provider_or_root: SetFilter::default(),
                tree: group.tree.map(|root| members_of_tree(state, root)),
                takes_shared: group.tree.is_none(),
            };
            condition.filter.forbid_traits(&group.forbidden);
            condition
                .filter
                .forbid_aggregates(&group.forbidden_aggregates);
            condition
                .provider_or_root
                .require_aggregates(&group.member_of);
            self.conditions.push(condition);
            self.add_variable(index, self.conditions.len() - 1, resources, group.suffixed);
        };
        if group.resources.is_empty() {
            add_condition(&[]);
        }
        for resource in &group.resources {
            add_condition(&[*resource]);
        }
    }

    fn add_variable(
        &mut self,
        group: usize,
        condition: usize,
        resources: &[(ClassId, i64)],
        suffixed: bool,
    ) {
        let contended: SmallVec<[(usize, i64); 4]> = resources
            .iter()
            .filter_map(|(class, amount)| {
                let index = self.contended.iter().position(|other| other == class)?;
                Some((index, *amount))
            })
            .collect();
        for (index, amount) in &contended {
            self.requested[*index] = self.requested[*index].saturating_add(*amount);
        }
        self.variables.push(SearchVariable {
            group,
            condition,
            contended,
            subtrees: SmallVec::new(),
            symmetry_class: 0,
            component: 0,
            suffixed,
        });
    }

    /// Records which `same_subtree` sets contain each variable, and numbers the symmetry classes: variables
    /// of one condition that are in the same sets are interchangeable.
    fn number_symmetry_classes(&mut self) {
        for (number, set) in self.subtrees.iter().enumerate() {
            for variable in set {
                self.variables[*variable].subtrees.push(number);
            }
        }
        for variable in 0..self.variables.len() {
            let current = &self.variables[variable];
            let earlier = self.variables[..variable].iter().position(|other| {
                other.condition == current.condition && other.subtrees == current.subtrees
            });
            self.variables[variable].symmetry_class = earlier.unwrap_or(variable);
        }
    }

    /// Numbers the connected components. Variables that request a common class compete, directly or
    /// transitively; so do all suffixed groups when they are isolated.
    fn number_components(&mut self) {
        let mut component: Vec<usize> = (0..self.variables.len()).collect();
        for later in 0..self.variables.len() {
            for earlier in 0..later {
                if self.compete(earlier, later) && component[earlier] != component[later] {
                    let (merged, kept) = (component[later], component[earlier]);
                    for number in &mut component {
                        if *number == merged {
                            *number = kept;
                        }
                    }
                }
            }
        }
        for (index, number) in component.iter().enumerate() {
            self.variables[index].component = *number;
            let (variable, representative) = (&self.variables[index], &self.variables[*number]);
            let is_alike = if self.isolates_groups {
                // With isolation a provider serves at most one suffixed group, so suffixed groups do not compete for
                // its amounts with each other, only with the unsuffixed group.
                variable.suffixed == representative.suffixed
            } else {
                variable.contended == representative.contended
            };
            self.augmenting_decides &= is_alike;
        }
    }

    /// Whether the supplier of one variable limits the choice for the other: two suffixed groups need different
    /// providers, or both variables need the same resource class.
    fn compete(&self, first: usize, second: usize) -> bool {
        let (first, second) = (&self.variables[first], &self.variables[second]);
        (self.isolates_groups && first.suffixed && second.suffixed)
            || first.contended.iter().any(|(class, _)| {
                second
                    .contended
                    .iter()
                    .any(|(competing, _)| competing == class)
            })
    }

    /// Whether capacity and isolation are the only rules between variables.
    pub(crate) fn only_capacity_matters(&self) -> bool {
        self.subtrees.is_empty() && self.collective.is_empty() && self.may_use_several_per_tree
    }
}

/// The condition that the provider of a suffixed group must meet.
fn suffixed_condition(
    state: &State,
    group: &ResolvedGroup,
    may_be_bare: bool,
) -> ProviderCondition {
    let mut filter = SetFilter::default();
    filter.require_traits(&group.required);
    filter.require_aggregates(&group.member_of);
    // The reference restricts groups without resources. An explanation (`may_be_bare`) does not, because it leaves
    // resources out itself.
    let is_restricted = group.resources.is_empty() && !may_be_bare;
    if is_restricted && filter.required.is_empty() {
        // The reference finds no provider for a group without resources, required traits and
        // aggregates. An empty list of alternatives matches nothing.
        filter.required.push(SmallVec::new());
    }
    filter.forbid_traits(&group.forbidden);
    filter.forbid_aggregates(&group.forbidden_aggregates);
    ProviderCondition {
        resources: group.resources.clone(),
        filter,
        provider_or_root: SetFilter::default(),
        // The reference applies `in_tree` only together with resources.
        tree: group
            .tree
            .filter(|_| !is_restricted)
            .map(|root| members_of_tree(state, root)),
        takes_shared: true,
    }
}

fn members_of_tree(state: &State, root: ProviderId) -> SlotSet {
    let mut members = SlotSet::default();
    for id in state.subtree(root) {
        members.insert(id.0);
    }
    members
}

/// The classes that more than one group requests.
fn contended_classes(groups: &[ResolvedGroup]) -> SmallVec<[ClassId; 4]> {
    let mut seen: SmallVec<[ClassId; 8]> = SmallVec::new();
    let mut contended: SmallVec<[ClassId; 4]> = SmallVec::new();
    for (class, _) in groups.iter().flat_map(|group| &group.resources) {
        if !seen.contains(class) {
            seen.push(*class);
        } else if !contended.contains(class) {
            contended.push(*class);
        }
    }
    contended
}

/// The largest amount of a class that one more consumer could take from a provider; negative
/// without an inventory or when usage exceeds capacity.
pub(crate) fn headroom(provider: &Provider, class: ClassId) -> i64 {
    provider.inventory(class).map_or(-1, |row| {
        (row.capacity.saturating_sub(row.used)).min(i64::from(row.inventory.max_unit))
    })
}
