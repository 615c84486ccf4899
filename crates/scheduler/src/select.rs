//! Selects hosts for a request: the feasible hosts, the best first.
//!
//! [`Scheduler::rank`] combines placement (capacity, traits, trees), the filters, the hard rules
//! of groups and topology, and the weighers. Nothing is sampled: every host is considered. Where
//! the weighers need no more than columns, cached [rankings](crate::ranking) find the best hosts
//! without visiting all; otherwise every feasible host is weighed. Both give equal results
//! (`tests/select.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::{ConsumerUuid, ProviderId, QueryRefusal, State, Timestamp};
use thiserror::Error;
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig};
use crate::error::BadRequest;
use crate::host_table::HostTable;
use crate::policy::Policy;
use crate::prefilter::Surroundings;
use crate::prepare::{PrepareOptions, PrepareRefusal, Prepared, prepare};
use crate::ranking::Ranked;
use crate::request::RequestSpec;
use crate::translate::TranslateOptions;
use crate::translate::target::{ComputeNode, Target};

pub mod capacity;
mod classes;
mod job;
pub mod rebuild;
pub mod rules;
mod searches;
mod shelf;
mod ways;
pub mod weights;

pub use ways::Mappings;

use classes::PreparedShelf;
use job::Job;
use rules::Rules;
use searches::{QueryKey, SearchShelf};
use shelf::{ClassKey, Shelf, TreeShelf};
use weights::Weights;

/// Decides where requests go, on a copy of placement's state and the soft state of hosts.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    options: PrepareOptions,
    hosts: HostTable,
    shelf: Shelf,
    trees: TreeShelf,
    prepared: PreparedShelf,
    searches: SearchShelf,
    compute_version_min: u32,
}

/// The parameters of a search besides the request.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The instance that is placed.
    pub instance: Uuid,
    /// The number of hosts wanted.
    pub count: usize,
    /// If set, only hosts of this cell are considered.
    pub cell: Option<Uuid>,
    /// Hosts of these cells are excluded.
    pub without_cells: Vec<Uuid>,
    /// These slots are excluded, in any order.
    pub without: Vec<u32>,
    /// Other instances of the request that are about to be claimed together with this one, with
    /// their hosts: the hard rules of groups and topology hold beside them.
    pub placed: Vec<(ConsumerUuid, ProviderId)>,
}

/// The algorithm by which hosts are ranked.
enum How<'w> {
    /// With cached rankings where possible.
    Kept,
    /// By weighing every feasible host, and reporting the weights if asked to.
    Weighed(Option<&'w mut Weights>),
}

/// Why no search is made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectRefusal {
    /// The request is invalid.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The request names a resource class or trait that does not exist.
    #[error(transparent)]
    Query(#[from] QueryRefusal),
}

/// The environment of the pre-filters, answered from placement and the host table.
struct Known<'a> {
    state: &'a State,
    hosts: &'a HostTable,
    compute_version_min: u32,
}

impl Surroundings for Known<'_> {
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
            shelf: Shelf::default(),
            trees: TreeShelf::default(),
            prepared: PreparedShelf::default(),
            searches: SearchShelf::default(),
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
        self.shelf.note(self.hosts.take_touched());
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
        let known = Known {
            state,
            hosts: &self.hosts,
            compute_version_min: self.compute_version_min,
        };
        prepare(request, &self.options, &known)
    }

    /// As [`Self::prepare`], memoised for equal requests; [`Self::rank`] then caches its results
    /// for them too.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_once(
        &mut self,
        state: &State,
        request: &RequestSpec,
    ) -> Result<Arc<Prepared>, PrepareRefusal> {
        let known = Known {
            state,
            hosts: &self.hosts,
            compute_version_min: self.compute_version_min,
        };
        let basis = (self.hosts.aggregates().version(), self.compute_version_min);
        let options = &self.options;
        self.prepared
            .get(request, basis, || prepare(request, options, &known))
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
        self.search(state, request, prepared, scope, How::Kept)
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
        self.search(state, request, prepared, scope, How::Weighed(None))
    }

    /// As [`Self::rank_all`], with the contribution of each weigher to each host's score.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn rank_told(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<(Vec<Ranked>, Weights), SelectRefusal> {
        let mut weights = Weights::default();
        let how = How::Weighed(Some(&mut weights));
        let ranked = self.search(state, request, prepared, scope, how)?;
        Ok((ranked, weights))
    }

    fn search(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
        mut how: How<'_>,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.shelf.note(self.hosts.take_touched());
        self.hosts.note_request(request);
        let compiled = self.policy.compile(request, &self.hosts, scope.instance)?;
        let instance = ConsumerUuid::from_uuid(scope.instance);
        let rules = Rules::beside(state, request, instance, &scope.placed)?;
        let own_rules = &prepared.translation.rules;
        let by_rules = rules.named(state);
        let named = match (by_rules.as_ref(), compiled.filters.named()) {
            (Some(one), Some(other)) if other.len() < one.len() => Some(other),
            (one, other) => one.or(other),
        };
        for query in std::iter::once(&prepared.query).chain(&prepared.fallback) {
            let is_fallback = !std::ptr::eq(query, &prepared.query);
            let known = prepared.class.map(|class| QueryKey { class, is_fallback });
            let Some(search) = self.searches.search(state, query, known)? else {
                continue;
            };
            let job = Job {
                state,
                hosts: &self.hosts,
                search: &search,
                compiled: &compiled,
                rules: &rules,
                own_rules,
                query,
                known,
                cell: scope.cell,
                without_cells: &scope.without_cells,
                without: &scope.without,
                // With rules of its own, a request can have candidates on a flat host of which
                // none satisfies the rules.
                asks_class: !own_rules.is_empty() || compiled.filters.asks_each(true),
                trees: RefCell::new((&mut self.trees, None)),
            };
            let may_use_rankings = matches!(how, How::Kept);
            let terms = || compiled.weighers.terms().filter(|_| may_use_rankings);
            let named = named.filter(|named| named.len() <= NAMED_MAX);
            let weights = match &mut how {
                How::Kept => None,
                How::Weighed(weights) => weights.as_deref_mut(),
            };
            let found = if named.is_some() {
                job.weigh_all(scope.count, named, weights)
            } else if let Some(terms) = terms() {
                let key = prepared.class.map(|requests| ClassKey {
                    requests,
                    is_fallback,
                    aggregates: self.hosts.aggregates().version(),
                    cell: scope.cell,
                });
                let both = (state, &self.hosts);
                // A single feasible host is not weighed, so it matters whether there is a second.
                let count = scope.count.max(2);
                let mut found = self.shelf.best(both, &search, key, terms, (count, &job));
                if let [lone] = &mut found[..] {
                    lone.score = 0.0;
                }
                found.truncate(scope.count);
                found
            } else {
                job.weigh_all(scope.count, None, weights)
            };
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}

/// If at most this many hosts are named explicitly, each of them is weighed.
const NAMED_MAX: usize = 1_000;
/// The number of candidates of a host that are tried in order to find one that satisfies the
/// request's own rules.
const TRIED_MAX: usize = 256;
