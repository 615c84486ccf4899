//! The constraints of a query, one by one.

use std::fmt;

use smallvec::SmallVec;

use crate::candidates::lookup::{aggregate_ids, class_id, provider_by_uuid_text, trait_ids};
use crate::candidates::resolve::{ResolvedGroup, ResolvedRoot};
use crate::candidates::{CandidateQuery, GroupPolicy, QueryRefusal};
use crate::ids::{AggregateId, ClassId, ProviderId, TraitId};
use crate::state::State;

/// Which part of a request a constraint is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The root of the tree.
    Root,
    /// The group with this suffix; empty for the unsuffixed group.
    Group(String),
}

/// One condition of a query. Its `Display` form is the corresponding part of the query string,
/// or a short description where no single part corresponds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// One of these traits is required.
    Required(Subject, Vec<String>),
    /// This trait is forbidden.
    Forbidden(Subject, String),
    /// Membership in one of these aggregates.
    MemberOf(Subject, Vec<String>),
    /// Membership in none of these aggregates.
    NotMemberOf(Subject, Vec<String>),
    /// Only providers of the tree of this provider.
    InTree(Subject, String),
    /// A group without resources must require a trait or an aggregate.
    RequestsNothing(Subject),
    /// Capacity for an amount of a class.
    Resource {
        /// The request group that requests the class.
        subject: Subject,
        /// The name of the resource class.
        class: String,
        /// The amount of one allocation.
        amount: i64,
    },
    /// Capacity for the sum of a class over all groups, on providers that serve several of them.
    Together {
        /// The name of the resource class.
        class: String,
        /// How much all groups request together.
        amount: i64,
    },
    /// A different provider for each suffixed group.
    Isolate,
    /// One of the providers of these groups must be an ancestor of the others.
    SameSubtree(Vec<String>),
    /// The client does not know nested providers (before microversion 1.29): one provider of each
    /// tree.
    OneProviderOfTree,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Group(suffix) => f.write_str(suffix),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |names: &[String]| match names {
            [single] => single.clone(),
            several => format!("in:{}", several.join(",")),
        };
        match self {
            Self::Required(Subject::Root, names) => write!(f, "root_required={}", any(names)),
            Self::Required(subject, names) => write!(f, "required{subject}={}", any(names)),
            Self::Forbidden(Subject::Root, name) => write!(f, "root_required=!{name}"),
            Self::Forbidden(subject, name) => write!(f, "required{subject}=!{name}"),
            Self::MemberOf(subject, uuids) => write!(f, "member_of{subject}={}", any(uuids)),
            Self::NotMemberOf(subject, uuids) => write!(f, "member_of{subject}=!{}", any(uuids)),
            Self::InTree(subject, uuid) => write!(f, "in_tree{subject}={uuid}"),
            Self::RequestsNothing(subject) => write!(
                f,
                "group {subject}: without resources it needs a required trait or an aggregate"
            ),
            Self::Resource {
                subject,
                class,
                amount,
            } => write!(f, "resources{subject}={class}:{amount}"),
            Self::Together { class, amount } => {
                write!(f, "{class}:{amount} of all groups together")
            }
            Self::Isolate => f.write_str("group_policy=isolate"),
            Self::SameSubtree(suffixes) => write!(f, "same_subtree={}", suffixes.join(",")),
            Self::OneProviderOfTree => {
                f.write_str("one provider of each tree (microversion below 1.29)")
            }
        }
    }
}

/// The resolved form of a constraint, by which queries are relaxed. A `usize` is the index of the group in the query,
/// or of the set in the query's `same_subtree`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedConstraint {
    RootRequired(TraitId),
    RootForbidden(TraitId),
    Required(usize, SmallVec<[TraitId; 2]>),
    Forbidden(usize, TraitId),
    MemberOf(usize, SmallVec<[AggregateId; 2]>),
    NotMemberOf(usize, SmallVec<[AggregateId; 4]>),
    InTree(usize, ProviderId),
    /// A constraint that no provider can satisfy.
    Unsatisfiable,
    Resource(usize, ClassId, i64),
    Together(ClassId, i64),
    Isolate,
    SameSubtree(usize),
    OneProviderOfTree,
}

