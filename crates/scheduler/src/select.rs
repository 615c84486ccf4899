//! Selects hosts for a request: the feasible hosts, the best first.
//!
//! [`Scheduler::rank`] combines placement (capacity, traits, trees), the filters, the hard rules
//! of groups and topology, and the weighers. Nothing is sampled: every host is considered. Where
//! the weighers need no more than columns, [indexes](crate::rank::indexed) find the best hosts
//! without visiting all; otherwise every feasible host is [weighed](crate::rank::linear). Both give
//! equal results (`tests/select.rs`).
//!
//! What is found out about a class of requests is kept in the class cache (`class_cache.rs`), from
//! the second request of the class on.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::{ConsumerUuid, State, Timestamp};
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig};
use crate::hosts::table::HostTable;
use crate::policy::Policy;
use crate::rank::Ranked;
use crate::rank::indexed::SharedScores;
use crate::rank::weights::Weights;
use crate::request::RequestSpec;
use crate::translate::TranslateOptions;
use crate::translate::prefilter::Environment;
use crate::translate::prepare::{PrepareOptions, PrepareRefusal, Prepared, prepare};
use crate::translate::target::{ComputeNode, Target};

mod candidates;
pub mod capacity;
mod class_cache;
pub mod rebuild;
mod request_class;
pub mod rules;
mod scope;
mod search;
mod search_context;
mod tree_results;

pub use crate::rank::weights;
pub use candidates::Mappings;
pub use scope::{Scope, SelectRefusal};

use class_cache::ClassCache;
use rules::Rules;
use search::RankingMethod;
use search_context::RequestContext;

/// Decides where requests go, on a copy of placement's state and the soft state of hosts.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    options: PrepareOptions,
    hosts: HostTable,
    classes: ClassCache,
    scores: SharedScores,
    compute_version_min: u32,
}

/// The environment of the pre-filters, answered from placement and the host table.
struct StateEnvironment<'a> {
    state: &'a State,
    hosts: &'a HostTable,
    compute_version_min: u32,
}

impl Environment for StateEnvironment<'_> {
    fn each_aggregate(&self, visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {
        for (uuid, aggregate) in self.hosts.aggregates().iter() {
            visit(uuid, &aggregate.metadata);
        }
    }

    fn segment_aggregates(&self, segment: Uuid) -> Option<Vec<Uuid>> {
        let provider = self.state.provider_by_uuid(segment)?;
        let uuids = provider
            .aggregates
            .iter()
            .map(|id| self.state.aggregate_uuid(*id));
        Some(uuids.filter_map(|uuid| uuid.parse().ok()).collect())
    }

    fn compute_version_min(&self) -> u32 {
        self.compute_version_min
    }

    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode> {
        let of_host: Vec<u32> = match target.host {
            Some(host) => self.hosts.nodes_of(host).collect(),
            None => self.hosts.known().iter().collect(),
        };
        let states = of_host.into_iter().filter_map(|slot| self.hosts.get(slot));
        states
            .filter(|state| target.node.is_none_or(|node| state.names.node == node))
            .filter(|state| target.cell.is_none_or(|cell| state.names.cell == cell))
            .map(|state| ComputeNode {
                uuid: state.uuid,
                host: state.names.service_host.clone(),
                node: state.names.node.clone(),
            })
            .collect()
    }
}

impl Scheduler {
    /// A scheduler without hosts.
    ///
    /// # Errors
    ///
    /// Everything in the configuration that nothing can be made of.
    pub fn new(config: SchedulerConfig, options: PrepareOptions) -> Result<Self, Vec<ConfigError>> {
        Ok(Self {
            hosts: HostTable::new(&config),
            policy: Policy::new(config)?,
            options,
            classes: ClassCache::default(),
            scores: SharedScores::default(),
            compute_version_min: 0,
        })
    }

    /// The table of hosts.
    #[must_use]
    pub fn hosts(&self) -> &HostTable {
        &self.hosts
    }

