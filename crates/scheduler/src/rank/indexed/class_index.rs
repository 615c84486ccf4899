//! The index of one request class, and the search for its best hosts.

use placewright_placement::tree_changes::ChangeKind;

use super::block_search::BlockSearch;
use super::bounds::Bounds;
use super::changes::Position;
use super::class_masks::ClassMasks;
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

/// An upper bound of the rounding error of a score for a multiplier of 1. The actual error is far
/// smaller.
const ROUNDING: f64 = 1e-12;

/// The index of one request class: which hosts may be feasible, and upper bounds of their scores.
///
/// Every feasible host is in the masks, which may contain other hosts too. No feasible host has a score above the bound
/// of its block.
#[derive(Debug, Default)]
pub struct ClassIndex {
    masks: ClassMasks,
    /// The scales for which `bounds` are valid.
    scales: PerTerm<Scale>,
    /// By block: an upper bound of the scores of the hosts that may be feasible.
    bounds: Bounds,
    /// The ends of the terms' ranges for which the weigher declares no fixed value ([`Term::low`], [`Term::high`]), so
    /// that they are searched.
    range_ends: Vec<RangeEnd>,
    /// The position in the change log up to which the masks are valid.
    masks_position: Position,
    /// The position in the change log up to which the bounds of scores are valid.
    bounds_position: Position,
}

impl ClassIndex {
    /// An index for which no host was tested: every host counts as possibly feasible.
    #[must_use]
    pub fn new(terms: &[Term], block_count: usize, fleet: &Fleet<'_>) -> Self {
        let mut index = Self::default();
        index.reset(terms, block_count, fleet);
        index
    }

    /// Clears the index. Equivalent to [`Self::new`], but reuses the memory.
    pub fn reset(&mut self, terms: &[Term], block_count: usize, fleet: &Fleet<'_>) {
        for words in [&mut self.masks.eligible, &mut self.masks.feasible] {
            words.clear();
            words.resize(block_count, u64::MAX);
        }
        self.masks.removes_ineligible = true;
        self.scales.clear();
        self.bounds.reset(block_count, f64::INFINITY);
        self.masks_position = fleet.log.end();
        RangeEnd::reset_all(
            &mut self.range_ends,
            terms,
            block_count,
            self.masks_position,
        );
        self.bounds_position = fleet.log.end();
    }

    /// As [`Self::reset`], for a one-off request: ineligible hosts are not removed from the mask of eligible hosts, as
    /// only later requests of the class would benefit from that.
    pub fn reset_for_one_off(&mut self, terms: &[Term], block_count: usize, fleet: &Fleet<'_>) {
        self.reset(terms, block_count, fleet);
        self.masks.removes_ineligible = false;
    }

    /// Updates the masks from the change log. Returns false if that is impossible, because the log
    /// does not reach back far enough or the number of blocks changed; the index then has to be
    /// reset.
    #[must_use]
    pub fn catch_up(&mut self, block_count: usize, fleet: &Fleet<'_>) -> bool {
        if self.bounds.len() != block_count {
            return false;
        }
        let Some(changes) = fleet.log.since(self.masks_position) else {
            return false;
        };
        let ClassMasks {
            eligible, feasible, ..
        } = &mut self.masks;
        for change in changes.capacity_gains {
            let (block, bit) = (change.slot as usize / BLOCK_HOSTS, change.slot % 64);
            if block >= block_count {
                return false;
            }
            // A host of which anything may have changed counts as eligible until it is tested. Every eligible host that
            // may have gained capacity counts as possibly feasible.
            eligible[block] |= u64::from(change.kind == ChangeKind::Anything) << bit;
            feasible[block] |= eligible[block] & 1 << bit;
        }
        self.masks_position = fleet.log.end();
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
        let mut feasibility_cache = FeasibilityCache::new(feasibility);
        let block_count = self.bounds.len();
        scores.catch_up(block_count, fleet);
        let mut search = scores.take_block_search();
        let scales = self.current_scales(scores, fleet, &mut feasibility_cache, &mut search);
        self.rescale_bounds(scores, &scales);
        let is_monotone = scores.is_monotone_in_capacity();
        let table = scores.table(&scales, block_count, fleet);
        self.raise_bounds(table, is_monotone, fleet);
        let mut ranked = Vec::with_capacity(count.min(block_count * BLOCK_HOSTS));
        // A block has two upper bounds, and either may be the smaller one: see `BlockSearch::start`.
        search.start(&self.bounds, table.maxima());
        while ranked.len() < count
            && let Some((block, bound)) = search.next(&mut self.bounds, table.maxima())
        {
            let block_scores = table.block(block);
            // The hosts that this search has ranked already, or found infeasible for this request.
            let finished = search.finished(block);
            let remaining = self.masks.feasible[block] & !finished;
            let best_score = block::masked_max(block_scores, remaining);
            if best_score < bound {
                // The class's bound covers all hosts of the block, but `best_score` only those that are not finished.
                // So the bound is lowered only if no host is finished.
                if finished == 0 {
                    self.bounds.lower(block, best_score);
                }
                search.set_bound(block, best_score);
                continue;
            }
            // Of the block, only the best host is tested: it is most likely feasible, and then the other
            // hosts are not needed.
            let bit =
                (block::at_least(block_scores, best_score) & remaining).trailing_zeros() as usize;
            if !feasibility_cache.is_feasible_for_class(block, bit) {
                self.masks.remove(block, bit, &mut feasibility_cache);
                continue;
            }
            let mut finished_now = 1 << bit;
            if feasibility_cache.is_feasible_for_request(block, bit) {
                let slot = slot_of(block, bit);
                ranked.push(Ranked {
                    slot,
                    score: best_score,
                });
            } else {
                // Other hosts of the block are most likely excluded for the same reason, so the masks of the whole
                // block are tested. A host that remains possible still needs its own tests when it is the best.
                finished_now |= remaining & !feasibility_cache.possible_for_request(block);
            }
            search.finish(block, finished_now);
            search.set_bound(
                block,
                block::masked_max(block_scores, remaining & !finished_now),
            );
        }
        scores.put_block_search(search);
        ranked
    }

