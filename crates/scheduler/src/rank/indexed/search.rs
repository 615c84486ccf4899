//! Searches the best hosts for the requests of a class.

use placewright_placement::touch::What;

use super::board::Board;
use super::bounds::Bounds;
use super::changes::Position;
use super::end::{End, Holder, Side};
use super::frontier::Frontier;
use super::memo::{Memo, slot_of};
use super::{Few, Fleet, Scale, Standing};
use crate::block::{self, BLOCK_HOSTS, larger};
use crate::rank::Ranked;
use crate::rank::admission::Admission;

/// An upper bound of the rounding error of a score, for a multiplier of 1; the real error is far
/// smaller.
const ROUNDING: f64 = 1e-12;

/// The cache for one class of requests.
#[derive(Debug)]
pub struct Ranking {
    who: Who,
    /// The scales under which `bounds` are valid.
    scales: Few<Scale>,
    /// Upper bounds of the scores of the mask's hosts.
    bounds: Bounds,
    /// The ends of ranges that no weigher declares.
    ends: Vec<End>,
    /// The position in the change log up to which masks and ends are valid.
    position: Position,
    /// The position up to which the bounds of scores are valid.
    scored: Position,
}

/// Supersets of the feasible hosts of the class.
#[derive(Debug)]
struct Who {
    /// A superset of the hosts that satisfy everything but capacity. A host that gains capacity is
    /// put back into `mask` only if it is in here.
    kind: Vec<u64>,
    /// A superset of the feasible hosts.
    mask: Vec<u64>,
    /// Whether `kind` is narrowed; not for a request that most likely never comes again.
    knows_kind: bool,
}

impl Who {
    /// Removes the hosts of a block that are infeasible now, and returns the remaining ones.
    fn narrow<A: Admission>(&mut self, block: usize, memo: &mut Memo<'_, A>) -> u64 {
        let class = memo.class(block);
        let mask = &mut self.mask[block];
        if *mask & !class != 0 {
            *mask &= class;
            if self.knows_kind {
                self.kind[block] = memo.kind(block);
            }
        }
        *mask
    }

    /// Removes a host that failed the exact test, and the other infeasible hosts of its block.
    fn refuse<A: Admission>(&mut self, block: usize, bit: usize, memo: &mut Memo<'_, A>) {
        self.narrow(block, memo);
        self.mask[block] &= !(1 << bit);
    }
}

impl Ranking {
    /// As [`Self::start_over`], for a request that most likely never comes again.
    pub fn start_once(&mut self, standing: &Standing, blocks: usize, fleet: &Fleet<'_>) {
        self.start_over(standing, blocks, fleet);
        self.who.knows_kind = false;
    }

    /// A ranking without knowledge: every host counts as possibly feasible.
    #[must_use]
    pub fn new(standing: &Standing, blocks: usize, fleet: &Fleet<'_>) -> Self {
        let mut ranking = Self {
            who: Who {
                kind: Vec::new(),
                mask: Vec::new(),
                knows_kind: true,
            },
            scales: Few::new(),
            bounds: Bounds::default(),
            ends: Vec::new(),
            position: Position::default(),
            scored: Position::default(),
        };
        ranking.start_over(standing, blocks, fleet);
        ranking
    }

    /// Resets the ranking for another class; as [`Self::new`], but reuses the memory.
    pub fn start_over(&mut self, standing: &Standing, blocks: usize, fleet: &Fleet<'_>) {
        for words in [&mut self.who.kind, &mut self.who.mask] {
            words.clear();
            words.resize(blocks, u64::MAX);
        }
        self.who.knows_kind = true;
        self.scales.clear();
        self.bounds.reset(blocks, f64::INFINITY);
        self.position = fleet.log.end();
        End::start_over(&mut self.ends, standing.terms(), blocks, self.position);
        self.scored = fleet.log.end();
    }

