//! `POST /v1/capacity`: how many more instances of a request would fit, counted on a copy of the
//! state.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_control::now;
use placewright_http::Reply;
use placewright_scheduler::request::RequestSpec;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error_response::{Answer, ErrorResponse, code};
use crate::shared::{RoutedRequest, json};

/// The most instances that are counted.
const MOST: usize = 100_000;

/// The body of `POST /v1/capacity`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapacityBody {
    request: RequestSpec,
    /// The number at which counting stops.
    #[serde(default = "most")]
    limit: usize,
}

fn most() -> usize {
    MOST
}

/// The body of the response to `POST /v1/capacity`.
#[derive(Serialize)]
struct CapacityResponse {
    count: usize,
    /// Whether more than `limit` would fit.
    more: bool,
    hosts: usize,
    by_cell: BTreeMap<Uuid, usize>,
}

pub(crate) async fn count(call: &RoutedRequest<'_>) -> Answer<Reply> {
    let body: CapacityBody = call.read()?;
    if !(1..=MOST).contains(&body.limit) {
        let detail = format!("limit: {} is not 1 to {MOST}", body.limit);
        return Err(ErrorResponse::field("limit", detail));
    }
    // One copy of the state at a time is enough. The semaphore is never closed.
    let _turn = call.core.counting.acquire().await;
    let core = Arc::clone(call.core);
    // Copying and counting take long in a large fleet, so they run on another thread.
    let counting = tokio::task::spawn_blocking(move || -> Answer<Reply> {
        let (fork, state, prepared) = core.decide(|scheduler_state, state| {
            let prepared = scheduler_state
                .scheduler
                .prepare_cached(state, &body.request)?;
            Answer::Ok((scheduler_state.scheduler.fork(), state.clone(), prepared))
        })?;
        let found = fork.capacity(state, &body.request, &prepared, body.limit, now())?;
        json(
            200,
            &CapacityResponse {
                count: found.count,
                more: found.is_cut,
                hosts: found.hosts,
                by_cell: found.by_cell,
            },
        )
    });
    counting
        .await
        .map_err(|error| ErrorResponse::new(500, code::INTERNAL, error.to_string()))?
}
