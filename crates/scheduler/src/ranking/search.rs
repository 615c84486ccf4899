//! Finding the best hosts in a [`Ranking`].

use super::{BLOCK_HOSTS, Column, GROUP_BLOCKS, Ranking, Scale, bounded, kernel, larger, smaller};

/// Opened blocks after which all scores are taken anew, at least; for large fleets one in 64.
const OPENED_MAX: usize = 16;

/// A host and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The host.
    pub slot: u32,
    /// Its score: higher is better. Comparable within one search only.
    pub score: f64,
}

impl Ranked {
    /// Better score first, then lower slot.
    fn precedes(&self, other: &Self) -> bool {
        self.score > other.score || (self.score == other.score && self.slot < other.slot)
    }
}

/// Hosts that one request must not get although its class could.
#[derive(Clone, Debug, Default)]
pub struct Without {
    /// Blocks with a host to leave out, in rising order, and the hosts in them.
    blocks: Vec<(usize, u64)>,
}

impl Without {
    /// Leaves out some hosts.
    pub fn hosts(slots: impl IntoIterator<Item = u32>) -> Self {
        let mut slots: Vec<u32> = slots.into_iter().collect();
        slots.sort_unstable();
        let mut blocks: Vec<(usize, u64)> = Vec::new();
        for slot in slots {
            let (block, bit) = (slot as usize / BLOCK_HOSTS, slot as usize % BLOCK_HOSTS);
            match blocks.last_mut() {
                Some((last, mask)) if *last == block => *mask |= 1 << bit,
                _ => blocks.push((block, 1 << bit)),
            }
        }
        Self { blocks }
    }

    /// Leaves out every host that a mask does not have.
    #[must_use]
    pub fn all_but(mask: &[u64], blocks: usize) -> Self {
        let word = |block: usize| mask.get(block).copied().unwrap_or(0);
        let blocks = (0..blocks).map(|block| (block, !word(block)));
        Self {
            blocks: blocks.filter(|(_, left_out)| *left_out != 0).collect(),
        }
    }

    fn mask(&self, block: usize) -> u64 {
        let place = self
            .blocks
            .binary_search_by_key(&block, |(block, _)| *block);
        place.map_or(0, |place| self.blocks[place].1)
    }

    fn in_group(&self, group: usize) -> &[(usize, u64)] {
        let before = |end: usize| self.blocks.partition_point(|(block, _)| *block < end);
        &self.blocks[before(group * GROUP_BLOCKS)..before((group + 1) * GROUP_BLOCKS)]
    }
}

/// The ends of a term that a search looks for.
#[derive(Clone, Copy)]
enum End {
    High,
    Low,
}

impl Ranking {
    /// The best `count` hosts, best first; equal scores in the order of slots.
    pub fn best(&mut self, count: usize, without: &Without, columns: &[Column]) -> Vec<Ranked> {
        let scales = self.scales_now(columns, without);
        let mut gain = self.gain(&scales);
        let mut found: Vec<Ranked> = Vec::with_capacity(count + 1);
        let mut opened: Vec<usize> = Vec::new();
        while let Some((block, bound)) = self.next_block(&opened) {
            if let Some(last) = found.get(count.wrapping_sub(1)) {
                let most = bound + gain;
                let tie_is_late = gain == 0.0 && block > last.slot as usize / BLOCK_HOSTS;
                if most < last.score || (most == last.score && tie_is_late) {
                    break;
                }
            }
            if self.stale[block] {
                self.refresh(block, columns);
                continue;
            }
            if gain > 0.0 && opened.len() >= OPENED_MAX.max(self.stale.len() / 64) {
                self.rescore(scales.clone(), columns);
                gain = 0.0;
                continue;
            }
            self.open(block, columns, &scales, without, count, &mut found);
            let place = opened.binary_search(&block).unwrap_or_else(|place| place);
            opened.insert(place, block);
        }
        found
    }

    /// The most that any host's score can have gained since the kept scores were taken.
    fn gain(&self, scales: &[Scale]) -> f64 {
        // Scores on equal scales are equal to the last bit; else leave room for rounding.
        if self.scales == scales {
            return 0.0;
        }
        let gains = self
            .scales
            .iter()
            .zip(scales)
            .map(|(old, new)| old.gain(new));
        let gain = gains.sum::<f64>().max(0.0);
        gain + 1e-9 * (1.0 + gain)
    }

    /// The scores of some hosts, whatever their rank.
    pub fn score(&mut self, slots: &[u32], without: &Without, columns: &[Column]) -> Vec<Ranked> {
        let scales = self.scales_now(columns, without);
        let score = |slot: u32| {
            let terms = self.terms.iter().zip(&scales);
            terms
                .map(|(term, scale)| scale.value(columns[term.column].get(slot)))
                .sum()
        };
        slots
            .iter()
            .map(|slot| Ranked {
                slot: *slot,
                score: score(*slot),
            })
            .collect()
    }

