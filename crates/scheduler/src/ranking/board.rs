//! What all requests share that weigh alike.

use super::{BLOCK_HOSTS, ChangeLog, Column, Few, Scale, Term, kernel, larger, smaller};

/// How many boards are kept.
const BOARDS_MAX: usize = 16;

/// The scores of all hosts under one scale.
#[derive(Debug)]
pub(super) struct Board {
    /// Tells this board from all others, former ones too.
    pub(super) number: u64,
    scales: Few<Scale>,
    scores: Vec<[f64; BLOCK_HOSTS]>,
    position: u64,
    used: u64,
}

impl Board {
    /// The scores of a block.
    pub(super) fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        &self.scores[block]
    }
}

/// What is kept for one list of terms.
#[derive(Debug)]
pub struct Standing {
    terms: Vec<Term>,
    boards: Vec<Board>,
    boards_made: u64,
    clock: u64,
    /// By term, the smallest and the largest value in each block, whoever may do.
    lows: Vec<Vec<f64>>,
    highs: Vec<Vec<f64>>,
    position: u64,
}

impl Standing {
    /// Nothing is known yet. The number tells this one from all others that rankings may know.
    #[must_use]
    pub fn new(terms: Vec<Term>, number: u32) -> Self {
        Self {
            lows: vec![Vec::new(); terms.len()],
            highs: vec![Vec::new(); terms.len()],
            terms,
            boards: Vec::new(),
            boards_made: u64::from(number) << 32,
            clock: 0,
            position: 0,
        }
    }

    /// The terms of the score.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The smallest and largest values of a term in each block, within the declared ends.
    pub(super) fn ends(&self, term: usize) -> (&[f64], &[f64]) {
        (&self.lows[term], &self.highs[term])
    }

    /// Brings the ends of blocks up to date.
    pub(super) fn follow(&mut self, blocks: usize, log: &ChangeLog, columns: &[Column]) {
        let known = self.lows.first().map_or(blocks, Vec::len);
        let changed = log.since(self.position).filter(|_| known == blocks);
        let take = |lows: &mut Vec<f64>, highs: &mut Vec<f64>, term: &Term, block: usize| {
            let (low, high) = kernel::range(columns[term.column].block(block), u64::MAX);
            (lows[block], highs[block]) = (term.bounded(low), term.bounded(high));
        };
        for (number, term) in self.terms.iter().enumerate() {
            let (lows, highs) = (&mut self.lows[number], &mut self.highs[number]);
            match changed {
                Some(changed) => {
                    let touched = changed.iter().map(|one| one.slot as usize / BLOCK_HOSTS);
                    for block in touched.filter(|block| *block < blocks) {
                        take(lows, highs, term, block);
                    }
                }
                None => {
                    lows.resize(blocks, f64::INFINITY);
                    highs.resize(blocks, f64::NEG_INFINITY);
                    (0..blocks).for_each(|block| take(lows, highs, term, block));
                }
            }
        }
        self.position = log.end();
    }

    /// The board of a scale, brought up to date.
    pub(super) fn board(
        &mut self,
        scales: &Few<Scale>,
        blocks: usize,
        log: &ChangeLog,
        columns: &[Column],
    ) -> &Board {
        self.clock += 1;
        let terms = &self.terms;
        let mut place = self.boards.iter().position(|board| board.scales == *scales);
        let changed = place.and_then(|place| {
            let board = &self.boards[place];
            let is_whole = board.scores.len() == blocks;
            log.since(board.position).filter(|_| is_whole)
        });
        if let (Some(place), Some(changed)) = (place, changed) {
            let board = &mut self.boards[place];
            for touched in changed {
                let (block, bit) = (
                    touched.slot as usize / BLOCK_HOSTS,
                    touched.slot as usize % 64,
                );
                if let Some(scores) = board.scores.get_mut(block) {
                    scores[bit] = score_of(terms, scales, touched.slot, columns);
                }
            }
        } else {
            self.boards_made += 1;
            let full = self.boards.len() >= BOARDS_MAX;
            let by_age = self.boards.iter().enumerate();
            let oldest = by_age.min_by_key(|(_, board)| board.used);
            place = place.or_else(|| oldest.map(|(place, _)| place).filter(|_| full));
            let mut scores = match place {
                Some(place) => std::mem::take(&mut self.boards[place].scores),
                None => Vec::new(),
            };
            scores.resize(blocks, [0.0; BLOCK_HOSTS]);
            for (block, scores) in scores.iter_mut().enumerate() {
                score_block(terms, scales, block, columns, scores);
            }
            let board = Board {
                number: self.boards_made,
                scales: scales.clone(),
                scores,
                position: 0,
                used: 0,
            };
            match place {
                Some(place) => self.boards[place] = board,
                None => self.boards.push(board),
            }
        }
        let place = place.unwrap_or(self.boards.len() - 1);
        let board = &mut self.boards[place];
        board.position = log.end();
        board.used = self.clock;
        board
    }
}

/// The scores of the 64 hosts of a block.
fn score_block(
    terms: &[Term],
    scales: &[Scale],
    block: usize,
    columns: &[Column],
    scores: &mut [f64; BLOCK_HOSTS],
) {
    *scores = [0.0; BLOCK_HOSTS];
    for (term, scale) in terms.iter().zip(scales) {
        if scale.factor != 0.0 {
            let values = columns[term.column].block(block);
            kernel::add_share(scores, values, scale.factor, scale.low, term.bounds());
        }
    }
}

/// The score of one host: the same arithmetic.
fn score_of(terms: &[Term], scales: &[Scale], slot: u32, columns: &[Column]) -> f64 {
    let mut score = 0.0;
    for (term, scale) in terms.iter().zip(scales) {
        if scale.factor != 0.0 {
            let (low, high) = term.bounds();
            let value = smaller(larger(columns[term.column].get(slot), low), high);
            score += scale.factor * (value - scale.low);
        }
    }
    score
}
