//! Finding the best hosts for the requests of a class.

use smallvec::SmallVec;

use placewright_placement::touch::What;

use super::board::Board;
use super::{BLOCK_HOSTS, ChangeLog, Column, Few, Scale, Standing, Term, kernel, larger};

/// Blocks in a group.
const GROUP_BLOCKS: usize = 16;

/// Which of 64 hosts will do for a class of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Those that will do.
    pub sure: u64,
    /// Those that have to be asked one by one.
    pub unsure: u64,
}

/// Says which hosts will do.
pub trait Admission {
    /// The 64 hosts of a block, as far as the class of the request goes. No host is both sure and
    /// unsure.
    fn block(&self, block: usize) -> Admitted;

    /// The hosts of a block that could do for the class if they had room.
    fn kind(&self, block: usize) -> u64;

    /// Whether an unsure host will do for the class. Asked only of hosts that matter.
    fn admits(&self, slot: u32) -> bool;

    /// Which hosts of a mask this one request does not refuse at a glance.
    fn request_block(&self, block: usize, mask: u64) -> u64;

    /// Whether this one request takes a host of which [`Self::request_block`] said yes. Asked only of
    /// hosts that matter.
    fn request_admits(&self, slot: u32) -> bool;
}

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

/// Which end of a term's range is looked for.
#[derive(Clone, Copy)]
enum End {
    Low,
    High,
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

    fn of(self, (low, high): (f64, f64)) -> f64 {
        match self {
            Self::High => high,
            Self::Low => low,
        }
    }
}

/// What was said of blocks and hosts, remembered for those that come up several times.
struct Memo<'a, A> {
    admission: &'a A,
    entries: [Entry; 16],
}

#[derive(Clone, Copy)]
struct Entry {
    block: usize,
    admitted: Admitted,
    /// What the one request leaves of both masks.
    request: u64,
}

impl<'a, A: Admission> Memo<'a, A> {
    fn new(admission: &'a A) -> Self {
        let nothing = Entry {
            block: usize::MAX,
            admitted: Admitted::default(),
            request: 0,
        };
        Self {
            admission,
            entries: [nothing; 16],
        }
    }

    fn entry(&mut self, block: usize) -> &mut Entry {
        let entry = &mut self.entries[block % 16];
        if entry.block != block {
            let admitted = self.admission.block(block);
            let mask = admitted.sure | admitted.unsure;
            let request = match mask {
                0 => 0,
                _ => self.admission.request_block(block, mask),
            };
            *entry = Entry {
                block,
                admitted,
                request,
            };
        }
        entry
    }

    /// The hosts of a block that may do for the class.
    fn class(&mut self, block: usize) -> u64 {
        let admitted = self.entry(block).admitted;
        admitted.sure | admitted.unsure
    }

    /// The hosts of a block that may do for the request.
    fn request(&mut self, block: usize) -> u64 {
        self.entry(block).request
    }

    /// Whether a host that may do for the class does.
    fn class_admits(&mut self, block: usize, bit: usize) -> bool {
        let one = 1 << bit;
        let admitted = self.entry(block).admitted;
        if admitted.unsure & one == 0 {
            return admitted.sure & one != 0;
        }
        let does = self.admission.admits(slot_of(block, bit));
        let entry = self.entry(block);
        entry.admitted.unsure &= !one;
        entry.admitted.sure |= u64::from(does) << bit;
        does
    }

    /// Whether a host that may do for the request, and does for the class, does.
    fn request_admits(&mut self, block: usize, bit: usize) -> bool {
        let entry = self.entry(block);
        if entry.request >> bit & 1 == 0 {
            return false;
        }
        let does = self.admission.request_admits(slot_of(block, bit));
        if !does {
            self.entry(block).request &= !(1 << bit);
        }
        does
    }
}

fn slot_of(block: usize, bit: usize) -> u32 {
    u32::try_from(block * BLOCK_HOSTS + bit).unwrap_or(u32::MAX)
}