    /// Puts the hosts of a block among those found.
    fn open(
        &self,
        block: usize,
        columns: &[Column],
        scales: &[Scale],
        without: &Without,
        count: usize,
        found: &mut Vec<Ranked>,
    ) {
        let mut scores = [0.0; BLOCK_HOSTS];
        self.score_block(block, columns, scales, &mut scores);
        let mut mask = self.feasible[block] & !without.mask(block);
        let base = u32::try_from(block * BLOCK_HOSTS).unwrap_or(u32::MAX);
        while mask != 0 {
            let bit = mask.trailing_zeros();
            mask &= mask - 1;
            let host = Ranked {
                slot: base + bit,
                score: scores[bit as usize],
            };
            if found.len() == count && found.last().is_none_or(|last| !host.precedes(last)) {
                continue;
            }
            let place = found.partition_point(|other| other.precedes(&host));
            found.insert(place, host);
            found.truncate(count);
        }
    }

    /// The unopened block with the best kept score, the first of several.
    fn next_block(&self, opened: &[usize]) -> Option<(usize, f64)> {
        let mut top = (usize::MAX, f64::NEG_INFINITY);
        for group in 0..self.groups.best.len() {
            if self.groups.best[group] <= top.1 {
                continue;
            }
            let first = opened.partition_point(|block| *block < group * GROUP_BLOCKS);
            let opened_here = opened
                .get(first)
                .is_some_and(|b| *b / GROUP_BLOCKS == group);
            let start = group * GROUP_BLOCKS;
            let end = (start + GROUP_BLOCKS).min(self.stale.len());
            for block in start..end {
                if self.blocks.best[block] > top.1
                    && !(opened_here && opened.binary_search(&block).is_ok())
                {
                    top = (block, self.blocks.best[block]);
                }
            }
        }
        (top.0 != usize::MAX).then_some(top)
    }

    /// The scales of all terms over the feasible hosts as they are now.
    pub(super) fn scales_now(&mut self, columns: &[Column], without: &Without) -> Vec<Scale> {
        (0..self.terms.len())
            .map(|number| {
                let term = self.terms[number];
                let low = term
                    .low
                    .unwrap_or_else(|| self.end(number, End::Low, columns, without));
                let high = term
                    .high
                    .unwrap_or_else(|| self.end(number, End::High, columns, without));
                if low.is_finite() && high.is_finite() {
                    Scale::new(term.multiplier, low, high)
                } else {
                    Scale::new(0.0, 0.0, 0.0)
                }
            })
            .collect()
    }

    /// One end of a term's range over the feasible hosts but those left out.
    fn end(&mut self, term: usize, end: End, columns: &[Column], without: &Without) -> f64 {
        loop {
            let (block, top) = self.end_block(term, end, columns, without);
            match block {
                // A kept end of a stale block may lie too far out; look at the block and again.
                Some(block) if self.stale[block] => self.refresh(block, columns),
                _ => return top,
            }
        }
    }

    /// The block whose kept end is the outermost, unless that is one with hosts left out.
    fn end_block(
        &self,
        term: usize,
        end: End,
        columns: &[Column],
        without: &Without,
    ) -> (Option<usize>, f64) {
        let (mut top, kept) = match end {
            End::High => (
                f64::NEG_INFINITY,
                (&self.groups.highs[term], &self.blocks.highs[term]),
            ),
            End::Low => (
                f64::INFINITY,
                (&self.groups.lows[term], &self.blocks.lows[term]),
            ),
        };
        let beyond = |a: f64, b: f64| match end {
            End::High => a > b,
            End::Low => a < b,
        };
        let column = &columns[self.terms[term].column];
        for (block, left_out) in &without.blocks {
            let Some(feasible) = self.feasible.get(*block) else {
                continue;
            };
            let mask = feasible & !left_out;
            if mask == 0 {
                continue;
            }
            let (low, high) = kernel::range(column.block(*block), mask);
            top = match end {
                End::High => larger(top, bounded(&self.terms[term], high)),
                End::Low => smaller(top, bounded(&self.terms[term], low)),
            };
        }
        let mut found = None;
        let (groups, blocks) = kept;
        for (group, outermost) in groups.iter().enumerate() {
            if !beyond(*outermost, top) {
                continue;
            }
            let excluded = without.in_group(group);
            let start = group * GROUP_BLOCKS;
            let end = (start + GROUP_BLOCKS).min(blocks.len());
            for (block, kept) in blocks[start..end].iter().enumerate() {
                let block = start + block;
                if beyond(*kept, top) && !excluded.iter().any(|(other, _)| *other == block) {
                    (found, top) = (Some(block), *kept);
                }
            }
        }
        (found, top)
    }
}
