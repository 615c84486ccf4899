//! The best of very many hosts, found again and again without looking at all of them.
//!
//! A [`Ranking`] belongs to one class of requests: hosts that are feasible for it, and the terms
//! of its score. It keeps, for each block of 64 hosts, the best score and the range of every term,
//! and the same for groups of blocks. A host that changed costs one bit and one score. A search
//! opens only the blocks whose best could still win.
//!
//! The score of a host is the sum of `multiplier * (value - low) / (high - low)`, as in Nova, where
//! `low` and `high` are the term's bounds over the feasible hosts. These bounds move as hosts fill
//! up, and every score moves with them. Scores are therefore kept under the bounds of some earlier
//! moment, and a search adds the most that any score can have gained since ([`Scale::gain`]). When
//! that makes it open too many blocks, all scores are taken anew.
//!
//! Kept values are never too low: a host that got worse leaves its block marked as stale, and the
//! block is looked at again only when it comes out on top.

mod kernel;
mod search;
#[cfg(test)]
mod tests;

pub use search::{Ranked, Without};

/// Hosts in a block, one bit each in a word of a mask.
pub const BLOCK_HOSTS: usize = 64;
/// Blocks in a group.
const GROUP_BLOCKS: usize = 16;

/// One number for each host, by slot; the length is a multiple of [`BLOCK_HOSTS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    values: Vec<f64>,
}

impl Column {
    /// The value of a host; 0 for a slot that the column does not reach.
    #[must_use]
    pub fn get(&self, slot: u32) -> f64 {
        self.values.get(slot as usize).copied().unwrap_or(0.0)
    }

    /// Sets the value of a host.
    pub fn set(&mut self, slot: u32, value: f64) {
        let index = slot as usize;
        if index >= self.values.len() {
            self.values
                .resize((index / BLOCK_HOSTS + 1) * BLOCK_HOSTS, 0.0);
        }
        self.values[index] = value;
    }

    /// The 64 values of a block.
    fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        static ZEROS: [f64; BLOCK_HOSTS] = [0.0; BLOCK_HOSTS];
        let start = block * BLOCK_HOSTS;
        let values = self.values.get(start..start + BLOCK_HOSTS);
        values
            .and_then(|values| values.try_into().ok())
            .unwrap_or(&ZEROS)
    }
}

/// One weigher's part of the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Which column holds its raw values.
    pub column: usize,
    /// How much it counts.
    pub multiplier: f64,
    /// The low end of its range, if the weigher declares one.
    pub low: Option<f64>,
    /// The high end of its range, if the weigher declares one.
    pub high: Option<f64>,
}

/// The range of a term over some hosts, and with it the meaning of its raw values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    factor: f64,
}

impl Scale {
    fn new(multiplier: f64, low: f64, high: f64) -> Self {
        let factor = if high > low {
            multiplier / (high - low)
        } else {
            0.0
        };
        Self { low, high, factor }
    }

    fn value(&self, raw: f64) -> f64 {
        self.factor * (raw.clamp(self.low, self.high) - self.low)
    }

    /// The most that a term can have gained for any host when its scale went from `self` to `now`.
    ///
    /// Both are linear between the ends of `now`, and every host lies between them, so the most is
    /// gained at one end.
    fn gain(&self, now: &Self) -> f64 {
        let gained = |raw: f64| now.factor * (raw - now.low) - self.factor * (raw - self.low);
        gained(now.low).max(gained(now.high))
    }
}

/// What is kept about each of some blocks, or of some groups: one entry each in every list.
#[derive(Clone, Debug, Default)]
struct Summaries {
    /// The best score of a feasible host; minus infinity without one.
    best: Vec<f64>,
    /// The largest raw value of each term.
    highs: Vec<Vec<f64>>,
    /// The smallest raw value of each term.
    lows: Vec<Vec<f64>>,
}

