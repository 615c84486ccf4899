//! One scheduler of a race: the product's own placer, on a copy of the state that is some decisions
//! old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use placewright_control::placer::{
    Contention, Demand, LookContext, Next, Placing, SearchResults, TimeSlice, claim, correct,
    depart,
};
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Follower, Machine as _};
use placewright_placement::{Outcome, Refusal};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::{Scheduler, Scope};
use serde::Serialize;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::audit::is_instance;
use super::fleet::{AT, host_group, introduce, rack_group};
use crate::bench::requests::Numbers;

/// The number of different sizes of requests.
const SIZES: u64 = 20;

/// The results of one or more schedulers.
#[derive(Debug, Default, Serialize)]
pub(super) struct RaceResults {
    pub(super) decisions: u64,
    pub(super) claimed: u64,
    /// Claims that got another host than the first that they named.
    pub(super) displaced: u64,
    /// Decisions that were repeated because no host of the claim was left.
    pub(super) second: u64,
    /// Decisions that correctly found no host.
    pub(super) no_room: u64,
    /// Decisions that failed for the caller although there was room.
    pub(super) visible: u64,
    /// The number of hosts that were named, summed over all claims.
    pub(super) named: u64,
    /// The time spent on applying the changes of others, in seconds, summed over the schedulers.
    pub(super) catching_up_s: f64,
    /// Instances that were ended.
    pub(super) ended: u64,
}

impl RaceResults {
    pub(super) fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.claimed += other.claimed;
        self.displaced += other.displaced;
        self.second += other.second;
        self.no_room += other.no_room;
        self.visible += other.visible;
        self.ended += other.ended;
        self.named += other.named;
        self.catching_up_s += other.catching_up_s;
    }
}

/// A scheduler with its own copy of the state.
pub(super) struct RacingScheduler {
    engine: Engine<ControlMachine>,
    runtime: Runtime,
    number: usize,
    stale: u32,
    copy: ControlMachine,
    /// The sequence number of the last entry that was applied to the copy.
    at: u64,
    follower: Follower<ControlMachine>,
    scheduler: Scheduler,
    contention: Contention,
    /// Hosts that had less room than the copy says, because of concurrent claims. Until the copy is
    /// up to date, claims do not name them.
    full: Vec<u32>,
    numbers: Numbers,
    /// Instances that this scheduler may end.
    alive: Vec<Uuid>,
    requests: Vec<RequestSpec>,
    tally: RaceResults,
}

