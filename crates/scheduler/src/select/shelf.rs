//! What is kept between decisions: rankings of hosts, and which trees fit which queries.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashMap;
use placewright_placement::{HostSearch, ProviderId, State};
use uuid::Uuid;

use super::searches::QueryKey;
use crate::host_table::{HostTable, Touched};
use crate::ranking::{Admission, ChangeLog, Fleet, Ranked, Ranking, Standing, Term};

/// How many classes' rankings are kept.
const RANKINGS_MAX: usize = 512;
/// How many queries' fitting trees are kept.
const QUERIES_MAX: usize = 512;
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
    /// The requests themselves, see [`Prepared::class`](crate::prepare::Prepared::class).
    pub(super) requests: u64,
    /// Whether it is their second query.
    pub(super) is_fallback: bool,
    /// The count of changes of aggregates' metadata.
    pub(super) aggregates: u64,
    /// The only cell, if the search is for one.
    pub(super) cell: Option<Uuid>,
}

#[derive(Debug)]
struct Shelved {
    key: ClassKey,
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
        let Some(key) = key else {
            let standing = &mut self.standings[standing];
            let mut ranking = Ranking::new(standing, blocks, &fleet);
            return ranking.best(standing, count, admission, &fleet);
        };
        let known = self.place_of.get(&key).copied();
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
                self.place_of.remove(&one.key);
                one.ranking.start_over(standing, blocks, &fleet);
                (one.key, one.terms, one.basis) = (key, terms, basis);
                place
            } else {
                self.rankings.push(Shelved {
                    key,
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

/// For one query, the trees of which is known whether they fit: up to which change of the tree, and
/// whether.
#[derive(Debug)]
struct Trees {
    query: TreeKey,
    basis: Basis,
    known: HashMap<u32, (u64, bool), foldhash::quality::FixedState>,
}

/// The kept knowledge about trees.
#[derive(Debug, Default)]
pub(super) struct TreeShelf {
    queries: Vec<Trees>,
    place_of: HashMap<TreeKey, usize, foldhash::quality::FixedState>,
    /// The place of the query that was put here first, once all places are taken.
    oldest: usize,
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
        if let Some(place) = self.place_of.get(&query).copied() {
            let one = &mut self.queries[place];
            if one.basis != basis {
                one.known.clear();
                one.basis = basis;
            }
            return place;
        }
        let one = Trees {
            query,
            basis,
            known: HashMap::default(),
        };
        let place = if self.queries.len() < QUERIES_MAX {
            self.queries.push(one);
            self.queries.len() - 1
        } else {
            let place = self.oldest;
            self.oldest = (place + 1) % QUERIES_MAX;
            self.place_of.remove(&self.queries[place].query);
            self.queries[place] = one;
            place
        };
        self.place_of.insert(query, place);
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
        let now = state.touched().last(root);
        let known = self.queries[place]
            .known
            .entry(root.0)
            .or_insert((u64::MAX, false));
        if known.0 != now {
            *known = (now, search());
        }
        known.1
    }
}