impl Summaries {
    fn resize(&mut self, terms: usize, count: usize) {
        self.best.resize(count, f64::NEG_INFINITY);
        self.highs.resize_with(terms, Vec::new);
        self.lows.resize_with(terms, Vec::new);
        self.highs
            .iter_mut()
            .for_each(|highs| highs.resize(count, f64::NEG_INFINITY));
        self.lows
            .iter_mut()
            .for_each(|lows| lows.resize(count, f64::INFINITY));
    }

    fn widen(&mut self, index: usize, best: f64, raws: impl Iterator<Item = f64>) {
        self.best[index] = larger(self.best[index], best);
        for (term, raw) in raws.enumerate() {
            self.highs[term][index] = larger(self.highs[term][index], raw);
            self.lows[term][index] = smaller(self.lows[term][index], raw);
        }
    }
}

/// The larger of two numbers, neither of them NaN: one instruction, unlike `f64::max`.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers, neither of them NaN.
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// What is kept for one class of requests.
#[derive(Clone, Debug)]
pub struct Ranking {
    terms: Vec<Term>,
    scales: Vec<Scale>,
    feasible: Vec<u64>,
    feasible_count: usize,
    blocks: Summaries,
    groups: Summaries,
    stale: Vec<bool>,
}

impl Ranking {
    /// Looks at all hosts once: `feasible` has one bit for each.
    #[must_use]
    pub fn new(terms: Vec<Term>, feasible: Vec<u64>, columns: &[Column]) -> Self {
        let mut ranking = Self {
            scales: vec![Scale::new(0.0, 0.0, 0.0); terms.len()],
            terms,
            feasible_count: 0,
            feasible: Vec::new(),
            blocks: Summaries::default(),
            groups: Summaries::default(),
            stale: Vec::new(),
        };
        ranking.grow(feasible.len());
        ranking.feasible_count = feasible.iter().map(|word| word.count_ones() as usize).sum();
        ranking.feasible = feasible;
        for block in 0..ranking.feasible.len() {
            ranking.refresh_ranges(block, columns);
        }
        ranking.regroup();
        let scales = ranking.scales_now(columns, &Without::default());
        ranking.rescore(scales, columns);
        ranking
    }

    /// How many hosts are feasible.
    #[must_use]
    pub fn feasible_count(&self) -> usize {
        self.feasible_count
    }

    /// One bit for each feasible host.
    #[must_use]
    pub fn feasible(&self) -> &[u64] {
        &self.feasible
    }

    /// Whether a host is feasible.
    #[must_use]
    pub fn is_feasible(&self, slot: u32) -> bool {
        let word = self.feasible.get(slot as usize / BLOCK_HOSTS);
        word.is_some_and(|word| word >> (slot as usize % BLOCK_HOSTS) & 1 == 1)
    }

    fn grow(&mut self, blocks: usize) {
        if blocks <= self.stale.len() {
            return;
        }
        self.feasible.resize(blocks, 0);
        self.stale.resize(blocks, false);
        self.blocks.resize(self.terms.len(), blocks);
        self.groups
            .resize(self.terms.len(), blocks.div_ceil(GROUP_BLOCKS));
    }

    /// Takes note of a host that changed: whether it is feasible now, its values being in the
    /// columns already.
    pub fn update(&mut self, slot: u32, is_feasible: bool, columns: &[Column]) {
        let (block, bit) = (slot as usize / BLOCK_HOSTS, slot as usize % BLOCK_HOSTS);
        let was_feasible = self.is_feasible(slot);
        if !was_feasible && !is_feasible {
            return;
        }
        self.grow(block + 1);
        self.stale[block] |= was_feasible;
        if is_feasible {
            self.feasible[block] |= 1 << bit;
            self.feasible_count += usize::from(!was_feasible);
            let mut score = 0.0;
            for (term, scale) in self.terms.iter().zip(&self.scales) {
                // Not clamped: kept scores follow the straight line that `gain` reasons about.
                let raw = bounded(term, columns[term.column].get(slot));
                score += scale.factor * (raw - scale.low);
            }
            let terms = &self.terms;
            let raws = || {
                terms
                    .iter()
                    .map(|term| bounded(term, columns[term.column].get(slot)))
            };
            self.blocks.widen(block, score, raws());
            self.groups.widen(block / GROUP_BLOCKS, score, raws());
        } else {
            self.feasible[block] &= !(1 << bit);
            self.feasible_count -= 1;
        }
    }

