//! The feasibility test of one search, used by rankings and by weighing all hosts.

use std::cell::RefCell;

use placewright_placement::slot_set::{SlotSet, bits};
use placewright_placement::{CandidateQuery, HostSearch, ProviderId, State};
use uuid::Uuid;

use super::TRIED_MAX;
use super::rules::Rules;
use super::searches::QueryKey;
use super::shelf::{self, TreeKey, TreeShelf};
use super::weights::{Weight, Weights};
use crate::hosts::table::HostTable;
use crate::policy::CompiledPolicy;
use crate::rank::Ranked;
use crate::rank::admission::{Admission, Admitted};
use crate::translate::rule::CandidateRule;

/// The inputs of one search; its [`Admission`] decides which hosts are feasible.
pub(super) struct Job<'j, 'a> {
    pub(super) state: &'a State,
    pub(super) hosts: &'a HostTable,
    pub(super) search: &'j HostSearch<'a>,
    pub(super) compiled: &'j CompiledPolicy<'a>,
    pub(super) rules: &'j Rules,
    pub(super) own_rules: &'j [CandidateRule],
    pub(super) query: &'j CandidateQuery,
    /// The class of the request, if it has one, and which of its queries this is.
    pub(super) known: Option<QueryKey>,
    pub(super) cell: Option<Uuid>,
    pub(super) without_cells: &'j [Uuid],
    pub(super) without: &'j [u32],
    /// Whether masks alone do not decide feasibility for the class even on flat hosts, so that
    /// every host needs the exact test.
    pub(super) asks_class: bool,
    /// The cache of tree tests, and the index of this query in it once it was looked up.
    pub(super) trees: RefCell<(&'j mut TreeShelf, Option<usize>)>,
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
    /// The hosts that satisfy the conditions of the class, without capacity.
    fn standing_word(&self, word: usize) -> u64 {
        let mask = self.compiled.filters.word(word, true);
        match self.cell {
            None => mask,
            Some(cell) => mask & self.hosts.of_cell(cell).map_or(0, |hosts| hosts.word(word)),
        }
    }

    /// Whether a host has a candidate that satisfies the request's own rules.
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

    /// Weighs every feasible host, or only those in `among` if that is given. The contributions to
    /// the scores of the returned hosts go into `told`, if given.
    pub(super) fn weigh_all(
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
