//! Where a request should go: the hosts that will do, the best first.
//!
//! [`Scheduler::rank`] joins what placement knows (room, traits, trees), the filters, the hard
//! rules of groups and topology, and the weighers. Nothing is sampled: every host is considered.
//! Where weighers need no more than columns, kept [rankings](crate::ranking) find the best hosts
//! without looking at all; else every host that will do is weighed. Both give equal answers
//! (`tests/select.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use placewright_placement::{
    AllocationRequest, CandidateQuery, ConsumerUuid, HostSearch, IntentCandidate, ProviderId,
    QueryRefusal, State, Timestamp,
};
use thiserror::Error;
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig};
use crate::error::BadRequest;
use crate::host_table::HostTable;
use crate::policy::{CompiledPolicy, Policy};
use crate::prefilter::Surroundings;
use crate::prepare::{PrepareOptions, PrepareRefusal, Prepared, prepare};
use crate::ranking::Ranked;
use crate::request::RequestSpec;
use crate::translate::rule::CandidateRule;
use crate::translate::target::{ComputeNode, Target};

pub mod capacity;
pub mod rules;
mod shelf;

use rules::Rules;
use shelf::{Shelf, TreeShelf, Trees};

/// Decides where requests go, on a copy of placement's state and what hosts say of themselves.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    options: PrepareOptions,
    hosts: HostTable,
    shelf: Shelf,
    trees: TreeShelf,
    compute_version_min: u32,
}

/// What a search looks for besides what the request says.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The instance whose turn it is.
    pub instance: Uuid,
    /// How many hosts are wanted.
    pub count: usize,
    /// Only hosts of this cell.
    pub cell: Option<Uuid>,
    /// Not the hosts of these cells.
    pub without_cells: Vec<Uuid>,
    /// Not these hosts, in any order.
    pub without: Vec<u32>,
}

/// Why no host can be named.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectRefusal {
    /// The request is wrong.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The request names a resource class or trait that does not exist.
    #[error(transparent)]
    Query(#[from] QueryRefusal),
}

