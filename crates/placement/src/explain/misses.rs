//! Near misses: roots that are almost feasible, and their shortfalls.

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
    /// The number of these roots.
    pub roots: usize,
    /// Of these roots, the one with the lowest slot.
    pub example: ProviderId,
    /// The constraints that the roots fail, as indexes into the list of effects, with the shortfall of the roots in
    /// each.
    pub shortfalls: Vec<(usize, Shortfall)>,
}

/// The maximum number of near misses that an explanation lists.
pub(super) const MAX_NEAR_MISSES: usize = 10;

/// The constraints that a root fails, with its shortfall in each.
type Shortfalls = SmallVec<[(usize, Shortfall); 2]>;

/// The nearest misses so far.
#[derive(Default)]
struct Nearest {
    /// With their distances, in rising order: see [`Shortfall::distance`].
    found: Vec<(i64, NearMiss)>,
}

impl Nearest {
    /// The largest distance with which a miss is still among the nearest.
    fn largest_distance(&self) -> i64 {
        match self.found.last() {
            Some((largest, _)) if self.found.len() >= MAX_NEAR_MISSES => *largest,
            _ => i64::MAX,
        }
    }

    /// Adds some roots that have these shortfalls, if they are among the nearest.
    fn offer(&mut self, distance: i64, roots: usize, example: ProviderId, shortfalls: &Shortfalls) {
        let order = |(other_distance, other): &(i64, NearMiss)| {
            (*other_distance, other.shortfalls.as_slice()).cmp(&(distance, shortfalls.as_slice()))
        };
        let index = self.found.partition_point(|entry| order(entry).is_lt());
        match self.found.get_mut(index) {
            Some((_, miss)) if miss.shortfalls.as_slice() == shortfalls.as_slice() => {
                miss.roots += roots;
                miss.example = miss.example.min(example);
            }
            _ if index < MAX_NEAR_MISSES => {
                let miss = NearMiss {
                    roots,
                    example,
                    shortfalls: shortfalls.to_vec(),
                };
                self.found.insert(index, (distance, miss));
                self.found.truncate(MAX_NEAR_MISSES);
            }
            _ => {}
        }
    }
}

/// By constraint: the query without it, once it was built; `None` if no provider can serve that query.
type QueriesWithout<'a> = Map<usize, Option<RelaxedQuery<'a>>>;

impl<'a> ConstraintTable<'a> {
    /// The roots that fail the fewest constraints, grouped by these constraints and the shortfalls.
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

