//! Which providers pass the filters of a query: the search behind `GET /resource_providers`.

use std::ops::Range;

use crate::candidates::QueryRefusal;
use crate::candidates::lookup::{
    AnyOf, SetFilter, aggregate_ids, any_of_traits, capacity_word, class_id, deduplicated,
    provider_by_uuid_text, trait_ids,
};
use crate::ids::{AggregateId, ProviderId, TraitId};
use crate::slot_set::bits;
use crate::state::State;

/// Filters on providers, checked for form but not against the state. All of them must hold.
///
/// Source: Placement API reference, "List resource providers".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderQuery {
    /// The exact name. `None` and an empty name filter nothing.
    pub name: Option<String>,
    /// The UUID as the client wrote it: only the canonical form in lower case names a provider.
    pub uuid: Option<String>,
    /// The UUID of any provider of the tree, as the client wrote it.
    pub in_tree: Option<String>,
    /// Names of traits: at least one of each list is required.
    pub required: Vec<Vec<String>>,
    /// Names of traits that are forbidden.
    pub forbidden: Vec<String>,
    /// UUIDs of aggregates, as the client wrote them: a provider must be a member of one aggregate of each list.
    pub member_of: Vec<Vec<String>>,
    /// UUIDs of aggregates, as the client wrote them: a provider must not be a member of any of them.
    pub forbidden_aggregates: Vec<String>,
    /// Names of resource classes with the amounts that must be available.
    pub resources: Vec<(String, i64)>,
}

/// The providers that pass all filters, in rising order of slot.
///
/// # Errors
///
/// [`QueryRefusal`] for a resource class or trait that does not exist, unless a filter that is
/// checked before it (the tree, traits, aggregates, in this order) already excludes all providers.
pub fn find_providers(
    state: &State,
    query: &ProviderQuery,
) -> Result<Vec<ProviderId>, QueryRefusal> {
    let words = 0..state.provider_slots().div_ceil(64);
    find_providers_among(state, query, words)
}

/// As [`find_providers`], restricted to some words of 64 slots: for readers that must not lock the
/// state for as long as a full pass takes.
///
/// # Errors
///
/// As [`find_providers`].
pub fn find_providers_among(
    state: &State,
    query: &ProviderQuery,
    words: Range<usize>,
) -> Result<Vec<ProviderId>, QueryRefusal> {
    let mut filter = SetFilter::default();
    let mut tree = None;
    if let Some(text) = query.in_tree.as_deref().filter(|text| !text.is_empty()) {
        let Some(member) = provider_by_uuid_text(state, text) else {
            return Ok(Vec::new());
        };
        tree = state.provider(member).map(|provider| provider.root);
    }
    let required = any_of_traits(state, &query.required)?;
    filter.require_traits(&required);
    if !required.is_empty() && !filter.admits_any(state) {
        return Ok(Vec::new());
    }
    let forbidden: Vec<TraitId> = trait_ids(state, &query.forbidden)?;
    let mut aggregates = SetFilter::default();
    aggregates.require_aggregates(&any_of_aggregates(state, &query.member_of));
    if !query.member_of.is_empty() && !aggregates.admits_any(state) {
        return Ok(Vec::new());
    }
    filter.required.append(&mut aggregates.required);
    filter.forbid_traits(&forbidden);
    let forbidden_aggregates: Vec<AggregateId> = aggregate_ids(state, &query.forbidden_aggregates);
    filter.forbid_aggregates(&forbidden_aggregates);
    let mut resources = Vec::with_capacity(query.resources.len());
    for (name, amount) in &query.resources {
        resources.push((class_id(state, name)?, *amount));
    }
    let requested = match requested_provider(state, query) {
        Ok(requested) => requested,
        Err(NoSuchProvider) => return Ok(Vec::new()),
    };
    let passing_word = |word, mut mask| {
        mask = filter.word(state, word, mask);
        for (class, amount) in &resources {
            mask = capacity_word(state, *class, *amount, word, mask);
        }
        mask
    };
    let is_in_tree = |id: &ProviderId| {
        tree.is_none() || state.provider(*id).map(|provider| provider.root) == tree
    };
    let is_among = |id: &ProviderId| words.contains(&(id.index() / 64));
    if let Some(id) = requested.filter(is_among) {
        let passes = passing_word(id.index() / 64, 1 << (id.0 % 64)) != 0 && is_in_tree(&id);
        return Ok(if passes { vec![id] } else { Vec::new() });
    }
    if requested.is_some() {
        return Ok(Vec::new());
    }
    if let Some(root) = tree {
        let mut members = state.subtree(root);
        let passes = |id: &ProviderId| passing_word(id.index() / 64, 1 << (id.0 % 64)) != 0;
        members.retain(|id| is_among(id) && passes(id));
        members.sort_unstable();
        return Ok(members);
    }
    let words = words.start..words.end.min(state.provider_slots().div_ceil(64));
    Ok(words
        .flat_map(|word| bits(passing_word(word, state.existing_word(word)), word))
        .map(ProviderId)
        .collect())
}

/// The error that no provider has the requested name or UUID.
struct NoSuchProvider;

/// The provider that has the requested name and UUID; `None` if neither was given.
fn requested_provider(
    state: &State,
    query: &ProviderQuery,
) -> Result<Option<ProviderId>, NoSuchProvider> {
    let mut found = None;
    if let Some(name) = query.name.as_deref().filter(|name| !name.is_empty()) {
        found = Some(state.provider_id_by_name(name).ok_or(NoSuchProvider)?);
    }
    if let Some(uuid) = query.uuid.as_deref().filter(|uuid| !uuid.is_empty()) {
        let id = provider_by_uuid_text(state, uuid).ok_or(NoSuchProvider)?;
        if found.is_some_and(|found| found != id) {
            return Err(NoSuchProvider);
        }
        found = Some(id);
    }
    Ok(found)
}

fn any_of_aggregates(state: &State, lists: &[Vec<String>]) -> AnyOf<AggregateId> {
    let lists = lists.iter().map(|list| aggregate_ids(state, list));
    deduplicated(lists.collect())
}
