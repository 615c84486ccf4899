//! What is kept of classes of requests from one decision to the next.
//!
//! An entry has all of it: the prepared request, the resolved queries, which trees are feasible for
//! them, and the indexes of the ranking. It has one life: it is made when an equal request comes
//! for the second time, so that requests that come once replace nothing; it is invalid as a whole
//! when what the request was prepared from changes; and it is replaced as a whole, by the
//! [clock](crate::clock).
//!
//! Of requests that come for the first time, [`OneOff`] keeps what the claim that follows needs.

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
use crate::translate::prepare::{Class, PrepareRefusal, Prepared};
use crate::weighers::Term;

/// The minimum and maximum number of entries; between them [`CLASSES_BYTES`] limits the memory of
/// their indexes.
const CLASSES: (usize, usize) = (512, 1_024);
const CLASSES_BYTES: usize = 64 << 20;
/// What an index takes for a block of hosts: masks, and bounds of scores and of the ends of six
/// ranges.
const INDEX_BYTES_PER_BLOCK: usize = 9 * size_of::<u64>();

/// The number of indexes of a query: one for all cells, and some for single ones.
const INDEXES_MAX: usize = 4;

/// The number of queries of first-time requests that are kept for the claims that follow.
const ONE_OFF_QUERIES: usize = 8;

/// The number of hashes of requests that came once; two that have the same remainder displace each
/// other.
const SEEN_MAX: usize = 4_096;

/// What an entry is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClassKey {
    /// The hash of the requests of a class.
    Request(u64),
    /// The hash of a query, for requests without a class.
    Query(u64),
}

/// The versions of what prepared requests are made from: aggregates and compute services.
pub(super) type PreparedVersion = (u64, u32);

/// What is kept of one class of requests.
#[derive(Debug, Default)]
struct ClassEntry {
    /// The number of the class; results of other numbers are invalid.
    number: u64,
    /// One of the requests, with its prepared form; `None` if only searches came so far.
    request: Option<(RequestSpec, Arc<Prepared>)>,
    /// The query of the request, and its fallback.
    queries: [QueryEntry; 2],
}

/// What is kept of one query of a class.
#[derive(Debug, Default)]
struct QueryEntry {
    /// The query with its names looked up.
    resolved: Option<PreparedQuery>,
    trees: TreeResults,
    indexes: Clock<CachedIndex>,
}

impl ClassEntry {
    /// An empty entry in the memory of an old one.
    fn renewed(old: Option<Self>, number: u64) -> Self {
        let mut entry = old.unwrap_or_default();
        entry.reset(number);
        entry
    }

    /// Makes the entry that of another class. Trees and indexes see from the number that they are
    /// out of date.
    fn reset(&mut self, number: u64) {
        self.number = number;
        self.request = None;
        for query in &mut self.queries {
            query.resolved = None;
        }
    }
}

/// What an index is valid for, besides the hosts in the change log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IndexKey {
    pub(super) query: QueryKey,
    /// The version of the metadata of aggregates, on which filters depend.
    pub(super) aggregates: u64,
    /// The only cell of the search, if it is restricted to one.
    pub(super) cell: Option<Uuid>,
    pub(super) state: StateVersion,
}

/// An index with what it is valid for.
#[derive(Debug, Default)]
pub(super) struct CachedIndex {
    cell: Option<Uuid>,
    valid_for: Option<IndexKey>,
    terms: Vec<Term>,
    index: ClassIndex,
}

impl CachedIndex {
    /// The index, up to date: with what it knows if that is valid, else without knowledge.
    pub(super) fn ready(
        &mut self,
        valid_for: IndexKey,
        terms: Vec<Term>,
        blocks: usize,
        fleet: &Fleet<'_>,
        is_one_off: bool,
    ) -> &mut ClassIndex {
        let is_same = self.valid_for == Some(valid_for) && self.terms == terms;
        if !is_same || !self.index.catch_up(blocks, fleet) {
            if is_one_off {
                self.index.reset_for_one_off(&terms, blocks, fleet);
            } else {
                self.index.reset(&terms, blocks, fleet);
            }
            self.valid_for = Some(valid_for);
            self.terms = terms;
        }
        &mut self.index
    }
}

