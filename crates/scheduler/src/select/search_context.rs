//! The feasibility tests of one search, for both rankers.

use std::cell::RefCell;

use placewright_placement::slot_set::SlotSet;
use placewright_placement::{CandidateQuery, HostSearch, ProviderId, State};

use super::candidate_rules::rules_on;
use super::rules::Rules;
use super::scope::Scope;
use super::tree_results::TreeResults;
use crate::hosts::table::HostTable;
use crate::policy::{CompiledPolicy, FilterKind};
use crate::rank::feasibility::{BlockFeasibility, Feasibility};
use crate::translate::prepare::Prepared;

/// The maximum number of candidates of a host that are tried to find one that satisfies the candidate
/// rules of the request.
pub(super) const CANDIDATES_TRIED_MAX: usize = 256;

/// If filters or hard rules list at most this many hosts, these are weighed one by one, without an index.
const LISTED_MAX: usize = 1_000;

/// The inputs that the searches of one request have in common.
pub(super) struct RequestContext<'a> {
    pub(super) state: &'a State,
    pub(super) hosts: &'a HostTable,
    pub(super) compiled: CompiledPolicy<'a>,
    pub(super) rules: Rules,
    pub(super) prepared: &'a Prepared,
    pub(super) scope: &'a Scope,
    /// Whether every host needs the exact test for the class, because masks do not decide it even
    /// for flat hosts.
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
        // With candidate rules a flat host may have candidates of which none satisfies them.
        let has_candidate_rules = prepared.translation.has_rules();
        Self {
            class_needs_exact_test: has_candidate_rules
                || compiled.filters.needs_predicate(FilterKind::ForClass),
            state,
            hosts,
            compiled,
            rules,
            prepared,
            scope,
        }
    }

    /// The hosts that filters or hard rules list, so that no other host can be feasible; `None` if there
    /// is no list, or if it is long.
    pub(super) fn listed_hosts<'n>(&'n self, by_rules: Option<&'n SlotSet>) -> Option<&'n SlotSet> {
        let listed = match (by_rules, self.compiled.filters.listed_hosts()) {
            (Some(by_rules), Some(by_filters)) if by_filters.len() < by_rules.len() => {
                Some(by_filters)
            }
            (by_rules, by_filters) => by_rules.or(by_filters),
        };
        listed.filter(|listed| listed.len() <= LISTED_MAX)
    }
}

/// The inputs of one search, which determine the feasible hosts.
pub(super) struct SearchContext<'j, 'a> {
    pub(super) request: &'j RequestContext<'a>,
    pub(super) search: &'j HostSearch<'a>,
    pub(super) query: &'j CandidateQuery,
    /// The cached results of testing trees.
    pub(super) trees: RefCell<&'j mut TreeResults>,
}

impl Feasibility for SearchContext<'_, '_> {
    fn test_block_for_class(&self, block: usize) -> BlockFeasibility {
        let mut mask = self.passing_class_filters(block);
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

    fn eligible_for_class(&self, block: usize) -> u64 {
        match self.passing_class_filters(block) {
            0 => 0,
            mask => mask & self.search.eligible_word(block),
        }
    }

    fn passes_exact_test_for_class(&self, slot: u32) -> bool {
        let filters = &self.request.compiled.filters;
        if !filters.passes_predicates(slot, FilterKind::ForClass) {
            return false;
        }
        let host = ProviderId(slot);
        let mut trees = self.trees.borrow_mut();
        trees.is_feasible(self.request.state, host, || self.has_candidate(host))
    }

    fn is_feasible_for_class(&self, slot: u32) -> bool {
        let host_bit = 1 << (slot % 64);
        if self.passing_class_filters(slot as usize / 64) & host_bit == 0 {
            return false;
        }
        // Of both words, only the host's own bit can be set.
        let capacity = self.search.classify(ProviderId(slot));
        if capacity.feasible != 0 && !self.request.class_needs_exact_test {
            return true;
        }
        capacity.feasible | capacity.undecided != 0 && self.passes_exact_test_for_class(slot)
    }

    fn filter_block_for_request(&self, block: usize, mut mask: u64) -> u64 {
        let filters = &self.request.compiled.filters;
        mask &= filters.word(block, FilterKind::ForSingleRequest);
        for cell in &self.request.scope.excluded_cells {
            let hosts = self.request.hosts.of_cell(*cell);
            mask &= !hosts.map_or(0, |hosts| hosts.word(block));
        }
        for slot in &self.request.scope.excluded_slots {
            if *slot as usize / 64 == block {
                mask &= !(1 << (slot % 64));
            }
        }
        self.request.rules.satisfying_host_rules(block, mask)
    }

    fn passes_exact_test_for_request(&self, slot: u32) -> bool {
        self.request
            .rules
            .level_rules_allow(self.request.state, ProviderId(slot))
            && self
                .request
                .compiled
                .filters
                .passes_predicates(slot, FilterKind::ForSingleRequest)
    }
}

impl SearchContext<'_, '_> {
    /// The hosts of a block that are in the cell of the search, and pass the masks of the filters that
    /// are evaluated for the request class.
    fn passing_class_filters(&self, block: usize) -> u64 {
        let filters = &self.request.compiled.filters;
        let mask = filters.word(block, FilterKind::ForClass);
        match self.request.scope.cell {
            None => mask,
            Some(cell) => {
                let hosts = self.request.hosts.of_cell(cell);
                mask & hosts.map_or(0, |hosts| hosts.word(block))
            }
        }
    }

    /// Whether a host has a candidate that satisfies the candidate rules of the request.
    fn has_candidate(&self, host: ProviderId) -> bool {
        let (prepared, hosts) = (self.request.prepared, self.request.hosts);
        let candidate_rules = rules_on(prepared, hosts.service_versions(), host.0);
        if candidate_rules.clone().next().is_none() {
            return self.search.fits(host);
        }
        candidate_rules
            .clone()
            .all(|rule| rule.admits_host(self.request.state, host))
            && self
                .search
                .candidates_of(host, CANDIDATES_TRIED_MAX)
                .iter()
                .any(|candidate| {
                    let mut rules = candidate_rules.clone();
                    rules.all(|rule| rule.admits(self.request.state, self.query, candidate))
                })
    }
}