/// What pre-filters ask about, answered from placement and the host table.
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
    /// A scheduler that has not heard of any host.
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
            compute_version_min: 0,
        })
    }

    /// What hosts say of themselves.
    #[must_use]
    pub fn hosts(&self) -> &HostTable {
        &self.hosts
    }

    /// The door by which hosts and aggregates change.
    pub fn hosts_mut(&mut self) -> &mut HostTable {
        &mut self.hosts
    }

    /// The filters and weighers as configured.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Says which version the oldest compute service has; some pre-filters wait for it.
    pub fn set_compute_version_min(&mut self, version: u32) {
        self.compute_version_min = version;
    }

    /// Takes over what changed in placement and in the hosts since the last time.
    pub fn observe(&mut self, state: &State, now: Timestamp) {
        self.hosts.follow(state);
        self.hosts.advance(now);
        self.shelf.note(self.hosts.take_touched());
    }

    /// Makes a request ready for [`Self::rank`]. The result depends on aggregates and, for a
    /// request that names a host, on the hosts.
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

    /// The best hosts for a request, best first; fewer than wanted if there are no more.
    ///
    /// # Errors
    ///
    /// [`SelectRefusal`] for a request that nobody can make sense of. No host is no error.
    pub fn rank(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.search(state, request, prepared, scope, true)
    }

    /// The best hosts, by weighing every host that will do: the definition of [`Self::rank`].
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
        self.search(state, request, prepared, scope, false)
    }

    fn search(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
        may_use_rankings: bool,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        let compiled = self.policy.compile(request, &self.hosts, scope.instance)?;
        let rules = Rules::of(state, request, ConsumerUuid::from_uuid(scope.instance));
        let own_rules = &prepared.translation.rules;
        for query in std::iter::once(&prepared.query).chain(&prepared.fallback) {
            let Some(search) = HostSearch::new(state, query)? else {
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
                cell: scope.cell,
                without_cells: &scope.without_cells,
                without: &scope.without,
                trees: RefCell::new(self.trees.trees(
                    state,
                    &search,
                    shelf::hash_of(&(query, own_rules)),
                )),
            };
            let terms = compiled.weighers.terms().filter(|_| may_use_rankings);
            let found = if let Some(terms) = terms {
                let mut filters = compiled.filters.filters().iter();
                let usable_only = filters.any(|one| one.name == "ComputeFilter");
                let kind = (shelf::kind_of(query), usable_only);
                let ranking = self
                    .shelf
                    .ranking(state, &self.hosts, &search, kind, &terms);
                // A lone host is not weighed, so it matters whether there is a second.
                let count = scope.count.max(2);
                let mut found = ranking.best(count, &|word| job.word(word), self.hosts.columns());
                if let [lone] = &mut found[..] {
                    lone.score = 0.0;
                }
                found.truncate(scope.count);
                found
            } else {
                job.weigh_all(scope.count)
            };
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// The ways in which a host can serve a request, at most so many, ready to be claimed.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn candidates(
        &self,
        state: &State,
        prepared: &Prepared,
        slot: u32,
        most: usize,
    ) -> Result<Vec<IntentCandidate>, SelectRefusal> {
        let host = ProviderId(slot);
        for query in std::iter::once(&prepared.query).chain(&prepared.fallback) {
            let Some(search) = HostSearch::new(state, query)? else {
                continue;
            };
            let found = candidates_of(state, &search, query, prepared, host, most);
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}

/// How many ways to serve a request are looked at for one that keeps the request's own rules.
const TRIED_MAX: usize = 256;

fn candidates_of(
    state: &State,
    search: &HostSearch<'_>,
    query: &CandidateQuery,
    prepared: &Prepared,
    host: ProviderId,
    most: usize,
) -> Vec<IntentCandidate> {
    let rules = &prepared.translation.rules;
    let tried = if rules.is_empty() {
        most
    } else {
        TRIED_MAX.max(most)
    };
    let found = search.of_host(host, tried);
    let Some(provider) = state.provider(host) else {
        return Vec::new();
    };
    let mut ready = Vec::new();
    for candidate in found.iter() {
        if !rules
            .iter()
            .all(|rule| rule.admits(state, query, candidate))
        {
            continue;
        }
        let mut allocations: Vec<AllocationRequest> = Vec::new();
        for one in candidate.allocations() {
            let Some(from) = state.provider(one.provider) else {
                continue;
            };
            let amount = (
                state.class_name(one.class).to_owned(),
                i64::from(one.amount),
            );
            match allocations
                .last_mut()
                .filter(|last| last.provider == from.uuid)
            {
                Some(last) => last.resources.push(amount),
                None => allocations.push(AllocationRequest {
                    provider: from.uuid,
                    resources: vec![amount],
                }),
            }
        }
        ready.push(IntentCandidate {
            host: provider.uuid,
            allocations,
        });
        if ready.len() == most {
            break;
        }
    }
    ready
}

/// One search: who will do.
struct Job<'j, 'a> {
    state: &'a State,
    hosts: &'a HostTable,
    search: &'j HostSearch<'a>,
    compiled: &'j CompiledPolicy<'a>,
    rules: &'j Rules,
    own_rules: &'j [CandidateRule],
    query: &'j CandidateQuery,
    cell: Option<Uuid>,
    without_cells: &'j [Uuid],
    without: &'j [u32],
    trees: RefCell<&'j mut Trees>,
}

impl Job<'_, '_> {
    /// Which of the 64 hosts from slot `64 * word` on will do. The cheapest questions come first.
    fn word(&self, word: usize) -> u64 {
        let mut mask = self.compiled.filters.word(word);
        if let Some(cell) = self.cell {
            mask &= self.hosts.of_cell(cell).map_or(0, |hosts| hosts.word(word));
        }
        for cell in self.without_cells {
            mask &= !self
                .hosts
                .of_cell(*cell)
                .map_or(0, |hosts| hosts.word(word));
        }
        for slot in self.without {
            if *slot as usize / 64 == word {
                mask &= !(1 << (slot % 64));
            }
        }
        if mask == 0 {
            return 0;
        }
        let room = self.search.word(word);
        mask &= room.fitting | room.unsure;
        if mask != 0 && !self.rules.is_empty() {
            mask = self.rules.word(self.state, word, mask);
        }
        if mask != 0 && self.compiled.filters.asks_each() {
            let mut rest = mask;
            let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                if !self.compiled.filters.passes_the_rest(base + bit) {
                    mask &= !(1 << bit);
                }
            }
        }
        // With rules of its own, a request can have candidates of a lone host and none that will do.
        let unsure = if self.own_rules.is_empty() {
            mask & room.unsure
        } else {
            mask
        };
        if unsure != 0 {
            let fits = |host| self.fits(host);
            mask = (mask & !unsure) | self.trees.borrow_mut().word(&fits, word, unsure);
        }
        mask
    }

    /// Whether a host has a candidate that keeps the request's own rules.
    fn fits(&self, host: ProviderId) -> bool {
        let rules = self.own_rules;
        if rules.is_empty() {
            return self.search.fits(host);
        }
        rules.iter().all(|rule| rule.admits_host(self.state, host))
            && self
                .search
                .of_host(host, TRIED_MAX)
                .iter()
                .any(|candidate| {
                    rules
                        .iter()
                        .all(|rule| rule.admits(self.state, self.query, candidate))
                })
    }

    fn weigh_all(&self, count: usize) -> Vec<Ranked> {
        let mut slots = Vec::new();
        for word in 0..self.search.words() {
            let mut mask = self.word(word);
            let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
            while mask != 0 {
                slots.push(base + mask.trailing_zeros());
                mask &= mask - 1;
            }
        }
        let weights = self.compiled.weighers.weights(&slots);
        let mut ranked: Vec<Ranked> = slots
            .iter()
            .zip(&weights)
            .map(|(slot, score)| Ranked {
                slot: *slot,
                score: *score,
            })
            .collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.slot.cmp(&b.slot)));
        ranked.truncate(count);
        ranked
    }
}
