//! Caches between decisions: rankings of hosts, and which trees are feasible for which queries.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashMap;
use placewright_placement::{HostSearch, ProviderId, State};
use uuid::Uuid;

use super::searches::QueryKey;
use crate::hosts::table::{HostTable, Touched};
use crate::rank::Ranked;
use crate::rank::admission::Admission;
use crate::rank::indexed::{ChangeLog, Fleet, Ranking, Standing};
use crate::translate::prepare::Class;
use crate::weighers::Term;

/// The maximum number of classes with a cached ranking.
const RANKINGS_MAX: usize = 512;
/// The maximum number of queries with cached trees.
const QUERIES_MAX: usize = 512;
/// The minimum and maximum number of entries of the tree cache of a query.
const TREES_KNOWN: (usize, usize) = (64, 1 << 14);
/// The maximum number of lists of terms with cached scores.
const STANDINGS_MAX: usize = 8;

/// The versions that a cached result depends on, besides the hosts in the change log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    structure: u64,
    sharing: u64,
}

impl Basis {
    fn of(state: &State, search: &HostSearch<'_>) -> Self {
        let log = state.touched();
        let sharing = if search.takes_shared() {
            log.sharing() + 1
        } else {
            0
        };
        Self {
            structure: log.structure(),
            sharing,
        }
    }
}

/// A hash of a whole query, used as its key.
#[must_use]
pub(super) fn hash_of<T: Hash>(value: &T) -> u64 {
    foldhash::quality::FixedState::default().hash_one(value)
}

/// The cache key of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassKey {
    /// The equivalence class of the requests.
    pub(super) requests: Class,
    /// Whether it is for the fallback query.
    pub(super) is_fallback: bool,
    /// The version of the aggregates' metadata.
    pub(super) aggregates: u64,
    /// The only cell of the search, if it is restricted to one.
    pub(super) cell: Option<Uuid>,
}

/// A cache entry: the ranking of a class, with what its validity depends on.
#[derive(Debug)]
struct Shelved {
    /// `None` for a request without a class.
    key: Option<ClassKey>,
    terms: Vec<Term>,
    basis: Basis,
    /// The reference bit of the clock algorithm: set on use, cleared when the hand passes.
    is_used: bool,
    ranking: Ranking,
}

/// The cache of rankings, with clock eviction, and the scores and change log that they share.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    rankings: Vec<Shelved>,
    place_of: HashMap<ClassKey, usize, foldhash::quality::FixedState>,
    standings: Vec<Standing>,
    log: ChangeLog,
    /// The hand of the clock: the first ranking that is considered for eviction.
    hand: usize,
    /// The ranking of the last uncached request. It is kept for its memory, and for a repetition
    /// of the same request.
    spare: Option<Shelved>,
}

impl Shelf {
    /// Records hosts that changed.
    pub(super) fn note(&mut self, touched: impl Iterator<Item = Touched>) {
        self.log.note(touched);
    }

    /// The best hosts for a request. Rankings of requests without a class are not cached.
    pub(super) fn best<A: Admission>(
        &mut self,
        (state, hosts): (&State, &HostTable),
        search: &HostSearch<'_>,
        key: Option<ClassKey>,
        terms: Vec<Term>,
        (count, admission): (usize, &A),
    ) -> Vec<Ranked> {
        let blocks = search.words();
        let basis = Basis::of(state, search);
        let standing = self.standing(&terms);
        let fleet = Fleet {
            log: &self.log,
            columns: hosts.columns(),
            hosts: hosts.known(),
        };
        let known = key.and_then(|key| self.place_of.get(&key).copied());
        let Some(key) = key.filter(|key| key.requests.is_known) else {
            let standing = &mut self.standings[standing];
            let spare = self.spare.take().filter(|spare| spare.terms == terms);
            let mut spare = spare.unwrap_or_else(|| Shelved {
                key: None,
                terms,
                basis,
                is_used: true,
                ranking: Ranking::new(standing, blocks, &fleet),
            });
            let is_same = key.is_some() && spare.key == key && spare.basis == basis;
            if !is_same || !spare.ranking.follow(blocks, &fleet) {
                spare.ranking.start_once(standing, blocks, &fleet);
            }
            (spare.key, spare.basis) = (key, basis);
            let spare = self.spare.insert(spare);
            return spare.ranking.best(standing, count, admission, &fleet);
        };
        let place = known.filter(|place| {
            let one = &mut self.rankings[*place];
            one.basis == basis && one.terms == terms && one.ranking.follow(blocks, &fleet)
        });
        let place = place.unwrap_or_else(|| {
            let standing = &self.standings[standing];
            let place = known.or_else(|| {
                let is_full = self.rankings.len() >= RANKINGS_MAX;
                is_full.then(|| longest_unused(&mut self.rankings, &mut self.hand))
            });
            let place = if let Some(place) = place {
                let one = &mut self.rankings[place];
                one.key.take().map(|key| self.place_of.remove(&key));
                one.ranking.start_over(standing, blocks, &fleet);
                (one.key, one.terms, one.basis) = (Some(key), terms, basis);
                place
            } else {
                self.rankings.push(Shelved {
                    key: Some(key),
                    terms,
                    basis,
                    is_used: true,
                    ranking: Ranking::new(standing, blocks, &fleet),
                });
                self.rankings.len() - 1
            };
            self.place_of.insert(key, place);
            place
        });
        let one = &mut self.rankings[place];
        one.is_used = true;
        let standing = &mut self.standings[standing];
        one.ranking.best(standing, count, admission, &fleet)
    }

