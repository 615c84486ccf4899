//! Finding the best hosts in a [`Ranking`] that a request's mask admits.

use smallvec::SmallVec;

use super::{BLOCK_HOSTS, Column, Few, GROUP_BLOCKS, Ranking, Scale, Term, kernel};

/// Blocks taken in order of promise before a search goes through all that are left in a row: an
/// ordered pick costs about as much as passing over fifty blocks.
const PICKS_MAX: usize = 12;

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

/// What each group of blocks, and each block of the groups looked into, can offer.
struct Promises {
    groups: SmallVec<[f64; 16]>,
    /// The groups looked into, with their blocks.
    inside: SmallVec<[(usize, [f64; GROUP_BLOCKS]); 4]>,
}

impl Promises {
    fn new(ranking: &Ranking, turned: &[Scale]) -> Self {
        let skylines = ranking.groups.skylines.iter();
        let groups = skylines.map(|skyline| skyline.most(turned)).collect();
        Self {
            groups,
            inside: SmallVec::new(),
        }
    }

    /// The block that promises most, the first of several.
    fn next(&mut self, ranking: &Ranking, turned: &[Scale]) -> Option<(usize, f64)> {
        loop {
            let group = first_most(&self.groups)?;
            if let Some((_, blocks)) = self.inside.iter().find(|(inside, _)| *inside == group) {
                let place = first_most(blocks)?;
                return Some((group * GROUP_BLOCKS + place, blocks[place]));
            }
            let mut blocks = [f64::NEG_INFINITY; GROUP_BLOCKS];
            let skylines = ranking.blocks.skylines[group * GROUP_BLOCKS..].iter();
            for (most, skyline) in blocks.iter_mut().zip(skylines) {
                *most = skyline.most(turned);
            }
            self.inside.push((group, blocks));
            self.set_group(group);
        }
    }

    /// Takes a block's promise anew.
    fn renew(&mut self, ranking: &Ranking, turned: &[Scale], block: usize) {
        self.set(block, ranking.blocks.skylines[block].most(turned));
    }

    /// Forgets a block.
    fn strike(&mut self, block: usize) {
        self.set(block, f64::NEG_INFINITY);
    }

    fn set(&mut self, block: usize, most: f64) {
        let group = block / GROUP_BLOCKS;
        if let Some((_, blocks)) = self.inside.iter_mut().find(|(inside, _)| *inside == group) {
            blocks[block % GROUP_BLOCKS] = most;
            self.set_group(group);
        }
    }

    fn set_group(&mut self, group: usize) {
        if let Some((_, blocks)) = self.inside.iter().find(|(inside, _)| *inside == group) {
            self.groups[group] =
                first_most(blocks).map_or(f64::NEG_INFINITY, |place| blocks[place]);
        }
    }
}

/// The place of the largest number, the first of several; nothing if there is only minus infinity.
fn first_most(numbers: &[f64]) -> Option<usize> {
    let mut top = (None, f64::NEG_INFINITY);
    for (place, number) in numbers.iter().enumerate() {
        if *number > top.1 {
            top = (Some(place), *number);
        }
    }
    top.0
}

/// Which end of a term's range is looked for.
#[derive(Clone, Copy)]
enum End {
    High,
    Low,
}

impl End {
    fn farthest(self) -> f64 {
        match self {
            Self::High => f64::INFINITY,
            Self::Low => f64::NEG_INFINITY,
        }
    }

    fn beyond(self, a: f64, b: f64) -> bool {
        match self {
            Self::High => a > b,
            Self::Low => a < b,
        }
    }
}

/// A request's mask, remembered for the blocks that are asked for several times.
struct Memo<'a, M> {
    mask: &'a M,
    entries: [(usize, u64); 16],
}

impl<'a, M: Fn(usize) -> u64> Memo<'a, M> {
    fn new(mask: &'a M) -> Self {
        Self {
            mask,
            entries: [(usize::MAX, 0); 16],
        }
    }

