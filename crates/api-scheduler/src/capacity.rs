//! `POST /v1/capacity`: counts how many more instances of a request would fit, on a copy of the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_control::now;
use placewright_http::Reply;
use placewright_scheduler::request::RequestSpec;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult, code};
use crate::shared::{RoutedRequest, json_reply};

/// The default and the maximum number of instances that are counted.
const LIMIT_MAX: usize = 100_000;

/// The body of `POST /v1/capacity`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapacityBody {
    request: RequestSpec,
    /// The number at which counting stops.
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    LIMIT_MAX
}

/// The body of the response to `POST /v1/capacity`.
#[derive(Serialize)]
struct CapacityResponse {
    /// The number of instances that fit.
    count: usize,
    /// Whether more than `limit` would fit.
    more: bool,
    /// The number of hosts that got at least one instance.
    hosts: usize,
    /// The number of instances by cell.
    by_cell: BTreeMap<Uuid, usize>,
}

pub(crate) async fn count(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let body: CapacityBody = request.parse_body()?;
    if !(1..=LIMIT_MAX).contains(&body.limit) {
        let detail = format!("limit: {} is not 1 to {LIMIT_MAX}", body.limit);
        return Err(ErrorResponse::field("limit", detail));
    }
    // The permit bounds the memory: there is only one copy of the state at a time. An error would mean that the
    // semaphore was closed, which nothing does.
    let _permit = request.api_state.capacity_permit.acquire().await;
    let api_state = Arc::clone(request.api_state);
    // Copying the state and counting take long in a large fleet, so they run on a thread for
    // blocking work.
    let counting = tokio::task::spawn_blocking(move || -> HandlerResult<Reply> {
        let (scheduler, state, prepared) = api_state.with_scheduler(|scheduler, state| {
            let prepared = scheduler.prepare_cached(state, &body.request)?;
            HandlerResult::Ok((scheduler.fork(), state.clone(), prepared))
        })?;
        let capacity = scheduler.capacity(state, &body.request, &prepared, body.limit, now())?;
        json_reply(
            200,
            &CapacityResponse {
                count: capacity.count,
                more: capacity.has_more,
                hosts: capacity.host_count,
                by_cell: capacity.by_cell,
            },
        )
    });
    counting
        .await
        .map_err(|error| ErrorResponse::new(500, code::INTERNAL, error.to_string()))?
}
