//! The class cache: intermediate results by request class, from one decision to the next.
//!
//! An entry has all results of a class: the prepared request, the prepared queries, which trees are feasible for them,
//! and the indexes of the ranking. An entry is made when the second request of a class comes, so that one-off requests
//! do not displace entries. It becomes invalid as a whole when the aggregates or the compute services from which the
//! request was prepared change, and it is evicted as a whole by the [clock](crate::clock).
//!
//! For one-off requests, [`OneOff`] caches only the results that the claim after the search needs.

use std::hash::BuildHasher;
use std::sync::Arc;

use placewright_placement::{CandidateQuery, HostSearch, PreparedQuery, QueryRefusal, State};
use uuid::Uuid;

use super::request_class::{
    depends_on_hosts_or_networks, has_cacheable_size, hash_of, is_same_class,
};
use super::tree_results::{QueryKey, StateVersion, TreeResults};
use crate::block::BLOCK_HOSTS;
use crate::clock::{Clock, ClockCache};
use crate::hosts::table::HostTable;
use crate::rank::indexed::{ClassIndex, Fleet};
use crate::request::RequestSpec;
use crate::translate::prepare::{PrepareRefusal, Prepared, RequestClass};
use crate::weighers::Term;

/// The minimum and maximum number of entries. In between, [`CLASSES_BYTES`] limits the memory of their indexes, counted
/// as one index for each entry.
const CLASSES_MIN: usize = 512;
const CLASSES_MAX: usize = 1_024;
const CLASSES_BYTES: usize = 64 << 20;
/// The memory of an index for each block of hosts: two masks, the bound of its scores, and the bounds
/// of the ends of about six ranges.
const INDEX_BYTES_PER_BLOCK: usize = 9 * size_of::<u64>();

/// The maximum number of indexes of a query: one for searches in all cells, others for single
/// cells.
const INDEXES_MAX: usize = 4;

/// The number of queries of one-off requests that are cached for the claims that follow.
const ONE_OFF_QUERIES: usize = 8;

/// The number of hashes of recent requests that are stored. Of hashes that are equal modulo this number, the
/// latest is stored.
const SEEN_HASHES: usize = 4_096;

/// The key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClassKey {
    /// The hash of the requests of a class.
    Request(u64),
    /// The hash of a query, for requests without a class.
    Query(u64),
}

/// What the preparation of a request depends on: the version of the aggregates, and the revision of the compute
/// services' versions.
pub(super) type PreparedVersion = (u64, u64);

/// The results of one request class.
#[derive(Debug, Default)]
struct ClassEntry {
    /// The number of the class. It tells results of this class from results of an evicted class.
    number: u64,
    /// A request of the class, with its prepared form; `None` if none was prepared for this entry.
    request: Option<(RequestSpec, Arc<Prepared>)>,
    /// The query of the request, and its fallback.
    queries: [QueryEntry; 2],
}

/// The results of one query of a class.
#[derive(Debug, Default)]
struct QueryEntry {
    /// The query with all names resolved.
    prepared_query: Option<PreparedQuery>,
    /// The provider trees that are feasible for the query.
    trees: TreeResults,
    /// The indexes, each for all cells or for one.
    indexes: Clock<CachedIndex>,
}

impl ClassEntry {
    /// An empty entry that reuses the memory of an evicted one.
    fn recycled(old: Option<Self>, number: u64) -> Self {
        let mut entry = old.unwrap_or_default();
        entry.reset(number);
        entry
    }

    /// Assigns the entry to another class. The results of trees and the indexes are not cleared:
    /// they are stored with the number of their class, so they no longer count as valid.
    fn reset(&mut self, number: u64) {
        self.number = number;
        self.request = None;
        for query in &mut self.queries {
            query.prepared_query = None;
        }
    }
}

/// Everything that an index depends on, besides the hosts in the change log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IndexKey {
    pub(super) query: QueryKey,
    /// The version of the metadata of aggregates, on which filters depend.
    pub(super) aggregates: u64,
    /// The only cell of the search, if it is restricted to one.
    pub(super) cell: Option<Uuid>,
    pub(super) state: StateVersion,
}

/// An index with the key for which it is valid.
#[derive(Debug, Default)]
pub(super) struct CachedIndex {
    /// The cell that the index is for; `None` for all cells. It is set when the index is added to the
    /// cache, before there is a key.
    cell: Option<Uuid>,
    key: Option<IndexKey>,
    terms: Vec<Term>,
    index: ClassIndex,
}

impl CachedIndex {
    /// Brings the index up to date and returns it. An index that is not valid for the key and the terms
    /// is reset.
    pub(super) fn update(
        &mut self,
        key: IndexKey,
        terms: Vec<Term>,
        block_count: usize,
        fleet: &Fleet<'_>,
        is_one_off: bool,
    ) -> &mut ClassIndex {
        let is_valid = self.key == Some(key) && self.terms == terms;
        if !is_valid || !self.index.catch_up(block_count, fleet) {
            if is_one_off {
                self.index.reset_for_one_off(&terms, block_count, fleet);
            } else {
                self.index.reset(&terms, block_count, fleet);
            }
            self.key = Some(key);
            self.terms = terms;
        }
        &mut self.index
    }
}

