//! Roots that nearly fit, and what they lack.

use smallvec::SmallVec;

use super::constraint::Part;
use super::effects::{Ledger, Puzzle};
use super::relaxed::Relaxed;
use crate::hash::Map;
use crate::ids::{ClassId, ProviderId};
use crate::slot_set::bits;

/// Roots that fail the same constraints by the same amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// How many roots.
    pub roots: usize,
    /// One of them.
    pub example: ProviderId,
    /// The places in the list of effects of the constraints that they fail, with what they lack.
    pub lacks: Vec<(usize, Lack)>,
}

/// By how much a constraint is failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// So much more would have to be free.
    Amount(i64),
    /// The condition does not hold.
    Condition,
    /// There is enough, but one allocation may not take this amount of it (`min_unit`, `max_unit`,
    /// `step_size`).
    Units,
    /// There is no inventory of the class.
    Inventory,
}

/// How many kinds of near misses are told.
const MOST: usize = 10;
/// What lacking all that is asked for counts.
const WHOLE: i64 = 1 << 20;

/// The nearest misses so far, nearest first.
#[derive(Default)]
struct Nearest {
    found: Vec<(i64, NearMiss)>,
}

impl Nearest {
    /// Whether a miss of this score could be among the nearest.
    fn could_take(&self, score: i64) -> bool {
        self.found.len() < MOST || self.found.last().is_some_and(|(last, _)| score <= *last)
    }

    fn offer(&mut self, score: i64, roots: usize, example: ProviderId, lacks: Lacks) {
        let same = (self.found.iter_mut()).find(|(_, miss)| miss.lacks[..] == lacks[..]);
        if let Some((_, miss)) = same {
            miss.roots += roots;
            return;
        }
        let place = self.found.partition_point(|(other, _)| *other <= score);
        if place < MOST {
            let miss = NearMiss {
                roots,
                example,
                lacks: lacks.into_vec(),
            };
            self.found.insert(place, (score, miss));
            self.found.truncate(MOST);
        }
    }
}

/// By class: the most that one provider of each tree could give.
type MostFree = Map<ClassId, Vec<i32>>;
/// By constraint: the query without it.
type Rests<'a> = Map<usize, Option<Relaxed<'a>>>;

/// What a root fails and by how much.
type Lacks = SmallVec<[(usize, Lack); 2]>;

