//! Selects hosts for a request: the feasible hosts, the best first.
//!
//! [`Scheduler::rank`] combines placement (capacity, traits, trees), the filters, the hard rules
//! of groups and topology, and the weighers. Nothing is sampled: every host is considered. Where
//! the weighers need no more than columns, [indexes](crate::rank::indexed) find the best hosts
//! without visiting all; otherwise every feasible host is [weighed](crate::rank::linear). Both give
//! equal results (`tests/scheduler/select.rs`).
//!
//! Intermediate results are cached by request class (`class_cache.rs`), from the second request of
//! a class on.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::{ConsumerUuid, State, Timestamp};
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig};
use crate::hosts::table::HostTable;
use crate::policy::Policy;
use crate::rank::Ranked;
use crate::rank::basis::Basis;
use crate::rank::indexed::SharedScores;
use crate::rank::weights::Weights;
use crate::request::RequestSpec;
use crate::translate::TranslateOptions;
use crate::translate::prefilter::Environment;
use crate::translate::prepare::{PrepareOptions, PrepareRefusal, Prepared, prepare};
use crate::translate::target::{ComputeNode, Target};

mod candidate_rules;
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

pub use crate::rank::{basis, weights};
pub use candidates::{Mappings, providers_of_groups};
pub use scope::{Scope, SelectRefusal};

use class_cache::ClassCache;
use rules::Rules;
use search::RankingMethod;
use search_context::RequestContext;

/// Selects hosts for requests, from placement's state and the soft state of hosts.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    options: PrepareOptions,
    hosts: HostTable,
    class_cache: ClassCache,
    scores: SharedScores,
}

/// The environment of the pre-filters, read from placement and the host table.
struct StateEnvironment<'a> {
    state: &'a State,
    hosts: &'a HostTable,
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
        self.hosts.service_versions().minimum()
    }

    fn has_reported_hosts_only(&self) -> bool {
        true
    }

    fn compute_version_min_of_newest_cell(&self) -> u32 {
        self.hosts.service_versions().highest_minimum()
    }

    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode> {
        let slots: Vec<u32> = match target.host {
            Some(host) => self.hosts.nodes_of(host).collect(),
            None => self.hosts.slots().iter().collect(),
        };
        let hosts = slots.into_iter().filter_map(|slot| self.hosts.get(slot));
        hosts
            .filter(|host| target.node.is_none_or(|node| host.names.node == node))
            .filter(|host| target.cell.is_none_or(|cell| host.names.cell == cell))
            .map(|host| ComputeNode {
                uuid: host.uuid,
                host: host.names.service_host.clone(),
                node: host.names.node.clone(),
            })
            .collect()
    }
}

impl Scheduler {
    /// A scheduler without hosts.
    ///
    /// # Errors
    ///
    /// All errors of the configuration.
    pub fn new(config: SchedulerConfig, options: PrepareOptions) -> Result<Self, Vec<ConfigError>> {
        Ok(Self {
            hosts: HostTable::new(&config),
            policy: Policy::new(config)?,
            options,
            class_cache: ClassCache::default(),
            scores: SharedScores::default(),
        })
    }

    /// The table of hosts.
    #[must_use]
    pub fn hosts(&self) -> &HostTable {
        &self.hosts
    }

    /// The table of hosts, to apply updates of hosts and aggregates.
    pub fn hosts_mut(&mut self) -> &mut HostTable {
        &mut self.hosts
    }

    /// The filters and weighers as configured.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The options by which requests are translated.
    #[must_use]
    pub fn translate_options(&self) -> TranslateOptions {
        self.options.translate.clone()
    }

    /// Applies the changes of placement and of the hosts since the last call.
    pub fn observe(&mut self, state: &State, now: Timestamp) {
        self.hosts.catch_up_with_placement(state);
        self.hosts.advance(now);
        self.scores.append(self.hosts.drain_changes());
    }

