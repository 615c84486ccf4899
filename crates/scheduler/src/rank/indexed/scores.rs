//! The scores of all hosts, cached for all request classes that have the same weighers.

use super::block_search::BlockSearch;
use super::bounds::Bounds;
use super::changes::Position;
use super::fleet::Fleet;
use super::range_end::Side;
use super::scale::{PerTerm, Scale};
use crate::block::{self, BLOCK_HOSTS, larger, smaller};
use crate::clock::Clock;
use crate::hosts::table::HostChange;
use crate::weighers::Term;

/// The minimum and maximum number of score tables. In between, [`TABLES_BYTES`] limits their
/// memory.
const TABLES_MIN: usize = 16;
const TABLES_MAX: usize = 64;
const TABLES_BYTES: usize = 16 << 20;

/// From this number of changes for each block on, computing a table anew is cheaper than updating
/// it.
const UPDATES_PER_BLOCK_MAX: usize = 3;

/// The scores of all hosts for one set of scales.
#[derive(Debug, Default)]
pub(super) struct ScoreTable {
    scales: PerTerm<Scale>,
    scores: Vec<[f64; BLOCK_HOSTS]>,
    /// By block: the best score, regardless of feasibility.
    maxima: Bounds,
    /// The position in the change log up to which the scores are valid.
    position: Position,
}

impl ScoreTable {
    /// By block: the best score, regardless of feasibility.
    pub(super) fn maxima(&self) -> &Bounds {
        &self.maxima
    }

    /// The scores of a block.
    pub(super) fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        &self.scores[block]
    }
}

/// The data that all request classes with the same terms share: score tables, and the extremes of
/// blocks.
#[derive(Debug)]
pub struct ScoreCache {
    terms: Vec<Term>,
    /// Whether a loss of free capacity can never raise a score: it cannot raise the contribution of
    /// any term.
    is_monotone_in_capacity: bool,
    tables: Clock<ScoreTable>,
    /// By term and side: the outwardness of the blocks' extremes, regardless of feasibility.
    block_extremes: Vec<[Bounds; 2]>,
    /// By term and side: the outwardness of the extreme over all hosts.
    fleet_extremes: Vec<[f64; 2]>,
    /// The number of blocks when the extremes were last updated.
    block_count: usize,
    /// The position in the change log up to which the extremes are valid.
    position: Position,
    /// A reusable buffer for searches.
    block_search: BlockSearch,
}

impl ScoreCache {
    /// An empty cache for a list of terms.
    #[must_use]
    pub fn new(terms: Vec<Term>) -> Self {
        Self {
            block_extremes: vec![[Bounds::default(), Bounds::default()]; terms.len()],
            fleet_extremes: vec![[f64::NEG_INFINITY; 2]; terms.len()],
            is_monotone_in_capacity: terms.iter().all(Term::is_monotone_in_capacity),
            terms,
            tables: Clock::default(),
            block_count: 0,
            position: Position::default(),
            block_search: BlockSearch::default(),
        }
    }

    /// The terms of the score.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether a loss of free capacity can never raise a score.
    pub(super) fn is_monotone_in_capacity(&self) -> bool {
        self.is_monotone_in_capacity
    }

    /// By block: the outwardness of the extreme on one side of a term, regardless of feasibility.
    pub(super) fn block_extremes(&self, term: usize, side: Side) -> &Bounds {
        &self.block_extremes[term][side as usize]
    }

    /// The outwardness of the extreme over all hosts, regardless of feasibility.
    pub(super) fn fleet_extreme(&self, term: usize, side: Side) -> f64 {
        self.fleet_extremes[term][side as usize]
    }

    /// Takes the buffer for searches; [`Self::put_block_search`] returns it.
    pub(super) fn take_block_search(&mut self) -> BlockSearch {
        std::mem::take(&mut self.block_search)
    }

    /// Returns the buffer for searches.
    pub(super) fn put_block_search(&mut self, search: BlockSearch) {
        self.block_search = search;
    }