impl RacingScheduler {
    /// One of a number of schedulers. Nothing is written meanwhile.
    pub(super) fn new(
        engine: &Engine<ControlMachine>,
        number: usize,
        of: usize,
        stale: u32,
    ) -> anyhow::Result<Self> {
        let at = engine.durable_sequence();
        let copy = engine.read_now(|machine| ControlMachine(machine.0.clone()));
        let state = copy.placement();
        let mut scheduler = Scheduler::new(SchedulerConfig::default(), PrepareOptions::default())
            .map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
        introduce(&mut scheduler, u32::try_from(state.roots().len())?);
        scheduler.observe(state, AT);
        let mut numbers = Numbers::new(at, number as u64);
        let requests: Vec<RequestSpec> = (0..SIZES).map(|_| request(&mut numbers)).collect();
        // Caches are filled before the race begins: a request is kept when it comes again.
        for request in requests.iter().chain(&requests) {
            let prepared = scheduler.prepare_cached(state, request)?;
            let scope = Scope {
                count: 1,
                ..Scope::default()
            };
            scheduler.rank(state, request, &prepared, &scope)?;
        }
        let instances = state
            .all_consumers()
            .filter(|(_, consumer)| is_instance(state, consumer));
        let alive = instances
            .skip(number)
            .step_by(of)
            .map(|(_, consumer)| Ok(consumer.uuid.as_str().parse()?))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            engine: engine.clone(),
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            number,
            stale,
            copy,
            at,
            follower: engine.follow(at)?,
            scheduler,
            contention: Contention::default(),
            full: Vec::new(),
            numbers,
            alive,
            requests,
            tally: RaceResults::default(),
        })
    }

    /// Decides and claims until no decisions are left in `left`, which all schedulers share.
    pub(super) fn race(mut self, left: &AtomicU64) -> anyhow::Result<RaceResults> {
        let take = |left: u64| left.checked_sub(1);
        let mut age = 0;
        while left.fetch_update(Relaxed, Relaxed, take).is_ok() {
            if age >= self.stale {
                self.catch_up()?;
                age = 0;
            }
            age += 1;
            let pick = self.numbers.next() % (SIZES * 10);
            let mut request = self.requests[usize::try_from(pick % SIZES).unwrap_or(0)].clone();
            request.instance_group = group(pick / SIZES, self.numbers.next());
            if self.decide(request)? {
                age = self.stale;
            }
        }
        // The latest releases are decided before this: waiting commands are decided in order.
        self.catch_up()?;
        Ok(self.tally)
    }

    /// Makes one decision. True if others were much faster, so that it is time to update the copy.
    fn decide(&mut self, request: RequestSpec) -> anyhow::Result<bool> {
        self.tally.decisions += 1;
        let instance = self.numbers.uuid();
        let mut demand = Demand::new(Arc::new(request), vec![instance]);
        demand.without.clone_from(&self.full);
        let mut placing = Placing::new(demand.clone());
        let mut is_fresh = false;
        loop {
            match self.look(&mut placing)? {
                SearchResults::Ready => {
                    let named = placing.named_hosts();
                    self.tally.named += named as u64;
                    if self.claim(&mut placing)? {
                        return Ok(self.placed(&placing, named));
                    }
                    self.tally.second += 1;
                    self.catch_up()?;
                    is_fresh = true;
                    if placing.go_on() != Next::Again {
                        self.tally.visible += 1;
                        return Ok(true);
                    }
                }
                _ if is_fresh => {
                    self.tally.no_room += 1;
                    return Ok(true);
                }
                // The copy does not show where there is room.
                _ => {
                    self.tally.second += 1;
                    self.contention.note_failed();
                    self.catch_up()?;
                    is_fresh = true;
                    demand.without.clear();
                    placing = Placing::new(demand.clone());
                }
            }
        }
    }

    /// Ranks hosts on the copy.
    fn look(&mut self, placing: &mut Placing) -> anyhow::Result<SearchResults> {
        let mut context = LookContext {
            scheduler: &mut self.scheduler,
            state: self.copy.placement(),
            contention: self.contention,
            number: self.number,
            closed: &[],
            avoided: &[],
        };
        Ok(placing.look(&mut context, &TimeSlice::endless())?)
    }

    /// Claims what was found; false if none of it was left.
    fn claim(&mut self, placing: &mut Placing) -> anyhow::Result<bool> {
        let command = placing.claim("races", "races", AT);
        let answer = submit_placement(&self.engine, command);
        let corrections = match self.runtime.block_on(answer)? {
            Ok(Outcome::Claimed(chosen)) => placing.decided(&chosen, &mut self.contention),
            Err(refusal @ Refusal::NothingFits { .. }) => {
                placing.refused(Some(refusal), &mut self.contention)
            }
            other => bail!("a claim ended in {other:?}"),
        };
        correct(&mut self.scheduler, self.copy.placement(), &corrections);
        let is_claimed = placing.claimed().next().is_some();
        ensure!(is_claimed || !corrections.is_empty(), "a claim of nothing");
        Ok(is_claimed)
    }

    /// Records a claim. True if many of the hosts that it named were full already.
    fn placed(&mut self, placing: &Placing, named: usize) -> bool {
        let missed = placing.missed();
        // A rule of a group may have refused them as well.
        if placing.demand().group.is_none() {
            self.full.extend(missed);
        }
        self.tally.claimed += 1;
        self.tally.displaced += u64::from(!missed.is_empty());
        self.alive.extend(placing.claimed());
        self.end_one();
        missed.len() > named / 4
    }

    /// Ends an instance, without waiting for the result.
    fn end_one(&mut self) {
        let place = self.numbers.next() % self.alive.len() as u64;
        let consumer = self
            .alive
            .swap_remove(usize::try_from(place).unwrap_or_default());
        depart(self.scheduler.hosts_mut(), consumer);
        drop(submit_placement(&self.engine, claim::release(consumer)));
        self.tally.ended += 1;
    }

    /// Applies what has become durable to the copy.
    fn catch_up(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        let end = self.engine.durable_sequence();
        while self.at < end {
            let entries = self.runtime.block_on(self.follower.next_entries());
            let entries = entries.context("the engine stopped")??;
            for (_, record) in entries.iter() {
                for change in &ControlMachine::decode(record)? {
                    drop(self.copy.apply(change));
                }
            }
            self.at = entries.last_sequence();
        }
        self.scheduler.observe(self.copy.placement(), AT);
        self.full.clear();
        self.tally.catching_up_s += start.elapsed().as_secs_f64();
        Ok(())
    }
}

/// A request of one of a few sizes; one in five has its CPUs in a request group of their own.
fn request(numbers: &mut Numbers) -> RequestSpec {
    let vcpus = 1 + u32::try_from(numbers.next() % 4).unwrap_or(0);
    let mut request = RequestSpec::new(Flavor {
        vcpus,
        memory_mb: 2048 + 512 * u32::try_from(numbers.next() % 16).unwrap_or(0),
        root_gb: 1,
        ..Flavor::default()
    });
    if numbers.next().is_multiple_of(5) {
        let extra = &mut request.flavor.extra_specs;
        extra.insert("resources:VCPU".into(), "0".into());
        extra.insert("resources1:VCPU".into(), vcpus.to_string());
    }
    request
}

/// Of ten requests, one is in a group for different hosts and one in a group for different racks.
fn group(kind: u64, pick: u64) -> Option<ServerGroup> {
    let uuid = match kind {
        0 => host_group(pick),
        1 => rack_group(pick),
        _ => return None,
    };
    Some(ServerGroup {
        uuid,
        policy: Some(GroupPolicy::AntiAffinity),
        max_server_per_host: None,
        members: std::collections::BTreeSet::new(),
        hosts: std::collections::BTreeSet::new(),
        topology_rules: Vec::new(),
    })
}
