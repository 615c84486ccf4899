//! `/placewright/v1/explain?...`: why a query for candidates finds what it finds.
//!
//! It takes the query of `GET /allocation_candidates`, in the microversion of the header or else
//! the newest, and reports for every constraint how many roots it removed.

use hyper::HeaderMap;
use placewright_control::{explanation_json, now};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{CandidateQuery, RequestGroup, explain};

use crate::call::RoutedRequest;
use crate::checks;
use crate::microversion::{self, Microversion};
use crate::resources::candidates;
use crate::shared::PlacementService;

/// The microversion of the query: that of the header, or the newest.
pub(super) fn version(headers: &HeaderMap) -> ApiResult<Microversion> {
    if headers.contains_key(microversion::HEADER) {
        checks::negotiate(headers)
    } else {
        Ok(Microversion::MAX)
    }
}

pub(super) async fn show(
    service: &PlacementService,
    version: Microversion,
    query: &str,
) -> ApiResult<Reply> {
    let call = RoutedRequest {
        service,
        version,
        parameters: ["", ""],
        query,
        body: &[],
        at: now(),
    };
    let query = candidates::parse(&call)?;
    let parts = parts_of(&query);
    if parts > PARTS_MAX {
        return Err(ApiError::bad_request(format!(
            "The query has {parts} constraints; at most {PARTS_MAX} are explained."
        )));
    }
    let json = call
        .read(|state| {
            let found = explain(state, &query).map_err(|refusal| candidates::refused(&refusal))?;
            Ok::<_, ApiError>(explanation_json(state, &found))
        })
        .await?;
    let reply = Reply::text(200, "application/json", json);
    Ok(reply.modified(true, Some(call.now())))
}

/// The most constraints of an explained query: each is compared with others, for every host.
const PARTS_MAX: usize = 500;

/// The number of constraints in a query.
fn parts_of(query: &CandidateQuery) -> usize {
    let of_group = |group: &RequestGroup| {
        group.resources.len()
            + group.required.len()
            + group.forbidden.len()
            + group.member_of.len()
            + group.forbidden_aggregates.len()
            + usize::from(group.in_tree.is_some())
    };
    query.groups.iter().map(of_group).sum::<usize>()
        + query.root_required.len()
        + query.root_forbidden.len()
        + query.same_subtree.len()
}