    fn word(&mut self, block: usize) -> u64 {
        let entry = &mut self.entries[block % 16];
        if entry.0 != block {
            *entry = (block, (self.mask)(block));
        }
        entry.1
    }
}

/// The best hosts seen so far.
struct Found {
    hosts: Vec<Ranked>,
    count: usize,
}

impl Found {
    fn offer(&mut self, host: Ranked) {
        let is_full = self.hosts.len() == self.count;
        if is_full && self.hosts.last().is_none_or(|last| !host.precedes(last)) {
            return;
        }
        let place = self.hosts.partition_point(|other| other.precedes(&host));
        self.hosts.insert(place, host);
        self.hosts.truncate(self.count);
    }

    /// Whether a block whose hosts score at most this can hold one of the best.
    fn wants(&self, block: usize, most: f64) -> bool {
        if self.hosts.len() < self.count {
            return true;
        }
        let Some(last) = self.hosts.last() else {
            return false;
        };
        let tie_is_late = block > last.slot as usize / BLOCK_HOSTS;
        most > last.score || (most == last.score && !tie_is_late)
    }
}

impl Ranking {
    /// The best `count` hosts that the mask admits, best first; equal scores in the order of slots.
    ///
    /// `mask` says for a block which of its 64 hosts will do.
    pub fn best<M: Fn(usize) -> u64>(
        &mut self,
        count: usize,
        mask: &M,
        columns: &[Column],
    ) -> Vec<Ranked> {
        let mut memo = Memo::new(mask);
        let scales = self.scales_now(columns, &mut memo);
        let turned: Few<Scale> = scales.iter().map(Scale::turned).collect();
        let mut found = Found {
            hosts: Vec::with_capacity(count + 1),
            count,
        };
        let mut promises = Promises::new(self, &turned);
        let mut picked: SmallVec<[usize; PICKS_MAX]> = SmallVec::new();
        while picked.len() < PICKS_MAX {
            let Some((block, most)) = promises.next(self, &turned) else {
                return found.hosts;
            };
            if !found.wants(block, most) {
                return found.hosts;
            }
            if self.stale[block] {
                self.refresh(block, columns);
                promises.renew(self, &turned, block);
                continue;
            }
            self.open(block, columns, &scales, &mut memo, &mut found);
            promises.strike(block);
            picked.push(block);
        }
        self.sweep(columns, (&scales, &turned), &picked, &mut memo, &mut found);
        found.hosts
    }

