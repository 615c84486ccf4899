//! Claims of candidates from earlier responses: claim, swap and release.

use placewright_control::RefusalReason;
use placewright_control::destinations::{DestinationsError, OfferedCandidate};
use placewright_http::Reply;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::allocation_request::AllocationRequestBody;
use crate::error_response::{Answer, ErrorResponse};
use crate::shared::{RoutedRequest, check_owner, json};

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
struct Claimed<'a> {
    consumer: Uuid,
    candidate: Uuid,
    provider: Uuid,
    allocation_request: AllocationRequestBody<'a>,
}

pub(crate) async fn claim_kept(call: &RoutedRequest<'_>, consumer: Uuid) -> Answer<Reply> {
    let body: ClaimBody = call.read()?;
    let destinations = &call.core.destinations;
    let offered = destinations.offered(body.candidate)?;
    let project = body.project.as_deref().unwrap_or(offered.project());
    let user = body.user.as_deref().unwrap_or(offered.user());
    check_owner("project", project)?;
    check_owner("user", user)?;
    match destinations
        .claim(consumer, (project, user), &offered)
        .await
    {
        Ok(()) => claimed(consumer, body.candidate, &offered),
        Err(error) => Err(refused(error, "")),
    }
}

pub(crate) async fn swap(call: &RoutedRequest<'_>, consumer: Uuid) -> Answer<Reply> {
    let body: SwapBody = call.read()?;
    let destinations = &call.core.destinations;
    let offered = destinations.offered(body.candidate)?;
    match destinations.swap(consumer, &offered).await {
        Ok(()) => claimed(consumer, body.candidate, &offered),
        Err(error) => Err(refused(error, "; nothing changed")),
    }
}

pub(crate) async fn release(call: &RoutedRequest<'_>, consumer: Uuid) -> Answer<Reply> {
    call.core.destinations.release(consumer).await?;
    Ok(Reply::empty(204))
}

fn claimed(consumer: Uuid, candidate: Uuid, offered: &OfferedCandidate) -> Answer<Reply> {
    json(
        200,
        &Claimed {
            consumer,
            candidate,
            provider: offered.host(),
            allocation_request: AllocationRequestBody {
                allocations: offered.allocations(),
                mappings: offered.mappings(),
            },
        },
    )
}

/// The error response to a claim or swap; `what_holds` says what a consumer holds now.
fn refused(error: DestinationsError, what_holds: &str) -> ErrorResponse {
    let DestinationsError::NothingFits(why) = error else {
        return error.into();
    };
    let cause = why.as_deref().map(RefusalReason::of_claim);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let detail = format!("The candidate does not fit any more{why}{what_holds}.");
    ErrorResponse::no_capacity(detail, cause)
}