impl<'a> Ledger<'a, '_> {
    /// The roots that fail fewest constraints, by what they lack.
    pub(super) fn near_misses(&self) -> Vec<NearMiss> {
        self.renew_allowance();
        let mut nearest = Nearest::default();
        let Some(fewest) = self.fewest_failed() else {
            return Vec::new();
        };
        for (word, hosts) in self.hosts.iter().enumerate() {
            let failing = self.failing(word, fewest) & hosts;
            if fewest > 1 {
                for slot in bits(failing, word) {
                    self.offer_host(ProviderId(slot), &mut nearest);
                }
                continue;
            }
            for (index, served) in self.serve.iter().enumerate() {
                self.offer_hosts(index, failing & !served[word], word, &mut nearest);
            }
        }
        let mut most_free = MostFree::default();
        for (word, trees) in self.trees.iter().enumerate() {
            for root in bits(self.failing(word, fewest) & trees, word).map(ProviderId) {
                self.offer_tree(root, &mut most_free, &mut nearest);
            }
        }
        let mut rests = Rests::default();
        for puzzle in &self.puzzles {
            self.offer_puzzle(puzzle, &mut rests, &mut nearest);
        }
        nearest.found.into_iter().map(|(_, miss)| miss).collect()
    }

    /// How many constraints each of 64 roots fails alone, as the digits of binary numbers.
    fn failures(&self, word: usize) -> SmallVec<[u64; 8]> {
        let mut digits: SmallVec<[u64; 8]> = SmallVec::new();
        for served in &self.serve {
            let mut carry = !served[word];
            for digit in &mut digits {
                (*digit, carry) = (*digit ^ carry, *digit & carry);
            }
            if carry != 0 {
                digits.push(carry);
            }
        }
        digits
    }

    /// Which of 64 roots fail exactly so many constraints alone.
    fn failing(&self, word: usize, count: usize) -> u64 {
        let digits = self.failures(word);
        if count >> digits.len() != 0 {
            return 0;
        }
        let roots = self.state.roots().word(word);
        (digits.iter().enumerate()).fold(roots, |mask, (place, digit)| {
            mask & if count >> place & 1 == 1 {
                *digit
            } else {
                !digit
            }
        })
    }

    fn failed(&self, root: ProviderId) -> impl Iterator<Item = usize> + '_ {
        (0..self.serve.len()).filter(move |index| !self.serves(*index, root))
    }

    /// The least number of constraints that a root fails; nothing when no root fails any.
    fn fewest_failed(&self) -> Option<usize> {
        if !self.puzzles.is_empty() {
            return Some(1);
        }
        let mut fewest = self.serve.len() + 1;
        for word in 0..self.hosts.len() {
            while let Some(fewer) = (1..fewest).find(|count| self.failing(word, *count) != 0) {
                fewest = fewer;
            }
        }
        (fewest <= self.serve.len()).then_some(fewest)
    }

    /// Offers hosts that fail one constraint only.
    fn offer_hosts(&self, index: usize, failing: u64, word: usize, nearest: &mut Nearest) {
        let Some(first) = bits(failing, word).next().map(ProviderId) else {
            return;
        };
        let (Part::Resource(_, class, amount) | Part::Together(class, amount)) =
            self.parts.parts[index]
        else {
            let lacks = Lacks::from_slice(&[(index, Lack::Condition)]);
            nearest.offer(WHOLE, failing.count_ones() as usize, first, lacks);
            return;
        };
        let block = self.state.column(class).block(word);
        for slot in bits(failing, word) {
            let headroom = block.map_or(-1, |block| block.headroom[slot as usize % 64]);
            if nearest.could_take(least_score(amount, headroom)) {
                let lacks = Lacks::from_slice(&[(index, self.lack(index, &[ProviderId(slot)]))]);
                self.offer(1, ProviderId(slot), lacks, nearest);
            }
        }
    }

    /// Offers a host that fails several constraints.
    fn offer_host(&self, root: ProviderId, nearest: &mut Nearest) {
        let mut bound = 0;
        for index in self.failed(root) {
            bound += match self.parts.parts[index] {
                Part::Resource(_, class, amount) | Part::Together(class, amount) => {
                    let block = self.state.column(class).block(root.index() / 64);
                    let headroom = block.map_or(-1, |block| block.headroom[root.index() % 64]);
                    least_score(amount, headroom)
                }
                _ => WHOLE,
            };
        }
        if nearest.could_take(bound) {
            let lacks = self
                .failed(root)
                .map(|index| (index, self.lack(index, &[root])));
            self.offer(1, root, lacks.collect(), nearest);
        }
    }

    /// Offers a tree by what it lacks of the constraints that it fails alone.
    fn offer_tree(&self, root: ProviderId, most_free: &mut MostFree, nearest: &mut Nearest) {
        let mut bound = 0;
        for index in self.failed(root) {
            bound += match self.parts.parts[index] {
                Part::Resource(_, class, amount) | Part::Together(class, amount) => {
                    let most = most_free
                        .entry(class)
                        .or_insert_with(|| self.most_free(class));
                    least_score(amount, most[root.index()])
                }
                _ => WHOLE,
            };
        }
        if nearest.could_take(bound) {
            let members = self.state.subtree(root);
            let lacks = self
                .failed(root)
                .map(|index| (index, self.lack(index, &members)));
            self.offer(1, root, lacks.collect(), nearest);
        }
    }

    /// By slot of a tree's root: the most that one of its providers could give of a class.
    fn most_free(&self, class: ClassId) -> Vec<i32> {
        let mut most = vec![-1; self.state.provider_slots()];
        for (word, trees) in self.trees.iter().enumerate() {
            let Some(block) = self.state.column(class).block(word) else {
                continue;
            };
            let nested = self.state.nested().word(word);
            for slot in bits(trees | nested, word) {
                let bit = slot % 64;
                let root = if nested >> bit & 1 == 1 {
                    self.root_of[slot as usize]
                } else {
                    ProviderId(slot)
                };
                let most = &mut most[root.index()];
                *most = (*most).max(block.headroom[bit as usize]);
            }
        }
        most
    }

    /// Each constraint can be served, but not all at once: which one is too much?
    fn offer_puzzle(&self, puzzle: &Puzzle, rests: &mut Rests<'a>, nearest: &mut Nearest) {
        // Those after the end do not matter: what is up to it cannot be served.
        for dropped in 0..=puzzle.end {
            // All before the last are served, that was found out.
            let is_last = dropped + 1 == self.serve.len();
            let fits = is_last
                || self.may_search()
                    && rests
                        .entry(dropped)
                        .or_insert_with(|| self.relaxed(|index| index != dropped))
                        .as_mut()
                        .is_some_and(|rest| rest.tree_fits(puzzle.example));
            if fits {
                let lack = match self.parts.parts[dropped] {
                    Part::Resource(_, _, amount) => Lack::Amount(amount),
                    _ => Lack::Condition,
                };
                let lacks = Lacks::from_slice(&[(dropped, lack)]);
                self.offer(puzzle.roots, puzzle.example, lacks, nearest);
                return;
            }
        }
    }

    fn offer(&self, roots: usize, example: ProviderId, lacks: Lacks, nearest: &mut Nearest) {
        let score = lacks
            .iter()
            .map(|(index, lack)| self.score(*index, *lack))
            .fold(0, i64::saturating_add);
        nearest.offer(score, roots, example, lacks);
    }

    /// What several providers lack of a constraint at least.
    fn lack(&self, index: usize, members: &[ProviderId]) -> Lack {
        match self.parts.parts[index] {
            // Most often there is one, and nothing to compare.
            Part::Resource(_, class, amount) if members.len() == 1 => {
                self.lack_of_class(members[0], class, amount, true)
            }
            Part::Resource(_, class, amount) => members
                .iter()
                .map(|member| self.lack_of_class(*member, class, amount, true))
                .min_by_key(|lack| self.score(index, *lack))
                .unwrap_or(Lack::Inventory),
            Part::Together(class, amount) => members
                .iter()
                .map(|member| self.lack_of_class(*member, class, amount, false))
                .min_by_key(|lack| self.score(index, *lack))
                .unwrap_or(Lack::Inventory),
            _ => Lack::Condition,
        }
    }

    fn lack_of_class(&self, id: ProviderId, class: ClassId, amount: i64, at_once: bool) -> Lack {
        let record = (self.state.provider(id)).and_then(|provider| provider.inventory(class));
        let Some(record) = record else {
            return Lack::Inventory;
        };
        let within = if at_once {
            record.inventory.admits_amount(amount)
        } else {
            amount <= i64::from(record.inventory.max_unit)
        };
        let free = record.capacity.saturating_sub(record.used);
        if !within {
            Lack::Units
        } else if free < amount {
            Lack::Amount(amount - free)
        } else {
            // There is room: something else of the group keeps this provider out.
            Lack::Condition
        }
    }

    /// How far off a lack is; a whole for all that is asked for.
    fn score(&self, index: usize, lack: Lack) -> i64 {
        let asked = match self.parts.parts[index] {
            Part::Resource(_, _, amount) | Part::Together(_, amount) => amount,
            _ => 1,
        };
        match lack {
            Lack::Amount(missing) => share(missing, asked),
            Lack::Condition => WHOLE,
            Lack::Units => WHOLE + 1,
            Lack::Inventory => WHOLE + 2,
        }
    }
}

/// A score that a host's lack is not below, from a column alone.
fn least_score(amount: i64, headroom: i32) -> i64 {
    share(
        amount.saturating_sub(i64::from(headroom.max(0))).max(0),
        amount,
    )
}

/// A part of a whole, at most one.
fn share(missing: i64, asked: i64) -> i64 {
    let share = i128::from(missing) * i128::from(WHOLE) / i128::from(asked.max(1));
    i64::try_from(share.min(i128::from(WHOLE))).unwrap_or(WHOLE)
}
