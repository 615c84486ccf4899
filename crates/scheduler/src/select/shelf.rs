//! What is kept between decisions: rankings of hosts, and which trees fit which queries.

use std::hash::{BuildHasher, Hash};

use placewright_placement::{CandidateQuery, HostSearch, ProviderId, State};

use crate::host_table::HostTable;
use crate::ranking::{Ranking, Term};

/// How many rankings are kept. Each is of one kind of request and one way of weighing.
const RANKINGS_MAX: usize = 64;
/// How many queries' fitting trees are kept.
const QUERIES_MAX: usize = 512;
/// How many changed hosts are remembered; a ranking that is further behind is made anew.
const CHANGES_MAX: usize = 1 << 16;

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

/// A number for whatever says who may serve a query at all, leaving amounts aside.
#[must_use]
pub(super) fn kind_of(query: &CandidateQuery) -> u64 {
    let groups: Vec<_> = query
        .groups
        .iter()
        .map(|group| {
            let classes: Vec<&String> = group.resources.iter().map(|(class, _)| class).collect();
            (
                &group.suffix,
                classes,
                &group.required,
                &group.forbidden,
                &group.member_of,
                &group.forbidden_aggregates,
                &group.in_tree,
            )
        })
        .collect();
    hash_of(&(
        groups,
        &query.root_required,
        &query.root_forbidden,
        query.group_policy,
        &query.same_subtree,
        query.nested,
    ))
}

/// A number for a whole query.
#[must_use]
pub(super) fn hash_of<T: Hash>(value: &T) -> u64 {
    foldhash::quality::FixedState::default().hash_one(value)
}

#[derive(Debug)]
struct Shelved {
    kind: u64,
    terms: Vec<Term>,
    /// Whether hosts that are down or disabled are left out.
    usable_only: bool,
    basis: Basis,
    /// How much of the change log it knows.
    position: u64,
    used: u64,
    ranking: Ranking,
}

/// The kept rankings.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    rankings: Vec<Shelved>,
    changed: Vec<u32>,
    /// The position of the first entry of `changed`.
    first: u64,
    clock: u64,
}

impl Shelf {
    /// Takes note of hosts that changed.
    pub(super) fn note(&mut self, slots: impl IntoIterator<Item = u32>) {
        self.changed.extend(slots);
        if self.changed.len() > 2 * CHANGES_MAX {
            let gone = self.changed.len() - CHANGES_MAX;
            self.changed.drain(..gone);
            self.first += gone as u64;
        }
    }

    /// The ranking for a kind of request and a way of weighing, brought up to date.
    pub(super) fn ranking(
        &mut self,
        state: &State,
        hosts: &HostTable,
        search: &HostSearch<'_>,
        (kind, usable_only): (u64, bool),
        terms: &[Term],
    ) -> &mut Ranking {
        self.clock += 1;
        let basis = Basis::of(state, search);
        let end = self.first + self.changed.len() as u64;
        let is_it = |one: &Shelved| {
            one.kind == kind && one.usable_only == usable_only && one.terms == terms
        };
        let place = self.rankings.iter().position(is_it);
        let is_current = |one: &Shelved| one.basis == basis && one.position >= self.first;
        let word = |word: usize| feasible(hosts, search, usable_only, word);
        let place = match place {
            Some(place) if is_current(&self.rankings[place]) => {
                let one = &mut self.rankings[place];
                let from = usize::try_from(one.position - self.first).unwrap_or(usize::MAX);
                for slot in &self.changed[from..] {
                    let is_feasible = word(*slot as usize / 64) >> (slot % 64) & 1 == 1;
                    one.ranking.update(*slot, is_feasible, hosts.columns());
                }
                place
            }
            stale => {
                let words = (0..search.words()).map(word).collect();
                let one = Shelved {
                    kind,
                    terms: terms.to_vec(),
                    usable_only,
                    basis,
                    position: end,
                    used: self.clock,
                    ranking: Ranking::new(terms.to_vec(), words, hosts.columns()),
                };
                self.put(stale, one)
            }
        };
        let one = &mut self.rankings[place];
        one.position = end;
        one.used = self.clock;
        &mut one.ranking
    }

