//! A query prepared for the search: which providers may serve what, and which rules bind the
//! choices.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::bits::Bits;
use super::lookup::{Members, SetFilter, capacity_word};
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
    /// The index of its group in the query.
    pub(crate) group: usize,
    /// The index of its [`ProviderCondition`].
    pub(crate) kind: usize,
    /// The amounts that it takes of contended classes: (index in `contended`, amount).
    pub(crate) contended: SmallVec<[(usize, i64); 4]>,
    /// Indexes of the `subtrees` sets that contain it.
    pub(crate) sets: SmallVec<[usize; 2]>,
    /// Symmetry class: choices with the same number are interchangeable.
    pub(crate) twin: usize,
    /// Connected component: choices of different components never compete for capacity.
    pub(crate) component: usize,
    /// Whether it stands for a whole suffixed group.
    pub(crate) granular: bool,
}

/// The conditions on the provider of a choice; equal choices share one kind.
#[derive(Debug)]
pub(crate) struct ProviderCondition {
    pub(crate) resources: SmallVec<[(ClassId, i64); 4]>,
    pub(crate) filter: SetFilter,
    /// For the unsuffixed group: aggregates that the provider or its root must be in.
    pub(crate) spanning: SetFilter,
    /// The members of the only tree that may serve it (`in_tree`), if it names one.
    pub(crate) tree: Option<SlotSet>,
    /// Whether a sharing provider of another tree may serve it.
    pub(crate) takes_shared: bool,
}

impl ProviderCondition {
    /// Which of the 64 providers from `64 * word` on may serve it, without the aggregates that
    /// span a tree.
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

    /// Whether one provider may serve it, without the aggregates that span a tree.
    pub(crate) fn admits(&self, state: &State, id: ProviderId) -> bool {
        self.word(state, id.index() / 64, 1 << (id.0 % 64)) != 0
    }
}

/// The rules of a query that an explanation relaxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relaxation {
    /// Whether a group without resources is allowed, with any provider or with one of its tree.
    pub(crate) bare_groups: bool,
    /// Contended classes whose sum is not checked.
    pub(crate) apart: SmallVec<[ClassId; 4]>,
}

/// A prepared query bound to a state.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    pub(crate) state: &'a State,
    pub(crate) form: Arc<CompiledQuery>,
}

impl Deref for Plan<'_> {
    type Target = CompiledQuery;

    fn deref(&self) -> &CompiledQuery {
        &self.form
    }
}

/// A prepared query: all names are resolved to numbers.
#[derive(Debug)]
pub(crate) struct CompiledQuery {
    pub(crate) choices: Vec<SearchVariable>,
    pub(crate) kinds: Vec<ProviderCondition>,
    /// The number of groups of the query.
    pub(crate) groups: usize,
    /// The conditions on the root of a tree.
    pub(crate) root: SetFilter,
    /// The contended classes: those that more than one choice takes.
    pub(crate) contended: SmallVec<[ClassId; 4]>,
    /// By contended class: the sum that all choices take.
    pub(crate) wanted: SmallVec<[i64; 4]>,
    /// Whether suffixed groups must be served by different providers (`group_policy=isolate`).
    pub(crate) isolate: bool,
    /// The number of suffixed groups.
    pub(crate) granular: usize,
    /// The kinds of the suffixed groups.
    pub(crate) granular_kinds: Bits,
    /// The `same_subtree` sets: one provider of each set must be an ancestor of all the others.
    pub(crate) subtrees: Vec<SmallVec<[usize; 4]>>,
    /// Collective traits: of each list, some provider of the unsuffixed group must have one.
    pub(crate) collective: Vec<SmallVec<[Members; 2]>>,
    /// Whether a candidate may use several providers of one tree.
    pub(crate) nested: bool,
    /// Whether all choices of each component take the same amounts. Augmenting paths are then
    /// complete: if they find no placement, there is none.
    pub(crate) uniform: bool,
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
        Self::lenient(state, query, root, groups, &Relaxation::default())
    }

    /// As [`Self::new`], with some rules relaxed.
    pub(crate) fn lenient(
        state: &'a State,
        query: &CandidateQuery,
        root: &ResolvedRoot,
        groups: Vec<ResolvedGroup>,
        leniency: &Relaxation,
    ) -> Self {
        let mut contended = contended_classes(&groups);
        contended.retain(|class| !leniency.apart.contains(class));
        let mut plan = CompiledQuery {
            choices: Vec::new(),
            kinds: Vec::new(),
            groups: groups.len(),
            root: SetFilter::default(),
            wanted: SmallVec::from_elem(0, contended.len()),
            contended,
            granular: groups.iter().filter(|group| group.granular).count(),
            granular_kinds: Bits::default(),
            isolate: query.group_policy == Some(GroupPolicy::Isolate),
            subtrees: Vec::new(),
            collective: Vec::new(),
            nested: query.nested,
            uniform: true,
            resolved: Vec::new(),
        };
        plan.root.require_traits(&root.required);
        plan.root.forbid_traits(&root.forbidden);
        let mut kind_of: Vec<usize> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let first = plan.kinds.len();
            if group.granular {
                let twin = (0..index).find(|other| groups[*other] == *group);
                let kind = twin.map_or(first, |other| kind_of[other]);
                if kind == first {
                    plan.granular_kinds.insert(kind);
                    plan.kinds
                        .push(granular_kind(state, group, leniency.bare_groups));
                }
                kind_of.push(kind);
                plan.choose(index, kind, &group.resources, true);
            } else {
                kind_of.push(first);
                plan.add_unsuffixed(state, index, group);
            }
        }
        plan.resolved = groups;
        for suffixes in &query.same_subtree {
            let named =
                |choice: &SearchVariable| suffixes.contains(&query.groups[choice.group].suffix);
            plan.subtrees.push(
                (0..plan.choices.len())
                    .filter(|choice| named(&plan.choices[*choice]))
                    .collect(),
            );
        }
        plan.subtrees.retain(|set| set.len() > 1);
        plan.number_twins();
        plan.number_components();
        Self {
            state,
            form: Arc::new(plan),
        }
    }
}

