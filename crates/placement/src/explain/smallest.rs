//! The smallest set of constraints that is infeasible for every root.
//!
//! For a root that can serve a set, the set is grown to a maximal one that the root can serve. The complement of the
//! maximal set is all other constraints: every infeasible set contains at least one of them. The smallest set that has
//! a member of each complement found so far is tried next; the first one that no root can serve is the smallest of all
//! (implicit hitting sets, as in MARCO-style extraction of smallest unsatisfiable subsets).

use super::constraint_table::ConstraintTable;
use super::tree_classes::TreeClass;
use crate::candidates::bits::Bits;
use crate::hash::Map;
use crate::ids::ProviderId;
use crate::slot_set::bits;

/// The number of sets that may be tried.
const SETS_MAX: usize = 500;
/// The number of tree searches that may be run: enough to grow [`SETS_MAX`] sets of a request with
/// 16 constraints, as growing a set takes one search for each constraint.
const SEARCHES_MAX: u32 = 8_000;
/// The number of steps for all searches for hitting sets of one explanation together. The problem is
/// NP-hard, and a step over a hundred sets takes about 1.5 µs.
const STEPS_MAX: u32 = 150_000;

impl ConstraintTable<'_> {
    /// The smallest set, if it is found within the work allowed.
    pub(super) fn smallest(&self) -> Option<Vec<usize>> {
        self.set_budget(SEARCHES_MAX);
        let mut search = HittingSetSearch::default();
        for _ in 0..SETS_MAX {
            let set = search.smallest()?;
            match self.complement_of_feasible_set(&set)? {
                None => return Some(set),
                // Some root can serve all constraints.
                Some(complement) if complement.is_empty() => return None,
                Some(complement) => search.sets.push(complement),
            }
        }
        None
    }

    /// For some root that can serve the set, returns the constraints outside of a maximal superset that this root can
    /// serve. `Some(None)` when no root can serve the set, `None` when the budget is used up.
    fn complement_of_feasible_set(&self, set: &[usize]) -> Option<Option<Bits>> {
        let count = self.constraint_list.resolved.len();
        for (word, hosts) in self.hosts.iter().enumerate() {
            let left = (set.iter()).fold(*hosts, |left, index| left & self.serving[*index][word]);
            if let Some(slot) = bits(left, word).next() {
                let fails = |index: &usize| !self.serves(*index, ProviderId(slot));
                return Some(Some(set_of((0..count).filter(fails))));
            }
        }
        let includes = |index: usize| set.contains(&index);
        let is_independent = self.are_independent(includes);
        let mut relaxed = None;
        let mut searched: Map<TreeClass, ()> = Map::default();
        for (word, trees) in self.trees.iter().enumerate() {
            let left = (set.iter()).fold(*trees, |left, index| left & self.serving[*index][word]);
            for root in bits(left, word).map(ProviderId) {
                if is_independent {
                    return Some(Some(self.complement_of_maximal_set(set, root)));
                }
                if searched.insert(self.class_of_tree(root), ()).is_some() {
                    continue;
                }
                if !self.spend_search() {
                    return None;
                }
                let relaxed = relaxed.get_or_insert_with(|| self.relaxed(includes));
                if relaxed.as_mut().is_some_and(|set| set.root_fits(root)) {
                    return Some(Some(self.complement_of_maximal_set(set, root)));
                }
            }
        }
        Some(None)
    }

    /// Adds constraints one by one as long as a tree can serve all, and returns those left out.
    fn complement_of_maximal_set(&self, set: &[usize], root: ProviderId) -> Bits {
        let mut included = Bits::default();
        for index in set {
            included.insert(*index);
        }
        let mut excluded = Bits::default();
        for index in 0..self.constraint_list.resolved.len() {
            if included.contains(index) {
                continue;
            }
            let selects = |other: usize| other == index || included.contains(other);
            let fits = self.serves(index, root)
                && (self.are_independent(selects)
                    || self.spend_search()
                        && self
                            .relaxed(selects)
                            .is_some_and(|mut query| query.root_fits(root)));
            if fits {
                included.insert(index);
            } else {
                excluded.insert(index);
            }
        }
        excluded
    }
}

/// A search for the smallest set that has a member of each of some sets (minimum hitting set), which
/// goes on as sets are added.
struct HittingSetSearch {
    /// The sets of each of which a member is wanted.
    sets: Vec<Bits>,
    /// A lower bound of the size. It only rises, because an added set can only make the smallest
    /// hitting set larger.
    size: usize,
    steps_left: u32,
}

impl Default for HittingSetSearch {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            size: 0,
            steps_left: STEPS_MAX,
        }
    }
}

impl HittingSetSearch {
    /// The smallest hitting set in rising order. `None` when the step budget is used up.
    fn smallest(&mut self) -> Option<Vec<usize>> {
        loop {
            let mut hitting = Bits::default();
            if self.extend(self.size, &mut hitting)? {
                return Some(in_order(&hitting));
            }
            self.size += 1;
        }
    }

    /// Whether at most this many more members can hit all sets; `None` when the step budget is used
    /// up.
    fn extend(&mut self, size: usize, hitting: &mut Bits) -> Option<bool> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let missed = || self.sets.iter().filter(|set| !set.meets(hitting));
        let Some(shortest) = missed().min_by_key(|set| set.len()) else {
            return Some(true);
        };
        // Lower bound: pairwise disjoint sets need a member each.
        let mut disjoint = Bits::default();
        let mut count = 0;
        for set in missed() {
            if !set.meets(&disjoint) {
                disjoint.union(set);
                count += 1;
            }
        }
        if count > size {
            return Some(false);
        }
        for index in in_order(shortest) {
            let before = hitting.clone();
            hitting.insert(index);
            if self.extend(size - 1, hitting)? {
                return Some(true);
            }
            *hitting = before;
        }
        Some(false)
    }
}

fn set_of(members: impl IntoIterator<Item = usize>) -> Bits {
    let mut set = Bits::default();
    for member in members {
        set.insert(member);
    }
    set
}

fn in_order(set: &Bits) -> Vec<usize> {
    let mut members: Vec<usize> = set.iter().collect();
    members.sort_unstable();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hitting_set_is_found() {
        let mut search = HittingSetSearch::default();
        assert_eq!(search.smallest(), Some(vec![]));
        let sets = [vec![0, 1], vec![1, 2], vec![3], vec![2, 4]];
        search.sets = sets.into_iter().map(set_of).collect();
        assert_eq!(search.smallest(), Some(vec![0, 2, 3]));
    }
}
