//! Where a request should go: the hosts that will do, the best first.
//!
//! [`Scheduler::rank`] joins what placement knows (room, traits, trees), the filters, the hard
//! rules of groups and topology, and the weighers. Nothing is sampled: every host is considered.
//! Where weighers need no more than columns, kept [rankings](crate::ranking) find the best hosts
//! without looking at all; else every host that will do is weighed. Both give equal answers
//! (`tests/select.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::slot_set::{SlotSet, bits};
use placewright_placement::{
    CandidateQuery, ConsumerUuid, HostSearch, ProviderId, QueryRefusal, State, Timestamp,
};
use thiserror::Error;
use uuid::Uuid;

use crate::config::{ConfigError, SchedulerConfig};
use crate::error::BadRequest;
use crate::host_table::HostTable;
use crate::policy::{CompiledPolicy, Policy};
use crate::prefilter::Surroundings;
use crate::prepare::{PrepareOptions, PrepareRefusal, Prepared, prepare};
use crate::ranking::{Admission, Admitted, Ranked};
use crate::request::RequestSpec;
use crate::translate::TranslateOptions;
use crate::translate::rule::CandidateRule;
use crate::translate::target::{ComputeNode, Target};

pub mod capacity;
mod classes;
pub mod rebuild;
pub mod rules;
mod searches;
mod shelf;
mod ways;
pub mod weights;

pub use ways::Mappings;

use classes::PreparedShelf;
use rules::Rules;
use searches::{QueryKey, SearchShelf};
use shelf::{ClassKey, Shelf, TreeKey, TreeShelf};
use weights::{Weight, Weights};

/// Decides where requests go, on a copy of placement's state and what hosts say of themselves.
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

