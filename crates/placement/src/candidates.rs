//! The search for allocation candidates, behind `GET /allocation_candidates`.
//!
//! [`find_candidates`] takes a typed [`CandidateQuery`] and returns [`Candidates`]: the allocations that could be
//! claimed, the providers that serve each group of the request, and the providers for the summaries of the answer. It
//! enumerates no more than the limit admits.
//!
//! Flat hosts (no tree, no sharing provider in reach) are evaluated 64 at a time, on the columns
//! of the classes and the bit masks of traits and aggregates. Every other root is searched as a
//! tree. Both paths give the same candidates where both apply.

mod answer;
mod backtrack;
pub(crate) mod bits;
mod bounds;
mod complete;
mod enumeration;
mod flat;
mod hosts;
pub(crate) mod lookup;
pub(crate) mod plan;
mod query;
pub(crate) mod resolve;
mod room;
mod root_iterator;
pub(crate) mod root_selection;
mod rules;
pub(crate) mod scratch;
mod search;
pub(crate) mod sharing;
mod shuffle;
mod taken;
mod trait_cover;
mod traits;
pub(crate) mod tree;
mod walk;

pub use answer::{CandidateView, Candidates};
pub use hosts::{HostSearch, HostWord, PreparedQuery};
pub use query::{CandidateQuery, GroupPolicy, QueryRefusal, RequestGroup, SearchOptions, Strategy};
pub use room::{HostRoom, RoomLimits, TreeRoom};
pub use search::{CandidateSearch, ProviderUuids};
pub use taken::Taken;

use crate::state::State;
use enumeration::Enumeration;
use lookup::{ProviderSet, SetFilter};
use plan::Plan;
use resolve::{Resolved, ResolvedGroup, ResolvedRoot, resolve_group, resolve_root};
use root_selection::RootSelection;

/// The candidates of a request, at most as many as the query's limit.
///
/// Without a limit a fleet of wide trees has more candidates than memory can hold. If the operator sets no bound
/// either, the search returns the first candidate of each root, and further candidates that have at most 500,000
/// assignments together. A candidate assigns one provider to each suffixed group, and one to each resource class of the
/// unsuffixed group.
///
/// # Errors
///
/// [`QueryRefusal`] for a resource class or trait that does not exist. If no provider satisfies the part of the request
/// before that name, the answer is empty instead.
pub fn find_candidates(state: &State, query: &CandidateQuery) -> Result<Candidates, QueryRefusal> {
    find(state, query, RootSelection::new)
}

/// As [`find_candidates`], but every host is searched as a tree: slower, and used by tests that
/// compare the two search paths.
///
/// # Errors
///
/// As [`find_candidates`].
#[doc(hidden)]
pub fn find_candidates_as_trees(
    state: &State,
    query: &CandidateQuery,
) -> Result<Candidates, QueryRefusal> {
    find(state, query, RootSelection::new_as_trees)
}

fn find(
    state: &State,
    query: &CandidateQuery,
    select_roots: fn(&Plan<'_>) -> Option<RootSelection>,
) -> Result<Candidates, QueryRefusal> {
    let empty = || Candidates::new(query.groups.len());
    let Some(plan) = prepare(state, query)? else {
        return Ok(empty());
    };
    Ok(select_roots(&plan).map_or_else(empty, |root_selection| {
        let ceiling = query.options.max_candidates;
        Enumeration::new(&plan, root_selection, query.limit, ceiling, &query.options).search(&plan)
    }))
}

/// Resolves a query's names into a plan. `None` when the names alone show that no provider can
/// serve it.
fn prepare<'a>(state: &'a State, query: &CandidateQuery) -> Result<Option<Plan<'a>>, QueryRefusal> {
    let root = resolve_root(state, query)?;
    let mut filter = SetFilter::default();
    filter.require_traits(&root.required);
    filter.forbid_traits(&root.forbidden);
    filter
        .required
        .push(smallvec::smallvec![ProviderSet::Roots]);
    if !filter.admits_any(state) {
        return Ok(None);
    }
    let mut groups: Vec<ResolvedGroup> = Vec::with_capacity(query.groups.len());
    for group in &query.groups {
        match resolve_group(state, group) {
            Resolved::Found(group) => groups.push(group),
            Resolved::Nothing => return Ok(None),
            Resolved::Refused(refusal) => {
                // The reference evaluates one group after the other: a group that finds nothing hides
                // an unknown name in a later group.
                let earlier_could_be_served = groups
                    .into_iter()
                    .all(|group| could_be_served(state, &root, group));
                return if earlier_could_be_served {
                    Err(refusal)
                } else {
                    Ok(None)
                };
            }
        }
    }
    Ok(Some(Plan::new(state, query, &root, groups)))
}

/// Whether a group on its own has any candidate.
fn could_be_served(state: &State, root: &ResolvedRoot, group: ResolvedGroup) -> bool {
    // The group itself is resolved already, so its names in the query are not needed.
    let single_group = CandidateQuery {
        groups: vec![RequestGroup::default()],
        nested: true,
        ..CandidateQuery::default()
    };
    let plan = Plan::new(state, &single_group, root, vec![group]);
    RootSelection::new(&plan).is_some_and(|root_selection| {
        let (limit, ceiling) = (Some(1), None);
        !Enumeration::new(&plan, root_selection, limit, ceiling, &single_group.options)
            .search(&plan)
            .is_empty()
    })
}
