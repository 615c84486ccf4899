//! Counts how many more instances of a request fit: how many would find a host if they were requested one after
//! another now, where they would be, and what stops a further instance.
//!
//! [`Scheduler::capacity`] simulates the decisions and is the definition. Where no instance can have an effect on
//! other hosts than its own, [`CapacityCount`] counts host by host instead: flat hosts by division; trees candidate by
//! candidate, with the number of instances that each has room for. `tests/capacity/` compares the two.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::{State, Timestamp};
use uuid::Uuid;

use super::Scheduler;
use super::scope::SelectRefusal;
use crate::rank::indexed::SharedScores;
use crate::request::RequestSpec;
use crate::translate::prepare::Prepared;

mod by_host;
mod host_counts;
mod limiting_factors;
mod simulation;
mod tree_kinds;

use by_host::{HostCounting, Slice};

/// How many instances of a request would find a host now, if they were requested one after another, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// The number of instances that fit.
    pub count: u64,
    /// Whether counting stopped at a limit although at least one more instance would fit.
    pub has_more: bool,
    /// The number of hosts that got at least one instance.
    pub host_count: usize,
    /// The number of instances by cell.
    pub by_cell: BTreeMap<Uuid, u64>,
    /// The number of instances by availability zone.
    pub by_zone: BTreeMap<String, u64>,
    /// The number of instances by place, for each level of the topology, the smallest level first.
    pub by_level: Vec<LevelCapacity>,
    /// The obstacles to a further instance, each with the number of hosts on which it is the first one. Empty if
    /// `has_more`.
    pub limiting_factors: BTreeMap<LimitingFactor, usize>,
}

/// The number of instances by place of one level of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelCapacity {
    /// The name of the level.
    pub level: String,
    /// The places that got instances.
    pub places: Vec<PlaceCapacity>,
    /// The number of instances on hosts that are in no place of the level.
    pub elsewhere: u64,
}

/// The number of instances in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceCapacity {
    /// The UUID of the aggregate that is the place.
    pub aggregate: String,
    /// The name of the place in the topology, or of the aggregate; its UUID if it has none.
    pub name: String,
    /// The number of instances.
    pub count: u64,
}

/// Why a host takes no further instance: the first obstacle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitingFactor {
    /// A filter, by its name.
    Filter(String),
    /// Too little is free of a resource class, by its name.
    ResourceClass(String),
    /// Another constraint of the placement query, as the query string has it.
    Constraint(String),
    /// A hard rule of the server group or of the topology.
    Rule,
    /// Each constraint by itself can be met, but the claims that were tried were refused.
    Claim,
}

/// A count of how many instances of a request fit. It goes through the hosts in slices, and counts each host in the
/// state that the host has at the time of its slice. Where the instances of one host can have an effect on other hosts,
/// a [`Simulation`] has to count instead.
#[derive(Debug)]
pub struct CapacityCount {
    request: RequestSpec,
    prepared: Arc<Prepared>,
    limit: Option<usize>,
    by_host: HostCounting,
}

/// The result of one slice of a count.
#[derive(Debug)]
pub enum CountSlice {
    /// Further hosts are to be counted.
    Unfinished,
    /// Every host is counted.
    Complete(Capacity),
    /// The count has to be simulated: [`CapacityCount::simulation`].
    NeedsSimulation,
    /// Names or the topology changed so often between the slices that the count has no result.
    GivenUp,
}

/// Copies of the scheduler and of the state in which instance after instance is ranked and claimed.
#[derive(Debug)]
pub struct Simulation {
    scheduler: Scheduler,
    state: State,
    request: RequestSpec,
    prepared: Arc<Prepared>,
    limit: usize,
}

impl Scheduler {
    /// An independent copy of the scheduler with empty caches, for simulations.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            policy: self.policy.clone(),
            options: self.options.clone(),
            hosts: self.hosts.clone(),
            class_cache: self.class_cache.fork(),
            scores: SharedScores::default(),
        }
    }
}

impl CapacityCount {
    /// A count of the instances of a request. With a `limit` the decisions are always simulated, until that many
    /// instances are placed.
    #[must_use]
    pub fn new(request: RequestSpec, prepared: Arc<Prepared>, limit: Option<usize>) -> Self {
        Self {
            request,
            prepared,
            limit,
            by_host: HostCounting::default(),
        }
    }

    /// Counts further hosts. A slice takes about `steps` times 100 ns. It can take longer by one search in a large
    /// tree, because the search for a single instance is not interrupted.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::rank`].
    pub fn run_slice(
        &mut self,
        scheduler: &Scheduler,
        state: &State,
        steps: usize,
    ) -> Result<CountSlice, SelectRefusal> {
        if self.limit.is_some() {
            return Ok(CountSlice::NeedsSimulation);
        }
        let slice =
            self.by_host
                .run_slice(scheduler, state, &self.request, &self.prepared, steps)?;
        Ok(match slice {
            Slice::Unfinished => CountSlice::Unfinished,
            Slice::NotByHost => CountSlice::NeedsSimulation,
            Slice::GivenUp => CountSlice::GivenUp,
            Slice::Complete => {
                let counts = std::mem::take(&mut self.by_host).counts;
                // Without a limit, all instances that fit were counted.
                let has_more = false;
                CountSlice::Complete(counts.summarize(scheduler, state, has_more))
            }
        })
    }

    /// The count as a simulation, on copies of the scheduler and of the state. Without a limit at most `simulated_max`
    /// instances are placed.
    #[must_use]
    pub fn simulation(
        self,
        scheduler: &Scheduler,
        state: &State,
        simulated_max: usize,
    ) -> Simulation {
        Simulation {
            scheduler: scheduler.fork(),
            state: state.clone(),
            request: self.request,
            prepared: self.prepared,
            limit: self.limit.unwrap_or(simulated_max),
        }
    }
}

impl Simulation {
    /// Places instance after instance.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::rank`].
    pub fn run(self, at: Timestamp) -> Result<Capacity, SelectRefusal> {
        let (scheduler, state) = (self.scheduler, self.state);
        scheduler.capacity(state, &self.request, &self.prepared, self.limit, at)
    }
}