    /// The table of hosts, for applying changes of hosts and aggregates.
    pub fn hosts_mut(&mut self) -> &mut HostTable {
        &mut self.hosts
    }

    /// The filters and weighers as configured.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How requests are translated.
    #[must_use]
    pub fn translate_options(&self) -> TranslateOptions {
        self.options.translate.clone()
    }

    /// Sets the version of the oldest compute service, on which some pre-filters depend.
    pub fn set_compute_version_min(&mut self, version: u32) {
        self.compute_version_min = version;
    }

    /// Applies the changes of placement and of the hosts since the last call.
    pub fn observe(&mut self, state: &State, now: Timestamp) {
        self.hosts.follow(state);
        self.hosts.advance(now);
        self.scores.note(self.hosts.drain_changes());
    }

    /// Prepares a request for [`Self::rank`]. The result depends on aggregates and, for a request
    /// that names a host, on the hosts.
    ///
    /// # Errors
    ///
    /// [`PrepareRefusal`] for a request that is wrong or that a pre-filter refuses.
    pub fn prepare(
        &self,
        state: &State,
        request: &RequestSpec,
    ) -> Result<Prepared, PrepareRefusal> {
        let environment = StateEnvironment {
            state,
            hosts: &self.hosts,
            compute_version_min: self.compute_version_min,
        };
        prepare(request, &self.options, &environment)
    }

    /// As [`Self::prepare`], once for all equal requests; [`Self::rank`] then keeps what it finds
    /// out about them too.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_once(
        &mut self,
        state: &State,
        request: &RequestSpec,
    ) -> Result<Arc<Prepared>, PrepareRefusal> {
        let environment = StateEnvironment {
            state,
            hosts: &self.hosts,
            compute_version_min: self.compute_version_min,
        };
        let version = (self.hosts.aggregates().version(), self.compute_version_min);
        let options = &self.options;
        let make = || prepare(request, options, &environment);
        self.classes.prepared(request, version, &self.hosts, make)
    }

    /// The best hosts for a request, best first; fewer than wanted if there are no more.
    ///
    /// # Errors
    ///
    /// [`SelectRefusal`] for an invalid request. It is no error if no host is feasible.
    pub fn rank(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.search(state, request, prepared, scope, RankingMethod::Indexed)
    }

    /// The best hosts, by weighing every feasible host: the definition of [`Self::rank`].
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn rank_all(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.search(state, request, prepared, scope, RankingMethod::Linear(None))
    }

    /// As [`Self::rank_all`], with the contribution of each weigher to each host's score; and to the
    /// scores of the hosts in the slots `asked`, as far as they are feasible.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn rank_with_weights(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
        mut asked: Vec<u32>,
    ) -> Result<(Vec<Ranked>, Weights), SelectRefusal> {
        asked.sort_unstable();
        let mut weights = Weights {
            asked,
            ..Weights::default()
        };
        let method = RankingMethod::Linear(Some(&mut weights));
        let ranked = self.search(state, request, prepared, scope, method)?;
        Ok((ranked, weights))
    }

    fn search(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
        mut method: RankingMethod<'_>,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.scores.note(self.hosts.drain_changes());
        self.hosts.note_request(request);
        let compiled = self.policy.compile(request, &self.hosts, scope.instance)?;
        let instance = ConsumerUuid::from_uuid(scope.instance);
        let rules = Rules::beside(state, request, instance, &scope.placed)?;
        let context = RequestContext::new(state, &self.hosts, compiled, rules, prepared, scope);
        let by_rules = context.rules.named(state);
        let named = context.named(by_rules.as_ref());
        for query in std::iter::once(&prepared.query).chain(&prepared.fallback) {
            let caches = self.classes.query(prepared, query, scope.cell, &self.hosts);
            let found = search::best(
                &context,
                query,
                named,
                caches,
                &mut self.scores,
                &mut method,
            )?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}
