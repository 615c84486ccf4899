//! Resolves a query's names to the state's numbers, in the order in which the reference does.

use smallvec::SmallVec;

use super::lookup::{
    AnyOf, SetFilter, aggregate_ids, any_of_traits, class_id, deduplicated, provider_by_uuid_text,
    trait_ids,
};
use super::query::{CandidateQuery, QueryRefusal, RequestGroup};
use crate::ids::{AggregateId, ClassId, ProviderId, TraitId};
use crate::state::State;

/// A group with its names resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResolvedGroup {
    /// Whether the group must be served by one provider.
    pub(crate) suffixed: bool,
    pub(crate) resources: SmallVec<[(ClassId, i64); 4]>,
    pub(crate) required: AnyOf<TraitId>,
    pub(crate) forbidden: SmallVec<[TraitId; 4]>,
    pub(crate) member_of: AnyOf<AggregateId>,
    pub(crate) forbidden_aggregates: SmallVec<[AggregateId; 4]>,
    /// The root of the tree that must serve the group.
    pub(crate) tree: Option<ProviderId>,
}

/// The traits that the root of a tree must and must not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResolvedRoot {
    pub(crate) required: AnyOf<TraitId>,
    pub(crate) forbidden: SmallVec<[TraitId; 4]>,
}

/// The result of resolving names.
pub(crate) enum Resolved<T> {
    /// All names exist, and the value holds their numbers.
    Found(T),
    /// Nothing can match, so the answer is empty. The names after this one are not resolved.
    Nothing,
    /// A name does not exist, and the query is refused.
    Refused(QueryRefusal),
}

impl<T> From<Result<T, QueryRefusal>> for Resolved<T> {
    fn from(result: Result<T, QueryRefusal>) -> Self {
        result.map_or_else(Self::Refused, Self::Found)
    }
}

pub(crate) fn resolve_root(
    state: &State,
    query: &CandidateQuery,
) -> Result<ResolvedRoot, QueryRefusal> {
    let required: Vec<TraitId> = trait_ids(state, &query.root_required)?;
    let required = required.into_iter();
    Ok(ResolvedRoot {
        required: deduplicated(required.map(|id| SmallVec::from_slice(&[id])).collect()),
        forbidden: trait_ids(state, &query.root_forbidden)?,
    })
}

/// Resolves a group: classes, aggregates, traits, the tree, in this order. The first name that is
/// unknown, or that has no members, decides the outcome.
pub(crate) fn resolve_group(state: &State, group: &RequestGroup) -> Resolved<ResolvedGroup> {
    let mut resolved = ResolvedGroup {
        suffixed: !group.suffix.is_empty(),
        ..ResolvedGroup::default()
    };
    for (name, amount) in &group.resources {
        match class_id(state, name) {
            Ok(class) => resolved.resources.push((class, *amount)),
            Err(refusal) => return Resolved::Refused(refusal),
        }
    }
    let lists = group.member_of.iter();
    let lists = lists.map(|list| aggregate_ids(state, list));
    resolved.member_of = deduplicated(lists.collect());
    if !resolved.member_of.is_empty() {
        let mut members = SetFilter::default();
        members.require_aggregates(&resolved.member_of);
        if !members.admits_any(state) {
            return Resolved::Nothing;
        }
    }
    let traits = any_of_traits(state, &group.required)
        .and_then(|required| Ok((required, trait_ids(state, &group.forbidden)?)));
    match traits {
        Ok((required, forbidden)) => {
            resolved.required = required;
            resolved.forbidden = forbidden;
        }
        Err(refusal) => return Resolved::Refused(refusal),
    }
    resolved.forbidden_aggregates = aggregate_ids(state, &group.forbidden_aggregates);
    if let Some(text) = &group.in_tree {
        let Some(provider) = provider_by_uuid_text(state, text).and_then(|id| state.provider(id))
        else {
            return Resolved::Nothing;
        };
        resolved.tree = Some(provider.root);
    }
    Resolved::Found(resolved)
}
