//! The index of one class of requests, and the search for its best hosts.

use placewright_placement::tree_changes::ChangeKind;

use super::block_search::BlockSearch;
use super::bounds::Bounds;
use super::candidates::Candidates;
use super::changes::Position;
use super::feasibility_cache::{FeasibilityCache, slot_of};
use super::fleet::Fleet;
use super::range_end::{RangeEnd, Side};
use super::range_search::RangeSearch;
use super::scale::{PerTerm, Scale};
use super::scores::{ScoreCache, ScoreTable};
use crate::block::{self, BLOCK_HOSTS, larger};
use crate::rank::Ranked;
use crate::rank::feasibility::Feasibility;
use crate::weighers::Term;

/// An upper bound of the rounding error of a score, for a multiplier of 1; the real error is far
/// smaller.
const ROUNDING: f64 = 1e-12;

/// What is known of one class of requests: which hosts may be feasible, and how well they score.
///
/// It knows too much rather than too little: a host that is feasible is always in the masks, and no
/// score is above its bound.
#[derive(Debug, Default)]
pub struct ClassIndex {
    hosts: Candidates,
    /// The scales under which `bounds` are valid.
    scales: PerTerm<Scale>,
    /// By block: an upper bound of the scores of the hosts that may be feasible.
    bounds: Bounds,
    /// The ends of ranges that no weigher declares.
    ends: Vec<RangeEnd>,
    /// The position in the change log up to which the masks are valid.
    position: Position,
    /// The position up to which the bounds of scores are valid.
    scored: Position,
}

impl ClassIndex {
    /// An index without knowledge: every host counts as possibly feasible.
    #[must_use]
    pub fn new(terms: &[Term], blocks: usize, fleet: &Fleet<'_>) -> Self {
        let mut index = Self::default();
        index.reset(terms, blocks, fleet);
        index
    }

    /// Forgets everything; as [`Self::new`], but reuses the memory.
    pub fn reset(&mut self, terms: &[Term], blocks: usize, fleet: &Fleet<'_>) {
        for words in [&mut self.hosts.eligible, &mut self.hosts.feasible] {
            words.clear();
            words.resize(blocks, u64::MAX);
        }
        self.hosts.narrows_eligible = true;
        self.scales.clear();
        self.bounds.reset(blocks, f64::INFINITY);
        self.position = fleet.log.end();
        RangeEnd::reset_all(&mut self.ends, terms, blocks, self.position);
        self.scored = fleet.log.end();
    }

    /// As [`Self::reset`], for a request that most likely never comes again: what only later
    /// decisions would profit from is left out.
    pub fn reset_for_one_off(&mut self, terms: &[Term], blocks: usize, fleet: &Fleet<'_>) {
        self.reset(terms, blocks, fleet);
        self.hosts.narrows_eligible = false;
    }

    /// Updates the masks from the change log. False if the log no longer reaches back far enough,
    /// or the number of blocks changed; then it has to be reset.
    #[must_use]
    pub fn catch_up(&mut self, blocks: usize, fleet: &Fleet<'_>) -> bool {
        let is_same = |_: &_| self.bounds.len() == blocks;
        let Some(changes) = fleet.log.since(self.position).filter(is_same) else {
            return false;
        };
        let Candidates {
            eligible, feasible, ..
        } = &mut self.hosts;
        for change in changes.capacity_gains {
            let (block, bit) = (change.slot as usize / BLOCK_HOSTS, change.slot % 64);
            if block >= blocks {
                return false;
            }
            // A host that may have changed in any respect counts as possibly feasible until it is
            // tested.
            eligible[block] |= u64::from(change.what == ChangeKind::Anything) << bit;
            feasible[block] |= eligible[block] & 1 << bit;
        }
        self.position = fleet.log.end();
        true
    }