    /// Puts a ranking in the place of an old one, of the one longest unused, or on top.
    fn put(&mut self, place: Option<usize>, one: Shelved) -> usize {
        let oldest = || {
            let full = self.rankings.len() >= RANKINGS_MAX;
            let mut by_age = self.rankings.iter().enumerate();
            let oldest = by_age
                .by_ref()
                .min_by_key(|(_, one)| one.used)
                .map(|(place, _)| place);
            oldest.filter(|_| full)
        };
        if let Some(place) = place.or_else(oldest) {
            self.rankings[place] = one;
            return place;
        }
        self.rankings.push(one);
        self.rankings.len() - 1
    }
}

/// Hosts that could serve a kind of request if they had room: more than will do, never fewer.
fn feasible(hosts: &HostTable, search: &HostSearch<'_>, usable_only: bool, word: usize) -> u64 {
    let who = if usable_only {
        hosts.usable()
    } else {
        hosts.known()
    };
    who.word(word) & search.kind_word(word)
}

/// For one query, the trees of which is known whether they fit.
#[derive(Debug)]
pub(super) struct Trees {
    query: u64,
    basis: Basis,
    position: u64,
    used: u64,
    known: Vec<u64>,
    fits: Vec<u64>,
}

impl Trees {
    /// Which of some trees of a word fit; those not known yet are searched.
    pub(super) fn word(
        &mut self,
        fits: &dyn Fn(ProviderId) -> bool,
        word: usize,
        asked: u64,
    ) -> u64 {
        if self.known.len() <= word {
            self.known.resize(word + 1, 0);
            self.fits.resize(word + 1, 0);
        }
        let mut open = asked & !self.known[word];
        let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
        while open != 0 {
            let bit = open.trailing_zeros();
            open &= open - 1;
            if fits(ProviderId(base + bit)) {
                self.fits[word] |= 1 << bit;
            }
        }
        self.known[word] |= asked;
        self.fits[word] & asked
    }
}

/// The kept knowledge about trees.
#[derive(Debug, Default)]
pub(super) struct TreeShelf {
    queries: Vec<Trees>,
    clock: u64,
}

impl TreeShelf {
    /// What is known for a query, without the trees that changed.
    pub(super) fn trees(
        &mut self,
        state: &State,
        search: &HostSearch<'_>,
        query: u64,
    ) -> &mut Trees {
        self.clock += 1;
        let basis = Basis::of(state, search);
        let log = state.touched();
        let found = self.queries.iter().position(|one| one.query == query);
        let place = found.unwrap_or_else(|| {
            if self.queries.len() >= QUERIES_MAX {
                let mut by_age = self.queries.iter().enumerate();
                let oldest = by_age.by_ref().min_by_key(|(_, one)| one.used);
                let oldest = oldest.map_or(0, |(place, _)| place);
                self.queries.swap_remove(oldest);
            }
            self.queries.push(Trees {
                query,
                basis,
                position: log.position(),
                used: 0,
                known: Vec::new(),
                fits: Vec::new(),
            });
            self.queries.len() - 1
        });
        let one = &mut self.queries[place];
        one.used = self.clock;
        let changed = log.since(one.position).filter(|_| one.basis == basis);
        match changed {
            Some(changed) => {
                for root in changed {
                    if let Some(known) = one.known.get_mut(root.index() / 64) {
                        *known &= !(1 << (root.0 % 64));
                        one.fits[root.index() / 64] &= !(1 << (root.0 % 64));
                    }
                }
            }
            None => {
                one.known.clear();
                one.fits.clear();
            }
        }
        one.basis = basis;
        one.position = log.position();
        one
    }
}
