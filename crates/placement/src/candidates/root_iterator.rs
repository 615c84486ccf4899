//! The roots of a selection one after the other, in the order of their slots.

use super::plan::Plan;
use super::root_selection::RootSelection;
use super::shuffle::Shuffle;
use crate::ids::ProviderId;

/// A root of a selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelectedRoot {
    pub(super) id: ProviderId,
    /// Whether the root has to be searched as a tree.
    pub(super) is_tree: bool,
}

/// An iterator over the roots, by words of 64.
#[derive(Default)]
pub(super) struct RootIterator {
    /// The index of the next word.
    pub(super) next_word: usize,
    /// Flat hosts and trees of the current word that remain.
    pub(super) hosts: u64,
    pub(super) trees: u64,
    /// The slots of the current word after the last root that was returned.
    pub(super) ahead: u64,
}

impl RootIterator {
    /// The selected root with the next higher slot; `None` after the last one.
    #[inline]
    pub(super) fn next(
        &mut self,
        plan: &Plan<'_>,
        selection: &RootSelection,
    ) -> Option<SelectedRoot> {
        loop {
            let mask = self.hosts | self.trees;
            if mask != 0 {
                let bit = mask.trailing_zeros();
                let is_tree = self.trees >> bit & 1 == 1;
                // In two steps, because a shift by 64 would overflow.
                self.ahead = u64::MAX << bit << 1;
                self.hosts &= self.ahead;
                self.trees &= self.ahead;
                let base = u32::try_from((self.next_word - 1) * 64).unwrap_or(u32::MAX);
                return Some(SelectedRoot {
                    id: ProviderId(base + bit),
                    is_tree,
                });
            }
            if self.next_word >= selection.word_count {
                return None;
            }
            let roots = selection.word(plan, self.next_word);
            (self.hosts, self.trees) = (roots.hosts, roots.trees);
            self.ahead = u64::MAX;
            self.next_word += 1;
        }
    }

    /// Reclassifies the remaining roots of the current word after a change of state.
    pub(super) fn reclassify(&mut self, plan: &Plan<'_>, selection: &RootSelection) {
        let Some(word) = self.next_word.checked_sub(1) else {
            return;
        };
        let roots = selection.word(plan, word);
        (self.hosts, self.trees) = (roots.hosts & self.ahead, roots.trees & self.ahead);
    }
}

/// The roots in random order, as the reference draws its sample from the candidates of all roots.
#[derive(Debug)]
pub(super) struct ShuffledRoots {
    roots: Vec<SelectedRoot>,
    /// The number of roots that were returned.
    visited: usize,
}

impl ShuffledRoots {
    pub(super) fn new(plan: &Plan<'_>, selection: &RootSelection, seed: u64) -> Self {
        let mut iterator = RootIterator::default();
        let mut roots: Vec<_> = std::iter::from_fn(|| iterator.next(plan, selection)).collect();
        Shuffle::new(seed).order(&mut roots);
        Self { roots, visited: 0 }
    }

    /// The next root in the random order; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<SelectedRoot> {
        let root = self.roots.get(self.visited).copied();
        self.visited += 1;
        root
    }
}