/// The results of one-off requests.
#[derive(Debug, Default)]
struct OneOff {
    /// A ring buffer of prepared queries.
    prepared_queries: Vec<(QueryKey, Option<PreparedQuery>)>,
    /// The position in the ring buffer of the query that is replaced next.
    next_replaced: usize,
    /// The results of trees for the last query. They are kept so that their memory is reused, and for a
    /// repetition of the same search.
    trees: TreeResults,
    /// The ranking's index of the last query, kept for the same reasons.
    index: CachedIndex,
}

impl OneOff {
    /// The prepared query of a key, if it is cached.
    fn prepared_query(&self, key: QueryKey) -> Option<&PreparedQuery> {
        let mut queries = self.prepared_queries.iter();
        let entry = queries.find(|(other, _)| *other == key);
        entry.and_then(|(_, prepared_query)| prepared_query.as_ref())
    }

    /// The caches of a query. A query that is not cached replaces the oldest.
    fn find_or_insert(
        &mut self,
        key: QueryKey,
    ) -> (
        &mut Option<PreparedQuery>,
        &mut TreeResults,
        &mut CachedIndex,
    ) {
        let cached = self
            .prepared_queries
            .iter()
            .position(|(other, _)| *other == key);
        let position = cached.unwrap_or_else(|| {
            let position = self.next_replaced;
            self.next_replaced = (position + 1) % ONE_OFF_QUERIES;
            match self.prepared_queries.get_mut(position) {
                Some(old) => *old = (key, None),
                None => self.prepared_queries.push((key, None)),
            }
            position
        });
        let (_, prepared_query) = &mut self.prepared_queries[position];
        (prepared_query, &mut self.trees, &mut self.index)
    }
}

/// The cached results that a search uses and updates.
pub(super) struct QueryCaches<'c> {
    pub(super) key: QueryKey,
    /// The prepared query, if it was prepared before.
    pub(super) prepared_query: &'c mut Option<PreparedQuery>,
    pub(super) trees: &'c mut TreeResults,
    pub(super) index: &'c mut CachedIndex,
    /// Whether the request is a one-off or has no class, so that the index only serves this search.
    pub(super) is_one_off: bool,
}

impl QueryCaches<'_> {
    /// The search for the query, resumed from the cached prepared query or prepared now; `None` if no
    /// provider can serve the query.
    ///
    /// # Errors
    ///
    /// As [`HostSearch::new`].
    pub(super) fn resume_or_prepare<'a>(
        &mut self,
        state: &'a State,
        query: &CandidateQuery,
    ) -> Result<Option<HostSearch<'a>>, QueryRefusal> {
        let cached = self.prepared_query.as_ref();
        if let Some(search) = cached.and_then(|prepared_query| prepared_query.resume(state)) {
            return Ok(Some(search));
        }
        let search = HostSearch::new(state, query)?;
        *self.prepared_query = search.as_ref().and_then(HostSearch::to_prepared_query);
        Ok(search)
    }
}

/// The cache of intermediate results by request class.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    /// The versions for which the prepared requests are valid.
    version: PreparedVersion,
    entries: ClockCache<ClassKey, ClassEntry>,
    one_off: OneOff,
    /// The number of the newest class.
    newest_number: u64,
    /// By remainder of a request's hash: the hash of the latest request with this remainder. Empty before
    /// the first request.
    seen_hashes: Vec<u64>,
}

impl ClassCache {
    /// An empty cache, for a fork of the scheduler. It assigns numbers that this cache has not assigned, because
    /// requests that this cache prepared are searched in the fork, too.
    pub(super) fn fork(&self) -> Self {
        Self {
            newest_number: self.newest_number,
            ..Self::default()
        }
    }

    /// The prepared form of a request, from the cache or prepared now.
    pub(super) fn find_or_prepare(
        &mut self,
        request: &RequestSpec,
        version: PreparedVersion,
        hosts: &HostTable,
        prepare_now: impl FnOnce() -> Result<Prepared, PrepareRefusal>,
    ) -> Result<Arc<Prepared>, PrepareRefusal> {
        if self.version != version {
            self.entries.clear();
            self.version = version;
        }
        if depends_on_hosts_or_networks(request) {
            return prepare_now().map(Arc::new);
        }
        let hash = hash_of(request);
        let key = ClassKey::Request(hash);
        let cached = self
            .entries
            .get(&key)
            .and_then(|entry| entry.request.as_ref());
        if let Some((_, prepared)) = cached.filter(|(other, _)| is_same_class(other, request)) {
            return Ok(Arc::clone(prepared));
        }
        self.newest_number += 1;
        let number = self.newest_number;
        let mut prepared = prepare_now()?;
        let is_repeated = self.record_hash(hash) && has_cacheable_size(request);
        prepared.class = Some(RequestClass {
            number,
            hash,
            is_repeated,
        });
        let prepared = Arc::new(prepared);
        if is_repeated {
            let recycle = |old| ClassEntry::recycled(old, number);
            let entry = self.entries.get_or_insert(key, classes_max(hosts), recycle);
            entry.reset(number);
            entry.request = Some((request.clone(), Arc::clone(&prepared)));
        }
        Ok(prepared)
    }