    /// Takes the ranges of a block anew.
    fn refresh_ranges(&mut self, block: usize, columns: &[Column]) {
        let mask = self.feasible[block];
        for (number, term) in self.terms.iter().enumerate() {
            let (low, high) = kernel::range(columns[term.column].block(block), mask);
            if mask == 0 {
                self.blocks.highs[number][block] = f64::NEG_INFINITY;
                self.blocks.lows[number][block] = f64::INFINITY;
            } else {
                self.blocks.highs[number][block] = bounded(term, high);
                self.blocks.lows[number][block] = bounded(term, low);
            }
        }
    }

    /// Takes everything about a stale block anew, and about its group.
    fn refresh(&mut self, block: usize, columns: &[Column]) {
        self.refresh_ranges(block, columns);
        self.refresh_best(block, columns);
        self.stale[block] = false;
        self.refresh_group(block / GROUP_BLOCKS);
    }

    fn refresh_best(&mut self, block: usize, columns: &[Column]) {
        let mut scores = [0.0; BLOCK_HOSTS];
        self.score_block(block, columns, &self.scales, &mut scores);
        self.blocks.best[block] = kernel::best(&scores, self.feasible[block]);
    }

    fn score_block(
        &self,
        block: usize,
        columns: &[Column],
        scales: &[Scale],
        scores: &mut [f64; BLOCK_HOSTS],
    ) {
        for (term, scale) in self.terms.iter().zip(scales) {
            if scale.factor == 0.0 {
                continue;
            }
            let values = columns[term.column].block(block);
            match (term.low, term.high) {
                (None, None) => kernel::add(scores, values, scale.factor, scale.low),
                _ => kernel::add_bounded(
                    scores,
                    values,
                    scale.factor,
                    scale.low,
                    (
                        term.low.unwrap_or(f64::NEG_INFINITY),
                        term.high.unwrap_or(f64::INFINITY),
                    ),
                ),
            }
        }
    }

    fn refresh_group(&mut self, group: usize) {
        let start = group * GROUP_BLOCKS;
        let end = (start + GROUP_BLOCKS).min(self.stale.len());
        let most = |values: &[f64]| values.iter().fold(f64::NEG_INFINITY, |a, b| larger(a, *b));
        let least = |values: &[f64]| values.iter().fold(f64::INFINITY, |a, b| smaller(a, *b));
        self.groups.best[group] = most(&self.blocks.best[start..end]);
        for term in 0..self.terms.len() {
            self.groups.highs[term][group] = most(&self.blocks.highs[term][start..end]);
            self.groups.lows[term][group] = least(&self.blocks.lows[term][start..end]);
        }
    }

    fn regroup(&mut self) {
        for group in 0..self.groups.best.len() {
            self.refresh_group(group);
        }
    }

    /// Takes all scores anew, on other scales.
    fn rescore(&mut self, scales: Vec<Scale>, columns: &[Column]) {
        self.scales = scales;
        for block in 0..self.stale.len() {
            if self.stale[block] {
                self.refresh_ranges(block, columns);
            }
            self.refresh_best(block, columns);
            self.stale[block] = false;
        }
        self.regroup();
    }
}

/// A raw value within the bounds that its weigher declares.
fn bounded(term: &Term, raw: f64) -> f64 {
    let raw = term.low.map_or(raw, |low| larger(raw, low));
    term.high.map_or(raw, |high| smaller(raw, high))
}
