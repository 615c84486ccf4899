//! The best-first search over blocks: it yields the block with the largest upper bound.

use super::bounds::{Bounds, GROUP_BLOCKS};
use crate::block::{self, smaller};

/// The state of a search over blocks.
///
/// When the bound of a group is the largest, the group is opened: the bounds of its blocks are
/// computed. The blocks of other groups need not be looked at.
#[derive(Debug, Default)]
pub(super) struct BlockSearch {
    /// By block: its bound, valid where its group is open.
    block_bounds: Vec<f64>,
    /// By group: its bound. In an open group, it is the largest bound of its blocks.
    group_bounds: Vec<f64>,
    /// By group: whether it is open.
    is_open: Vec<bool>,
    /// By block: the hosts that the search has finished; non-zero only in open groups.
    finished: Vec<u64>,
}

impl BlockSearch {
    /// Starts a search with two upper bounds for each block: one of the class, and one that all classes share. Both
    /// hold, so the smaller of the two counts. That of the class leaves out hosts that are known to be infeasible, but
    /// it may be too high after changes. The shared one is exact, but it is over all hosts, feasible or not.
    pub(super) fn start(&mut self, of_class: &Bounds, shared: &Bounds) {
        let finished = self.finished.chunks_mut(GROUP_BLOCKS);
        let groups = self.is_open.iter().zip(finished);
        // Hosts can be marked as finished only in the groups that the last search opened.
        groups
            .filter(|(is_open, _)| **is_open)
            .for_each(|(_, finished)| finished.fill(0));
        self.finished.resize(of_class.len(), 0);
        let pairs = of_class.by_group().iter().zip(shared.by_group());
        self.group_bounds.clear();
        self.group_bounds
            .extend(pairs.map(|(class_bound, shared_bound)| smaller(*class_bound, *shared_bound)));
        self.is_open.clear();
        self.is_open.resize(self.group_bounds.len(), false);
        self.block_bounds.resize(of_class.len(), f64::NEG_INFINITY);
    }

    /// The block with the largest bound, the first of equals, with its bound; `None` if all bounds are minus infinity,
    /// so that no host is left. Changes of bounds since the start of the search take effect when their group is opened.
    pub(super) fn next(&mut self, of_class: &mut Bounds, shared: &Bounds) -> Option<(usize, f64)> {
        loop {
            let largest = block::max(&self.group_bounds);
            if largest == f64::NEG_INFINITY {
                return None;
            }
            let group = block::position(&self.group_bounds, largest)?;
            let start = group * GROUP_BLOCKS;
            let end = self.block_bounds.len().min(start + GROUP_BLOCKS);
            let bounds = &mut self.block_bounds[start..end];
            if self.is_open[group] {
                let block = start + block::position(bounds, largest)?;
                return Some((block, largest));
            }
            of_class.tighten(group);
            let pairs = of_class.of_group(group).iter().zip(shared.of_group(group));
            for (bound, (class_bound, shared_bound)) in bounds.iter_mut().zip(pairs) {
                *bound = smaller(*class_bound, *shared_bound);
            }
            self.group_bounds[group] = block::max(bounds);
            self.is_open[group] = true;
        }
    }

    /// The hosts of a block that the search has finished: they were returned, or are not feasible.
    pub(super) fn finished(&self, block: usize) -> u64 {
        self.finished[block]
    }

    /// Marks hosts of a block as finished. Its group must be open.
    pub(super) fn finish(&mut self, block: usize, hosts: u64) {
        self.finished[block] |= hosts;
    }

    /// Sets the bound of the block that [`Self::next`] yielded.
    pub(super) fn set_bound(&mut self, block: usize, bound: f64) {
        self.block_bounds[block] = bound;
        let group = block / GROUP_BLOCKS;
        let end = self.block_bounds.len().min((group + 1) * GROUP_BLOCKS);
        self.group_bounds[group] = block::max(&self.block_bounds[group * GROUP_BLOCKS..end]);
    }
}