/// The best hosts seen so far.
struct Found {
    hosts: Vec<Ranked>,
    count: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.hosts.len() == self.count
    }

    /// Whether a host would be among the best.
    fn takes(&self, host: &Ranked) -> bool {
        !self.is_full() || self.hosts.last().is_some_and(|last| host.precedes(last))
    }

    fn put(&mut self, host: Ranked) {
        let place = self.hosts.partition_point(|other| other.precedes(&host));
        self.hosts.truncate(self.count - 1);
        self.hosts.insert(place, host);
    }

    /// Whether a block whose hosts score at most this can hold one of the best.
    fn wants(&self, block: usize, most: f64) -> bool {
        if !self.is_full() {
            return most > f64::NEG_INFINITY;
        }
        let Some(last) = self.hosts.last() else {
            return false;
        };
        let tie_is_late = block > last.slot as usize / BLOCK_HOSTS;
        most > last.score || (most == last.score && !tie_is_late)
    }
}

/// What is kept for one class of requests.
#[derive(Debug)]
pub struct Ranking {
    /// The hosts that could do for the class if they had room, or more of them: a block is looked at
    /// when one of its hosts came out on top and would not do.
    kind: Vec<u64>,
    /// The hosts that may do for the class.
    mask: Vec<u64>,
    /// The board that `best` is about.
    board: u64,
    /// The best score in each block among the hosts of the mask.
    best: Vec<f64>,
    /// The best in each group of blocks.
    group_best: Vec<f64>,
    /// The blocks in which hosts changed since the best score was taken, one bit each.
    dirty: Vec<u64>,
    /// By term, the hosts that hold its low and its high end, as far as they are known.
    holders: Vec<[Option<Holder>; 2]>,
    /// How much of the change log it knows.
    position: u64,
}

/// A host at the end of a term's range over the hosts that will do for a class.
#[derive(Clone, Copy, Debug)]
struct Holder {
    slot: u32,
    value: f64,
}

impl Ranking {
    /// Looks at all hosts once.
    #[must_use]
    pub fn new<A: Admission>(
        standing: &Standing,
        blocks: usize,
        admission: &A,
        log: &ChangeLog,
    ) -> Self {
        let may_do = |block: usize| {
            let admitted = admission.block(block);
            admitted.sure | admitted.unsure
        };
        Self {
            kind: vec![u64::MAX; blocks],
            mask: (0..blocks).map(may_do).collect(),
            board: 0,
            best: vec![f64::NEG_INFINITY; blocks],
            group_best: vec![f64::NEG_INFINITY; blocks.div_ceil(GROUP_BLOCKS)],
            dirty: vec![0; blocks.div_ceil(64)],
            holders: vec![[None; 2]; standing.terms().len()],
            position: log.end(),
        }
    }

    /// Brings the mask up to date with what changed. False if that is not known any more.
    #[must_use]
    pub fn follow(
        &mut self,
        standing: &Standing,
        blocks: usize,
        log: &ChangeLog,
        columns: &[Column],
    ) -> bool {
        let changed = log
            .since(self.position)
            .filter(|_| self.mask.len() == blocks);
        let Some(changed) = changed else {
            return false;
        };
        let terms = standing.terms();
        let mut watched: SmallVec<[(usize, End, Holder); 8]> = SmallVec::new();
        for (number, holders) in self.holders.iter_mut().enumerate() {
            if terms[number].likes_less() {
                // Its ends move with every claim.
                *holders = [None; 2];
            }
            let both = [End::Low, End::High].into_iter().zip(holders);
            let held = both.filter_map(|(end, holder)| Some((number, end, (*holder)?)));
            watched.extend(held);
        }
        for touched in changed {
            let (block, bit) = (touched.slot as usize / BLOCK_HOSTS, touched.slot % 64);
            if block >= blocks {
                return false;
            }
            self.dirty[block / 64] |= 1 << (block % 64);
            match touched.what {
                What::LessRoom => {}
                What::Room => self.mask[block] |= self.kind[block] & 1 << bit,
                What::Anything => {
                    // More than may do, until somebody looks.
                    self.kind[block] |= 1 << bit;
                    self.mask[block] |= 1 << bit;
                }
            }
            let may_hold = touched.what != What::LessRoom && self.mask[block] >> bit & 1 == 1;
            let value_of = |term: &Term| term.bounded(columns[term.column].get(touched.slot));
            watched.retain(|(number, end, held)| {
                let term = &terms[*number];
                let is_moved = held.slot == touched.slot
                    || (may_hold && end.beyond(value_of(term), held.value));
                if is_moved {
                    self.holders[*number][*end as usize] = None;
                }
                !is_moved
            });
        }
        self.position = log.end();
        true
    }

