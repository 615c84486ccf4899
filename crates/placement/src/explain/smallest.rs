//! The smallest set of constraints that is infeasible for every root.
//!
//! For a root that can serve a set, the set is grown to a maximal one that the root can serve. An
//! infeasible set must contain at least one constraint outside of it, the complement. The smallest
//! set that hits all complements found so far is tried next; the first one that no root can serve
//! is the smallest of all (implicit hitting sets, as in MARCO-style extraction of smallest
//! unsatisfiable subsets).

use super::effects::ConstraintTable;
use super::tree_classes::TreeClass;
use crate::candidates::bits::Bits;
use crate::hash::Map;
use crate::ids::ProviderId;
use crate::slot_set::bits;

/// The number of candidate sets that may be tried.
const ROUNDS: usize = 500;
/// The step budget of one search for a hitting set.
const STEPS: u32 = 100_000;

impl ConstraintTable<'_> {
    /// The smallest set, if it is found within the work allowed.
    pub(super) fn smallest(&self) -> Option<Vec<usize>> {
        self.renew_allowance();
        let mut to_hit: Vec<Vec<usize>> = Vec::new();
        for _ in 0..ROUNDS {
            let set = smallest_hitting(&to_hit, self.parts.parts.len())?;
            match self.outside_of_some_root(&set)? {
                None => return Some(set),
                Some(missing) if missing.is_empty() => return None,
                Some(missing) => to_hit.push(missing),
            }
        }
        None
    }

    /// For some root that can serve the set: the constraints outside a maximal set that it can
    /// serve. `Some(None)` when no root can serve the set, `None` when the budget is used up.
    fn outside_of_some_root(&self, set: &[usize]) -> Option<Option<Vec<usize>>> {
        let count = self.parts.parts.len();
        for (word, hosts) in self.hosts.iter().enumerate() {
            let left = (set.iter()).fold(*hosts, |left, index| left & self.serve[*index][word]);
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
            let left = (set.iter()).fold(*trees, |left, index| left & self.serve[*index][word]);
            for root in bits(left, word).map(ProviderId) {
                if is_independent {
                    return Some(Some(self.grow(set, root)));
                }
                if searched.insert(self.shape(root), ()).is_some() {
                    continue;
                }
                if !self.may_search() {
                    return None;
                }
                let relaxed = relaxed.get_or_insert_with(|| self.relaxed(includes));
                if relaxed.as_mut().is_some_and(|set| set.tree_fits(root)) {
                    return Some(Some(self.grow(set, root)));
                }
            }
        }
        Some(None)
    }

    /// Adds constraints one by one as long as a tree can serve all, and returns those left out.
    fn grow(&self, set: &[usize], root: ProviderId) -> Vec<usize> {
        let mut inside = Bits::default();
        for index in set {
            inside.insert(*index);
        }
        let mut outside = Vec::new();
        for index in 0..self.parts.parts.len() {
            if inside.contains(index) {
                continue;
            }
            let with_it = |other: usize| other == index || inside.contains(other);
            let fits = self.serves(index, root)
                && (self.are_independent(with_it)
                    || self.may_search()
                        && self
                            .relaxed(with_it)
                            .is_some_and(|mut more| more.tree_fits(root)));
            if fits {
                inside.insert(index);
            } else {
                outside.push(index);
            }
        }
        outside
    }
}

/// The smallest set, lexicographically first, that has a member of each list (minimum hitting
/// set). `None` when the step budget is used up.
fn smallest_hitting(lists: &[Vec<usize>], count: usize) -> Option<Vec<usize>> {
    let mut steps = STEPS;
    for size in 0..=count {
        let mut chosen = Vec::new();
        match hit(lists, size, &mut chosen, &mut steps) {
            Some(true) => {
                chosen.sort_unstable();
                return Some(chosen);
            }
            Some(false) => {}
            None => return None,
        }
    }
    None
}

/// Whether at most this many more members can hit all lists; `None` when the step budget is used
/// up.
fn hit(
    lists: &[Vec<usize>],
    size: usize,
    chosen: &mut Vec<usize>,
    steps: &mut u32,
) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    let missed = |list: &&Vec<usize>| !list.iter().any(|index| chosen.contains(index));
    let Some(shortest) = lists.iter().filter(missed).min_by_key(|list| list.len()) else {
        return Some(true);
    };
    if size == 0 {
        return Some(false);
    }
    // Lower bound: pairwise disjoint lists need a member each.
    let mut apart: Vec<&Vec<usize>> = Vec::new();
    for list in lists.iter().filter(missed) {
        if !(apart.iter()).any(|other| other.iter().any(|index| list.contains(index))) {
            apart.push(list);
        }
    }
    if apart.len() > size {
        return Some(false);
    }
    for index in shortest {
        chosen.push(*index);
        if hit(lists, size - 1, chosen, steps)? {
            return Some(true);
        }
        chosen.pop();
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
