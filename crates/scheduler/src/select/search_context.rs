//! The feasibility test of one search, for both rankers.

use std::cell::RefCell;

use placewright_placement::slot_set::SlotSet;
use placewright_placement::{CandidateQuery, HostSearch, ProviderId, State};

use super::rules::Rules;
use super::scope::Scope;
use super::tree_results::TreeResults;
use crate::hosts::table::HostTable;
use crate::policy::CompiledPolicy;
use crate::rank::feasibility::{BlockFeasibility, Feasibility};
use crate::translate::prepare::Prepared;

/// The number of candidates of a host that are tried in order to find one that satisfies the
/// request's own rules.
pub(super) const CANDIDATES_TRIED_MAX: usize = 256;

/// If at most this many hosts are named explicitly, each of them is weighed.
const NAMED_MAX: usize = 1_000;

/// What the searches of one request have in common.
pub(super) struct RequestContext<'a> {
    pub(super) state: &'a State,
    pub(super) hosts: &'a HostTable,
    pub(super) compiled: CompiledPolicy<'a>,
    pub(super) rules: Rules,
    pub(super) prepared: &'a Prepared,
    pub(super) scope: &'a Scope,
    /// Whether masks alone do not decide feasibility for the class even on flat hosts, so that
    /// every host needs the exact test.
    class_needs_exact_test: bool,
}

impl<'a> RequestContext<'a> {
    pub(super) fn new(
        state: &'a State,
        hosts: &'a HostTable,
        compiled: CompiledPolicy<'a>,
        rules: Rules,
        prepared: &'a Prepared,
        scope: &'a Scope,
    ) -> Self {
        // With rules of its own, a request can have candidates on a flat host of which none
        // satisfies the rules.
        let has_own_rules = !prepared.translation.rules.is_empty();
        Self {
            class_needs_exact_test: has_own_rules || compiled.filters.needs_predicate(true),
            state,
            hosts,
            compiled,
            rules,
            prepared,
            scope,
        }
    }

    /// The hosts that filters or rules list explicitly, so that no other can be feasible, if they
    /// are few.
    pub(super) fn named<'n>(&'n self, by_rules: Option<&'n SlotSet>) -> Option<&'n SlotSet> {
        let named = match (by_rules, self.compiled.filters.named()) {
            (Some(one), Some(other)) if other.len() < one.len() => Some(other),
            (one, other) => one.or(other),
        };
        named.filter(|named| named.len() <= NAMED_MAX)
    }
}

/// The inputs of one search, from which it follows which hosts are feasible.
pub(super) struct SearchContext<'j, 'a> {
    pub(super) request: &'j RequestContext<'a>,
    pub(super) search: &'j HostSearch<'a>,
    pub(super) query: &'j CandidateQuery,
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
        mask &= capacity.feasible | capacity.undecided;
        let undecided = if self.request.class_needs_exact_test {
            mask
        } else {
            mask & capacity.undecided
        };
        BlockFeasibility {
            feasible: mask & !undecided,
            undecided,
        }
    }

    fn class_eligible(&self, block: usize) -> u64 {
        match self.filtered(block) {
            0 => 0,
            mask => mask & self.search.eligible_word(block),
        }
    }

    fn decide_for_class(&self, slot: u32) -> bool {
        if !self.request.compiled.filters.passes_predicates(slot, true) {
            return false;
        }
        let host = ProviderId(slot);
        let mut trees = self.trees.borrow_mut();
        trees.is_feasible(self.request.state, host, || self.has_candidate(host))
    }

    fn is_feasible_for_class(&self, slot: u32) -> bool {
        let one = 1 << (slot % 64);
        if self.filtered(slot as usize / 64) & one == 0 {
            return false;
        }
        let capacity = self.search.classify(ProviderId(slot));
        if capacity.feasible != 0 && !self.request.class_needs_exact_test {
            return true;
        }
        capacity.feasible | capacity.undecided != 0 && self.decide_for_class(slot)
    }

    fn request_block(&self, block: usize, mut mask: u64) -> u64 {
        mask &= self.request.compiled.filters.word(block, false);
        for cell in &self.request.scope.without_cells {
            let hosts = self.request.hosts.of_cell(*cell);
            mask &= !hosts.map_or(0, |hosts| hosts.word(block));
        }
        for slot in &self.request.scope.without {
            if *slot as usize / 64 == block {
                mask &= !(1 << (slot % 64));
            }
        }
        self.request.rules.word(block, mask)
    }

    fn is_feasible_for_request(&self, slot: u32) -> bool {
        self.request
            .rules
            .keeps(self.request.state, ProviderId(slot))
            && self.request.compiled.filters.passes_predicates(slot, false)
    }
}

impl SearchContext<'_, '_> {
    /// The hosts of a block that pass the filters of the class and are in the cell of the search.
    fn filtered(&self, block: usize) -> u64 {
        let mask = self.request.compiled.filters.word(block, true);
        match self.request.scope.cell {
            None => mask,
            Some(cell) => {
                let hosts = self.request.hosts.of_cell(cell);
                mask & hosts.map_or(0, |hosts| hosts.word(block))
            }
        }
    }

    /// Whether a host has a candidate that satisfies the request's own rules.
    fn has_candidate(&self, host: ProviderId) -> bool {
        let rules = &self.request.prepared.translation.rules;
        if rules.is_empty() {
            return self.search.fits(host);
        }
        rules
            .iter()
            .all(|rule| rule.admits_host(self.request.state, host))
            && self
                .search
                .of_host(host, CANDIDATES_TRIED_MAX)
                .iter()
                .any(|candidate| {
                    let mut rules = rules.iter();
                    rules.all(|rule| rule.admits(self.request.state, self.query, candidate))
                })
    }
}