impl ResolvedConstraint {
    /// The condition on one provider, regardless of the group, which is 0 in the result; `None` for a constraint
    /// between several providers. A forbidden and a required trait are the same condition, one being the negation of
    /// the other.
    pub(super) fn without_group(&self) -> Option<Self> {
        Some(match self {
            Self::RootRequired(id) | Self::RootForbidden(id) | Self::Forbidden(_, id) => {
                Self::Required(0, SmallVec::from_slice(&[*id]))
            }
            Self::Required(_, ids) => Self::Required(0, ids.clone()),
            Self::MemberOf(_, ids) => Self::MemberOf(0, ids.clone()),
            Self::NotMemberOf(_, ids) => Self::MemberOf(0, SmallVec::from_slice(ids)),
            Self::InTree(_, root) => Self::InTree(0, *root),
            Self::Resource(_, class, amount) => Self::Resource(0, *class, *amount),
            Self::Unsatisfiable
            | Self::Together(_, _)
            | Self::Isolate
            | Self::SameSubtree(_)
            | Self::OneProviderOfTree => return None,
        })
    }
}

/// A query split into its constraints.
pub(super) struct ConstraintList {
    /// In the order of application.
    pub(super) constraints: Vec<Constraint>,
    /// The same constraints, with names resolved to numbers.
    pub(super) resolved: Vec<ResolvedConstraint>,
}

impl ConstraintList {
    pub(super) fn new(state: &State, query: &CandidateQuery) -> Result<Self, QueryRefusal> {
        let mut list = Self {
            constraints: Vec::new(),
            resolved: Vec::new(),
        };
        for name in &query.root_required {
            let ids: SmallVec<[TraitId; 1]> = trait_ids(state, [name])?;
            let constraint = Constraint::Required(Subject::Root, vec![name.clone()]);
            list.add(constraint, ResolvedConstraint::RootRequired(ids[0]));
        }
        for name in &query.root_forbidden {
            let ids: SmallVec<[TraitId; 1]> = trait_ids(state, [name])?;
            let constraint = Constraint::Forbidden(Subject::Root, name.clone());
            list.add(constraint, ResolvedConstraint::RootForbidden(ids[0]));
        }
        for group in 0..query.groups.len() {
            list.add_group(state, query, group)?;
        }
        list.add_relations(state, query)?;
        Ok(list)
    }

    fn add(&mut self, constraint: Constraint, resolved: ResolvedConstraint) {
        self.constraints.push(constraint);
        self.resolved.push(resolved);
    }

    fn add_group(
        &mut self,
        state: &State,
        query: &CandidateQuery,
        index: usize,
    ) -> Result<(), QueryRefusal> {
        let group = &query.groups[index];
        let subject = || Subject::Group(group.suffix.clone());
        for uuids in &group.member_of {
            let ids = aggregate_ids(state, uuids);
            let constraint = Constraint::MemberOf(subject(), uuids.clone());
            self.add(constraint, ResolvedConstraint::MemberOf(index, ids));
        }
        if !group.forbidden_aggregates.is_empty() {
            let ids = aggregate_ids(state, &group.forbidden_aggregates);
            let constraint = Constraint::NotMemberOf(subject(), group.forbidden_aggregates.clone());
            self.add(constraint, ResolvedConstraint::NotMemberOf(index, ids));
        }
        for (position, names) in group.required.iter().enumerate() {
            let ids = trait_ids(state, names)?;
            // A repetition adds no constraint.
            if !group.required[..position].contains(names) {
                let constraint = Constraint::Required(subject(), names.clone());
                self.add(constraint, ResolvedConstraint::Required(index, ids));
            }
        }
        for name in &group.forbidden {
            let ids: SmallVec<[TraitId; 1]> = trait_ids(state, [name])?;
            let constraint = Constraint::Forbidden(subject(), name.clone());
            self.add(constraint, ResolvedConstraint::Forbidden(index, ids[0]));
        }
        if let Some(uuid) = &group.in_tree {
            let named = provider_by_uuid_text(state, uuid).and_then(|id| state.provider(id));
            let constraint = Constraint::InTree(subject(), uuid.clone());
            match named {
                None => self.add(constraint, ResolvedConstraint::Unsatisfiable),
                // `in_tree` does not apply to a group without resources.
                Some(_) if group.resources.is_empty() => {}
                Some(provider) => {
                    self.add(constraint, ResolvedConstraint::InTree(index, provider.root));
                }
            }
        }
        let requires_nothing = group.member_of.is_empty() && group.required.is_empty();
        if group.resources.is_empty() && requires_nothing {
            self.add(
                Constraint::RequestsNothing(subject()),
                ResolvedConstraint::Unsatisfiable,
            );
        }
        for (class, amount) in &group.resources {
            let id = class_id(state, class)?;
            let constraint = Constraint::Resource {
                subject: subject(),
                class: class.clone(),
                amount: *amount,
            };
            self.add(constraint, ResolvedConstraint::Resource(index, id, *amount));
        }
        Ok(())
    }