    /// The scores of some hosts as [`Self::best`] would give them under this mask.
    pub fn score<M: Fn(usize) -> u64>(
        &mut self,
        slots: &[u32],
        mask: &M,
        columns: &[Column],
    ) -> Vec<Ranked> {
        let scales = self.scales_now(columns, &mut Memo::new(mask));
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

    /// Goes through all blocks but those picked.
    fn sweep<M: Fn(usize) -> u64>(
        &self,
        columns: &[Column],
        (scales, turned): (&[Scale], &[Scale]),
        picked: &[usize],
        memo: &mut Memo<'_, M>,
        found: &mut Found,
    ) {
        for group in 0..self.groups.skylines.len() {
            let start = group * GROUP_BLOCKS;
            if !found.wants(start, self.groups.skylines[group].most(turned)) {
                continue;
            }
            for block in start..(start + GROUP_BLOCKS).min(self.stale.len()) {
                let wanted = found.wants(block, self.blocks.skylines[block].most(turned));
                // A stale block promises too much at worst: opening it costs less than taking its
                // skyline anew.
                if wanted && memo.word(block) != 0 && !picked.contains(&block) {
                    self.open(block, columns, scales, memo, found);
                }
            }
        }
    }

    /// Offers the hosts of a block.
    fn open<M: Fn(usize) -> u64>(
        &self,
        block: usize,
        columns: &[Column],
        scales: &[Scale],
        memo: &mut Memo<'_, M>,
        found: &mut Found,
    ) {
        let mut mask = self.feasible[block] & memo.word(block);
        if mask == 0 {
            return;
        }
        let scores = self.score_block(block, columns, scales);
        if let Some(last) = found
            .hosts
            .last()
            .filter(|_| found.hosts.len() == found.count)
        {
            mask &= kernel::at_least(&scores, last.score);
        }
        let base = u32::try_from(block * BLOCK_HOSTS).unwrap_or(u32::MAX);
        while mask != 0 {
            let bit = mask.trailing_zeros();
            mask &= mask - 1;
            found.offer(Ranked {
                slot: base + bit,
                score: scores[bit as usize],
            });
        }
    }

    /// The scales of all terms over the hosts of the mask as they are now.
    fn scales_now<M: Fn(usize) -> u64>(
        &mut self,
        columns: &[Column],
        memo: &mut Memo<'_, M>,
    ) -> Few<Scale> {
        let mut scales = Few::new();
        for number in 0..self.terms.len() {
            let term = self.terms[number];
            let low = term
                .low
                .unwrap_or_else(|| self.end(number, End::Low, columns, memo));
            let high = term
                .high
                .unwrap_or_else(|| self.end(number, End::High, columns, memo));
            let is_known = low.is_finite() && high.is_finite();
            let (low, high) = if is_known { (low, high) } else { (0.0, 0.0) };
            scales.push(Scale::new(term.multiplier, low, high));
        }
        scales
    }

    /// One end of a term's range over the hosts of the mask.
    fn end<M: Fn(usize) -> u64>(
        &mut self,
        number: usize,
        end: End,
        columns: &[Column],
        memo: &mut Memo<'_, M>,
    ) -> f64 {
        let term = self.terms[number];
        let mut found = -end.farthest();
        let mut picked: SmallVec<[usize; PICKS_MAX]> = SmallVec::new();
        while picked.len() < PICKS_MAX {
            let (groups, blocks) = self.ends(number, end);
            let next = outermost(end, groups, blocks, &picked);
            let Some((block, kept)) = next.filter(|(_, kept)| end.beyond(*kept, found)) else {
                return found;
            };
            if self.stale[block] {
                self.refresh(block, columns);
                continue;
            }
            let mask = self.feasible[block] & memo.word(block);
            if mask == self.feasible[block] {
                // The kept end is one of a host that will do, and no other lies farther out.
                return kept;
            }
            self.widen_end(&term, end, (block, mask), columns, &mut found);
            picked.push(block);
        }
        for block in 0..self.stale.len() {
            if end.beyond(self.ends(number, end).1[block], found) && !picked.contains(&block) {
                let mask = self.feasible[block] & memo.word(block);
                self.widen_end(&term, end, (block, mask), columns, &mut found);
            }
        }
        found
    }

    fn ends(&self, number: usize, end: End) -> (&[f64], &[f64]) {
        match end {
            End::High => (&self.groups.highs[number], &self.blocks.highs[number]),
            End::Low => (&self.groups.lows[number], &self.blocks.lows[number]),
        }
    }

    fn widen_end(
        &self,
        term: &Term,
        end: End,
        (block, mask): (usize, u64),
        columns: &[Column],
        found: &mut f64,
    ) {
        if mask == 0 {
            return;
        }
        let (low, high) = kernel::range(columns[term.column].block(block), mask);
        let here = term.bounded(if matches!(end, End::High) { high } else { low });
        if end.beyond(here, *found) {
            *found = here;
        }
    }
}

/// The block not yet picked whose kept value lies farthest out, the first of several.
fn outermost(end: End, groups: &[f64], blocks: &[f64], picked: &[usize]) -> Option<(usize, f64)> {
    let mut top = (usize::MAX, -end.farthest());
    for (group, kept) in groups.iter().enumerate() {
        if !end.beyond(*kept, top.1) {
            continue;
        }
        let start = group * GROUP_BLOCKS;
        let members = &blocks[start..(start + GROUP_BLOCKS).min(blocks.len())];
        for (block, kept) in members.iter().enumerate() {
            if end.beyond(*kept, top.1) && !picked.contains(&(start + block)) {
                top = (start + block, *kept);
            }
        }
    }
    (top.0 != usize::MAX).then_some(top)
}