    /// Updates the masks from the change log. False if the log no longer reaches back far enough,
    /// or the number of blocks changed; then start over.
    #[must_use]
    pub fn follow(&mut self, blocks: usize, fleet: &Fleet<'_>) -> bool {
        let is_same = |_: &_| self.bounds.len() == blocks;
        let Some(changed) = fleet.log.since(self.position).filter(is_same) else {
            return false;
        };
        let Who { kind, mask, .. } = &mut self.who;
        for touched in changed.gains {
            let (block, bit) = (touched.slot as usize / BLOCK_HOSTS, touched.slot % 64);
            if block >= blocks {
                return false;
            }
            // A host that may have changed in any respect counts as possibly feasible until it is
            // tested.
            kind[block] |= u64::from(touched.what == What::Anything) << bit;
            mask[block] |= kind[block] & 1 << bit;
        }
        self.position = fleet.log.end();
        true
    }

    /// The best `count` feasible hosts, best first; equal scores in the order of slots.
    pub fn best<A: Admission>(
        &mut self,
        standing: &mut Standing,
        count: usize,
        admission: &A,
        fleet: &Fleet<'_>,
    ) -> Vec<Ranked> {
        let mut memo = Memo::new(admission);
        let blocks = self.bounds.len();
        standing.follow(blocks, fleet);
        let mut frontier = standing.take_frontier();
        let scales = self.scales_now(standing, fleet, &mut memo, &mut frontier);
        self.rescale(standing, &scales);
        let prefers_room = standing.prefers_room();
        let board = standing.board(&scales, blocks, fleet);
        self.raise(board, prefers_room, fleet);
        let mut found = Vec::with_capacity(count.min(blocks * BLOCK_HOSTS));
        frontier.start(&self.bounds, board.tops());
        while found.len() < count
            && let Some((block, bound)) = frontier.next(&mut self.bounds, board.tops())
        {
            let scores = board.block(block);
            let dealt_with = frontier.dealt_with(block);
            let left = self.who.mask[block] & !dealt_with;
            let most = block::most(scores, left);
            if most < bound {
                if dealt_with == 0 {
                    self.bounds.lower(block, most);
                }
                frontier.set(block, most);
                continue;
            }
            // Only this host is tested: it is most likely feasible, and its neighbours are not
            // needed.
            let bit = (block::at_least(scores, most) & left).trailing_zeros() as usize;
            if !memo.class_admits(block, bit) {
                self.who.refuse(block, bit, &mut memo);
                continue;
            }
            let mut done = 1 << bit;
            if memo.request_admits(block, bit) {
                let slot = slot_of(block, bit);
                found.push(Ranked { slot, score: most });
            } else {
                // The neighbours are most likely excluded for the same reason, so the whole block
                // is tested.
                done |= left & !memo.request(block);
            }
            frontier.deal_with(block, done);
            frontier.set(block, block::most(scores, left & !done));
        }
        standing.put_frontier(frontier);
        found
    }

    /// Raises the bounds of scores in the blocks of hosts that changed.
    fn raise(&mut self, board: &Board, prefers_room: bool, fleet: &Fleet<'_>) {
        let changed = fleet.log.since(self.scored);
        self.scored = fleet.log.end();
        let Some(changed) = changed else {
            self.bounds.fill(f64::INFINITY);
            return;
        };
        let changed = if prefers_room {
            changed.gains
        } else {
            changed.all
        };
        for touched in changed {
            let (block, bit) = (touched.slot as usize / BLOCK_HOSTS, touched.slot % 64);
            let may_do = self.who.mask[block] >> bit & 1 == 1;
            let score = board.block(block)[bit as usize];
            // Branch-free, as in [`End::follow`].
            let score = if may_do { score } else { f64::NEG_INFINITY };
            self.bounds.raise(block, score);
        }
    }