    /// The index of the caches for a list of terms.
    fn standing(&mut self, terms: &[Term]) -> usize {
        let found = self.standings.iter().position(|one| one.terms() == terms);
        found.unwrap_or_else(|| {
            let one = Standing::new(terms.to_vec());
            if self.standings.len() >= STANDINGS_MAX {
                self.standings.remove(0);
            }
            self.standings.push(one);
            self.standings.len() - 1
        })
    }
}

/// The index of the first ranking that was not used since the hand passed it.
fn longest_unused(rankings: &mut [Shelved], hand: &mut usize) -> usize {
    loop {
        let place = *hand % rankings.len().max(1);
        *hand = place + 1;
        match rankings.get_mut(place) {
            Some(one) if one.is_used => one.is_used = false,
            _ => return place,
        }
    }
}

/// The key of a query in the tree cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TreeKey {
    /// The query of a class of requests.
    Class(QueryKey),
    /// A query without a class: a hash of its whole content.
    Lone(u64),
}

impl TreeKey {
    fn is_kept(self) -> bool {
        match self {
            Self::Class(key) => key.class.is_known,
            Self::Lone(_) => true,
        }
    }
}

/// A cached result for a tree.
#[derive(Clone, Copy, Debug)]
struct KnownTree {
    root: u32,
    /// The generation of the cache in which the entry was written.
    round: u32,
    /// The position of the tree's last change for which it holds, shifted left; the lowest bit is
    /// the result.
    answer: u64,
}

/// The cache of one query: which trees are feasible. It is direct-mapped by root.
#[derive(Debug)]
struct Trees {
    query: TreeKey,
    basis: Basis,
    /// The generation: incrementing it invalidates all entries.
    round: u32,
    known: Vec<KnownTree>,
}

impl Trees {
    fn new(query: TreeKey, basis: Basis, trees: usize) -> Self {
        // Twice as many entries as trees, so that collisions are few.
        let places = (trees * 2).next_power_of_two();
        let unknown = KnownTree {
            root: u32::MAX,
            round: 0,
            answer: 0,
        };
        Self {
            query,
            basis,
            round: 0,
            known: vec![unknown; places.clamp(TREES_KNOWN.0, TREES_KNOWN.1)],
        }
    }

    fn start_over(&mut self, query: TreeKey, basis: Basis) {
        self.query = query;
        self.basis = basis;
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.known
                .iter_mut()
                .for_each(|known| known.root = u32::MAX);
        }
    }

    fn place(&mut self, root: ProviderId) -> &mut KnownTree {
        // Spreads neighbouring roots; the length is a power of two.
        let spread = root.0.wrapping_mul(0x9e37_79b1) >> 8;
        let place = spread as usize & (self.known.len() - 1);
        &mut self.known[place]
    }
}

/// The cache of tree tests by query, with FIFO eviction.
#[derive(Debug, Default)]
pub(super) struct TreeShelf {
    queries: Vec<Trees>,
    place_of: HashMap<TreeKey, usize, foldhash::quality::FixedState>,
    /// The next query to be replaced once the cache is full.
    oldest: usize,
    /// The index of the last query that is not to be kept.
    spare: Option<usize>,
}

impl TreeShelf {
    /// The index of a query's entry, created if necessary.
    pub(super) fn place(
        &mut self,
        state: &State,
        search: &HostSearch<'_>,
        query: TreeKey,
    ) -> usize {
        let basis = Basis::of(state, search);
        let known = self.place_of.get(&query).copied();
        let spare = || self.spare.filter(|_| !query.is_kept());
        if let Some(place) = known.or_else(spare) {
            let one = &mut self.queries[place];
            if one.basis != basis || one.query != query {
                one.start_over(query, basis);
            }
            return place;
        }
        let one = Trees::new(query, basis, state.parents().len());
        let place = if self.queries.len() < QUERIES_MAX {
            self.queries.push(one);
            self.queries.len() - 1
        } else {
            let mut place = self.oldest;
            if Some(place) == self.spare {
                place = (place + 1) % QUERIES_MAX;
            }
            self.oldest = (place + 1) % QUERIES_MAX;
            self.place_of.remove(&self.queries[place].query);
            self.queries[place] = one;
            place
        };
        if query.is_kept() {
            self.place_of.insert(query, place);
        } else {
            self.spare = Some(place);
        }
        place
    }

    /// Whether a tree is feasible for a query, from the cache or by a search.
    pub(super) fn fits(
        &mut self,
        place: usize,
        state: &State,
        root: ProviderId,
        search: impl FnOnce() -> bool,
    ) -> bool {
        let position = state.touched().last(root);
        let trees = &mut self.queries[place];
        let round = trees.round;
        let known = trees.place(root);
        if (known.root, known.round, known.answer >> 1) != (root.0, round, position) {
            *known = KnownTree {
                root: root.0,
                round,
                answer: position << 1 | u64::from(search()),
            };
        }
        known.answer & 1 == 1
    }
}