/// How hosts are ranked.
enum How<'w> {
    /// By kept rankings where there can be any.
    Kept,
    /// By weighing every host, and telling the weights.
    Weighed(Option<&'w mut Weights>),
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
            prepared: PreparedShelf::default(),
            searches: SearchShelf::default(),
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

    /// How requests are translated.
    #[must_use]
    pub fn translate_options(&self) -> TranslateOptions {
        self.options.translate.clone()
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

    /// As [`Self::prepare`], but equal requests are made ready once, and what [`Self::rank`] finds
    /// out about them is kept.
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
    /// [`SelectRefusal`] for a request that nobody can make sense of. No host is no error.
    pub fn rank(
        &mut self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<Vec<Ranked>, SelectRefusal> {
        self.search(state, request, prepared, scope, How::Kept)
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
        self.search(state, request, prepared, scope, How::Weighed(None))
    }

    /// As [`Self::rank_all`], with what each weigher gives each of the hosts.
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
        let rules = Rules::of(state, request, ConsumerUuid::from_uuid(scope.instance))?;
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
                // With rules of its own, a request can have candidates of a lone host and none that
                // will do.
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
                // A lone host is not weighed, so it matters whether there is a second.
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

/// Where at most so many hosts are named, each of them is weighed.
const NAMED_MAX: usize = 1_000;
/// How many ways to serve a request are looked at for one that keeps the request's own rules.
const TRIED_MAX: usize = 256;

/// One search: who will do.
struct Job<'j, 'a> {
    state: &'a State,
    hosts: &'a HostTable,
    search: &'j HostSearch<'a>,
    compiled: &'j CompiledPolicy<'a>,
    rules: &'j Rules,
    own_rules: &'j [CandidateRule],
    query: &'j CandidateQuery,
    /// The class of the request, if it has one, and whether this is its second query.
    known: Option<QueryKey>,
    cell: Option<Uuid>,
    without_cells: &'j [Uuid],
    without: &'j [u32],
    /// Whether the masks of the class do not say everything even of lone hosts.
    asks_class: bool,
    /// What is known about trees, and the place of this query there once it was looked for.
    trees: RefCell<(&'j mut TreeShelf, Option<usize>)>,
}

impl Admission for Job<'_, '_> {
    fn block(&self, word: usize) -> Admitted {
        let mut mask = self.standing_word(word);
        if mask == 0 {
            return Admitted::default();
        }
        let room = self.search.word(word);
        mask &= room.fitting | room.unsure;
        let unsure = if self.asks_class {
            mask
        } else {
            mask & room.unsure
        };
        Admitted {
            sure: mask & !unsure,
            unsure,
        }
    }

    fn kind(&self, word: usize) -> u64 {
        match self.standing_word(word) {
            0 => 0,
            mask => mask & self.search.kind_word(word),
        }
    }

    fn admits(&self, slot: u32) -> bool {
        if !self.compiled.filters.passes_the_rest(slot, true) {
            return false;
        }
        let (trees, place) = &mut *self.trees.borrow_mut();
        let place = *place.get_or_insert_with(|| {
            let lone = || TreeKey::Lone(shelf::hash_of(&(self.query, self.own_rules)));
            let key = self.known.map_or_else(lone, TreeKey::Class);
            trees.place(self.state, self.search, key)
        });
        let host = ProviderId(slot);
        trees.fits(place, self.state, host, || self.fits(host))
    }

    fn admits_alone(&self, slot: u32) -> bool {
        let one = 1 << (slot % 64);
        if self.standing_word(slot as usize / 64) & one == 0 {
            return false;
        }
        let room = self.search.one(ProviderId(slot));
        if room.fitting != 0 && !self.asks_class {
            return true;
        }
        room.fitting | room.unsure != 0 && self.admits(slot)
    }

    fn request_block(&self, word: usize, mut mask: u64) -> u64 {
        mask &= self.compiled.filters.word(word, false);
        for cell in self.without_cells {
            let hosts = self.hosts.of_cell(*cell);
            mask &= !hosts.map_or(0, |hosts| hosts.word(word));
        }
        for slot in self.without {
            if *slot as usize / 64 == word {
                mask &= !(1 << (slot % 64));
            }
        }
        self.rules.word(word, mask)
    }

    fn request_admits(&self, slot: u32) -> bool {
        self.rules.keeps(self.state, ProviderId(slot))
            && self.compiled.filters.passes_the_rest(slot, false)
    }
}

impl Job<'_, '_> {
    /// The hosts that pass what holds for all requests of the class, their room aside.
    fn standing_word(&self, word: usize) -> u64 {
        let mask = self.compiled.filters.word(word, true);
        match self.cell {
            None => mask,
            Some(cell) => mask & self.hosts.of_cell(cell).map_or(0, |hosts| hosts.word(word)),
        }
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

    /// Weighs every host that will do, or only those of a set that holds them all.
    /// The weights of those that are ranked go into `told`, if somebody wants to know them.
    fn weigh_all(
        &self,
        count: usize,
        among: Option<&SlotSet>,
        told: Option<&mut Weights>,
    ) -> Vec<Ranked> {
        let mut slots = Vec::new();
        for word in 0..self.search.words() {
            let among = among.map_or(u64::MAX, |among| among.word(word));
            if among == 0 {
                continue;
            }
            let admitted = self.block(word);
            let may_do = among & (admitted.sure | admitted.unsure);
            for slot in bits(self.request_block(word, may_do), word) {
                let is_sure = admitted.sure >> (slot % 64) & 1 == 1;
                if (is_sure || self.admits(slot)) && self.request_admits(slot) {
                    slots.push(slot);
                }
            }
        }
        let scales = self.compiled.weighers.scales(&slots);
        let weighed = slots.iter().map(|slot| Ranked {
            slot: *slot,
            score: scales.weight(*slot),
        });
        let mut ranked: Vec<Ranked> = weighed.collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.slot.cmp(&b.slot)));
        ranked.truncate(count);
        if let Some(told) = told {
            told.compared = slots.len();
            let weights = |one: &Ranked| scales.shares(one.slot).map(Weight::from).collect();
            told.of_hosts = ranked.iter().map(weights).collect();
        }
        ranked
    }
}
