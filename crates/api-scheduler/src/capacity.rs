//! `POST /v1/capacity`: counts how many more instances of a request would fit, where, and what stops the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_control::now;
use placewright_http::Reply;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::capacity::{
    Capacity, CapacityCount, LevelCapacity, LimitingFactor,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult, code};
use crate::shared::{RoutedRequest, json_reply};

/// The most instances whose decisions are simulated, and the largest limit.
pub(crate) const SIMULATED_MAX: usize = 100_000;

/// The body of `POST /v1/capacity`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapacityBody {
    request: RequestSpec,
    /// The number of instances at which counting stops. Without a limit all instances are counted, but at most
    /// [`SIMULATED_MAX`] if they have to be simulated.
    #[serde(default)]
    limit: Option<usize>,
}

/// The body of the response to `POST /v1/capacity`.
#[derive(Serialize)]
struct CapacityResponse {
    /// The number of instances that fit.
    count: u64,
    /// Whether more instances would fit than were counted.
    more: bool,
    /// The number of hosts that got at least one instance.
    hosts: usize,
    /// The number of instances by cell.
    by_cell: BTreeMap<Uuid, u64>,
    /// The number of instances by availability zone.
    by_zone: BTreeMap<String, u64>,
    /// The number of instances by place of each level of the topology.
    by_level: Vec<LevelJson>,
    /// The reasons why no host takes a further instance; the reason of the most hosts comes first.
    #[serde(rename = "bounds")]
    limiting_factors: Vec<LimitingFactorJson>,
}

#[derive(Serialize)]
struct LevelJson {
    level: String,
    places: Vec<PlaceJson>,
    /// The number of instances on hosts that are in no place of the level.
    elsewhere: u64,
}

#[derive(Serialize)]
struct PlaceJson {
    aggregate: String,
    name: String,
    count: u64,
}

/// An obstacle to the next instance, which some hosts meet first.
#[derive(Serialize)]
struct LimitingFactorJson {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The number of hosts on which this is the first obstacle.
    hosts: usize,
}

impl From<Capacity> for CapacityResponse {
    fn from(capacity: Capacity) -> Self {
        let mut limiting_factors: Vec<LimitingFactorJson> = capacity
            .limiting_factors
            .into_iter()
            .map(limiting_factor_json)
            .collect();
        limiting_factors.sort_by_key(|factor| std::cmp::Reverse(factor.hosts));
        Self {
            count: capacity.count,
            more: capacity.has_more,
            hosts: capacity.host_count,
            by_cell: capacity.by_cell,
            by_zone: capacity.by_zone,
            by_level: capacity.by_level.into_iter().map(level_json).collect(),
            limiting_factors,
        }
    }
}

fn level_json(level: LevelCapacity) -> LevelJson {
    let places = level.places.into_iter().map(|place| PlaceJson {
        aggregate: place.aggregate,
        name: place.name,
        count: place.count,
    });
    LevelJson {
        level: level.level,
        places: places.collect(),
        elsewhere: level.elsewhere,
    }
}

fn limiting_factor_json((factor, hosts): (LimitingFactor, usize)) -> LimitingFactorJson {
    let (reason, name) = match factor {
        LimitingFactor::Filter(name) => ("filter", Some(name)),
        LimitingFactor::ResourceClass(name) => ("resource_class", Some(name)),
        LimitingFactor::Constraint(name) => ("constraint", Some(name)),
        LimitingFactor::Rule => ("rule", None),
        LimitingFactor::Claim => ("claim", None),
    };
    LimitingFactorJson {
        reason,
        name,
        hosts,
    }
}

pub(crate) async fn count(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let body: CapacityBody = request.parse_body()?;
    if let Some(limit) = body.limit
        && !(1..=SIMULATED_MAX).contains(&limit)
    {
        let detail = format!("limit: {limit} is not 1 to {SIMULATED_MAX}");
        return Err(ErrorResponse::field("limit", detail));
    }
    // The permit bounds the memory: there is only one copy of the state at a time. An error would mean that the
    // semaphore was closed, which nothing does.
    let _permit = request.api_state.capacity_permit.acquire().await;
    let api_state = Arc::clone(request.api_state);
    // Counting takes long in a large fleet, so it runs on a thread for blocking work.
    let counting = tokio::task::spawn_blocking(move || -> HandlerResult<Reply> {
        let counted = api_state.with_scheduler(|scheduler, state| {
            let prepared = scheduler.prepare_cached(state, &body.request)?;
            let (request, limit) = (&body.request, body.limit);
            HandlerResult::Ok(scheduler.begin_capacity(
                state,
                request,
                &prepared,
                limit,
                SIMULATED_MAX,
            )?)
        })?;
        let capacity = match counted {
            CapacityCount::Complete(capacity) => capacity,
            CapacityCount::Unfinished(rest) => rest.finish(SIMULATED_MAX, now())?,
        };
        json_reply(200, &CapacityResponse::from(capacity))
    });
    counting
        .await
        .map_err(|error| ErrorResponse::new(500, code::INTERNAL, error.to_string()))?
}
