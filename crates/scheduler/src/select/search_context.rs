//! The feasibility test of one search, for both rankers.

use std::cell::RefCell;

use placewright_placement::{CandidateQuery, HostSearch, ProviderId, State};
use uuid::Uuid;

use super::CANDIDATES_TRIED_MAX;
use super::rules::Rules;
use super::tree_results::TreeResults;
use crate::hosts::table::HostTable;
use crate::policy::CompiledPolicy;
use crate::rank::feasibility::{BlockFeasibility, Feasibility};
use crate::translate::rule::CandidateRule;

/// The inputs of one search, from which it follows which hosts are feasible.
pub(super) struct SearchContext<'j, 'a> {
    pub(super) state: &'a State,
    pub(super) hosts: &'a HostTable,
    pub(super) search: &'j HostSearch<'a>,
    pub(super) compiled: &'j CompiledPolicy<'a>,
    pub(super) rules: &'j Rules,
    pub(super) own_rules: &'j [CandidateRule],
    pub(super) query: &'j CandidateQuery,
    pub(super) cell: Option<Uuid>,
    pub(super) without_cells: &'j [Uuid],
    pub(super) without: &'j [u32],
    /// Whether masks alone do not decide feasibility for the class even on flat hosts, so that
    /// every host needs the exact test.
    pub(super) class_needs_exact_test: bool,
    /// The results of earlier tests of trees.
    pub(super) trees: RefCell<&'j mut TreeResults>,
}

impl Feasibility for SearchContext<'_, '_> {
    fn class_block(&self, block: usize) -> BlockFeasibility {
        let mut mask = self.filtered(block);
        if mask == 0 {
            return BlockFeasibility::default();
        }
        let capacity = self.search.word(block);
        mask &= capacity.fitting | capacity.unsure;
        let undecided = if self.class_needs_exact_test {
            mask
        } else {
            mask & capacity.unsure
        };
        BlockFeasibility {
            feasible: mask & !undecided,
            undecided,
        }
    }

    fn class_eligible(&self, block: usize) -> u64 {
        match self.filtered(block) {
            0 => 0,
            mask => mask & self.search.kind_word(block),
        }
    }

    fn decide_for_class(&self, slot: u32) -> bool {
        if !self.compiled.filters.passes_predicates(slot, true) {
            return false;
        }
        let host = ProviderId(slot);
        let mut trees = self.trees.borrow_mut();
        trees.is_feasible(self.state, host, || self.has_candidate(host))
    }

    fn is_feasible_for_class(&self, slot: u32) -> bool {
        let one = 1 << (slot % 64);
        if self.filtered(slot as usize / 64) & one == 0 {
            return false;
        }
        let capacity = self.search.one(ProviderId(slot));
        if capacity.fitting != 0 && !self.class_needs_exact_test {
            return true;
        }
        capacity.fitting | capacity.unsure != 0 && self.decide_for_class(slot)
    }

    fn request_block(&self, block: usize, mut mask: u64) -> u64 {
        mask &= self.compiled.filters.word(block, false);
        for cell in self.without_cells {
            let hosts = self.hosts.of_cell(*cell);
            mask &= !hosts.map_or(0, |hosts| hosts.word(block));
        }
        for slot in self.without {
            if *slot as usize / 64 == block {
                mask &= !(1 << (slot % 64));
            }
        }
        self.rules.word(block, mask)
    }

    fn is_feasible_for_request(&self, slot: u32) -> bool {
        self.rules.keeps(self.state, ProviderId(slot))
            && self.compiled.filters.passes_predicates(slot, false)
    }
}

impl SearchContext<'_, '_> {
    /// The hosts of a block that pass the filters of the class and are in the cell of the search.
    fn filtered(&self, block: usize) -> u64 {
        let mask = self.compiled.filters.word(block, true);
        match self.cell {
            None => mask,
            Some(cell) => {
                mask & self
                    .hosts
                    .of_cell(cell)
                    .map_or(0, |hosts| hosts.word(block))
            }
        }
    }

    /// Whether a host has a candidate that satisfies the request's own rules.
    fn has_candidate(&self, host: ProviderId) -> bool {
        let rules = self.own_rules;
        if rules.is_empty() {
            return self.search.fits(host);
        }
        rules.iter().all(|rule| rule.admits_host(self.state, host))
            && self
                .search
                .of_host(host, CANDIDATES_TRIED_MAX)
                .iter()
                .any(|candidate| {
                    let mut rules = rules.iter();
                    rules.all(|rule| rule.admits(self.state, self.query, candidate))
                })
    }
}
