//! The experiment `shared-state` of `bench seeds`: requests that come at once, decided by 1, 4 and 32 schedulers that
//! share their state.

use std::sync::Arc;
use std::time::Duration;

use placewright_control::placer::claim;
use placewright_scheduler::request::RequestSpec;
use serde::Serialize;
use tokio::sync::Barrier;
use uuid::Uuid;

use super::fleet::{self, Filling};
use super::placing_request::{PlacedRequest, place};
use super::replicas::{Append, JournalPlace, Replicas};
use super::times::Times;
use crate::bench::in_process::submit_all;
use crate::bench::requests::RandomNumbers;

/// The requests that come at once, as in the experiment that was published in 2016.
pub(super) const REQUESTS: usize = 31;
/// The seed of the instances' UUIDs.
const INSTANCE_SEED: u64 = 23;

/// The results for one number of schedulers.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SharedStateFigures {
    pub(super) store: &'static str,
    pub(super) hosts: u32,
    pub(super) schedulers: usize,
    /// The rounds of requests that were measured.
    pub(super) rounds: usize,
    /// The ranking of the hosts.
    pub(super) decision: Times,
    /// How long a request was blocked by the store: from handing its claim to the engine until the claim was durable.
    pub(super) blocked: Times,
    /// From handing a claim to the engine until the scheduler that made it knew that it was durable.
    pub(super) answered: Times,
    /// From a request to its answer.
    pub(super) whole: Times,
    /// How long the store took for an append.
    pub(super) append: Times,
    /// Requests that their callers would have to repeat.
    pub(super) visible_retries: u64,
    /// Hosts that a claim named and found full.
    pub(super) passed_over: u64,
    /// Rankings that were made again.
    pub(super) ranked_again: u64,
}

/// How an experiment is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) hosts: u32,
    pub(super) schedulers: usize,
    pub(super) rounds: usize,
}

impl SharedStateFigures {
    /// How many requests were measured.
    pub(super) fn requests(&self) -> usize {
        self.rounds * REQUESTS
    }
}

/// Runs rounds of requests that come at once. The first round, in which caches are filled, does not count.
///
/// # Errors
///
/// The store fails.
pub(super) async fn measure(
    place: &JournalPlace,
    setup: Setup,
) -> anyhow::Result<SharedStateFigures> {
    let fleet = (setup.hosts, Filling::NearlyFull);
    let replicas = Replicas::start(place, setup.schedulers, fleet).await?;
    let request = fleet::request();
    let mut random = RandomNumbers::new(INSTANCE_SEED, u64::from(setup.hosts));
    let mut requests: Vec<PlacedRequest> = Vec::new();
    let (mut appends, mut blocked): (Vec<Duration>, Vec<Duration>) = Default::default();
    for round in 0..=setup.rounds {
        let instances: Vec<Uuid> = (0..REQUESTS).map(|_| random.uuid()).collect();
        replicas.take_appends();
        let placed = run_round(&replicas, &request, &instances).await?;
        let results = instances.iter().zip(&placed);
        let claimed = results.filter(|(_, request)| !request.is_visible_retry);
        let claimed: Vec<Uuid> = claimed.map(|(instance, _)| *instance).collect();
        let round_appends = replicas.take_appends();
        if round > 0 {
            blocked.extend(
                placed
                    .iter()
                    .map(|request| until_durable(request, &round_appends)),
            );
            requests.extend(placed);
            appends.extend(round_appends.iter().map(|append| append.time));
        }
        release(&replicas, &claimed).await?;
    }
    replicas.stop().await?;
    let sum = |field: fn(&PlacedRequest) -> u64| requests.iter().map(field).sum();
    Ok(SharedStateFigures {
        store: match place {
            JournalPlace::Sqlite(_) => "SQLite",
            JournalPlace::Etcd(_) => "etcd",
        },
        hosts: setup.hosts,
        schedulers: setup.schedulers,
        rounds: setup.rounds,
        decision: Times::of(requests.iter().map(|request| request.decision)),
        blocked: Times::of(blocked),
        answered: Times::of(requests.iter().map(|request| request.until_answered)),
        whole: Times::of(requests.iter().map(|request| request.whole)),
        append: Times::of(appends),
        visible_retries: sum(|request| request.is_visible_retry.into()),
        passed_over: sum(|request| request.passed_over),
        ranked_again: sum(|request| request.ranked_again),
    })
}

/// The time from handing a claim to the engine until it was durable.
fn until_durable(request: &PlacedRequest, appends: &[Append]) -> Duration {
    let durable_after = request.last_claim.and_then(|(submitted_at, sequence)| {
        let append = appends.iter().find(|append| append.sequence >= sequence)?;
        Some(append.durable_at.saturating_duration_since(submitted_at))
    });
    // The append is recorded a moment after the requests that wait for it are answered, so the time until the answer is
    // an upper bound.
    durable_after.map_or(request.until_answered, |time| {
        time.min(request.until_answered)
    })
}

/// Runs one round: sends all requests at once, spread over the schedulers.
async fn run_round(
    replicas: &Replicas,
    request: &Arc<RequestSpec>,
    instances: &[Uuid],
) -> anyhow::Result<Vec<PlacedRequest>> {
    let barrier = Arc::new(Barrier::new(instances.len()));
    let mut running = Vec::with_capacity(instances.len());
    for (instance, replica) in instances.iter().zip(replicas.all.iter().cycle()) {
        let (replica, request, barrier) = (
            Arc::clone(replica),
            Arc::clone(request),
            Arc::clone(&barrier),
        );
        let instance = *instance;
        running.push(tokio::spawn(async move {
            barrier.wait().await;
            place(&replica, &request, instance).await
        }));
    }
    let mut placed = Vec::with_capacity(running.len());
    for request in running {
        placed.push(request.await??);
    }
    Ok(placed)
}

/// Releases the claims of a round, and lets all schedulers learn of it.
pub(super) async fn release(replicas: &Replicas, instances: &[Uuid]) -> anyhow::Result<()> {
    let releases = instances.iter().map(|instance| claim::release(*instance));
    submit_all(&replicas.all[0].engine, releases).await?;
    replicas.confirm().await
}
