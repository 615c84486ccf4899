//! Claims of candidates that earlier responses offered: claim, swap and release.

use placewright_control::RefusalReason;
use placewright_control::destinations::{DestinationsError, OfferedCandidate};
use placewright_http::Reply;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::allocation_request::AllocationRequestBody;
use crate::error_response::{ErrorResponse, HandlerResult};
use crate::shared::{RoutedRequest, check_owner, json_reply};

/// The body of `POST /v1/claims/{consumer}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimBody {
    candidate: Uuid,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

/// The body of `POST /v1/claims/{consumer}/swap`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwapBody {
    candidate: Uuid,
}

/// The body of the response to a claim or swap.
#[derive(Serialize)]
struct ClaimResponse<'a> {
    consumer: Uuid,
    candidate: Uuid,
    provider: Uuid,
    allocation_request: AllocationRequestBody<'a>,
}

pub(crate) async fn claim_offered(
    request: &RoutedRequest<'_>,
    consumer: Uuid,
) -> HandlerResult<Reply> {
    let body: ClaimBody = request.parse_body()?;
    let destinations = &request.api_state.destinations;
    let offered = destinations.offered(body.candidate).await?;
    let project = body.project.as_deref().unwrap_or(offered.project());
    let user = body.user.as_deref().unwrap_or(offered.user());
    check_owner("project", project)?;
    check_owner("user", user)?;
    match destinations
        .claim(consumer, (project, user), &offered)
        .await
    {
        Ok(()) => claim_response(consumer, body.candidate, &offered),
        Err(error) => Err(claim_error(error, "")),
    }
}

pub(crate) async fn swap(request: &RoutedRequest<'_>, consumer: Uuid) -> HandlerResult<Reply> {
    let body: SwapBody = request.parse_body()?;
    let destinations = &request.api_state.destinations;
    let offered = destinations.offered(body.candidate).await?;
    match destinations.swap(consumer, &offered).await {
        Ok(()) => claim_response(consumer, body.candidate, &offered),
        Err(error) => Err(claim_error(error, "; nothing changed")),
    }
}

pub(crate) async fn release(request: &RoutedRequest<'_>, consumer: Uuid) -> HandlerResult<Reply> {
    request.api_state.destinations.release(consumer).await?;
    Ok(Reply::empty(204))
}

fn claim_response(
    consumer: Uuid,
    candidate: Uuid,
    offered: &OfferedCandidate,
) -> HandlerResult<Reply> {
    json_reply(
        200,
        &ClaimResponse {
            consumer,
            candidate,
            provider: offered.host(),
            allocation_request: AllocationRequestBody {
                allocations: offered.allocations(),
                mappings: offered.mappings().into(),
            },
        },
    )
}

/// The error response to a claim or swap. `detail_end` is added to the detail when the candidate
/// does not fit.
fn claim_error(error: DestinationsError, detail_end: &str) -> ErrorResponse {
    let DestinationsError::NothingFits(refusal) = error else {
        return error.into();
    };
    let cause = refusal.as_deref().map(RefusalReason::of_claim);
    let reason = refusal.map_or_else(String::new, |refusal| format!(": {refusal}"));
    let detail = format!("The candidate does not fit any more{reason}{detail_end}.");
    ErrorResponse::no_capacity(detail, cause)
}
