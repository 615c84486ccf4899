//! The smallest set of constraints that is infeasible for every root.
//!
//! For a root that can serve a set, the set is grown to a maximal one that the root can serve. An
//! infeasible set must contain at least one constraint outside of it, the complement. The smallest
//! set that hits all complements found so far is tried next; the first one that no root can serve
//! is the smallest of all (implicit hitting sets, as in MARCO-style extraction of smallest
//! unsatisfiable subsets).

use super::constraint_table::ConstraintTable;
use super::tree_classes::TreeClass;
use crate::candidates::bits::Bits;
use crate::hash::Map;
use crate::ids::ProviderId;
use crate::slot_set::bits;

/// The number of sets that may be tried.
const SETS_MAX: usize = 500;
/// The step budget of one search for a hitting set.
const STEPS: u32 = 100_000;

impl ConstraintTable<'_> {
    /// The smallest set, if it is found within the work allowed.
    pub(super) fn smallest(&self) -> Option<Vec<usize>> {
        self.reset_budget();
        let mut complements: Vec<Vec<usize>> = Vec::new();
        for _ in 0..SETS_MAX {
            let set = smallest_hitting(&complements, self.constraint_list.resolved.len())?;
            match self.complement_of_feasible_set(&set)? {
                None => return Some(set),
                // Some root can serve all constraints.
                Some(complement) if complement.is_empty() => return None,
                Some(complement) => complements.push(complement),
            }
        }
        None
    }

    /// Of some root that can serve the set: the constraints outside of a maximal superset that this
    /// root can serve. `Some(None)` when no root can serve the set, `None` when the budget is used up.
    fn complement_of_feasible_set(&self, set: &[usize]) -> Option<Option<Vec<usize>>> {
        let count = self.constraint_list.resolved.len();
        for (word, hosts) in self.hosts.iter().enumerate() {
            let left = (set.iter()).fold(*hosts, |left, index| left & self.serving[*index][word]);
            if let Some(slot) = bits(left, word).next() {
                let fails = |index: &usize| !self.serves(*index, ProviderId(slot));
                return Some(Some((0..count).filter(fails).collect()));
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
    fn complement_of_maximal_set(&self, set: &[usize], root: ProviderId) -> Vec<usize> {
        let mut included = Bits::default();
        for index in set {
            included.insert(*index);
        }
        let mut excluded = Vec::new();
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
                excluded.push(index);
            }
        }
        excluded
    }
}

/// The smallest set, lexicographically first, that has a member of each list (minimum hitting
/// set). `None` when the step budget is used up.
fn smallest_hitting(lists: &[Vec<usize>], count: usize) -> Option<Vec<usize>> {
    let mut steps = STEPS;
    for size in 0..=count {
        let mut hitting = Vec::new();
        match extend_hitting_set(lists, size, &mut hitting, &mut steps) {
            Some(true) => {
                hitting.sort_unstable();
                return Some(hitting);
            }
            Some(false) => {}
            None => return None,
        }
    }
    None
}

/// Whether at most this many more members can hit all lists; `None` when the step budget is used
/// up.
fn extend_hitting_set(
    lists: &[Vec<usize>],
    size: usize,
    hitting: &mut Vec<usize>,
    steps: &mut u32,
) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    let missed = |list: &&Vec<usize>| !list.iter().any(|index| hitting.contains(index));
    let Some(shortest) = lists.iter().filter(missed).min_by_key(|list| list.len()) else {
        return Some(true);
    };
    if size == 0 {
        return Some(false);
    }
    // Lower bound: pairwise disjoint lists need a member each.
    let mut disjoint: Vec<&Vec<usize>> = Vec::new();
    for list in lists.iter().filter(missed) {
        if !(disjoint.iter()).any(|other| other.iter().any(|index| list.contains(index))) {
            disjoint.push(list);
        }
    }
    if disjoint.len() > size {
        return Some(false);
    }
    for index in shortest {
        hitting.push(*index);
        if extend_hitting_set(lists, size - 1, hitting, steps)? {
            return Some(true);
        }
        hitting.pop();
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hitting_set_is_found() {
        let lists = [vec![0, 1], vec![1, 2], vec![3], vec![2, 4]];
        assert_eq!(smallest_hitting(&lists, 5), Some(vec![0, 2, 3]));
        assert_eq!(smallest_hitting(&[], 5), Some(vec![]));
    }
}
