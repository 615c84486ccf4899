//! The experiment `walking` of `bench seeds`: filtering where the data is, against walking over the hosts one by one.
//!
//! Workers decide on the engine's state in this process, and the engine decides their claims one after the other. The
//! journal is in memory, so that most of the time is that of the decisions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use placewright_control::ControlMachine;
use placewright_control::placer::claim;
use placewright_engine::{Engine, Options};
use placewright_journal::MemoryJournal;
use serde::Serialize;
use uuid::Uuid;

use super::fleet;
use super::times::Times;
use crate::bench::in_process::submit_all;

mod http_share;
mod strategy;
mod worker;

pub(super) use http_share::{HttpShare, measure as measure_http};
pub(super) use strategy::{STRATEGIES, Strategy};
use worker::Worker;
pub(super) use worker::{METHODS, Method};

/// The sizes of the experiment.
#[derive(Debug, Clone)]
pub(super) struct WalkingSizes {
    /// The numbers of hosts, each of which is measured.
    pub(super) hosts: Vec<u32>,
    /// The numbers of workers, each of which is measured on each number of hosts.
    pub(super) workers: Vec<usize>,
    /// The longest time of one measurement.
    pub(super) time: Duration,
    /// A measurement makes at most one claim for each group of this many hosts, so that it takes only a part of the
    /// room of a small fleet.
    pub(super) hosts_per_claim: u32,
}

/// The results of one method.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WalkingFigures {
    pub(super) hosts: u32,
    pub(super) strategy: Strategy,
    pub(super) workers: usize,
    pub(super) method: Method,
    pub(super) decision: Times,
    pub(super) claims_per_second: f64,
    /// Decisions that were made again because another worker was faster.
    pub(super) retries: u64,
    pub(super) claims: u64,
}

/// The results of one worker.
#[derive(Debug, Default)]
struct WorkerResults {
    /// How long each decision took.
    decisions: Vec<Duration>,
    /// The consumers whose claims succeeded.
    claimed: Vec<Uuid>,
    /// Decisions that were made again because another worker was faster.
    retries: u64,
}

/// Measures all methods on one number of hosts.
///
/// # Errors
///
/// The engine refuses a command, which would be a bug of the benchmark.
pub(super) fn measure(hosts: u32, sizes: &WalkingSizes) -> anyhow::Result<Vec<WalkingFigures>> {
    let engine: Engine<ControlMachine> =
        Engine::open(MemoryJournal::new(), Options::default(), ())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(fleet::load_with(&engine, hosts, fleet::mostly_full))?;
    let host_numbers = fleet::numbers_by_uuid(hosts);
    let mut figures = Vec::new();
    let workers_max = sizes.workers.iter().copied().max().unwrap_or(1);
    for strategy in STRATEGIES {
        eprintln!("walking: {hosts} hosts, {}", strategy.name());
        let mut workers = make_workers(&engine, &host_numbers, strategy, workers_max)?;
        for count in &sizes.workers {
            for method in METHODS {
                let (results, seconds) = run(&mut workers[..*count], method, hosts, sizes)?;
                let claimed: Vec<Uuid> =
                    results.iter().flat_map(|one| one.claimed.clone()).collect();
                let releases = claimed.iter().map(|consumer| claim::release(*consumer));
                runtime.block_on(submit_all(&engine, releases))?;
                let decisions = results.iter().flat_map(|one| one.decisions.iter().copied());
                figures.push(WalkingFigures {
                    hosts,
                    strategy,
                    workers: *count,
                    method,
                    decision: Times::of(decisions),
                    claims_per_second: count_of(claimed.len()) / seconds,
                    retries: results.iter().map(|one| one.retries).sum(),
                    claims: claimed.len() as u64,
                });
            }
        }
    }
    engine.shutdown();
    Ok(figures)
}

fn make_workers(
    engine: &Engine<ControlMachine>,
    host_numbers: &BTreeMap<Uuid, u32>,
    strategy: Strategy,
    count: usize,
) -> anyhow::Result<Vec<Worker>> {
    let workers =
        (0..count).map(|worker_number| Worker::new(engine, host_numbers, strategy, worker_number));
    workers.collect()
}

/// Lets workers decide and claim at the same time, until the time is over or enough is claimed. Also returns the time
/// in seconds.
fn run(
    workers: &mut [Worker],
    method: Method,
    hosts: u32,
    sizes: &WalkingSizes,
) -> anyhow::Result<(Vec<WorkerResults>, f64)> {
    for worker in &mut *workers {
        worker.warm_up(method)?;
    }
    let claims_left = AtomicU64::new(u64::from(hosts / sizes.hosts_per_claim));
    let start = Instant::now();
    let results: Vec<anyhow::Result<WorkerResults>> = thread::scope(|scope| {
        let running: Vec<_> = workers
            .iter_mut()
            .map(|worker| scope.spawn(|| work(worker, method, &claims_left, start + sizes.time)))
            .collect();
        running
            .into_iter()
            .map(|worker| worker.join().ok().context("a worker panicked")?)
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    Ok((results.into_iter().collect::<anyhow::Result<_>>()?, seconds))
}

/// Decides and claims with one worker until `end`, or until no claims are left.
fn work(
    worker: &mut Worker,
    method: Method,
    claims_left: &AtomicU64,
    end: Instant,
) -> anyhow::Result<WorkerResults> {
    let mut results = WorkerResults::default();
    // Relaxed, because the counter only distributes the claims, and no other memory depends on it.
    let decrement = |count: u64| count.checked_sub(1);
    // At least one decision, however late it is.
    while (results.decisions.is_empty() || Instant::now() < end)
        && claims_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement)
            .is_ok()
    {
        loop {
            let start = Instant::now();
            let candidates = worker.find_candidates(method)?;
            results.decisions.push(start.elapsed());
            if let Some(consumer) = worker.claim(candidates)? {
                results.claimed.push(consumer);
                break;
            }
            results.retries += 1;
        }
    }
    Ok(results)
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn count_of(number: usize) -> f64 {
    number as f64
}
