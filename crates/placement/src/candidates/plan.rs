//! A query made ready for the search: who may serve what, and which rules bind the choices together.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::bits::Bits;
use super::lookup::{Members, SetFilter, room_word};
use super::query::{CandidateQuery, GroupPolicy};
use super::resolve::{ResolvedGroup, ResolvedRoot};
use crate::ids::{ClassId, ProviderId};
use crate::slot_set::SlotSet;
use crate::state::{Provider, State};

/// One choice to make: a suffixed group, or one resource class of the group without suffix.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The place of the group in the query.
    pub(crate) group: usize,
    /// Who may serve it.
    pub(crate) kind: usize,
    /// What it takes of the classes that several choices take: (place in `contended`, amount).
    pub(crate) contended: SmallVec<[(usize, i64); 4]>,
    /// The sets of `subtrees` that it is in.
    pub(crate) sets: SmallVec<[usize; 2]>,
    /// Choices with the same number can be exchanged for each other.
    pub(crate) twin: usize,
    /// Choices with different numbers never compete for room.
    pub(crate) component: usize,
    /// Whether it is a suffixed group.
    pub(crate) granular: bool,
}

/// Who may serve a choice; equal choices share one.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) resources: SmallVec<[(ClassId, i64); 4]>,
    pub(crate) filter: SetFilter,
    /// For the group without suffix: aggregates in which the provider or the root must be.
    pub(crate) spanning: SetFilter,
    /// The members of the only tree that may serve it.
    pub(crate) tree: Option<SlotSet>,
    /// Whether providers of other trees that share with this one may serve it.
    pub(crate) takes_shared: bool,
}

impl Kind {
    /// Which of the 64 providers from `64 * word` on may serve it, aggregates that span a tree left
    /// aside.
    pub(crate) fn word(&self, state: &State, word: usize, mut mask: u64) -> u64 {
        mask = self.filter.word(state, word, mask);
        if let Some(tree) = &self.tree {
            mask &= tree.word(word);
        }
        for (class, amount) in &self.resources {
            mask = room_word(state, *class, *amount, word, mask);
        }
        mask
    }

    /// Whether one provider may serve it, aggregates that span a tree left aside.
    pub(crate) fn admits(&self, state: &State, id: ProviderId) -> bool {
        self.word(state, id.index() / 64, 1 << (id.0 % 64)) != 0
    }
}

/// What an explanation leaves out of a query's rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leniency {
    /// Whether groups may ask for no resources as they like, of any provider or of one tree's.
    pub(crate) bare_groups: bool,
    /// Classes of which the sum over several groups need not fit.
    pub(crate) apart: SmallVec<[ClassId; 4]>,
}

/// A query made ready, and what it is asked of.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    pub(crate) state: &'a State,
    pub(crate) form: Arc<Form>,
}

impl Deref for Plan<'_> {
    type Target = Form;

    fn deref(&self) -> &Form {
        &self.form
    }
}

/// A query made ready: all names are numbers.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) choices: Vec<Choice>,
    pub(crate) kinds: Vec<Kind>,
    /// How many groups the query has.
    pub(crate) groups: usize,
    /// What the root of a tree must be.
    pub(crate) root: SetFilter,
    /// The classes that more than one choice takes.
    pub(crate) contended: SmallVec<[ClassId; 4]>,
    /// How much of each of them all choices want.
    pub(crate) wanted: SmallVec<[i64; 4]>,
    /// Whether suffixed groups must not share a provider.
    pub(crate) isolate: bool,
    /// How many suffixed groups there are.
    pub(crate) granular: usize,
    /// The kinds of the suffixed groups.
    pub(crate) granular_kinds: Bits,
    /// Choices whose providers must lie under one of them.
    pub(crate) subtrees: Vec<SmallVec<[usize; 4]>>,
    /// One of each list must be among the traits of the providers of the group without suffix.
    pub(crate) collective: Vec<SmallVec<[Members; 2]>>,
    /// Whether a candidate may take several providers of one tree.
    pub(crate) nested: bool,
    /// Whether choices of one component all take the same, so that exchanging choices one by one
    /// finds room if there is any.
    pub(crate) uniform: bool,
    /// The groups, by number.
    pub(crate) resolved: Vec<ResolvedGroup>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        state: &'a State,
        query: &CandidateQuery,
        root: &ResolvedRoot,
        groups: Vec<ResolvedGroup>,
    ) -> Self {
        Self::lenient(state, query, root, groups, &Leniency::default())
    }

    /// As [`Self::new`], with some rules left out.
    pub(crate) fn lenient(
        state: &'a State,
        query: &CandidateQuery,
        root: &ResolvedRoot,
        groups: Vec<ResolvedGroup>,
        leniency: &Leniency,
    ) -> Self {
        let mut contended = contended_classes(&groups);
        contended.retain(|class| !leniency.apart.contains(class));
        let mut plan = Form {
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
            let named = |choice: &Choice| suffixes.contains(&query.groups[choice.group].suffix);
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

impl Form {
    fn add_unsuffixed(&mut self, state: &State, index: usize, group: &ResolvedGroup) {
        self.root.forbid_aggregates(&group.forbidden_aggregates);
        let mut required = SetFilter::default();
        required.require_traits(&group.required);
        // With one class there is one provider: what the group must have, that one must have.
        let alone = group.resources.len() <= 1;
        if !alone {
            self.collective = required.all.iter().cloned().collect();
        }
        let mut add = |resources: &[(ClassId, i64)]| {
            let mut kind = Kind {
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
        self.choices.push(Choice {
            group,
            kind,
            contended,
            sets: SmallVec::new(),
            twin: 0,
            component: 0,
            granular,
        });
    }

    /// Choices of one kind that the same sets of `same_subtree` name can be exchanged.
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

    /// Choices that take of a common class compete, directly or through others; so do all suffixed
    /// groups when each wants a provider of its own.
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
                // One suffixed group a provider: its size matters only against the one without.
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

    /// Whether nothing but room and isolation binds the choices together.
    pub(crate) fn only_room_binds(&self) -> bool {
        self.subtrees.is_empty() && self.collective.is_empty() && self.nested
    }
}

fn granular_kind(state: &State, group: &ResolvedGroup, may_be_bare: bool) -> Kind {
    let mut filter = SetFilter::default();
    filter.require_traits(&group.required);
    filter.require_aggregates(&group.member_of);
    let bare = group.resources.is_empty() && !may_be_bare;
    if bare && filter.all.is_empty() {
        // The reference finds nobody for a group that asks for nothing positive.
        filter.all.push(SmallVec::new());
    }
    filter.forbid_traits(&group.forbidden);
    filter.forbid_aggregates(&group.forbidden_aggregates);
    Kind {
        resources: group.resources.clone(),
        filter,
        spanning: SetFilter::default(),
        // The reference looks at the tree together with inventories only.
        tree: group
            .tree
            .filter(|_| !bare)
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

/// How much more of a class a provider could give to one consumer; negative when it has none.
pub(crate) fn headroom(provider: &Provider, class: ClassId) -> i64 {
    provider.inventory(class).map_or(-1, |record| {
        (record.capacity.saturating_sub(record.used)).min(i64::from(record.inventory.max_unit))
    })
}