/// What is kept of requests that came for the first time, and most likely never come again.
#[derive(Debug, Default)]
struct OneOff {
    /// A ring of queries.
    resolved: Vec<(QueryKey, Option<PreparedQuery>)>,
    /// The query that is replaced next.
    next: usize,
    /// Trees and index of the last of them, for their memory, and for a repetition of its search.
    trees: TreeResults,
    index: CachedIndex,
}

impl OneOff {
    fn known(&self, key: QueryKey) -> Option<&PreparedQuery> {
        let mut queries = self.resolved.iter();
        let found = queries.find(|(other, _)| *other == key);
        found.and_then(|(_, resolved)| resolved.as_ref())
    }

    fn query(
        &mut self,
        key: QueryKey,
    ) -> (
        &mut Option<PreparedQuery>,
        &mut TreeResults,
        &mut CachedIndex,
    ) {
        let known = self.resolved.iter().position(|(other, _)| *other == key);
        let place = known.unwrap_or_else(|| {
            let place = self.next;
            self.next = (place + 1) % ONE_OFF_QUERIES;
            match self.resolved.get_mut(place) {
                Some(old) => *old = (key, None),
                None => self.resolved.push((key, None)),
            }
            place
        });
        (
            &mut self.resolved[place].1,
            &mut self.trees,
            &mut self.index,
        )
    }
}

/// What is kept of the query of a search.
pub(super) struct QueryCaches<'c> {
    pub(super) key: QueryKey,
    /// The query with its names looked up, if that was done.
    pub(super) resolved: &'c mut Option<PreparedQuery>,
    pub(super) trees: &'c mut TreeResults,
    pub(super) index: &'c mut CachedIndex,
    /// Whether the request most likely never comes again.
    pub(super) is_one_off: bool,
}

impl QueryCaches<'_> {
    /// The resolved query, as it was kept or resolved now; `None` if no provider can serve it.
    ///
    /// # Errors
    ///
    /// As [`HostSearch::new`].
    pub(super) fn search<'a>(
        &mut self,
        state: &'a State,
        query: &CandidateQuery,
    ) -> Result<Option<HostSearch<'a>>, QueryRefusal> {
        let kept = self.resolved.as_ref();
        if let Some(search) = kept.and_then(|kept| kept.resume(state)) {
            return Ok(Some(search));
        }
        let search = HostSearch::new(state, query)?;
        *self.resolved = search.as_ref().and_then(HostSearch::keep);
        Ok(search)
    }
}

/// The cache of classes of requests.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    /// What the prepared requests are made from; those of another version are invalid.
    version: PreparedVersion,
    entries: ClockCache<ClassKey, ClassEntry>,
    one_off: OneOff,
    /// The number that was given out last.
    newest: u64,
    /// Hashes of requests that came once; empty before the first.
    seen: Vec<u64>,
}

impl ClassCache {
    /// An empty cache whose numbers do not collide with those given out here.
    pub(super) fn fork(&self) -> Self {
        Self {
            newest: self.newest,
            ..Self::default()
        }
    }

    /// The prepared form of an equal request, or of this one, prepared now.
    pub(super) fn prepared(
        &mut self,
        request: &RequestSpec,
        version: PreparedVersion,
        hosts: &HostTable,
        make: impl FnOnce() -> Result<Prepared, PrepareRefusal>,
    ) -> Result<Arc<Prepared>, PrepareRefusal> {
        if self.version != version {
            self.entries.clear();
            self.version = version;
        }
        if depends_on_hosts_or_networks(request) {
            return make().map(Arc::new);
        }
        let hash = hash_of(request);
        let key = ClassKey::Request(hash);
        let kept = self
            .entries
            .get(&key)
            .and_then(|entry| entry.request.as_ref());
        if let Some((_, prepared)) = kept.filter(|(other, _)| is_same_class(other, request)) {
            return Ok(Arc::clone(prepared));
        }
        self.newest += 1;
        let number = self.newest;
        let mut prepared = make()?;
        let is_repeated = self.is_repeated(hash) && has_cacheable_size(request);
        prepared.class = Some(Class {
            number,
            hash,
            is_repeated,
        });
        let prepared = Arc::new(prepared);
        if is_repeated {
            let renewed = |old| ClassEntry::renewed(old, number);
            let entry = self.entries.get_or_insert(key, classes_max(hosts), renewed);
            entry.reset(number);
            entry.request = Some((request.clone(), Arc::clone(&prepared)));
        }
        Ok(prepared)
    }