    /// Adds the constraints between several groups, or between several providers.
    fn add_relations(&mut self, state: &State, query: &CandidateQuery) -> Result<(), QueryRefusal> {
        let mut totals: Vec<(&String, i64, usize)> = Vec::new();
        for (class, amount) in query.groups.iter().flat_map(|group| &group.resources) {
            match totals.iter_mut().find(|(other, _, _)| *other == class) {
                Some((_, total, groups)) => {
                    *total = total.saturating_add(*amount);
                    *groups += 1;
                }
                None => totals.push((class, *amount, 1)),
            }
        }
        for (class, amount, groups) in totals {
            if groups > 1 {
                let id = class_id(state, class)?;
                let class = class.clone();
                let constraint = Constraint::Together { class, amount };
                self.add(constraint, ResolvedConstraint::Together(id, amount));
            }
        }
        let suffixed = query.groups.iter().filter(|group| !group.suffix.is_empty());
        if query.group_policy == Some(GroupPolicy::Isolate) && suffixed.count() > 1 {
            self.add(Constraint::Isolate, ResolvedConstraint::Isolate);
        }
        for (index, suffixes) in query.same_subtree.iter().enumerate() {
            if suffixes.len() > 1 {
                let constraint = Constraint::SameSubtree(suffixes.clone());
                self.add(constraint, ResolvedConstraint::SameSubtree(index));
            }
        }
        if !query.nested && !state.non_roots().is_empty() {
            self.add(
                Constraint::OneProviderOfTree,
                ResolvedConstraint::OneProviderOfTree,
            );
        }
        Ok(())
    }
}

impl ConstraintList {
    /// The amounts of a class that a group requests.
    pub(super) fn amounts_of(&self, group: usize, class: ClassId) -> impl Iterator<Item = i64> {
        self.resolved
            .iter()
            .filter_map(move |resolved| match resolved {
                ResolvedConstraint::Resource(of_group, of_class, amount)
                    if (*of_group, *of_class) == (group, class) =>
                {
                    Some(*amount)
                }
                _ => None,
            })
    }

    /// Whether a root that can serve each of some constraints alone can serve all of them: true
    /// when no two of them can concern the same provider.
    pub(super) fn are_independent(
        &self,
        query: &CandidateQuery,
        includes: impl Fn(usize) -> bool,
    ) -> bool {
        let mut counts: SmallVec<[GroupCounts; 8]> =
            SmallVec::from_elem(GroupCounts::default(), query.groups.len());
        for (index, resolved) in self.resolved.iter().enumerate() {
            if !includes(index) {
                continue;
            }
            match resolved {
                ResolvedConstraint::RootRequired(_) | ResolvedConstraint::RootForbidden(_) => {}
                ResolvedConstraint::Required(group, _) => counts[*group].required += 1,
                ResolvedConstraint::Resource(group, _, _) => counts[*group].resources += 1,
                ResolvedConstraint::Forbidden(group, _)
                | ResolvedConstraint::MemberOf(group, _)
                | ResolvedConstraint::NotMemberOf(group, _)
                | ResolvedConstraint::InTree(group, _) => counts[*group].others += 1,
                ResolvedConstraint::Unsatisfiable
                | ResolvedConstraint::Together(_, _)
                | ResolvedConstraint::Isolate
                | ResolvedConstraint::SameSubtree(_)
                | ResolvedConstraint::OneProviderOfTree => return false,
            }
        }
        (counts.iter().zip(&query.groups)).all(|(count, group)| {
            let total = count.required + count.resources + count.others;
            let may_use_several_providers = group.suffix.is_empty() && count.others == 0;
            // Resources of the unsuffixed group may come from different providers. If one of these
            // resources is not in the set, its provider may have the traits: see
            // `push_with_separate_traits`.
            let leaves_out_resources = count.resources < group.resources.len();
            total <= 1 || may_use_several_providers && (count.required == 0 || leaves_out_resources)
        })
    }
}

/// The number of constraints of a set that concern a group.
#[derive(Clone, Copy, Default)]
struct GroupCounts {
    required: usize,
    resources: usize,
    others: usize,
}

/// The query that remains when only some constraints are selected.
pub(super) struct SelectedConstraints {
    pub(super) query: CandidateQuery,
    pub(super) root: ResolvedRoot,
    pub(super) groups: Vec<ResolvedGroup>,
    /// Contended classes whose sum is not checked.
    pub(super) unchecked_sums: SmallVec<[ClassId; 4]>,
    /// Whether a constraint is selected that no provider can satisfy.
    pub(super) is_unsatisfiable: bool,
}

