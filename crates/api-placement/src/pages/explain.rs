//! `/placewright/v1/explain?...`: why a query for candidates finds those that it finds, and no others.
//!
//! The query is that of `GET /allocation_candidates`, in the microversion of the header, or in the
//! newest one without a header. The response has the number of roots that each constraint excluded.

use hyper::HeaderMap;
use placewright_control::{explanation_json, now};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{CandidateQuery, RequestGroup, explain};

use crate::checks;
use crate::microversion::{self, Microversion};
use crate::resources::candidates;
use crate::routed_request::RoutedRequest;
use crate::shared::PlacementService;

/// The microversion of the header, or the newest one without a header.
pub(super) fn version(headers: &HeaderMap) -> ApiResult<Microversion> {
    if headers.contains_key(microversion::HEADER) {
        checks::negotiate_version(headers)
    } else {
        Ok(Microversion::MAX)
    }
}

pub(super) async fn show(
    service: &PlacementService,
    version: Microversion,
    query: &str,
) -> ApiResult<Reply> {
    let request = RoutedRequest {
        service,
        version,
        path_parameters: ["", ""],
        query,
        body: &[],
        received_at: now(),
    };
    let query = candidates::parse(&request)?;
    let constraints = constraint_count(&query);
    if constraints > CONSTRAINTS_MAX {
        return Err(ApiError::bad_request(format!(
            "The query has {constraints} constraints; at most {CONSTRAINTS_MAX} are explained."
        )));
    }
    let json = request
        .read(|state| {
            let explanation =
                explain(state, &query).map_err(|refusal| candidates::refusal_error(&refusal))?;
            Ok::<_, ApiError>(explanation_json(state, &explanation))
        })
        .await?;
    let reply = Reply::text(200, "application/json", json);
    // This page has the headers for caches in each microversion.
    Ok(reply.with_cache_headers(true, Some(request.received_s())))
}

/// The most constraints of an explained query, because each is compared with the others for every
/// host.
const CONSTRAINTS_MAX: usize = 500;

/// The number of constraints in a query.
fn constraint_count(query: &CandidateQuery) -> usize {
    let constraints_of_group = |group: &RequestGroup| {
        group.resources.len()
            + group.required.len()
            + group.forbidden.len()
            + group.member_of.len()
            + group.forbidden_aggregates.len()
            + usize::from(group.in_tree.is_some())
    };
    query.groups.iter().map(constraints_of_group).sum::<usize>()
        + query.root_required.len()
        + query.root_forbidden.len()
        + query.same_subtree.len()
}
