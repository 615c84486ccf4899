//! The best of very many hosts, found again and again without looking at all of them.
//!
//! A [`Ranking`] belongs to one way of weighing: the terms of a score over all hosts that may get
//! work at all. Each search brings a mask of the hosts that will do for its request.
//!
//! The score of a host is the sum of `multiplier * (value - low) / (high - low)`, as in Nova, where
//! `low` and `high` are the term's bounds over the hosts that will do. These bounds differ from
//! request to request and move as hosts fill up, and every score moves with them. So no scores are
//! kept. What is kept, for each block of 64 hosts and for each group of blocks, is the
//! skyline (`skyline.rs`): the few hosts that can be best under any bounds. From it follows
//! what a block can offer under the bounds of the moment, and a search opens only the blocks that
//! can still win.
//!
//! What is kept is never too low: a host that got worse leaves its block marked as stale, and the
//! block is looked at again only when it comes out on top. So a decision costs a handful of blocks
//! and one look at each group; a request that was never seen before costs no more than a repeated
//! one. The worst case, a mask that admits few hosts far from the top, is one pass over the blocks.

use smallvec::SmallVec;

mod kernel;
mod search;
mod skyline;
#[cfg(test)]
mod tests;

pub use search::Ranked;
use skyline::Skyline;

/// Hosts in a block, one bit each in a word of a mask.
pub const BLOCK_HOSTS: usize = 64;
/// Blocks in a group.
const GROUP_BLOCKS: usize = 16;
/// So many blocks of a group may have got worse before its skyline is taken anew.
const OUTDATED_MAX: u32 = 12;

/// One number for each host, by slot; the length is a multiple of [`BLOCK_HOSTS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    values: Vec<f64>,
    /// The first value that was set, which hosts have until they get one of their own.
    usual: f64,
    /// How many hosts have another.
    unusual: usize,
}

impl Column {
    /// The value of a host.
    #[must_use]
    pub fn get(&self, slot: u32) -> f64 {
        self.values
            .get(slot as usize)
            .copied()
            .unwrap_or(self.usual)
    }

    /// The value that all hosts have, if they all have the same.
    #[must_use]
    pub fn uniform(&self) -> Option<f64> {
        (self.unusual == 0).then_some(self.usual)
    }

    /// Sets the value of a host.
    pub fn set(&mut self, slot: u32, value: f64) {
        if self.values.is_empty() {
            self.usual = value;
        }
        let index = slot as usize;
        if index >= self.values.len() {
            self.values
                .resize((index / BLOCK_HOSTS + 1) * BLOCK_HOSTS, self.usual);
        }
        let is_usual = |value: f64| value.to_bits() == self.usual.to_bits();
        let was_usual = is_usual(self.values[index]);
        if was_usual && !is_usual(value) {
            self.unusual += 1;
        } else if !was_usual && is_usual(value) {
            self.unusual -= 1;
        }
        self.values[index] = value;
    }

    /// Which of the 64 hosts of a block have at least so much.
    #[must_use]
    pub fn at_least(&self, block: usize, least: f64) -> u64 {
        kernel::at_least(self.block(block), least)
    }

    /// The 64 values of a block; zeros, which no mask admits, beyond the last host.
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

impl Term {
    /// A raw value within the bounds that the weigher declares.
    fn bounded(&self, raw: f64) -> f64 {
        let raw = self.low.map_or(raw, |low| larger(raw, low));
        self.high.map_or(raw, |high| smaller(raw, high))
    }

    /// A bounded raw value, turned so that more is better.
    fn turned(&self, raw: f64) -> f64 {
        let raw = self.bounded(raw);
        if self.multiplier < 0.0 { -raw } else { raw }
    }
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

