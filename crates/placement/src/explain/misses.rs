//! Near misses: roots that are almost feasible, and what they lack.

use smallvec::SmallVec;

use super::constraint::ResolvedConstraint;
use super::constraint_table::{ConstraintTable, JointInfeasibility};
use super::relaxed::RelaxedQuery;
use super::shortfall::Shortfall;
use crate::hash::Map;
use crate::ids::ProviderId;
use crate::slot_set::bits;

/// Roots that fail the same constraints by the same amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The number of roots that share these lacks.
    pub roots: usize,
    /// The root of them with the lowest slot.
    pub example: ProviderId,
    /// The constraints that they fail, as indexes into the list of effects, with what they lack.
    pub lacks: Vec<(usize, Shortfall)>,
}

/// The maximum number of near misses that an explanation lists.
pub(super) const MAX_NEAR_MISSES: usize = 10;

/// The constraints that a root fails, with what it lacks.
type Shortfalls = SmallVec<[(usize, Shortfall); 2]>;

/// The nearest misses so far, nearest first.
#[derive(Default)]
struct Nearest {
    found: Vec<(i64, NearMiss)>,
}

impl Nearest {
    /// The highest score that is still among the nearest.
    fn highest_score(&self) -> i64 {
        match self.found.last() {
            Some((highest, _)) if self.found.len() >= MAX_NEAR_MISSES => *highest,
            _ => i64::MAX,
        }
    }

    fn offer(&mut self, score: i64, roots: usize, example: ProviderId, lacks: &Shortfalls) {
        let order = |(other_score, other): &(i64, NearMiss)| {
            (*other_score, other.lacks.as_slice()).cmp(&(score, lacks.as_slice()))
        };
        let index = self.found.partition_point(|entry| order(entry).is_lt());
        match self.found.get_mut(index) {
            Some((_, miss)) if miss.lacks.as_slice() == lacks.as_slice() => {
                miss.roots += roots;
                miss.example = miss.example.min(example);
            }
            _ if index < MAX_NEAR_MISSES => {
                let miss = NearMiss {
                    roots,
                    example,
                    lacks: lacks.to_vec(),
                };
                self.found.insert(index, (score, miss));
                self.found.truncate(MAX_NEAR_MISSES);
            }
            _ => {}
        }
    }
}

/// By constraint: the query without it, memoised.
type QueriesWithout<'a> = Map<usize, Option<RelaxedQuery<'a>>>;

impl<'a> ConstraintTable<'a> {
    /// The roots that fail fewest constraints, by what they lack.
    pub(super) fn near_misses(&self) -> Vec<NearMiss> {
        self.reset_budget();
        let mut nearest = Nearest::default();
        let Some((fewest, failing)) = self.fewest_failed() else {
            return Vec::new();
        };
        for (word, hosts) in self.hosts.iter().enumerate() {
            self.offer_hosts(failing[word] & hosts, word, &mut nearest);
        }
        let trees: Vec<u64> = (failing.iter().zip(&self.trees))
            .map(|(failing, trees)| failing & trees)
            .collect();
        self.offer_trees(&trees, fewest, &mut nearest);
        let mut queries_without = QueriesWithout::default();
        for joint_infeasibility in &self.joint_infeasibilities {
            self.offer_joint_infeasibility(joint_infeasibility, &mut queries_without, &mut nearest);
        }
        nearest.found.into_iter().map(|(_, miss)| miss).collect()
    }