    /// Adjusts the bounds of scores to other scales, so that they remain upper bounds.
    ///
    /// Where the factor of a term grows, no score in a block grows by more than that of the
    /// block's extreme; where it shrinks, no score grows.
    fn rescale(&mut self, standing: &Standing, scales: &Few<Scale>) {
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
                slack += ROUNDING * standing.terms()[number].multiplier.abs();
                let more = new.factor - old.factor;
                if more > 0.0 {
                    let reaches = standing.reach(number, Side::High).blocks();
                    for (bound, reach) in bounds.iter_mut().zip(reaches) {
                        *bound += more * larger(reach - new.low, 0.0);
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
    fn scales_now<A: Admission>(
        &mut self,
        standing: &Standing,
        fleet: &Fleet<'_>,
        memo: &mut Memo<'_, A>,
        frontier: &mut Frontier,
    ) -> Few<Scale> {
        let mut scales = Few::new();
        let mut ends = self.ends.iter_mut();
        let mut look = |declared: Option<f64>| match declared {
            Some(declared) => declared,
            None => ends.next().map_or(f64::NAN, |end| {
                let search = Search {
                    standing,
                    fleet,
                    who: &mut self.who,
                };
                search.end(end, memo, frontier)
            }),
        };
        for term in standing.terms() {
            let (low, high) = (look(term.low), look(term.high));
            let is_known = low.is_finite() && high.is_finite();
            let (low, high) = if is_known { (low, high) } else { (0.0, 0.0) };
            scales.push(Scale::new(term.multiplier, low, high));
        }
        scales
    }
}

/// A search for one end of a range.
struct Search<'a> {
    standing: &'a Standing,
    fleet: &'a Fleet<'a>,
    who: &'a mut Who,
}

impl Search<'_> {
    /// The end of a term's range over the feasible hosts; infinite if there are none.
    fn end<A: Admission>(
        mut self,
        end: &mut End,
        memo: &mut Memo<'_, A>,
        frontier: &mut Frontier,
    ) -> f64 {
        let place = |holder: &Holder| (holder.slot as usize / BLOCK_HOSTS, holder.slot % 64);
        let term = &self.standing.terms()[end.term];
        if let Some(holder) = &mut end.holder {
            let raw = self.fleet.columns[term.column].get(holder.slot);
            let now = end.side.far(term.bounded(raw));
            let (block, bit) = place(holder);
            if now >= self.standing.farthest(end.term, end.side)
                && memo.class_admits(block, bit as usize)
                && memo.request_admits(block, bit as usize)
            {
                holder.far = now;
                return end.side.far(now);
            }
        }
        end.follow(&self.who.mask, term, self.fleet);
        let holder = end.holder.filter(|holder| {
            let (block, bit) = place(holder);
            memo.class_admits(block, bit as usize)
        });
        let holder = holder.or_else(|| self.holder(end, false, memo, frontier));
        end.holder = holder;
        let found = holder.filter(|holder| {
            let (block, bit) = place(holder);
            memo.request_admits(block, bit as usize)
        });
        let found = match holder {
            Some(_) if found.is_none() => self.holder(end, true, memo, frontier),
            _ => found,
        };
        let far = found.map_or(f64::NEG_INFINITY, |holder| holder.far);
        end.side.far(far)
    }

    /// The feasible host at the extreme: feasible for the class, or for the single request as
    /// well.
    fn holder<A: Admission>(
        &mut self,
        end: &mut End,
        for_request: bool,
        memo: &mut Memo<'_, A>,
        frontier: &mut Frontier,
    ) -> Option<Holder> {
        let term = &self.standing.terms()[end.term];
        let reach = self.standing.reach(end.term, end.side);
        frontier.start(&end.bounds, reach);
        while let Some((block, bound)) = frontier.next(&mut end.bounds, reach) {
            let values = self.fleet.columns[term.column].block(block);
            let mut among = self.who.mask[block];
            let mut far = end.side.reach(term, values, among);
            if far >= bound {
                let mut left = self.who.narrow(block, memo);
                if for_request {
                    left &= memo.request(block);
                }
                if left != among {
                    among = left;
                    far = end.side.reach(term, values, among);
                }
            }
            if far < bound {
                let own = end.side.reach(term, values, self.who.mask[block]);
                end.bounds.lower(block, own);
                frontier.set(block, far);
                continue;
            }
            let bit = end.side.farthest(values, among).trailing_zeros() as usize;
            // A rejected host leaves the masks, and the block comes up again.
            if memo.class_admits(block, bit) && (!for_request || memo.request_admits(block, bit)) {
                let slot = slot_of(block, bit);
                return Some(Holder { slot, far });
            }
        }
        None
    }
}