    /// The same for turned values: `-factor * (-raw - -low)` is exactly `factor * (raw - low)`.
    fn turned(&self) -> Self {
        if self.factor < 0.0 {
            Self {
                low: -self.low,
                high: -self.high,
                factor: -self.factor,
            }
        } else {
            *self
        }
    }
}

/// A few numbers, one a term.
type Few<T> = SmallVec<[T; 6]>;

/// What is kept about each of some blocks, or of some groups: one entry each in every list.
#[derive(Clone, Debug, Default)]
struct Summaries {
    skylines: Vec<Skyline>,
    /// The largest bounded raw value of each term; minus infinity without a feasible host.
    highs: Vec<Vec<f64>>,
    /// The smallest bounded raw value of each term; infinity without a feasible host.
    lows: Vec<Vec<f64>>,
}

impl Summaries {
    fn resize(&mut self, terms: usize, count: usize) {
        self.skylines.resize_with(count, Skyline::default);
        self.highs.resize_with(terms, Vec::new);
        self.lows.resize_with(terms, Vec::new);
        self.highs
            .iter_mut()
            .for_each(|highs| highs.resize(count, f64::NEG_INFINITY));
        self.lows
            .iter_mut()
            .for_each(|lows| lows.resize(count, f64::INFINITY));
    }