    /// By root of a word: how many constraints it fails alone, as bit-sliced binary digits.
    fn failures(&self, word: usize) -> SmallVec<[u64; 8]> {
        let mut digits: SmallVec<[u64; 8]> = SmallVec::new();
        for served in &self.serving {
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

    /// The smallest number of constraints that a root fails, and a bit mask of the roots that fail
    /// this many alone; `None` when no root fails any.
    fn fewest_failed(&self) -> Option<(usize, Vec<u64>)> {
        let most = if self.joint_infeasibilities.is_empty() {
            self.serving.len() + 1
        } else {
            1
        };
        let mut fewest = most;
        let mut least_of_word = Vec::with_capacity(self.hosts.len());
        for word in 0..self.hosts.len() {
            let roots = self.state.roots().word(word);
            let least = smallest_count(&self.failures(word), roots, fewest);
            fewest = least.map_or(fewest, |(count, _)| count);
            least_of_word.push(least);
        }
        let failing = least_of_word.into_iter().map(|least| match least {
            Some((count, roots)) if count == fewest => roots,
            _ => 0,
        });
        (fewest <= self.serving.len()).then(|| (fewest, failing.collect()))
    }

    /// Offers the hosts of a word that fail the fewest constraints.
    fn offer_hosts(&self, mut failing: u64, word: usize, nearest: &mut Nearest) {
        while let Some(first) = bits(failing, word).next() {
            // Hosts that fail the same constraints.
            let mut same_failures = failing;
            let mut failed: SmallVec<[usize; 4]> = SmallVec::new();
            for (index, served) in self.serving.iter().enumerate() {
                if served[word] >> (first % 64) & 1 == 1 {
                    same_failures &= served[word];
                } else {
                    same_failures &= !served[word];
                    failed.push(index);
                }
            }
            failing &= !same_failures;
            let highest = nearest.highest_score();
            if highest < i64::MAX {
                for index in &failed {
                    same_failures &= self.hosts_within(*index, word, highest);
                }
            }
            while let Some(slot) = bits(same_failures, word).next() {
                let mut lacks = Shortfalls::new();
                let mut same_lacks = same_failures;
                for index in &failed {
                    let lack = self.lack_of_host(*index, slot);
                    same_lacks &= self.hosts_with_same_lack(*index, slot, lack);
                    lacks.push((*index, lack));
                }
                same_failures &= !same_lacks;
                let count = same_lacks.count_ones() as usize;
                self.offer(count, ProviderId(slot), &lacks, nearest);
            }
        }
    }

    /// Offers trees by what they lack of the constraints that they fail alone.
    fn offer_trees(&self, trees: &[u64], fewest: usize, nearest: &mut Nearest) {
        let failed = |index: &usize| {
            let pairs = trees.iter().zip(&self.serving[*index]);
            pairs
                .into_iter()
                .any(|(trees, served)| trees & !served != 0)
        };
        let mut lacks_by_constraint: Vec<(usize, Vec<Shortfall>)> = Vec::with_capacity(fewest);
        for index in (0..self.serving.len()).filter(failed) {
            let failing: Vec<u64> = (trees.iter().zip(&self.serving[index]))
                .map(|(trees, served)| trees & !served)
                .collect();
            lacks_by_constraint.push((index, self.lacks_of_trees(index, &failing)));
        }
        for (word, trees) in trees.iter().enumerate() {
            for root in bits(*trees, word).map(ProviderId) {
                let failed =
                    (lacks_by_constraint.iter()).filter(|(index, _)| !self.serves(*index, root));
                let lacks: Shortfalls = failed
                    .map(|(index, lacks)| (*index, lacks[root.index()]))
                    .collect();
                self.offer(1, root, &lacks, nearest);
            }
        }
    }

    /// Offers trees that can serve each constraint but not all together: they lack the first
    /// constraint whose removal makes the query feasible for them.
    fn offer_joint_infeasibility(
        &self,
        joint_infeasibility: &JointInfeasibility,
        queries_without: &mut QueriesWithout<'a>,
        nearest: &mut Nearest,
    ) {
        // Constraints after the end are irrelevant: the prefix up to the end is already
        // infeasible.
        for dropped in 0..=joint_infeasibility.first_failed {
            // Without the last constraint the prefix is feasible, as was found before.
            let is_last = dropped + 1 == self.serving.len();
            let fits = is_last
                || self.spend_search()
                    && queries_without
                        .entry(dropped)
                        .or_insert_with(|| self.relaxed(|index| index != dropped))
                        .as_mut()
                        .is_some_and(|query| query.tree_fits(joint_infeasibility.example));
            if fits {
                let lack = match self.constraint_list.resolved[dropped] {
                    ResolvedConstraint::Resource(_, _, amount) => Shortfall::Amount(amount),
                    _ => Shortfall::Condition,
                };
                let lacks = Shortfalls::from_slice(&[(dropped, lack)]);
                self.offer(
                    joint_infeasibility.tree_count,
                    joint_infeasibility.example,
                    &lacks,
                    nearest,
                );
                return;
            }
        }
    }

    fn offer(&self, roots: usize, example: ProviderId, lacks: &Shortfalls, nearest: &mut Nearest) {
        let score = lacks
            .iter()
            .map(|(index, lack)| lack.score(&self.constraint_list.resolved[*index]))
            .fold(0, i64::saturating_add);
        if score <= nearest.highest_score() {
            nearest.offer(score, roots, example, lacks);
        }
    }
}

/// The smallest positive number that some of 64 roots have, if it is at most `most`, and the roots
/// that have it.
fn smallest_count(digits: &[u64], roots: u64, most: usize) -> Option<(usize, u64)> {
    // From the highest digit down, keep the roots whose digit is 0, as long as there are any.
    let mut left = roots & digits.iter().fold(0, |any, digit| any | digit);
    if left == 0 {
        return None;
    }
    let mut count = 0;
    for (position, digit) in digits.iter().enumerate().rev() {
        let mut with_zero = left & !digit;
        if count == 0 {
            with_zero &= digits[..position].iter().fold(0, |any, digit| any | digit);
        }
        if with_zero == 0 {
            left &= digit;
            count |= 1 << position;
        } else {
            left = with_zero;
        }
    }
    (count <= most).then_some((count, left))
}
