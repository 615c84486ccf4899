//! A worker, which finds the best host by one of the methods, and claims it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use placewright_control::placer::Search;
use placewright_control::placer::claim::{ClaimConsumer, claim_first};
use placewright_control::{ControlMachine, now, submit_placement};
use placewright_engine::Engine;
use placewright_placement::{
    AllocationRequest, ClassId, IntentCandidate, Outcome, ProviderId, Refusal, State,
};
use placewright_scheduler::host_state::{HostReport, HostUpdate, Metric};
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use serde::Serialize;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::strategy::{RANDOM_METRIC, Strategy};
use crate::bench::requests::RandomNumbers;
use crate::bench::seeds::fleet;

/// How many hosts a claim names with [`Method::Index`], if as many are feasible: the smallest number for which the
/// placer ever searches.
const HOSTS_NAMED: usize = 3;
/// The seeds of random numbers, one for each purpose.
const INSTANCE_SEED: u64 = 31;
const RANDOM_KEY_SEED: u64 = 32;

/// A way to find the best host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in super::super) enum Method {
    /// Each host is looked up, tested and weighed, one by one.
    Walk,
    /// The state's columns say which hosts are feasible; all of these are weighed.
    FilterInColumns,
    /// The placer's search, with its index.
    Index,
}

/// All methods, each with one change to the one before it.
pub(in super::super) const METHODS: [Method; 3] =
    [Method::Walk, Method::FilterInColumns, Method::Index];

impl Method {
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Walk => "walking over the hosts",
            Self::FilterInColumns => "filtered where the data is, all feasible hosts weighed",
            Self::Index => "filtered where the data is, with an index",
        }
    }
}

/// A worker with a scheduler of its own.
pub(super) struct Worker {
    engine: Engine<ControlMachine>,
    runtime: Runtime,
    scheduler: Scheduler,
    request: Arc<RequestSpec>,
    strategy: Strategy,
    /// By slot: a random number. With [`Strategy::Random`], the feasible host with the largest one is the best.
    random_keys: Vec<f64>,
    random: RandomNumbers,
}

/// A feasible host of a walk.
struct WalkedHost {
    slot: u32,
    /// The free amount of each requested class.
    free: [f64; 3],
}

impl Worker {
    pub(super) fn new(
        engine: &Engine<ControlMachine>,
        host_numbers: &BTreeMap<Uuid, u32>,
        strategy: Strategy,
        worker_number: usize,
    ) -> anyhow::Result<Self> {
        let hosts = u32::try_from(host_numbers.len())?;
        let mut scheduler = fleet::scheduler(hosts, strategy.config())?;
        let at = now();
        for (uuid, host_number) in host_numbers {
            let mut report = HostReport::default();
            report.facts.names.service_host = format!("host-{host_number}");
            report.facts.names.node = format!("node-{host_number}");
            report.facts.names.cell = Uuid::from_u128(1);
            report.metrics = vec![Metric {
                name: RANDOM_METRIC.to_owned(),
                value: random_key(*host_number),
            }];
            let full = HostUpdate::Full(Box::new(report));
            scheduler.hosts_mut().apply(*uuid, at, &full);
        }
        let random_keys = engine.read_now(|machine| {
            scheduler.observe(machine.placement(), at);
            let mut random_keys = vec![0.0; scheduler.hosts().slot_count()];
            for slot in scheduler.hosts().slots().iter() {
                let uuid = scheduler.hosts().get(slot).map(|host| host.uuid);
                let host_number = uuid.and_then(|uuid| host_numbers.get(&uuid));
                random_keys[slot as usize] = host_number.map_or(0.0, |number| random_key(*number));
            }
            random_keys
        });
        Ok(Self {
            engine: engine.clone(),
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            scheduler,
            request: fleet::request(),
            strategy,
            random_keys,
            random: RandomNumbers::new(INSTANCE_SEED, worker_number as u64),
        })
    }

    /// Fills the caches. Two requests are needed: what the scheduler keeps of a request class is made with its second
    /// request.
    pub(super) fn warm_up(&mut self, method: Method) -> anyhow::Result<()> {
        for _ in 0..2 {
            self.find_candidates(method)?;
        }
        Ok(())
    }

    /// Finds the best hosts, as the candidates of a claim, best first.
    pub(super) fn find_candidates(
        &mut self,
        method: Method,
    ) -> anyhow::Result<Vec<IntentCandidate>> {
        let engine = self.engine.clone();
        engine.read_now(|machine| {
            let state = machine.placement();
            match method {
                Method::Walk => {
                    let best = self.walk(state);
                    Ok(best
                        .map(|slot| self.candidate(slot))
                        .transpose()?
                        .into_iter()
                        .collect())
                }
                Method::FilterInColumns => {
                    self.scheduler.observe(state, now());
                    let prepared = self.scheduler.prepare_cached(state, &self.request)?;
                    let scope = Scope {
                        count: 1,
                        ..Scope::default()
                    };
                    let ranked =
                        (self.scheduler).rank_all(state, &self.request, &prepared, &scope)?;
                    ranked
                        .iter()
                        .map(|best| self.candidate(best.slot))
                        .collect()
                }
                Method::Index => {
                    self.scheduler.observe(state, now());
                    let prepared = self.scheduler.prepare_cached(state, &self.request)?;
                    let search = Search {
                        host_count: HOSTS_NAMED,
                        ..Search::new(&self.request, &prepared, Uuid::nil())
                    };
                    let found = search.run(&mut self.scheduler, state)?;
                    let hosts = found.hosts.into_iter();
                    Ok(hosts.flat_map(|host| host.candidates).collect())
                }
            }
        })
    }