    /// The best `count` hosts that will do, best first; equal scores in the order of slots.
    pub fn best<A: Admission>(
        &mut self,
        standing: &mut Standing,
        count: usize,
        admission: &A,
        (log, columns): (&ChangeLog, &[Column]),
    ) -> Vec<Ranked> {
        let mut memo = Memo::new(admission);
        let blocks = self.mask.len();
        standing.follow(blocks, log, columns);
        let scales = self.scales_now(standing, columns, &mut memo);
        let board = standing.board(&scales, blocks, log, columns);
        self.mend(board);
        let mut found = Found {
            hosts: Vec::with_capacity(count.min(blocks * BLOCK_HOSTS)),
            count,
        };
        let mut taken: SmallVec<[(usize, f64); 16]> = SmallVec::new();
        while let Some(block) = self.next() {
            let most = self.best[block];
            if !found.wants(block, most) {
                break;
            }
            let scores = board.block(block);
            self.mask[block] &= memo.class(block);
            let exact = kernel::most(scores, self.mask[block]);
            if exact < most {
                self.kind[block] = admission.kind(block);
                self.set_best(block, exact);
                continue;
            }
            offer(block, scores, &mut memo, &mut found);
            self.mask[block] &= memo.class(block);
            taken.push((block, kernel::most(scores, self.mask[block])));
            self.set_best(block, f64::NEG_INFINITY);
        }
        for (block, most) in taken {
            self.set_best(block, most);
        }
        found.hosts
    }

    /// Takes the best scores anew where hosts or the board changed.
    fn mend(&mut self, board: &Board) {
        let is_other = self.board != board.number;
        self.board = board.number;
        if is_other {
            for (block, best) in self.best.iter_mut().enumerate() {
                *best = kernel::most(board.block(block), self.mask[block]);
            }
            self.dirty.fill(0);
            for (group, best) in self.group_best.iter_mut().enumerate() {
                *best = most_of_group(&self.best, group);
            }
            return;
        }
        for word in 0..self.dirty.len() {
            let mut blocks = std::mem::take(&mut self.dirty[word]);
            let mut groups = 0u64;
            while blocks != 0 {
                let place = blocks.trailing_zeros() as usize;
                blocks &= blocks - 1;
                let block = word * 64 + place;
                self.best[block] = kernel::most(board.block(block), self.mask[block]);
                groups |= 1 << (place / GROUP_BLOCKS);
            }
            while groups != 0 {
                let group = word * (64 / GROUP_BLOCKS) + groups.trailing_zeros() as usize;
                groups &= groups - 1;
                self.group_best[group] = most_of_group(&self.best, group);
            }
        }
    }

    fn set_best(&mut self, block: usize, best: f64) {
        let group = block / GROUP_BLOCKS;
        self.best[block] = best;
        self.group_best[group] = most_of_group(&self.best, group);
    }

    /// The block with the best score, the first of several; nothing if nobody may do.
    fn next(&self) -> Option<usize> {
        let group = first_most(&self.group_best)?;
        let start = group * GROUP_BLOCKS;
        let end = (start + GROUP_BLOCKS).min(self.best.len());
        Some(start + first_most(&self.best[start..end])?)
    }

    /// The scales of all terms over the hosts that will do, as they are now.
    fn scales_now<A: Admission>(
        &mut self,
        standing: &Standing,
        columns: &[Column],
        memo: &mut Memo<'_, A>,
    ) -> Few<Scale> {
        let mut scales = Few::new();
        for (number, term) in standing.terms().iter().enumerate() {
            let low = term
                .low
                .unwrap_or_else(|| self.end(number, End::Low, standing, columns, memo));
            let high = term
                .high
                .unwrap_or_else(|| self.end(number, End::High, standing, columns, memo));
            let is_known = low.is_finite() && high.is_finite();
            let (low, high) = if is_known { (low, high) } else { (0.0, 0.0) };
            scales.push(Scale::new(term.multiplier, low, high));
        }
        scales
    }