    /// The best `count` feasible hosts, best first; equal scores in the order of slots.
    pub fn best<F: Feasibility>(
        &mut self,
        scores: &mut ScoreCache,
        count: usize,
        feasibility: &F,
        fleet: &Fleet<'_>,
    ) -> Vec<Ranked> {
        let mut tests = FeasibilityCache::new(feasibility);
        let blocks = self.bounds.len();
        scores.catch_up(blocks, fleet);
        let mut search = scores.take_block_search();
        let scales = self.current_scales(scores, fleet, &mut tests, &mut search);
        self.rescale(scores, &scales);
        let is_monotone = scores.is_monotone_in_capacity();
        let table = scores.table(&scales, blocks, fleet);
        self.raise_bounds(table, is_monotone, fleet);
        let mut found = Vec::with_capacity(count.min(blocks * BLOCK_HOSTS));
        search.start(&self.bounds, table.maxima());
        while found.len() < count
            && let Some((block, bound)) = search.next(&mut self.bounds, table.maxima())
        {
            let scores = table.block(block);
            let finished = search.finished(block);
            let left = self.hosts.feasible[block] & !finished;
            let most = block::most(scores, left);
            if most < bound {
                if finished == 0 {
                    self.bounds.lower(block, most);
                }
                search.set(block, most);
                continue;
            }
            // Only this host is tested: it is most likely feasible, and its neighbours are not
            // needed.
            let bit = (block::at_least(scores, most) & left).trailing_zeros() as usize;
            if !tests.is_feasible_for_class(block, bit) {
                self.hosts.remove(block, bit, &mut tests);
                continue;
            }
            let mut done = 1 << bit;
            if tests.is_feasible_for_request(block, bit) {
                let slot = slot_of(block, bit);
                found.push(Ranked { slot, score: most });
            } else {
                // The neighbours are most likely excluded for the same reason, so the whole block
                // is tested.
                done |= left & !tests.possible_for_request(block);
            }
            search.finish(block, done);
            search.set(block, block::most(scores, left & !done));
        }
        scores.put_block_search(search);
        found
    }

    /// Raises the bounds of scores in the blocks of hosts that changed.
    fn raise_bounds(&mut self, table: &ScoreTable, is_monotone: bool, fleet: &Fleet<'_>) {
        let changes = fleet.log.since(self.scored);
        self.scored = fleet.log.end();
        let Some(changes) = changes else {
            self.bounds.fill(f64::INFINITY);
            return;
        };
        // Where a loss of capacity raises no score, it raises no bound either.
        let changes = if is_monotone {
            changes.capacity_gains
        } else {
            changes.all
        };
        for change in changes {
            let (block, bit) = (change.slot as usize / BLOCK_HOSTS, change.slot % 64);
            let is_feasible = self.hosts.feasible[block] >> bit & 1 == 1;
            let score = table.block(block)[bit as usize];
            // Branch-free, as in [`RangeEnd::catch_up`].
            let score = if is_feasible {
                score
            } else {
                f64::NEG_INFINITY
            };
            self.bounds.raise(block, score);
        }
    }

    /// Adjusts the bounds of scores to other scales, so that they remain upper bounds.
    ///
    /// Where the factor of a term grows, no score in a block grows by more than that of the
    /// block's extreme; where it shrinks, no score grows.
    fn rescale(&mut self, scores: &ScoreCache, scales: &PerTerm<Scale>) {
        if self.scales == *scales {
            return;
        }
        let old = std::mem::replace(&mut self.scales, scales.clone());
        let starts_alike = |(old, new): (&Scale, &Scale)| old.low == new.low;
        if old.len() != scales.len() || !old.iter().zip(scales).all(starts_alike) {
            self.bounds.fill(f64::INFINITY);
            return;
        }
        self.bounds.change(|bounds| {
            let mut slack = 0.0;
            for (number, (old, new)) in old.iter().zip(scales).enumerate() {
                slack += ROUNDING * scores.terms()[number].multiplier.abs();
                let more = new.factor - old.factor;
                if more > 0.0 {
                    let maxima = scores.block_extremes(number, Side::High).blocks();
                    for (bound, maximum) in bounds.iter_mut().zip(maxima) {
                        *bound += more * larger(maximum - new.low, 0.0);
                    }
                }
            }
            // A feasible host's share of a term is at most its multiplier, so this exceeds any
            // difference from adding in another order.
            for bound in bounds {
                *bound += slack;
            }
        });
    }

    /// The scales of all terms over the currently feasible hosts.
    fn current_scales<F: Feasibility>(
        &mut self,
        scores: &ScoreCache,
        fleet: &Fleet<'_>,
        tests: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> PerTerm<Scale> {
        let mut scales = PerTerm::new();
        let mut ends = self.ends.iter_mut();
        let mut find = |declared: Option<f64>| match declared {
            Some(declared) => declared,
            None => ends.next().map_or(f64::NAN, |end| {
                let range_search = RangeSearch {
                    scores,
                    fleet,
                    hosts: &mut self.hosts,
                };
                range_search.end(end, tests, search)
            }),
        };
        for term in scores.terms() {
            let (low, high) = (find(term.low), find(term.high));
            let is_known = low.is_finite() && high.is_finite();
            let (low, high) = if is_known { (low, high) } else { (0.0, 0.0) };
            scales.push(Scale::new(term.multiplier, low, high));
        }
        scales
    }
}