    /// Prepares a request for [`Self::rank`], without a cache. The result depends on the aggregates, on the versions
    /// of the compute services and, for a request that names a host, on the hosts.
    ///
    /// # Errors
    ///
    /// [`PrepareRefusal`] for a request that is invalid or that a pre-filter refuses.
    pub fn prepare(
        &self,
        state: &State,
        request: &RequestSpec,
    ) -> Result<Prepared, PrepareRefusal> {
        let environment = StateEnvironment {
            state,
            hosts: &self.hosts,
        };
        prepare(request, &self.options, &environment)
    }

    /// As [`Self::prepare`], with a cache for all requests of a class. [`Self::rank`] caches its
    /// intermediate results only for requests that were prepared like this.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_cached(
        &mut self,
        state: &State,
        request: &RequestSpec,
    ) -> Result<Arc<Prepared>, PrepareRefusal> {
        let environment = StateEnvironment {
            state,
            hosts: &self.hosts,
        };
        let hosts = &self.hosts;
        let version = (
            hosts.aggregates().version(),
            hosts.service_versions().revision(),
        );
        let options = &self.options;
        let prepare_now = || prepare(request, options, &environment);
        self.class_cache
            .find_or_prepare(request, version, &self.hosts, prepare_now)
    }

    /// The best hosts for a request, best first; fewer than `scope.count` if fewer are feasible.
    ///
    /// # Errors
    ///
    /// [`SelectRefusal`] for an invalid request. If no host is feasible, the result is empty.
    pub fn rank(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.search(
            state,
            request,
            prepared,
            scope,
            RankingMethod::Indexed(None),
        )
    }

    /// As [`Self::rank`], and says also what the order of the best hosts, at most `hosts_max` of them, rests on. This
    /// costs little more.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn rank_with_basis(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
        hosts_max: usize,
    ) -> Result<(Vec<Ranked>, Basis), SelectRefusal> {
        let mut basis = Basis::of_best(hosts_max);
        let method = RankingMethod::Indexed(Some(&mut basis));
        let ranked = self.search(state, request, prepared, scope, method)?;
        Ok((ranked, basis))
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

    /// As [`Self::rank_all`], with the contribution of each weigher to the score of each returned
    /// host, and of each feasible host in `requested_slots`.
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
        mut requested_slots: Vec<u32>,
    ) -> Result<(Vec<Ranked>, Weights), SelectRefusal> {
        requested_slots.sort_unstable();
        let mut weights = Weights {
            requested_slots,
            ..Weights::default()
        };
        let method = RankingMethod::Linear(Some(&mut weights));
        let ranked = self.search(state, request, prepared, scope, method)?;
        Ok((ranked, weights))
    }

    /// Searches with the query of a request and, if no host is feasible, with its fallback query.
    fn search(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
        mut method: RankingMethod<'_>,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.scores.append(self.hosts.drain_changes());
        self.hosts.record_request(request);
        let compiled = self.policy.compile(request, &self.hosts, scope.instance)?;
        let instance = ConsumerUuid::from_uuid(scope.instance);
        let rules = Rules::bind_with_placed(state, request, instance, &scope.placed)?;
        let context = RequestContext::new(state, &self.hosts, compiled, rules, prepared, scope);
        let listed_by_rules = context.rules.listed_hosts(state);
        let listed = context.listed_hosts(listed_by_rules.as_ref());
        let fallback = prepared.fallback.iter().map(|query| (query, true));
        for (query, is_fallback) in std::iter::once((&prepared.query, false)).chain(fallback) {
            let caches = self
                .class_cache
                .find_or_insert(prepared, query, scope.cell, &self.hosts);
            let ranked = search::best(
                &context,
                query,
                listed,
                caches,
                &mut self.scores,
                &mut method,
            )?;
            if !ranked.is_empty() {
                match &mut method {
                    RankingMethod::Linear(Some(weights)) => weights.is_from_fallback = is_fallback,
                    RankingMethod::Indexed(Some(basis)) => basis.is_from_fallback = is_fallback,
                    RankingMethod::Linear(None) | RankingMethod::Indexed(None) => {}
                }
                return Ok(ranked);
            }
        }
        Ok(Vec::new())
    }
}