    /// Whether a request with this hash came lately. A collision of hashes only keeps one request
    /// too many.
    fn is_repeated(&mut self, hash: u64) -> bool {
        self.seen.resize(SEEN_MAX, 0);
        let place = usize::try_from(hash % SEEN_MAX as u64).unwrap_or(0);
        std::mem::replace(&mut self.seen[place], hash) == hash
    }

    /// What is kept of a query of a prepared request, for a search in one cell or in all.
    pub(super) fn query(
        &mut self,
        prepared: &Prepared,
        query: &CandidateQuery,
        cell: Option<Uuid>,
        hosts: &HostTable,
    ) -> QueryCaches<'_> {
        let is_fallback = !std::ptr::eq(query, &prepared.query);
        let Some(class) = prepared.class else {
            return self.query_without_class(prepared, query, hosts);
        };
        let key = QueryKey {
            number: class.number,
            is_fallback,
        };
        if !class.is_repeated || self.has_newer(class) {
            let (resolved, trees, index) = self.one_off.query(key);
            return QueryCaches {
                key,
                resolved,
                trees,
                index,
                is_one_off: true,
            };
        }
        let renewed = |old| ClassEntry::renewed(old, class.number);
        let most = classes_max(hosts);
        let entry = (self.entries).get_or_insert(ClassKey::Request(class.hash), most, renewed);
        if entry.number != class.number {
            entry.reset(class.number);
        }
        let QueryEntry {
            resolved,
            trees,
            indexes,
        } = &mut entry.queries[usize::from(is_fallback)];
        let of_cell = indexes.position(|index| index.cell == cell);
        let of_cell = of_cell.unwrap_or_else(|| {
            indexes.insert(INDEXES_MAX, |old| CachedIndex {
                cell,
                valid_for: None,
                ..old.unwrap_or_default()
            })
        });
        QueryCaches {
            key,
            resolved,
            trees,
            index: indexes.get(of_cell),
            is_one_off: false,
        }
    }

    /// Whether the entry of a class was renewed since a request of it was prepared.
    fn has_newer(&self, class: Class) -> bool {
        let entry = self.entries.peek(&ClassKey::Request(class.hash));
        entry.is_some_and(|entry| entry.number > class.number)
    }

    /// What is kept of a query of a request that depends on single hosts or networks: the query
    /// and the trees, which depend on nothing else, but no index.
    fn query_without_class(
        &mut self,
        prepared: &Prepared,
        query: &CandidateQuery,
        hosts: &HostTable,
    ) -> QueryCaches<'_> {
        let hashing = foldhash::quality::FixedState::default();
        let hash = hashing.hash_one((query, &prepared.translation.rules));
        self.newest += 1;
        let number = self.newest;
        let renewed = |old| ClassEntry::renewed(old, number);
        let most = classes_max(hosts);
        let entry = (self.entries).get_or_insert(ClassKey::Query(hash), most, renewed);
        let [
            QueryEntry {
                resolved, trees, ..
            },
            _,
        ] = &mut entry.queries;
        self.one_off.index.valid_for = None;
        QueryCaches {
            key: QueryKey {
                number: entry.number,
                is_fallback: false,
            },
            resolved,
            trees,
            index: &mut self.one_off.index,
            is_one_off: true,
        }
    }

    /// The resolved query of a class, if it is kept and still valid.
    pub(super) fn resolved<'a>(
        &self,
        state: &'a State,
        class: Class,
        is_fallback: bool,
    ) -> Option<HostSearch<'a>> {
        let entry = self.entries.peek(&ClassKey::Request(class.hash));
        let entry = entry.filter(|entry| entry.number == class.number);
        let kept =
            entry.and_then(|entry| entry.queries[usize::from(is_fallback)].resolved.as_ref());
        let key = QueryKey {
            number: class.number,
            is_fallback,
        };
        kept.or_else(|| self.one_off.known(key))?.resume(state)
    }
}

/// The maximum number of entries for a fleet.
fn classes_max(hosts: &HostTable) -> usize {
    let blocks = hosts.slot_count().div_ceil(BLOCK_HOSTS).max(1);
    let of_bytes = CLASSES_BYTES / (blocks * INDEX_BYTES_PER_BLOCK);
    of_bytes.clamp(CLASSES.0, CLASSES.1)
}