impl ConstraintList {
    /// Builds the query that consists of the constraints for whose indexes `includes` is true.
    pub(super) fn select(
        &self,
        query: &CandidateQuery,
        includes: impl Fn(usize) -> bool,
    ) -> SelectedConstraints {
        let mut selected = SelectedConstraints {
            query: CandidateQuery {
                nested: true,
                ..CandidateQuery::default()
            },
            root: ResolvedRoot::default(),
            groups: Vec::new(),
            unchecked_sums: SmallVec::new(),
            is_unsatisfiable: false,
        };
        let mut groups: Vec<ResolvedGroup> = (query.groups.iter())
            .map(|group| ResolvedGroup {
                suffixed: !group.suffix.is_empty(),
                ..ResolvedGroup::default()
            })
            .collect();
        // Groups without any constraint are left out, unless a relation between groups is about
        // them.
        let mut is_named = vec![false; groups.len()];
        for (index, resolved) in self.resolved.iter().enumerate() {
            if includes(index) {
                selected.add(query, resolved, &mut groups, &mut is_named);
            } else if let ResolvedConstraint::Together(class, _) = resolved {
                selected.unchecked_sums.push(*class);
            }
        }
        for (index, group) in groups.into_iter().enumerate() {
            let is_constrained = is_named[index]
                || group
                    != ResolvedGroup {
                        suffixed: group.suffixed,
                        ..ResolvedGroup::default()
                    };
            if !is_constrained {
                continue;
            }
            let is_complete = query.groups[index].resources.len() == group.resources.len();
            if group.suffixed || is_complete {
                selected.push(query, index, group);
            } else {
                selected.push_with_separate_traits(query, index, group);
            }
        }
        selected
    }
}

impl SelectedConstraints {
    fn add(
        &mut self,
        query: &CandidateQuery,
        resolved: &ResolvedConstraint,
        groups: &mut [ResolvedGroup],
        is_named: &mut [bool],
    ) {
        match resolved {
            ResolvedConstraint::RootRequired(id) => {
                self.root.required.push(SmallVec::from_slice(&[*id]));
            }
            ResolvedConstraint::RootForbidden(id) => self.root.forbidden.push(*id),
            ResolvedConstraint::Required(group, ids) => groups[*group].required.push(ids.clone()),
            ResolvedConstraint::Forbidden(group, id) => groups[*group].forbidden.push(*id),
            ResolvedConstraint::MemberOf(group, ids) => groups[*group].member_of.push(ids.clone()),
            ResolvedConstraint::NotMemberOf(group, ids) => {
                groups[*group].forbidden_aggregates.clone_from(ids);
            }
            ResolvedConstraint::InTree(group, root) => groups[*group].tree = Some(*root),
            ResolvedConstraint::Unsatisfiable => self.is_unsatisfiable = true,
            ResolvedConstraint::Resource(group, class, amount) => {
                groups[*group].resources.push((*class, *amount));
            }
            ResolvedConstraint::Together(_, _) => {}
            ResolvedConstraint::Isolate => {
                self.query.group_policy = Some(GroupPolicy::Isolate);
                for (group, is_named) in groups.iter().zip(is_named) {
                    *is_named |= group.suffixed;
                }
            }
            ResolvedConstraint::SameSubtree(set) => {
                let suffixes = &query.same_subtree[*set];
                self.query.same_subtree.push(suffixes.clone());
                for (group, is_named) in query.groups.iter().zip(is_named) {
                    *is_named |= suffixes.contains(&group.suffix);
                }
            }
            ResolvedConstraint::OneProviderOfTree => self.query.nested = false,
        }
    }

    fn push(&mut self, query: &CandidateQuery, index: usize, group: ResolvedGroup) {
        let mut request_group = crate::candidates::RequestGroup::default();
        request_group.suffix.clone_from(&query.groups[index].suffix);
        self.query.groups.push(request_group);
        self.groups.push(group);
    }

    /// Adds the unsuffixed group when not all of its resources are selected. The providers of the
    /// resources that are not selected could have the traits, so each trait may come from any provider.
    fn push_with_separate_traits(
        &mut self,
        query: &CandidateQuery,
        index: usize,
        mut group: ResolvedGroup,
    ) {
        let required = std::mem::take(&mut group.required);
        for any in required {
            let mut trait_group = group.clone();
            trait_group.resources.clear();
            trait_group.required.push(any);
            self.push(query, index, trait_group);
        }
        self.push(query, index, group);
    }
}
