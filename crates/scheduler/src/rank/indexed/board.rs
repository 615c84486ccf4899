//! Caches that all requests with the same weighers share.

use crate::hosts::table::Touched;

use super::bounds::Bounds;
use super::changes::Position;
use super::end::Side;
use super::frontier::Frontier;
use super::{Few, Fleet, Scale};
use crate::block::{self, BLOCK_HOSTS, larger, smaller};
use crate::weighers::Term;

/// The minimum and maximum number of boards; between them [`BOARDS_BYTES`] limits their memory.
const BOARDS: (usize, usize) = (16, 64);
const BOARDS_BYTES: usize = 16 << 20;

/// From this many changes for each block on, recomputing a board is cheaper than updating it.
const MENDED_MAX: usize = 3;

/// The cached scores of all hosts under one set of scales.
#[derive(Debug, Default)]
pub(super) struct Board {
    scales: Few<Scale>,
    scores: Vec<[f64; BLOCK_HOSTS]>,
    /// By block: the best score, regardless of feasibility.
    tops: Bounds,
    position: Position,
    used: u64,
}

impl Board {
    /// By block: the best score, regardless of feasibility.
    pub(super) fn tops(&self) -> &Bounds {
        &self.tops
    }

    /// The scores of a block.
    pub(super) fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        &self.scores[block]
    }
}

/// The caches for one list of terms: boards, and the extremes of blocks. Shared by all classes of
/// requests with these terms.
#[derive(Debug)]
pub struct Standing {
    terms: Vec<Term>,
    /// Whether less free capacity can never raise a score: true if it is true of all terms.
    prefers_room: bool,
    boards: Vec<Board>,
    clock: u64,
    /// By term and side: the extreme of each block, regardless of feasibility.
    reaches: Vec<[Bounds; 2]>,
    /// By term and side: the extreme over all hosts.
    farthest: Vec<[f64; 2]>,
    /// The number of blocks at the last update.
    blocks: usize,
    position: Position,
    /// A reusable buffer for searches.
    frontier: Frontier,
}

impl Standing {
    /// Empty caches for a list of terms.
    #[must_use]
    pub fn new(terms: Vec<Term>) -> Self {
        Self {
            reaches: vec![[Bounds::default(), Bounds::default()]; terms.len()],
            farthest: vec![[f64::NEG_INFINITY; 2]; terms.len()],
            prefers_room: terms.iter().all(Term::prefers_room),
            terms,
            boards: Vec::new(),
            clock: 0,
            blocks: 0,
            position: Position::default(),
            frontier: Frontier::default(),
        }
    }

    /// The terms of the score.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether less free capacity can never raise a score.
    pub(super) fn prefers_room(&self) -> bool {
        self.prefers_room
    }

    /// By block: the extreme on one side of a term, regardless of feasibility.
    pub(super) fn reach(&self, term: usize, side: Side) -> &Bounds {
        &self.reaches[term][side as usize]
    }

    /// The extreme over all hosts on one side of a term, regardless of feasibility.
    pub(super) fn farthest(&self, term: usize, side: Side) -> f64 {
        self.farthest[term][side as usize]
    }

    pub(super) fn take_frontier(&mut self) -> Frontier {
        std::mem::take(&mut self.frontier)
    }

    pub(super) fn put_frontier(&mut self, frontier: Frontier) {
        self.frontier = frontier;
    }