    /// Updates the extremes of the blocks that changed.
    pub(super) fn catch_up(&mut self, block_count: usize, fleet: &Fleet<'_>) {
        let changes = fleet.log.since(self.position).map(|changes| changes.all);
        let is_worth_applying = |changes: &&[HostChange]| {
            self.block_count == block_count && changes.len() < block_count
        };
        let changes = changes.filter(is_worth_applying);
        if changes.is_some_and(<[HostChange]>::is_empty) {
            return;
        }
        let extremes = self.block_extremes.iter_mut().zip(&mut self.fleet_extremes);
        for (term, (of_blocks, of_fleet)) in self.terms.iter().zip(extremes) {
            if term.low.is_some() && term.high.is_some() {
                continue;
            }
            let column = &fleet.columns[term.column];
            if changes.is_none() {
                for of_blocks in of_blocks.iter_mut() {
                    of_blocks.reset(block_count, f64::NEG_INFINITY);
                }
                *of_fleet = [f64::NEG_INFINITY; 2];
            }
            // By side: whether a block that had the extreme of the fleet no longer has it.
            let mut has_lost_extreme = [false; 2];
            let mut update = |block: usize| {
                let current = term.extremes(column.block(block), fleet.hosts.word(block));
                for side in [0, 1] {
                    let Some(previous) = of_blocks[side].by_block().get(block).copied() else {
                        continue;
                    };
                    has_lost_extreme[side] |=
                        previous >= of_fleet[side] && current[side] < previous;
                    of_fleet[side] = larger(of_fleet[side], current[side]);
                    of_blocks[side].set(block, current[side]);
                }
            };
            if let Some(changes) = changes {
                let slots = changes.iter().map(|change| change.slot);
                slots.for_each(|slot| update(slot as usize / BLOCK_HOSTS));
            } else {
                (0..block_count).for_each(update);
            }
            for side in [0, 1] {
                if has_lost_extreme[side] {
                    of_fleet[side] = block::max(of_blocks[side].by_group());
                }
            }
        }
        self.block_count = block_count;
        self.position = fleet.log.end();
    }

    /// The table for a set of scales, up to date.
    pub(super) fn table(
        &mut self,
        scales: &PerTerm<Scale>,
        block_count: usize,
        fleet: &Fleet<'_>,
    ) -> &ScoreTable {
        let terms = &self.terms;
        let fitting_tables = TABLES_BYTES / (block_count * size_of::<[f64; BLOCK_HOSTS]>()).max(1);
        let tables_max = fitting_tables.clamp(TABLES_MIN, TABLES_MAX);
        let cached = self.tables.position(|table| table.scales == *scales);
        let index =
            cached.unwrap_or_else(|| self.tables.insert(tables_max, Option::unwrap_or_default));
        let table = self.tables.get(index);
        let changes = fleet.log.since(table.position).map(|changes| changes.all);
        let is_worth_applying = |changes: &&[HostChange]| {
            cached.is_some()
                && table.scores.len() == block_count
                && changes.len() < block_count * UPDATES_PER_BLOCK_MAX
        };
        if let Some(changes) = changes.filter(is_worth_applying) {
            for change in changes {
                table.update_host(terms, change.slot, fleet);
            }
        } else {
            table.scales.clone_from(scales);
            table.fill(terms, block_count, fleet);
        }
        table.position = fleet.log.end();
        table
    }
}

impl ScoreTable {
    /// Computes the scores of all hosts from scratch.
    fn fill(&mut self, terms: &[Term], block_count: usize, fleet: &Fleet<'_>) {
        self.scores.resize(block_count, [0.0; BLOCK_HOSTS]);
        self.maxima.reset(block_count, f64::NEG_INFINITY);
        for (block, scores) in self.scores.iter_mut().enumerate() {
            *scores = [0.0; BLOCK_HOSTS];
            for (term, scale) in terms.iter().zip(&self.scales) {
                if scale.factor != 0.0 {
                    let values = fleet.columns[term.column].block(block);
                    block::add_share(
                        scores,
                        values,
                        scale.factor,
                        scale.low,
                        term.declared_ends(),
                    );
                }
            }
            self.maxima
                .raise(block, block::masked_max(scores, fleet.hosts.word(block)));
        }
    }

    /// Recomputes the score of one host, with the same arithmetic as [`Self::fill`].
    fn update_host(&mut self, terms: &[Term], slot: u32, fleet: &Fleet<'_>) {
        let (block, bit) = (slot as usize / BLOCK_HOSTS, slot as usize % BLOCK_HOSTS);
        let Some(scores) = self.scores.get_mut(block) else {
            return;
        };
        let mut score = 0.0;
        for (term, scale) in terms.iter().zip(&self.scales) {
            if scale.factor != 0.0 {
                let (low, high) = term.declared_ends();
                let value = smaller(larger(fleet.columns[term.column].get(slot), low), high);
                score += scale.factor * (value - scale.low);
            }
        }
        let maximum = self.maxima.by_block()[block];
        let was_maximum = scores[bit] >= maximum;
        scores[bit] = score;
        if was_maximum || score > maximum {
            let maximum = block::masked_max(scores, fleet.hosts.word(block));
            self.maxima.set(block, maximum);
        }
    }
}
