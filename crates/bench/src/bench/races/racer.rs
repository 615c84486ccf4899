//! One of the concurrent schedulers of `bench races`: control's placer on a copy of the state that is some decisions
//! old.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use placewright_control::placer::{
    Contention, Demand, Placing, RoundEnd, SearchContext, SearchResults, TimeSlice,
    apply_corrections, claim,
};
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Follower, Machine as _, SubmitError};
use placewright_placement::{Outcome, Refusal};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::{Scheduler, Scope};
use serde::Serialize;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::audit::is_instance;
use super::fleet::{FIXED_TIME, host_group, rack_group, report_hosts};
use crate::bench::in_process::new_scheduler;
use crate::bench::requests::RandomNumbers;

/// The number of different sizes of requests.
const SIZES: u64 = 20;
/// The number of kinds of requests of each size; see [`group`].
const GROUP_KINDS: u64 = 10;

/// The results of one or more schedulers.
#[derive(Debug, Default, Serialize)]
pub(super) struct RaceResults {
    pub(super) decisions: u64,
    pub(super) claimed: u64,
    /// Claims that got another host than the first that they named.
    pub(super) displaced: u64,
    /// How often a decision was repeated: because every host that a claim named had been filled by other claims, or
    /// because a search found no host, but its copy was outdated or it excluded hosts that may have capacity again.
    pub(super) repeated: u64,
    /// Decisions that correctly found no host.
    pub(super) no_room: u64,
    /// Decisions that failed for the caller although there was room.
    pub(super) failed_with_room: u64,
    /// The number of hosts that a claim named, summed over all claims.
    pub(super) named: u64,
    /// The time spent on updating the copies of the state, in seconds, summed over the schedulers.
    pub(super) catching_up_s: f64,
    /// Instances that were ended.
    pub(super) ended: u64,
}

impl RaceResults {
    pub(super) fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.claimed += other.claimed;
        self.displaced += other.displaced;
        self.repeated += other.repeated;
        self.no_room += other.no_room;
        self.failed_with_room += other.failed_with_room;
        self.ended += other.ended;
        self.named += other.named;
        self.catching_up_s += other.catching_up_s;
    }
}

/// The answer to a command, when it is decided.
type PendingAnswer = Pin<Box<dyn Future<Output = CommandAnswer> + Send>>;

type CommandAnswer = Result<Result<Outcome, Refusal>, SubmitError>;

/// A scheduler with its own copy of the state.
pub(super) struct RacingScheduler {
    engine: Engine<ControlMachine>,
    runtime: Runtime,
    number: usize,
    /// The number of own decisions after which the copy is updated.
    decisions_per_copy_max: u32,
    copy: ControlMachine,
    /// The sequence of the last entry that was applied to the copy.
    applied_sequence: u64,
    follower: Follower<ControlMachine>,
    scheduler: Scheduler,
    /// How often the claims of other schedulers have lately been faster, from which the placer derives how many hosts a
    /// claim names.
    contention: Contention,
    /// Hosts that concurrent claims have filled, which the copy does not show yet. Claims do not name them
    /// until the copy is updated.
    full_hosts: Vec<u32>,
    random: RandomNumbers,
    /// Instances that this scheduler may end.
    running_instances: Vec<Uuid>,
    requests: Vec<RequestSpec>,
    /// The answer to the last command that ended an instance.
    last_release: Option<PendingAnswer>,
    results: RaceResults,
}