    /// How many constraints each root of a word fails alone, as bit-sliced binary numbers: the mask at
    /// index `n` has the digit for 2^n of all 64 numbers.
    fn failure_counts(&self, word: usize) -> SmallVec<[u64; 8]> {
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
        // A tree that can serve each constraint alone but not all together counts as failing one. Roots
        // that fail more are then no near misses.
        let most = if self.joint_infeasibilities.is_empty() {
            self.serving.len() + 1
        } else {
            1
        };
        let mut fewest = most;
        let mut fewest_by_word = Vec::with_capacity(self.hosts.len());
        for word in 0..self.hosts.len() {
            let roots = self.state.roots().word(word);
            let fewest_of_word = smallest_count(&self.failure_counts(word), roots, fewest);
            fewest = fewest_of_word.map_or(fewest, |(count, _)| count);
            fewest_by_word.push(fewest_of_word);
        }
        let failing = fewest_by_word
            .into_iter()
            .map(|fewest_of_word| match fewest_of_word {
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
            let largest = nearest.largest_distance();
            if largest < i64::MAX {
                for index in &failed {
                    same_failures &= self.hosts_within(*index, word, largest);
                }
            }
            while let Some(slot) = bits(same_failures, word).next() {
                let mut shortfalls = Shortfalls::new();
                let mut same_shortfalls = same_failures;
                for index in &failed {
                    let shortfall = self.shortfall_of_host(*index, slot);
                    same_shortfalls &= self.hosts_with_same_shortfall(*index, slot, shortfall);
                    shortfalls.push((*index, shortfall));
                }
                same_failures &= !same_shortfalls;
                let count = same_shortfalls.count_ones() as usize;
                self.offer(count, ProviderId(slot), &shortfalls, nearest);
            }
        }
    }

    /// Offers trees with their shortfalls in the constraints that they fail alone.
    fn offer_trees(&self, trees: &[u64], fewest: usize, nearest: &mut Nearest) {
        let failed = |index: &usize| {
            let pairs = trees.iter().zip(&self.serving[*index]);
            pairs
                .into_iter()
                .any(|(trees, served)| trees & !served != 0)
        };
        let mut shortfalls_by_constraint: Vec<(usize, Vec<Shortfall>)> = Vec::with_capacity(fewest);
        for index in (0..self.serving.len()).filter(failed) {
            let failing: Vec<u64> = (trees.iter().zip(&self.serving[index]))
                .map(|(trees, served)| trees & !served)
                .collect();
            shortfalls_by_constraint.push((index, self.shortfalls_of_trees(index, &failing)));
        }
        for (word, trees) in trees.iter().enumerate() {
            for root in bits(*trees, word).map(ProviderId) {
                let failed = (shortfalls_by_constraint.iter())
                    .filter(|(index, _)| !self.serves(*index, root));
                let shortfalls: Shortfalls = failed
                    .map(|(index, shortfalls)| (*index, shortfalls[root.index()]))
                    .collect();
                self.offer(1, root, &shortfalls, nearest);
            }
        }
    }

    /// Offers trees that can serve each constraint but not all together. Their miss names the first constraint whose
    /// removal makes the query feasible for them.
    fn offer_joint_infeasibility(
        &self,
        joint_infeasibility: &JointInfeasibility,
        queries_without: &mut QueriesWithout<'a>,
        nearest: &mut Nearest,
    ) {
        // Leaving out a constraint after the first failed one does not help: the constraints up to the
        // first failed one are infeasible by themselves.
        for dropped in 0..=joint_infeasibility.first_failed {
            // All constraints but the last are feasible together, as `first_failed` says.
            let is_last = dropped + 1 == self.serving.len();
            let fits = is_last
                || self.spend_search()
                    && queries_without
                        .entry(dropped)
                        .or_insert_with(|| self.relaxed(|index| index != dropped))
                        .as_mut()
                        .is_some_and(|query| query.root_fits(joint_infeasibility.example));
            if fits {
                let shortfall = match self.constraint_list.resolved[dropped] {
                    ResolvedConstraint::Resource(_, _, amount) => Shortfall::Amount(amount),
                    _ => Shortfall::Condition,
                };
                let shortfalls = Shortfalls::from_slice(&[(dropped, shortfall)]);
                self.offer(
                    joint_infeasibility.tree_count,
                    joint_infeasibility.example,
                    &shortfalls,
                    nearest,
                );
                return;
            }
        }
    }

    /// Offers a miss unless its distance is greater than those of the nearest misses.
    fn offer(
        &self,
        roots: usize,
        example: ProviderId,
        shortfalls: &Shortfalls,
        nearest: &mut Nearest,
    ) {
        let distance = shortfalls
            .iter()
            .map(|(index, shortfall)| shortfall.distance(&self.constraint_list.resolved[*index]))
            .fold(0, i64::saturating_add);
        if distance <= nearest.largest_distance() {
            nearest.offer(distance, roots, example, shortfalls);
        }
    }
}

/// Each of 64 roots has a number, given by its binary digits as in `failure_counts`. Returns the smallest positive
/// number and the roots that have it; `None` if no number is positive, or if the smallest is above `most`.
fn smallest_count(digits: &[u64], roots: u64, most: usize) -> Option<(usize, u64)> {
    // From the highest digit down, keep the roots whose digit is 0, as long as there are any.
    let mut left = roots & digits.iter().fold(0, |any, digit| any | digit);
    if left == 0 {
        return None;
    }
    let mut count = 0;
    for (position, digit) in digits.iter().enumerate().rev() {
        let mut with_zero = left & !digit;
        // The number has to be positive: as long as its digits are 0, a lower one must be 1.
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