    /// One end of a term's range over the hosts that will do.
    fn end<A: Admission>(
        &mut self,
        number: usize,
        end: End,
        standing: &Standing,
        columns: &[Column],
        memo: &mut Memo<'_, A>,
    ) -> f64 {
        let known = self.holders[number][end as usize];
        let holder = known.filter(|holder| {
            let (block, bit) = (
                holder.slot as usize / BLOCK_HOSTS,
                holder.slot as usize % 64,
            );
            memo.class(block) >> bit & 1 == 1 && memo.class_admits(block, bit)
        });
        let holder = holder.or_else(|| {
            let admits = |memo: &mut Memo<'_, A>, block, bit| memo.class_admits(block, bit);
            self.holder(number, end, standing, columns, (memo, &admits))
        });
        self.holders[number][end as usize] = holder;
        let Some(holder) = holder else {
            return -end.farthest();
        };
        let (block, bit) = (
            holder.slot as usize / BLOCK_HOSTS,
            holder.slot as usize % 64,
        );
        if memo.request_admits(block, bit) {
            return holder.value;
        }
        let admits = |memo: &mut Memo<'_, A>, block, bit| {
            memo.class_admits(block, bit) && memo.request_admits(block, bit)
        };
        let found = self.holder(number, end, standing, columns, (memo, &admits));
        found.map_or(-end.farthest(), |holder| holder.value)
    }

    /// The host at an end of a term's range over the hosts of the mask that are admitted.
    fn holder<A: Admission>(
        &mut self,
        number: usize,
        end: End,
        standing: &Standing,
        columns: &[Column],
        (memo, admits): (&mut Memo<'_, A>, &Admits<'_, A>),
    ) -> Option<Holder> {
        let term = &standing.terms()[number];
        let ends = standing.ends(number);
        let kept = match end {
            End::Low => ends.0,
            End::High => ends.1,
        };
        let mut found: Option<Holder> = None;
        let is_beyond = |value: f64, found: &Option<Holder>| {
            found.is_none_or(|found| end.beyond(value, found.value))
        };
        // The block that lies farthest out comes first: then most others need no look.
        let first = (0..kept.len()).reduce(|top, block| {
            if end.beyond(kept[block], kept[top]) {
                block
            } else {
                top
            }
        })?;
        for block in std::iter::once(first).chain(0..kept.len()) {
            if !is_beyond(kept[block], &found) || self.mask[block] == 0 {
                continue;
            }
            let values = columns[term.column].block(block);
            let mut rest = self.mask[block];
            while rest != 0 {
                let here = end.of(kernel::range(values, rest));
                let value = term.bounded(here);
                if !is_beyond(value, &found) {
                    break;
                }
                let holders = rest
                    & match end {
                        End::High => kernel::at_least(values, here),
                        End::Low => kernel::at_most(values, here),
                    };
                let bit = holders.trailing_zeros() as usize;
                rest &= !(1u64 << bit);
                rest &= memo.class(block);
                self.mask[block] &= memo.class(block);
                if admits(memo, block, bit) {
                    let slot = slot_of(block, bit);
                    found = Some(Holder { slot, value });
                }
            }
        }
        found
    }
}

/// Whether a host of a block will do.
type Admits<'a, A> = dyn Fn(&mut Memo<'_, A>, usize, usize) -> bool + 'a;

fn most_of_group(best: &[f64], group: usize) -> f64 {
    let start = group * GROUP_BLOCKS;
    let end = (start + GROUP_BLOCKS).min(best.len());
    best[start..end]
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, larger)
}

/// The place of the largest number, the first of several; nothing if there is only minus infinity.
fn first_most(numbers: &[f64]) -> Option<usize> {
    let mut tops = [f64::NEG_INFINITY; 4];
    let chunks = numbers.chunks_exact(4);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (top, number) in tops.iter_mut().zip(chunk) {
            *top = larger(*top, *number);
        }
    }
    let top = tops
        .iter()
        .chain(rest)
        .copied()
        .fold(f64::NEG_INFINITY, larger);
    if top == f64::NEG_INFINITY {
        return None;
    }
    numbers.iter().position(|number| *number == top)
}

/// Offers the hosts of a block, the best first.
fn offer<A: Admission>(
    block: usize,
    scores: &[f64; BLOCK_HOSTS],
    memo: &mut Memo<'_, A>,
    found: &mut Found,
) {
    let mut mask = memo.request(block);
    if let Some(last) = found.hosts.last().filter(|_| found.is_full()) {
        mask &= kernel::at_least(scores, last.score);
    }
    while let Some(bit) = kernel::first_best(scores, mask) {
        mask &= !(1 << bit);
        let host = Ranked {
            slot: slot_of(block, bit),
            score: scores[bit],
        };
        if !found.takes(&host) {
            return;
        }
        if memo.class_admits(block, bit) && memo.request_admits(block, bit) {
            found.put(host);
        }
    }
}
