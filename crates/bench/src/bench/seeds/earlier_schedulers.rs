//! The experiment `old-ways` of `bench seeds`: the ways in which earlier schedulers worked, on the same hosts and
//! requests. Each way differs from the one before it in one thing.
//!
//! All of them rank hosts with the product's scheduler, each scheduler on its own mirror of the hosts ([`mirror`]).
//! Only when a claim arrives at a host, the host checks whether the instance fits. It writes its row to a table before
//! it answers ([`hosts`]).

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::shared_state::{REQUESTS, Setup};
use super::times::Times;

mod hosts;
mod inbox;
mod mirror;

use hosts::{ClaimAnswer, Hosts};
use inbox::Inbox;
use mirror::Mirror;

/// How often a request is tried: Nova's `max_attempts` by default.
const ATTEMPTS: usize = 3;

/// A way in which schedulers work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Way {
    pub(super) name: &'static str,
    /// Whether the rows of all hosts are read from the store at each decision; otherwise hosts send them when they
    /// change.
    pub(super) reads_store: bool,
    /// Whether the hosts are ranked with an index; otherwise each host is weighed at each decision.
    pub(super) is_indexed: bool,
    /// Whether a scheduler counts an own choice until the chosen host has answered. Otherwise it counts the choice
    /// until the next row of the host arrives, even if that row does not include the choice.
    pub(super) tracks_claims: bool,
}

/// The ways, each with one change to the one before it.
pub(super) const WAYS: [Way; 4] = [
    Way {
        name: "(a) rows read from the store at each decision, checked on the host",
        reads_store: true,
        is_indexed: false,
        tracks_claims: false,
    },
    Way {
        name: "(b) rows in memory, sent by the hosts; claimed on the host only",
        reads_store: false,
        is_indexed: false,
        tracks_claims: false,
    },
    Way {
        name: "(b) with an index instead of weighing each host",
        reads_store: false,
        is_indexed: true,
        tracks_claims: false,
    },
    Way {
        name: "… and own choices counted until their hosts answer (the prototype of 2016)",
        reads_store: false,
        is_indexed: true,
        tracks_claims: true,
    },
];

/// The results of one of the ways.
#[derive(Debug, Clone, Serialize)]
pub(super) struct EarlierFigures {
    pub(super) way: Way,
    pub(super) hosts: u32,
    pub(super) schedulers: usize,
    pub(super) rounds: usize,
    /// The time in which a scheduler applied the rows that it had received, and ranked the hosts.
    pub(super) decision: Times,
    /// The time in which rows were read from the store, before the decision.
    pub(super) reading: Times,
    /// The time from sending a claim to the chosen host until the host had written the claim and answered.
    pub(super) claiming: Times,
    /// The time from the request to its answer.
    pub(super) whole: Times,
    /// Requests that were scheduled again, because a host refused them.
    pub(super) visible_retries: u64,
    /// Requests that failed in the end, although there was room.
    pub(super) failed: u64,
}

/// The result of one request, with times as in [`EarlierFigures`], summed over its attempts.
#[derive(Debug, Clone, Copy, Default)]
struct EarlierRequest {
    decision: Duration,
    reading: Duration,
    claiming: Duration,
    whole: Duration,
    retries: u64,
    is_failed: bool,
}

/// Runs rounds of requests that come at once. The first round, in which caches are filled, does not count.
///
/// # Errors
///
/// The table cannot be used.
pub(super) fn measure(
    directory: &std::path::Path,
    way: Way,
    setup: Setup,
) -> anyhow::Result<EarlierFigures> {
    let inboxes: Vec<Arc<Inbox>> = (0..setup.schedulers).map(|_| Arc::default()).collect();
    let hosts = Hosts::create(directory, setup.hosts, inboxes.clone())?;
    let state = mirror::empty_hosts(setup.hosts)?;
    let mut schedulers = Vec::new();
    for inbox in inboxes {
        let reader = hosts.reader()?;
        schedulers.push(Mirror::new(way, &hosts.rows(), inbox, (reader, &state))?);
    }
    let mut requests = Vec::new();
    for round in 0..=setup.rounds {
        let round_requests = run_round(&hosts, &schedulers)?;
        if round > 0 {
            requests.extend(round_requests);
        }
        hosts.reset()?;
        let rows = hosts.rows();
        for scheduler in &schedulers {
            scheduler.forget_choices(&rows)?;
        }
    }
    let times = |field: fn(&EarlierRequest) -> Duration| Times::of(requests.iter().map(field));
    Ok(EarlierFigures {
        way,
        hosts: setup.hosts,
        schedulers: setup.schedulers,
        rounds: setup.rounds,
        decision: times(|request| request.decision),
        reading: times(|request| request.reading),
        claiming: times(|request| request.claiming),
        whole: times(|request| request.whole),
        visible_retries: requests.iter().map(|request| request.retries).sum(),
        failed: requests
            .iter()
            .map(|request| u64::from(request.is_failed))
            .sum(),
    })
}

/// Runs one round: all requests at once, each on a thread of its own, spread over the schedulers.
fn run_round(hosts: &Hosts, schedulers: &[Mirror]) -> anyhow::Result<Vec<EarlierRequest>> {
    let barrier = Barrier::new(REQUESTS);
    thread::scope(|scope| {
        let running: Vec<_> = (0..REQUESTS)
            .map(|number| {
                let index = number % schedulers.len();
                let (scheduler, barrier) = (&schedulers[index], &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    run(hosts, scheduler, index)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|request| request.join().ok().context("a request panicked")?)
            .collect()
    })
}

/// Carries out one request: decides, sends the claim to the host, and decides again without this host if it refuses.
/// `index` is that of the scheduler's inbox.
fn run(hosts: &Hosts, scheduler: &Mirror, index: usize) -> anyhow::Result<EarlierRequest> {
    let begun = Instant::now();
    let mut request = EarlierRequest {
        is_failed: true,
        ..EarlierRequest::default()
    };
    let mut excluded = Vec::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            request.retries += 1;
        }
        let start = Instant::now();
        let rows = scheduler.read_rows()?;
        request.reading += start.elapsed();
        let (chosen, decision) = scheduler.decide(&rows, &excluded)?;
        request.decision += decision;
        let Some(chosen) = chosen else {
            break;
        };
        let start = Instant::now();
        let answer = hosts.claim(chosen.host, index)?;
        request.claiming += start.elapsed();
        if answer == ClaimAnswer::Accepted {
            request.is_failed = false;
            break;
        }
        excluded.push(chosen.slot);
    }
    request.whole = begun.elapsed();
    Ok(request)
}