    /// For each term, the ends of its range over the feasible hosts, as the last search found them.
    pub fn ends(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.scales.iter().map(|scale| (scale.low, scale.high))
    }

    /// Raises the bounds of scores in the blocks of hosts that changed.
    fn raise_bounds(&mut self, table: &ScoreTable, is_monotone: bool, fleet: &Fleet<'_>) {
        let changes = fleet.log.since(self.bounds_position);
        self.bounds_position = fleet.log.end();
        let Some(changes) = changes else {
            self.bounds.fill(f64::INFINITY);
            return;
        };
        // If a loss of capacity cannot raise a score, it cannot raise a bound either.
        let changes = if is_monotone {
            changes.capacity_gains
        } else {
            changes.all
        };
        for change in changes {
            let (block, bit) = (change.slot as usize / BLOCK_HOSTS, change.slot % 64);
            let is_feasible = self.masks.feasible[block] >> bit & 1 == 1;
            let score = table.block(block)[bit as usize];
            // A host that is not feasible raises nothing. It gets a score that has no effect, in place of a branch:
            // the branch predictor could not learn which hosts are feasible.
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
    /// A term contributes `factor * (raw - low)` to a score, and no feasible host has a raw value below `low`. So if
    /// the factor grows by `growth`, a score grows by at most `growth` times the distance between `low` and the highest
    /// raw value of the block. If the factor shrinks, no score grows. This holds only if `low` stays the same. If it
    /// changes, all bounds become infinite.
    fn rescale_bounds(&mut self, scores: &ScoreCache, scales: &PerTerm<Scale>) {
        if self.scales == *scales {
            return;
        }
        let old = std::mem::replace(&mut self.scales, scales.clone());
        let has_same_low = |(old, new): (&Scale, &Scale)| old.low == new.low;
        if old.len() != scales.len() || !old.iter().zip(scales).all(has_same_low) {
            self.bounds.fill(f64::INFINITY);
            return;
        }
        self.bounds.change(|bounds| {
            let mut rounding_slack = 0.0;
            for (index, (old, new)) in old.iter().zip(scales).enumerate() {
                rounding_slack += ROUNDING * scores.terms()[index].multiplier.abs();
                let growth = new.factor - old.factor;
                if growth > 0.0 {
                    let maxima = scores.block_extremes(index, Side::High).by_block();
                    for (bound, maximum) in bounds.iter_mut().zip(maxima) {
                        *bound += growth * larger(maximum - new.low, 0.0);
                    }
                }
            }
            // A bound is added up in another order than the scores, so that it may be rounded to less than a score. A
            // term contributes at most its multiplier to the score of a feasible host, so the slack exceeds the
            // difference.
            for bound in bounds {
                *bound += rounding_slack;
            }
        });
    }

    /// The scales of all terms over the currently feasible hosts.
    fn current_scales<F: Feasibility>(
        &mut self,
        scores: &ScoreCache,
        fleet: &Fleet<'_>,
        feasibility_cache: &mut FeasibilityCache<'_, F>,
        search: &mut BlockSearch,
    ) -> PerTerm<Scale> {
        let mut scales = PerTerm::new();
        // `range_ends` has the ends that are not declared, in the order in which the loop below needs them.
        let mut range_ends = self.range_ends.iter_mut();
        let mut declared_or_found = |declared: Option<f64>| match declared {
            Some(declared) => declared,
            None => range_ends.next().map_or(f64::NAN, |end| {
                let range_search = RangeSearch {
                    scores,
                    fleet,
                    masks: &mut self.masks,
                };
                range_search.find(end, feasibility_cache, search)
            }),
        };
        for term in scores.terms() {
            let (low, high) = (declared_or_found(term.low), declared_or_found(term.high));
            // Without a feasible host the ends are infinite. It does not matter then which scale is used.
            let is_finite = low.is_finite() && high.is_finite();
            let (low, high) = if is_finite { (low, high) } else { (0.0, 0.0) };
            scales.push(Scale::new(term.multiplier, low, high));
        }
        scales
    }
}
