//! The roots of a selection one after the other, in the order of their slots.

use super::plan::Plan;
use super::root_selection::RootSelection;
use crate::ids::ProviderId;

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
    /// The next root, and whether it has to be searched as a tree.
    #[inline]
    pub(super) fn next(
        &mut self,
        plan: &Plan<'_>,
        selection: &RootSelection,
    ) -> Option<(ProviderId, bool)> {
        loop {
            let mask = self.hosts | self.trees;
            if mask != 0 {
                let bit = mask.trailing_zeros();
                let is_tree = self.trees >> bit & 1 == 1;
                self.ahead = u64::MAX << bit << 1;
                self.hosts &= self.ahead;
                self.trees &= self.ahead;
                let base = u32::try_from((self.next_word - 1) * 64).unwrap_or(u32::MAX);
                return Some((ProviderId(base + bit), is_tree));
            }
            if self.next_word >= selection.words {
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
