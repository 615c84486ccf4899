//! Roots that nearly fit, and what they lack.

use smallvec::SmallVec;

use super::constraint::Part;
use super::effects::Ledger;
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

/// What a root fails and by how much.
type Lacks = SmallVec<[(usize, Lack); 2]>;

impl Ledger<'_, '_> {
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
        for root in &self.trees {
            self.offer_tree(*root, fewest, &mut nearest);
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
        let unfit = |root: &&ProviderId| self.fitting_trees.binary_search(root).is_err();
        let puzzled = (self.trees.iter())
            .filter(unfit)
            .any(|root| self.failed(*root).next().is_none());
        if puzzled {
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
                self.offer(ProviderId(slot), lacks, nearest);
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
            self.offer(root, lacks.collect(), nearest);
        }
    }

    fn offer_tree(&self, root: ProviderId, fewest: usize, nearest: &mut Nearest) {
        let failed: SmallVec<[usize; 8]> = self.failed(root).collect();
        if failed.len() == fewest {
            let members = self.state.subtree(root);
            let lacks = failed
                .iter()
                .map(|index| (*index, self.lack(*index, &members)));
            self.offer(root, lacks.collect(), nearest);
        } else if failed.is_empty() && self.fitting_trees.binary_search(&root).is_err() {
            // Each constraint can be served, but not all at once: which one is too much?
            for dropped in 0..self.serve.len() {
                let fits = self.may_search()
                    && self
                        .relaxed_for_few(|index| index != dropped)
                        .is_some_and(|mut rest| rest.tree_fits(root));
                if fits {
                    let lack = match self.parts.parts[dropped] {
                        Part::Resource(_, _, amount) => Lack::Amount(amount),
                        _ => Lack::Condition,
                    };
                    self.offer(root, Lacks::from_slice(&[(dropped, lack)]), nearest);
                    return;
                }
            }
        }
    }

    fn offer(&self, root: ProviderId, lacks: Lacks, nearest: &mut Nearest) {
        let score = lacks
            .iter()
            .map(|(index, lack)| self.score(*index, *lack))
            .fold(0, i64::saturating_add);
        nearest.offer(score, 1, root, lacks);
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