impl CompiledQuery {
    fn add_unsuffixed(&mut self, state: &State, index: usize, group: &ResolvedGroup) {
        self.root.forbid_aggregates(&group.forbidden_aggregates);
        let mut required = SetFilter::default();
        required.require_traits(&group.required);
        // A single class is served by a single provider, which must itself have all required
        // traits.
        let alone = group.resources.len() <= 1;
        if !alone {
            self.collective = required.all.iter().cloned().collect();
        }
        let mut add = |resources: &[(ClassId, i64)]| {
            let mut kind = ProviderCondition {
                resources: SmallVec::from_slice(resources),
                filter: if alone {
                    required.clone()
                } else {
                    SetFilter::default()
                },
                spanning: SetFilter::default(),
                tree: group.tree.map(|root| members_of_tree(state, root)),
                takes_shared: group.tree.is_none(),
            };
            kind.filter.forbid_traits(&group.forbidden);
            kind.filter.forbid_aggregates(&group.forbidden_aggregates);
            kind.spanning.require_aggregates(&group.member_of);
            self.kinds.push(kind);
            self.choose(index, self.kinds.len() - 1, resources, false);
        };
        if group.resources.is_empty() {
            add(&[]);
        }
        for resource in &group.resources {
            add(&[*resource]);
        }
    }

    fn choose(&mut self, group: usize, kind: usize, resources: &[(ClassId, i64)], granular: bool) {
        let contended: SmallVec<[(usize, i64); 4]> = resources
            .iter()
            .filter_map(|(class, amount)| {
                let place = self.contended.iter().position(|other| other == class)?;
                Some((place, *amount))
            })
            .collect();
        for (place, amount) in &contended {
            self.wanted[*place] = self.wanted[*place].saturating_add(*amount);
        }
        self.choices.push(SearchVariable {
            group,
            kind,
            contended,
            sets: SmallVec::new(),
            twin: 0,
            component: 0,
            granular,
        });
    }

    /// Choices of one kind that are in the same `same_subtree` sets are interchangeable.
    fn number_twins(&mut self) {
        for (number, set) in self.subtrees.iter().enumerate() {
            for choice in set {
                self.choices[*choice].sets.push(number);
            }
        }
        for choice in 0..self.choices.len() {
            let of = &self.choices[choice];
            let twin = self.choices[..choice]
                .iter()
                .position(|other| other.kind == of.kind && other.sets == of.sets);
            self.choices[choice].twin = twin.unwrap_or(choice);
        }
    }

    /// Choices of a common class compete, directly or transitively; so do all suffixed groups when
    /// they are isolated.
    fn number_components(&mut self) {
        let mut component: Vec<usize> = (0..self.choices.len()).collect();
        for later in 0..self.choices.len() {
            for earlier in 0..later {
                if self.compete(earlier, later) && component[earlier] != component[later] {
                    let (from, to) = (component[later], component[earlier]);
                    for number in &mut component {
                        if *number == from {
                            *number = to;
                        }
                    }
                }
            }
        }
        for (index, number) in component.iter().enumerate() {
            self.choices[index].component = *number;
            let (choice, first) = (&self.choices[index], &self.choices[*number]);
            let alike = if self.isolate {
                // With isolation a provider takes one suffixed group; its amounts matter only
                // against the unsuffixed group.
                choice.granular == first.granular
            } else {
                choice.contended == first.contended
            };
            self.uniform &= alike;
        }
    }

    fn compete(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.choices[one], &self.choices[other]);
        (self.isolate && one.granular && other.granular)
            || one.contended.iter().any(|(class, _)| {
                other
                    .contended
                    .iter()
                    .any(|(competing, _)| competing == class)
            })
    }

    /// Whether capacity and isolation are the only rules that bind the choices together.
    pub(crate) fn only_room_binds(&self) -> bool {
        self.subtrees.is_empty() && self.collective.is_empty() && self.nested
    }
}

fn granular_kind(state: &State, group: &ResolvedGroup, may_be_bare: bool) -> ProviderCondition {
    let mut filter = SetFilter::default();
    filter.require_traits(&group.required);
    filter.require_aggregates(&group.member_of);
    let is_refused = group.resources.is_empty() && !may_be_bare;
    if is_refused && filter.all.is_empty() {
        // The reference finds no provider for a group without resources, required traits and
        // aggregates. An empty list of alternatives matches nothing.
        filter.all.push(SmallVec::new());
    }
    filter.forbid_traits(&group.forbidden);
    filter.forbid_aggregates(&group.forbidden_aggregates);
    ProviderCondition {
        resources: group.resources.clone(),
        filter,
        spanning: SetFilter::default(),
        // The reference applies `in_tree` only together with resources.
        tree: group
            .tree
            .filter(|_| !is_refused)
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

/// The classes that more than one group takes.
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

/// How much more of a class a consumer could take from a provider; negative without an inventory
/// or when overcommitted.
pub(crate) fn headroom(provider: &Provider, class: ClassId) -> i64 {
    provider.inventory(class).map_or(-1, |record| {
        (record.capacity.saturating_sub(record.used)).min(i64::from(record.inventory.max_unit))
    })
}
