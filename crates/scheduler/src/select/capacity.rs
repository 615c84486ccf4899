//! Counts how many more instances of a request fit: how many would find a host if they were requested one after
//! another now, where they would be, and what stops a further instance.
//!
//! [`Scheduler::capacity`] simulates the decisions and is the definition. Where no instance can have an effect on
//! other hosts than its own, [`Scheduler::begin_capacity`] counts host by host instead: flat hosts by division, trees
//! by claims in a copy of the state until a claim is refused. `tests/capacity.rs` compares the two.

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
mod tree_counts;

use host_counts::HostCounts;

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
    /// The name of the aggregate; its UUID if it has none.
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

/// A count that was begun while the scheduler was locked.
#[derive(Debug)]
pub enum CapacityCount {
    /// Every host is counted.
    Complete(Capacity),
    /// Some hosts, or all, are still to be counted, on copies and without the lock.
    Unfinished(Box<UnfinishedCount>),
}

/// The unfinished part of a count, with copies of the data that it reads.
#[derive(Debug)]
pub struct UnfinishedCount {
    scheduler: Scheduler,
    state: State,
    request: RequestSpec,
    prepared: Arc<Prepared>,
    rest: Rest,
}

/// The hosts that are still to be counted.
#[derive(Debug)]
enum Rest {
    /// All hosts, by simulating at most this many instances.
    Everything { limit: usize },
    /// The trees with these roots. `counts` has the counts of all other hosts.
    Trees { counts: HostCounts, roots: Vec<u32> },
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
            compute_version_min: self.compute_version_min,
        }
    }

    /// Counts how many instances of a request fit, as far as that takes no copy of the state. With a `limit` the
    /// decisions are always simulated, until so many instances are placed. Without a limit at most `simulated_max`
    /// instances are simulated.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn begin_capacity(
        &self,
        state: &State,
        request: &RequestSpec,
        prepared: &Arc<Prepared>,
        limit: Option<usize>,
        simulated_max: usize,
    ) -> Result<CapacityCount, SelectRefusal> {
        let by_host = match limit {
            Some(_) => None,
            None => self.count_by_host(state, request, prepared)?,
        };
        let rest = match by_host {
            Some((counts, roots)) if roots.is_empty() => {
                return Ok(CapacityCount::Complete(
                    counts.summarize(self, state, false),
                ));
            }
            Some((counts, roots)) => Rest::Trees { counts, roots },
            None => Rest::Everything {
                limit: limit.unwrap_or(simulated_max),
            },
        };
        Ok(CapacityCount::Unfinished(Box::new(UnfinishedCount {
            scheduler: self.fork(),
            state: state.clone(),
            request: request.clone(),
            prepared: Arc::clone(prepared),
            rest,
        })))
    }
}

impl UnfinishedCount {
    /// Counts the hosts that are left. If only trees are left, at most `simulated_max` claims are simulated, on one
    /// tree of each kind.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::rank`].
    pub fn finish(self, simulated_max: usize, at: Timestamp) -> Result<Capacity, SelectRefusal> {
        let (scheduler, state) = (self.scheduler, self.state);
        match self.rest {
            Rest::Everything { limit } => {
                scheduler.capacity(state, &self.request, &self.prepared, limit, at)
            }
            Rest::Trees { counts, roots } => {
                scheduler.count_trees(state, &self.prepared, counts, &roots, simulated_max, at)
            }
        }
    }
}