    /// Records the hash of a request, and returns whether it is the hash of one of the recent requests. If two
    /// classes have equal hashes, the only effect is that a one-off request is cached.
    fn record_hash(&mut self, hash: u64) -> bool {
        self.seen_hashes.resize(SEEN_HASHES, 0);
        let index = usize::try_from(hash % SEEN_HASHES as u64).unwrap_or(0);
        std::mem::replace(&mut self.seen_hashes[index], hash) == hash
    }

    /// The cached results for a query of a prepared request, for a search in one cell or in all. `query`
    /// has to be a reference to one of the two queries of `prepared`. If the class has no entry, one is
    /// added.
    pub(super) fn find_or_insert(
        &mut self,
        prepared: &Prepared,
        query: &CandidateQuery,
        cell: Option<Uuid>,
        hosts: &HostTable,
    ) -> QueryCaches<'_> {
        let is_fallback = !std::ptr::eq(query, &prepared.query);
        let Some(class) = prepared.class else {
            return self.find_or_insert_without_class(prepared, query, hosts);
        };
        let key = QueryKey {
            number: class.number,
            is_fallback,
        };
        if !class.is_repeated || self.has_newer(class) {
            let (prepared_query, trees, index) = self.one_off.find_or_insert(key);
            return QueryCaches {
                key,
                prepared_query,
                trees,
                index,
                is_one_off: true,
            };
        }
        let recycle = |old| ClassEntry::recycled(old, class.number);
        let capacity = classes_max(hosts);
        let entry = (self.entries).get_or_insert(ClassKey::Request(class.hash), capacity, recycle);
        if entry.number != class.number {
            entry.reset(class.number);
        }
        let QueryEntry {
            prepared_query,
            trees,
            indexes,
        } = &mut entry.queries[usize::from(is_fallback)];
        let cached = indexes.position(|index| index.cell == cell);
        let position = cached.unwrap_or_else(|| {
            indexes.insert(INDEXES_MAX, |old| CachedIndex {
                cell,
                key: None,
                ..old.unwrap_or_default()
            })
        });
        QueryCaches {
            key,
            prepared_query,
            trees,
            index: indexes.get(position),
            is_one_off: false,
        }
    }

    /// Whether a newer class with the same hash took the entry since the request of this class was
    /// prepared.
    fn has_newer(&self, class: RequestClass) -> bool {
        let entry = self.entries.peek(&ClassKey::Request(class.hash));
        entry.is_some_and(|entry| entry.number > class.number)
    }

    /// The cached results for a query of a request that depends on single hosts or networks: the
    /// prepared query and the results of trees, which only depend on the query, but no index.
    fn find_or_insert_without_class(
        &mut self,
        prepared: &Prepared,
        query: &CandidateQuery,
        hosts: &HostTable,
    ) -> QueryCaches<'_> {
        let hash_builder = foldhash::quality::FixedState::default();
        let translation = &prepared.translation;
        let hash = hash_builder.hash_one((query, &translation.rules, &translation.rules_since));
        self.newest_number += 1;
        let number = self.newest_number;
        let recycle = |old| ClassEntry::recycled(old, number);
        let capacity = classes_max(hosts);
        let entry = (self.entries).get_or_insert(ClassKey::Query(hash), capacity, recycle);
        let [
            QueryEntry {
                prepared_query,
                trees,
                ..
            },
            _,
        ] = &mut entry.queries;
        // The filters of such a request depend on more than the key of an index says, so no index is
        // valid for it.
        self.one_off.index.key = None;
        QueryCaches {
            key: QueryKey {
                number: entry.number,
                is_fallback: false,
            },
            prepared_query,
            trees,
            index: &mut self.one_off.index,
            is_one_off: true,
        }
    }

    /// The search for a query of a class, if the prepared query is cached and still valid.
    pub(super) fn resume<'a>(
        &self,
        state: &'a State,
        class: RequestClass,
        is_fallback: bool,
    ) -> Option<HostSearch<'a>> {
        let entry = self.entries.peek(&ClassKey::Request(class.hash));
        let entry = entry.filter(|entry| entry.number == class.number);
        let cached = entry.and_then(|entry| {
            entry.queries[usize::from(is_fallback)]
                .prepared_query
                .as_ref()
        });
        let key = QueryKey {
            number: class.number,
            is_fallback,
        };
        cached
            .or_else(|| self.one_off.prepared_query(key))?
            .resume(state)
    }
}

/// The maximum number of entries for a fleet.
fn classes_max(hosts: &HostTable) -> usize {
    let block_count = hosts.slot_count().div_ceil(BLOCK_HOSTS).max(1);
    let fitting_entries = CLASSES_BYTES / (block_count * INDEX_BYTES_PER_BLOCK);
    fitting_entries.clamp(CLASSES_MIN, CLASSES_MAX)
}