impl RacingScheduler {
    /// Creates scheduler `number` of `scheduler_count`. The state must not change during this call.
    pub(super) fn new(
        engine: &Engine<ControlMachine>,
        number: usize,
        scheduler_count: usize,
        decisions_per_copy_max: u32,
    ) -> anyhow::Result<Self> {
        let applied_sequence = engine.durable_sequence();
        let copy = engine.read_now(|machine| ControlMachine {
            state: machine.state.clone(),
        });
        let state = copy.placement();
        let mut scheduler = new_scheduler(SchedulerConfig::default())?;
        report_hosts(&mut scheduler, u32::try_from(state.roots().len())?);
        scheduler.observe(state, FIXED_TIME);
        let mut random = RandomNumbers::new(applied_sequence, number as u64);
        let requests: Vec<RequestSpec> = (0..SIZES).map(|_| request(&mut random)).collect();
        // The second ranking of a request fills the caches, so each request is ranked twice before the measurement
        // begins.
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
        let running_instances = instances
            .skip(number)
            .step_by(scheduler_count)
            .map(|(_, consumer)| Ok(consumer.uuid.as_str().parse()?))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            engine: engine.clone(),
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            number,
            decisions_per_copy_max,
            copy,
            applied_sequence,
            follower: engine.follow(applied_sequence)?,
            scheduler,
            contention: Contention::default(),
            full_hosts: Vec::new(),
            random,
            running_instances,
            requests,
            last_release: None,
            results: RaceResults::default(),
        })
    }

    /// Decides and claims until no decisions are left in `decisions_left`, which all schedulers share.
    pub(super) fn race(mut self, decisions_left: &AtomicU64) -> anyhow::Result<RaceResults> {
        // Relaxed, because the counter only distributes the decisions, and no other memory depends on it.
        let decrement = |count: u64| count.checked_sub(1);
        let mut decisions_since_update = 0;
        while decisions_left
            .fetch_update(Relaxed, Relaxed, decrement)
            .is_ok()
        {
            if decisions_since_update >= self.decisions_per_copy_max {
                self.catch_up()?;
                decisions_since_update = 0;
            }
            decisions_since_update += 1;
            let drawn = self.random.next() % (SIZES * GROUP_KINDS);
            let (size, group_kind) = (drawn % SIZES, drawn / SIZES);
            let mut request = self.requests[usize::try_from(size).unwrap_or(0)].clone();
            request.instance_group = group(group_kind, self.random.next());
            if self.decide(request)? {
                decisions_since_update = self.decisions_per_copy_max;
            }
        }
        // Commands are decided in order, so once the last release is decided, the audit sees all of this scheduler's
        // commands.
        if let Some(last_release) = self.last_release.take() {
            drop(self.runtime.block_on(last_release)?);
        }
        Ok(self.results)
    }

    /// Makes one decision and claims its host. True if the copy should be updated before the next decision.
    fn decide(&mut self, request: RequestSpec) -> anyhow::Result<bool> {
        self.results.decisions += 1;
        let instance = self.random.uuid();
        let mut demand = Demand::new(Arc::new(request), vec![instance]);
        demand.excluded_slots.clone_from(&self.full_hosts);
        let mut placing = Placing::new(demand.clone());
        let mut is_copy_current = false;
        loop {
            match self.rank(&mut placing)? {
                SearchResults::Ready => {
                    let named_host_count = placing.named_host_count();
                    self.results.named += named_host_count as u64;
                    if self.claim(&mut placing)? {
                        return Ok(self.record_claim(&placing, named_host_count));
                    }
                    self.results.repeated += 1;
                    self.catch_up()?;
                    is_copy_current = true;
                    if placing.end_round() != RoundEnd::SearchAgain {
                        self.results.failed_with_room += 1;
                        return Ok(true);
                    }
                }
                // `demand` excludes nothing, so `placing` excludes only hosts that a claim of this decision found full.
                _ if is_copy_current && demand.excluded_slots.is_empty() => {
                    self.results.no_room += 1;
                    return Ok(true);
                }
                // The copy shows no host with capacity, but it may be outdated, or hosts that were full before it was
                // updated are excluded although they may have capacity again. This happens once at most, because the
                // copy counts as current from then on, and `demand` excludes no hosts any more.
                _ => {
                    self.results.repeated += 1;
                    self.contention.record_failure();
                    self.catch_up()?;
                    is_copy_current = true;
                    demand.excluded_slots.clear();
                    placing = Placing::new(demand.clone());
                }
            }
        }
    }

    /// Ranks hosts on the copy.
    fn rank(&mut self, placing: &mut Placing) -> anyhow::Result<SearchResults> {
        let mut context = SearchContext {
            scheduler: &mut self.scheduler,
            state: self.copy.placement(),
            contention: self.contention,
            scheduler_number: self.number,
            excluded_cells: &[],
            avoided_cells: &[],
            ranking_record_sequence: None,
        };
        Ok(placing.find_hosts(&mut context, &TimeSlice::endless())?)
    }

    /// Claims one of the ranked hosts; false if none had capacity.
    fn claim(&mut self, placing: &mut Placing) -> anyhow::Result<bool> {
        let (project, user) = ("races", "races");
        let command = placing.claim(project, user, FIXED_TIME);
        let answer = submit_placement(&self.engine, command);
        let corrections = match self.runtime.block_on(answer)? {
            Ok(Outcome::Claimed(chosen)) => placing.apply_claimed(&chosen, &mut self.contention),
            Err(refusal @ Refusal::NothingFits { .. }) => {
                placing.apply_refused(Some(refusal), &mut self.contention)
            }
            other => bail!("a claim ended in {other:?}"),
        };
        // The ranking has counted the instance on the first host that the claim names. If the claim got another host or
        // none, a correction takes the instance off the first host again.
        apply_corrections(&mut self.scheduler, self.copy.placement(), &corrections);
        let is_claimed = placing.claimed().next().is_some();
        ensure!(
            is_claimed || !corrections.is_empty(),
            "a claim got no host, and its instance still counts on the first host that the claim named: the \
             same claim would be made for ever"
        );
        Ok(is_claimed)
    }

    /// Records a claim, and ends an instance. True if more than a quarter of the hosts that the claim named were
    /// full already.
    fn record_claim(&mut self, placing: &Placing, named_host_count: usize) -> bool {
        let fallen_slots = placing.fallen_slots();
        // If the instance is a member of a group, a rule may have excluded these hosts, so they need not be full.
        if placing.demand().group.is_none() {
            self.full_hosts.extend(fallen_slots);
        }
        self.results.claimed += 1;
        self.results.displaced += u64::from(!fallen_slots.is_empty());
        self.running_instances.extend(placing.claimed());
        self.end_instance();
        fallen_slots.len() > named_host_count / 4
    }

    /// Ends an instance, without waiting for the result.
    fn end_instance(&mut self) {
        let index = self.random.next() % self.running_instances.len() as u64;
        let consumer = self
            .running_instances
            .swap_remove(usize::try_from(index).unwrap_or_default());
        let release = submit_placement(&self.engine, claim::release(consumer));
        self.last_release = Some(Box::pin(release));
        self.results.ended += 1;
    }

    /// Applies the durable changes to the copy.
    fn catch_up(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        let end = self.engine.durable_sequence();
        while self.applied_sequence < end {
            let entries = self.runtime.block_on(self.follower.next_entries());
            let entries = entries.context("the engine stopped")??;
            for (_, record) in entries.iter() {
                for change in &ControlMachine::decode(record)? {
                    drop(self.copy.apply(change));
                }
            }
            self.applied_sequence = entries.last_sequence();
        }
        self.scheduler.observe(self.copy.placement(), FIXED_TIME);
        self.full_hosts.clear();
        self.results.catching_up_s += start.elapsed().as_secs_f64();
        Ok(())
    }
}

/// A request with a random size; one in five has its CPUs in a request group of their own.
fn request(random: &mut RandomNumbers) -> RequestSpec {
    let vcpus = 1 + u32::try_from(random.next() % 4).unwrap_or(0);
    let mut request = RequestSpec::new(Flavor {
        vcpus,
        memory_mb: 2048 + 512 * u32::try_from(random.next() % 16).unwrap_or(0),
        root_gb: 1,
        ..Flavor::default()
    });
    if random.next().is_multiple_of(5) {
        let extra_specs = &mut request.flavor.extra_specs;
        extra_specs.insert("resources:VCPU".into(), "0".into());
        extra_specs.insert("resources1:VCPU".into(), vcpus.to_string());
    }
    request
}

/// The server group of a request. Of ten kinds of requests, one has a group whose members are on different hosts, one a
/// group whose members are in different racks, and the others have none. `number` selects one of the groups. The group
/// has no members and no topology rules here, because searches and claims read those that placement has: the members
/// that were claimed, and the rules that `fleet::build` has stored.
fn group(kind: u64, number: u64) -> Option<ServerGroup> {
    let uuid = match kind {
        0 => host_group(number),
        1 => rack_group(number),
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