    /// Updates the extremes of the blocks that changed.
    pub(super) fn follow(&mut self, blocks: usize, fleet: &Fleet<'_>) {
        let changed = fleet.log.since(self.position).map(|changes| changes.all);
        let is_little = |changed: &&[Touched]| self.blocks == blocks && changed.len() < blocks;
        let changed = changed.filter(is_little);
        if changed.is_some_and(<[Touched]>::is_empty) {
            return;
        }
        let kept = self.reaches.iter_mut().zip(&mut self.farthest);
        for (term, (reaches, farthest)) in self.terms.iter().zip(kept) {
            if term.low.is_some() && term.high.is_some() {
                continue;
            }
            let column = &fleet.columns[term.column];
            if changed.is_none() {
                for reaches in reaches.iter_mut() {
                    reaches.reset(blocks, f64::NEG_INFINITY);
                }
                *farthest = [f64::NEG_INFINITY; 2];
            }
            // Whether the block at the overall extreme has moved away from it.
            let mut is_lost = [false; 2];
            let mut take = |block: usize| {
                let reach = term.reaches(column.block(block), fleet.hosts.word(block));
                for side in [0, 1] {
                    let Some(kept) = reaches[side].blocks().get(block).copied() else {
                        continue;
                    };
                    is_lost[side] |= kept >= farthest[side] && reach[side] < kept;
                    farthest[side] = larger(farthest[side], reach[side]);
                    reaches[side].put(block, reach[side]);
                }
            };
            if let Some(changed) = changed {
                let touched = changed.iter();
                touched.for_each(|one| take(one.slot as usize / BLOCK_HOSTS));
            } else {
                (0..blocks).for_each(take);
            }
            for side in [0, 1] {
                if is_lost[side] {
                    farthest[side] = block::top(reaches[side].groups());
                }
            }
        }
        self.blocks = blocks;
        self.position = fleet.log.end();
    }

    /// The up-to-date board for a set of scales; the least recently used one makes room if
    /// necessary.
    pub(super) fn board(
        &mut self,
        scales: &Few<Scale>,
        blocks: usize,
        fleet: &Fleet<'_>,
    ) -> &Board {
        self.clock += 1;
        let terms = &self.terms;
        let of_bytes = BOARDS_BYTES / (blocks * size_of::<[f64; BLOCK_HOSTS]>()).max(1);
        let boards_max = of_bytes.clamp(BOARDS.0, BOARDS.1);
        let known = self.boards.iter().position(|board| board.scales == *scales);
        let place = known.unwrap_or_else(|| {
            let by_age = self.boards.iter().enumerate();
            let oldest = by_age.min_by_key(|(_, board)| board.used);
            match oldest.filter(|_| self.boards.len() >= boards_max) {
                Some((place, _)) => place,
                None => {
                    self.boards.push(Board::default());
                    self.boards.len() - 1
                }
            }
        });
        let board = &mut self.boards[place];
        let changed = fleet.log.since(board.position).map(|changes| changes.all);
        let is_little = |changed: &&[Touched]| {
            known.is_some() && board.scores.len() == blocks && changed.len() < blocks * MENDED_MAX
        };
        if let Some(changed) = changed.filter(is_little) {
            for touched in changed {
                board.mend(terms, touched.slot, fleet);
            }
        } else {
            board.scales.clone_from(scales);
            board.fill(terms, blocks, fleet);
        }
        board.position = fleet.log.end();
        board.used = self.clock;
        board
    }
}

impl Board {
    /// Computes the scores of all hosts from scratch.
    fn fill(&mut self, terms: &[Term], blocks: usize, fleet: &Fleet<'_>) {
        self.scores.resize(blocks, [0.0; BLOCK_HOSTS]);
        self.tops.reset(blocks, f64::NEG_INFINITY);
        for (block, scores) in self.scores.iter_mut().enumerate() {
            *scores = [0.0; BLOCK_HOSTS];
            for (term, scale) in terms.iter().zip(&self.scales) {
                if scale.factor != 0.0 {
                    let values = fleet.columns[term.column].block(block);
                    block::add_share(scores, values, scale.factor, scale.low, term.bounds());
                }
            }
            self.tops
                .raise(block, block::most(scores, fleet.hosts.word(block)));
        }
    }

    /// Recomputes the score of one host, with the same arithmetic as [`Self::fill`].
    fn mend(&mut self, terms: &[Term], slot: u32, fleet: &Fleet<'_>) {
        let (block, bit) = (slot as usize / BLOCK_HOSTS, slot as usize % BLOCK_HOSTS);
        let Some(scores) = self.scores.get_mut(block) else {
            return;
        };
        let mut score = 0.0;
        for (term, scale) in terms.iter().zip(&self.scales) {
            if scale.factor != 0.0 {
                let (low, high) = term.bounds();
                let value = smaller(larger(fleet.columns[term.column].get(slot), low), high);
                score += scale.factor * (value - scale.low);
            }
        }
        let top = self.tops.blocks()[block];
        let was_top = scores[bit] >= top;
        scores[bit] = score;
        if was_top || score > top {
            let top = block::most(scores, fleet.hosts.word(block));
            self.tops.put(block, top);
        }
    }
}