    /// Takes a host in. True if it is on the skyline.
    fn widen(&mut self, index: usize, raws: &[f64], point: &[f64]) -> bool {
        let is_on_top = self.skylines[index].add(point);
        for (term, raw) in raws.iter().enumerate() {
            self.highs[term][index] = larger(self.highs[term][index], *raw);
            self.lows[term][index] = smaller(self.lows[term][index], *raw);
        }
        is_on_top
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

/// What is kept for one way of weighing.
#[derive(Clone, Debug)]
pub struct Ranking {
    terms: Vec<Term>,
    feasible: Vec<u64>,
    feasible_count: usize,
    blocks: Summaries,
    groups: Summaries,
    stale: Vec<bool>,
    /// How many blocks of each group got worse since the group's skyline was taken.
    outdated: Vec<u32>,
    /// The hosts of each block whose points are on its skyline.
    on_top: Vec<u64>,
    /// Whether a host that is on no skyline can hold an end of a scale.
    has_loose_ends: bool,
}

impl Ranking {
    /// Looks at all hosts once: `feasible` has one bit for each.
    #[must_use]
    pub fn new(terms: Vec<Term>, feasible: Vec<u64>, columns: &[Column]) -> Self {
        let is_loose = |term: &Term| match term.multiplier < 0.0 {
            true => term.high.is_none(),
            false => term.low.is_none(),
        };
        let mut ranking = Self {
            has_loose_ends: terms.iter().any(is_loose),
            terms,
            feasible_count: 0,
            feasible: Vec::new(),
            blocks: Summaries::default(),
            groups: Summaries::default(),
            stale: Vec::new(),
            on_top: Vec::new(),
            outdated: Vec::new(),
        };
        ranking.grow(feasible.len());
        ranking.feasible_count = feasible.iter().map(|word| word.count_ones() as usize).sum();
        ranking.feasible = feasible;
        for block in 0..ranking.feasible.len() {
            ranking.refresh_block(block, columns);
        }
        for group in 0..ranking.groups.skylines.len() {
            ranking.refresh_group(group);
        }
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
        self.on_top.resize(blocks, 0);
        self.outdated.resize(blocks.div_ceil(GROUP_BLOCKS), 0);
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
        // Others get worse without anybody noticing: what is kept speaks of the best.
        let was_on_top = self.on_top[block] >> bit & 1 == 1;
        self.stale[block] |= was_on_top || (was_feasible && self.has_loose_ends);
        if !is_feasible {
            self.feasible[block] &= !(1 << bit);
            self.feasible_count -= 1;
            return;
        }
        self.feasible[block] |= 1 << bit;
        self.feasible_count += usize::from(!was_feasible);
        let raw = |term: &Term| columns[term.column].get(slot);
        let raws: Few<f64> = self
            .terms
            .iter()
            .map(|term| term.bounded(raw(term)))
            .collect();
        let point: Few<f64> = self
            .terms
            .iter()
            .map(|term| term.turned(raw(term)))
            .collect();
        if self.blocks.widen(block, &raws, &point) {
            self.on_top[block] |= 1 << bit;
        }
        self.groups.widen(block / GROUP_BLOCKS, &raws, &point);
    }

    /// Takes everything about a stale block anew, and about its group when that has promised too
    /// much too often: one look at a group's blocks costs far less than joining their skylines.
    fn refresh(&mut self, block: usize, columns: &[Column]) {
        let group = block / GROUP_BLOCKS;
        self.refresh_block(block, columns);
        self.outdated[group] += 1;
        if self.outdated[group] >= OUTDATED_MAX {
            self.refresh_group(group);
        } else {
            self.refresh_group_ends(group);
        }
    }

    fn refresh_block(&mut self, block: usize, columns: &[Column]) {
        let mask = self.feasible[block];
        self.stale[block] = false;
        for (number, term) in self.terms.iter().enumerate() {
            let (low, high) = kernel::range(columns[term.column].block(block), mask);
            let is_empty = mask == 0;
            self.blocks.highs[number][block] = if is_empty {
                f64::NEG_INFINITY
            } else {
                term.bounded(high)
            };
            self.blocks.lows[number][block] = if is_empty {
                f64::INFINITY
            } else {
                term.bounded(low)
            };
        }
        // A host that is good in everything covers most others at the first comparison.
        let first = self.scale_free_best(block, columns);
        let skyline = &mut self.blocks.skylines[block];
        skyline.clear();
        self.on_top[block] = 0;
        let mut point: Few<f64> = SmallVec::from_elem(0.0, self.terms.len());
        let mut add = |bit: usize| {
            for (value, term) in point.iter_mut().zip(&self.terms) {
                *value = term.turned(columns[term.column].block(block)[bit]);
            }
            // A point that is covered later stays marked: that costs a look at worst.
            if skyline.add(&point) {
                self.on_top[block] |= 1 << bit;
            }
        };
        if mask >> first & 1 == 1 {
            add(first);
        }
        let mut rest = mask & !(1 << first);
        while rest != 0 {
            add(rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }

    /// A feasible host of a block that is good in all terms; any if there is none.
    fn scale_free_best(&self, block: usize, columns: &[Column]) -> usize {
        let scales: Few<Scale> = (0..self.terms.len())
            .map(|number| {
                let (low, high) = (
                    self.blocks.lows[number][block],
                    self.blocks.highs[number][block],
                );
                Scale::new(self.terms[number].multiplier, low, high)
            })
            .collect();
        let scores = self.score_block(block, columns, &scales);
        kernel::first_best(&scores, self.feasible[block])
    }

    fn refresh_group_ends(&mut self, group: usize) {
        let start = group * GROUP_BLOCKS;
        let end = (start + GROUP_BLOCKS).min(self.stale.len());
        let most = |values: &[f64]| values.iter().fold(f64::NEG_INFINITY, |a, b| larger(a, *b));
        let least = |values: &[f64]| values.iter().fold(f64::INFINITY, |a, b| smaller(a, *b));
        for term in 0..self.terms.len() {
            self.groups.highs[term][group] = most(&self.blocks.highs[term][start..end]);
            self.groups.lows[term][group] = least(&self.blocks.lows[term][start..end]);
        }
    }

    fn refresh_group(&mut self, group: usize) {
        let start = group * GROUP_BLOCKS;
        let end = (start + GROUP_BLOCKS).min(self.stale.len());
        self.refresh_group_ends(group);
        self.outdated[group] = 0;
        let skyline = &mut self.groups.skylines[group];
        skyline.clear();
        for block in &self.blocks.skylines[start..end] {
            skyline.add_all(block, self.terms.len());
        }
    }

    /// The scores of the 64 hosts of a block.
    fn score_block(
        &self,
        block: usize,
        columns: &[Column],
        scales: &[Scale],
    ) -> [f64; BLOCK_HOSTS] {
        let mut scores = [0.0; BLOCK_HOSTS];
        for (term, scale) in self.terms.iter().zip(scales) {
            if scale.factor == 0.0 {
                continue;
            }
            let values = columns[term.column].block(block);
            let bounds = (term.low.unwrap_or(f64::MIN), term.high.unwrap_or(f64::MAX));
            kernel::add(&mut scores, values, scale.factor, scale.low, bounds);
        }
        scores
    }
}