    /// Claims the first candidate that fits; `None` if none does.
    pub(super) fn claim(
        &mut self,
        candidates: Vec<IntentCandidate>,
    ) -> anyhow::Result<Option<Uuid>> {
        let consumer = self.random.uuid();
        let claim_consumer = ClaimConsumer::new(consumer, "seeds", "seeds");
        let (group, rules) = (None, Vec::new());
        let intent = claim_consumer.intent(group, rules, candidates);
        let least = 1;
        let command = claim_first(vec![intent], least, now());
        match self
            .runtime
            .block_on(submit_placement(&self.engine, command))?
        {
            Ok(Outcome::Claimed(_)) => Ok(Some(consumer)),
            Err(Refusal::NothingFits { .. }) => Ok(None),
            other => bail!("a claim ended in {other:?}"),
        }
    }

    /// Looks each host up, tests whether the request fits, and weighs those where it does. Returns the slot of the best
    /// host; `None` if the request fits nowhere.
    fn walk(&self, state: &State) -> Option<u32> {
        let classes = ["VCPU", "MEMORY_MB", "DISK_GB"].map(|name| state.class_id(name));
        let flavor = &self.request.flavor;
        let requested = [flavor.vcpus, flavor.memory_mb, flavor.root_gb].map(f64::from);
        let mut feasible: Vec<WalkedHost> = Vec::new();
        for slot in self.scheduler.hosts().slots().iter() {
            let free = free_amounts(state, slot, classes);
            if free
                .iter()
                .zip(requested)
                .all(|(free, requested)| *free >= requested)
            {
                feasible.push(WalkedHost { slot, free });
            }
        }
        if self.strategy == Strategy::Random {
            let key = |host: &WalkedHost| self.random_keys[host.slot as usize];
            let best = feasible.iter().max_by(|a, b| key(a).total_cmp(&key(b)));
            return best.map(|host| host.slot);
        }
        // As in Nova, each free amount is normalised: 0 for the smallest of all feasible hosts, 1 for the largest.
        let ends = [0, 1, 2].map(|class| {
            let values = feasible.iter().map(|host| host.free[class]);
            let largest = values.clone().fold(f64::MIN, f64::max);
            (values.fold(f64::MAX, f64::min), largest)
        });
        let score = |host: &WalkedHost| {
            let shares = host
                .free
                .iter()
                .zip(ends)
                .map(|(free, (smallest, largest))| {
                    if largest > smallest {
                        (free - smallest) / (largest - smallest)
                    } else {
                        0.0
                    }
                });
            shares.sum::<f64>() * self.strategy.multiplier()
        };
        let scored = feasible.iter().map(|host| (score(host), host.slot));
        let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        best.map(|(_, slot)| slot)
    }

    /// The candidate of a host without children.
    fn candidate(&self, slot: u32) -> anyhow::Result<IntentCandidate> {
        let host = self
            .scheduler
            .hosts()
            .get(slot)
            .context("no host has this slot")?
            .uuid;
        let flavor = &self.request.flavor;
        let allocation = AllocationRequest {
            provider: host,
            resources: vec![
                ("VCPU".to_owned(), flavor.vcpus.into()),
                ("MEMORY_MB".to_owned(), flavor.memory_mb.into()),
                ("DISK_GB".to_owned(), flavor.root_gb.into()),
            ],
        };
        Ok(IntentCandidate {
            host,
            allocations: Arc::new([allocation]),
        })
    }
}

/// A random number for a host, the same in all workers.
fn random_key(host_number: u32) -> f64 {
    let number = RandomNumbers::new(RANDOM_KEY_SEED, host_number.into()).next() >> 32;
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The free amounts of a host, from its provider's inventories.
fn free_amounts(state: &State, slot: u32, classes: [Option<ClassId>; 3]) -> [f64; 3] {
    let mut free = [0.0; 3];
    let Some(provider) = state.provider(ProviderId(slot)) else {
        return free;
    };
    for row in &provider.inventories {
        if let Some(index) = classes.iter().position(|class| *class == Some(row.class)) {
            #[expect(clippy::cast_precision_loss, reason = "amounts are small")]
            let used = row.used as f64;
            let total = f64::from(row.inventory.total - row.inventory.reserved);
            free[index] = total * row.inventory.allocation_ratio - used;
        }
    }
    free
}
