//! What is kept between decisions: rankings of hosts, and which trees fit which queries.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashMap;
use placewright_placement::{HostSearch, ProviderId, State};
use uuid::Uuid;

use super::searches::QueryKey;
use crate::host_table::{HostTable, Touched};
use crate::prepare::Class;
use crate::ranking::{Admission, ChangeLog, Fleet, Ranked, Ranking, Standing, Term};

/// How many classes' rankings are kept.
const RANKINGS_MAX: usize = 512;
/// How many queries' fitting trees are kept.
const QUERIES_MAX: usize = 512;
/// For how many trees at least and at most it is known at once whether they fit a query.
const TREES_KNOWN: (usize, usize) = (64, 1 << 14);
/// For how many lists of terms scores are kept.
const STANDINGS_MAX: usize = 8;

/// What a kept result is valid for, besides the hosts that changed since.
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

/// A number for a whole query.
#[must_use]
pub(super) fn hash_of<T: Hash>(value: &T) -> u64 {
    foldhash::quality::FixedState::default().hash_one(value)
}

/// What requests of one class have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassKey {
    /// The requests themselves.
    pub(super) requests: Class,
    /// Whether it is their second query.
    pub(super) is_fallback: bool,
    /// The count of changes of aggregates' metadata.
    pub(super) aggregates: u64,
    /// The only cell, if the search is for one.
    pub(super) cell: Option<Uuid>,
}

#[derive(Debug)]
struct Shelved {
    /// Nothing for a request without a class.
    key: Option<ClassKey>,
    terms: Vec<Term>,
    basis: Basis,
    /// Whether it was asked since the hand of the clock passed.
    is_used: bool,
    ranking: Ranking,
}

/// The kept rankings.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    rankings: Vec<Shelved>,
    place_of: HashMap<ClassKey, usize, foldhash::quality::FixedState>,
    standings: Vec<Standing>,
    log: ChangeLog,
    /// The place of the ranking that is looked at first when one has to go.
    hand: usize,
    /// The ranking of the last request that is not kept, for its memory and for what is asked of the
    /// same request once more.
    spare: Option<Shelved>,
}

impl Shelf {
    /// Takes note of hosts that changed.
    pub(super) fn note(&mut self, touched: impl Iterator<Item = Touched>) {
        self.log.note(touched);
    }

    /// The best hosts for a request. Rankings of requests without a class are not kept.
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

    /// The place of what is kept for a list of terms.
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

/// The place of a ranking that was not asked for while the hand went round; none is empty.
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

/// A query of which it is known which trees fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TreeKey {
    /// Of a class of requests.
    Class(QueryKey),
    /// Of a request without one: a hash of all that it says.
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

/// What is known about a tree.
#[derive(Clone, Copy, Debug)]
struct KnownTree {
    root: u32,
    /// The round of the query in which it was looked at.
    round: u32,
    /// Up to which change of the tree that holds, and in the lowest bit whether it fits.
    answer: u64,
}

/// For one query, the trees of which is known whether they fit: each tree has one place, which it
/// shares with others.
#[derive(Debug)]
struct Trees {
    query: TreeKey,
    basis: Basis,
    /// Counts how often all was forgotten; what is known is of this round.
    round: u32,
    known: Vec<KnownTree>,
}

impl Trees {
    fn new(query: TreeKey, basis: Basis, trees: usize) -> Self {
        // Twice as many places as trees, so that few have to share one.
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
        // Neighbouring roots are spread; the length is a power of two.
        let spread = root.0.wrapping_mul(0x9e37_79b1) >> 8;
        let place = spread as usize & (self.known.len() - 1);
        &mut self.known[place]
    }
}

/// The kept knowledge about trees.
#[derive(Debug, Default)]
pub(super) struct TreeShelf {
    queries: Vec<Trees>,
    place_of: HashMap<TreeKey, usize, foldhash::quality::FixedState>,
    /// The place of the query that was put here first, once all places are taken.
    oldest: usize,
    /// That of the last request that is not kept.
    spare: Option<usize>,
}

impl TreeShelf {
    /// The place of what is known for a query.
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

    /// Whether a tree fits a query; if that is not known any more, it is searched.
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
