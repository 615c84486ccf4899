//! `POST /v1/capacity`: counts how many more instances of a request would fit, where, and what stops the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use placewright_control::now;
use placewright_http::Reply;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::capacity::{
    Capacity, CapacityCount, CountSlice, LevelCapacity, LimitingFactor,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult, code};
use crate::shared::{ApiState, RoutedRequest, json_reply};
use crate::topology_rules;

/// The most instances whose decisions are simulated, and the largest limit.
pub(crate) const SIMULATED_MAX: usize = 100_000;

/// The number of steps in one slice of a count host by host. The scheduler and the state are locked during a slice, for
/// about a millisecond.
const STEPS_PER_SLICE: usize = 10_000;
/// The time after which clients are told to try again when one count is simulated and another one waits for it.
const SIMULATION_RETRY_AFTER: Duration = Duration::from_secs(2);
/// The time after which clients are told to try again when names or the topology change all the time.
const CHANGES_RETRY_AFTER: Duration = Duration::from_secs(1);

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
    /// The filter, resource class or constraint; `None` for a rule and for a claim.
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
    let mut body: CapacityBody = request.parse_body()?;
    topology_rules::complete(request, &mut body.request).await?;
    if let Some(limit) = body.limit
        && !(1..=SIMULATED_MAX).contains(&limit)
    {
        let detail = format!("limit: {limit} is not 1 to {SIMULATED_MAX}");
        return Err(ErrorResponse::field("limit", detail));
    }
    let api_state = Arc::clone(request.api_state);
    let permits = &request.api_state.count_permits;
    // A permit lasts as long as the work, also if the client does not wait for it. An error would mean that a semaphore
    // was closed, which nothing does.
    let permit = Arc::clone(&permits.by_host).acquire_owned().await;
    let counted = run_blocking(move || {
        let _permit = permit;
        count_by_host(&api_state, body)
    });
    let counted = counted.await?;
    let count = match counted {
        Counted::Complete(capacity) => return reply(capacity),
        Counted::NeedsSimulation(count) => count,
    };
    // One count is simulated and one waits: first the right to be one of these two, then the right to run.
    let Ok(admitted) = Arc::clone(&permits.admitted).try_acquire_owned() else {
        return Err(ErrorResponse::unavailable(
            "Another count is simulated and one waits for it; try again later.",
            SIMULATION_RETRY_AFTER,
        ));
    };
    let running = Arc::clone(&permits.running).acquire_owned().await;
    let api_state = Arc::clone(request.api_state);
    let capacity = run_blocking(move || {
        let _permits = (admitted, running);
        let simulation = api_state
            .with_scheduler(|scheduler, state| count.simulation(scheduler, state, SIMULATED_MAX));
        HandlerResult::Ok(simulation.run(now())?)
    });
    reply(capacity.await?)
}

/// The result of a count host by host.
enum Counted {
    Complete(Capacity),
    /// The instances cannot be counted host by host: the decisions have to be simulated one after another.
    NeedsSimulation(Box<CapacityCount>),
}

/// Counts host by host, as far as that is possible. Other requests use the scheduler and the state between the slices.
fn count_by_host(api_state: &ApiState, body: CapacityBody) -> HandlerResult<Counted> {
    let prepared =
        api_state.with_scheduler(|scheduler, state| scheduler.prepare_cached(state, &body.request));
    let mut count = CapacityCount::new(body.request, prepared?, body.limit);
    loop {
        let slice = api_state
            .with_scheduler(|scheduler, state| count.run_slice(scheduler, state, STEPS_PER_SLICE));
        match slice? {
            CountSlice::Unfinished => std::thread::yield_now(),
            CountSlice::Complete(capacity) => return Ok(Counted::Complete(capacity)),
            CountSlice::NeedsSimulation => return Ok(Counted::NeedsSimulation(Box::new(count))),
            CountSlice::GivenUp => {
                return Err(ErrorResponse::unavailable(
                    "Names or the topology changed again and again while hosts were counted; try \
                     again later.",
                    CHANGES_RETRY_AFTER,
                ));
            }
        }
    }
}

/// Counting takes long in a large fleet, so it runs on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(
    compute: impl FnOnce() -> HandlerResult<T> + Send + 'static,
) -> HandlerResult<T> {
    let computing = tokio::task::spawn_blocking(compute);
    computing
        .await
        .map_err(|error| ErrorResponse::new(500, code::INTERNAL, error.to_string()))?
}

fn reply(capacity: Capacity) -> HandlerResult<Reply> {
    json_reply(200, &CapacityResponse::from(capacity))
}
