//! Best-first search over blocks: yields the block with the largest upper bound.

use super::bounds::{Bounds, GROUP_BLOCKS};
use crate::block::{self, smaller};

/// The state of a search over blocks.
///
/// A group is opened, that is, its blocks are looked at, when its bound is the largest; for all
/// other groups the bound of the group suffices.
#[derive(Debug, Default)]
pub(super) struct BlockSearch {
    /// By block: its bound, valid where its group is open.
    bounds: Vec<f64>,
    /// By group: its bound, which is that of its best block once it is open.
    groups: Vec<f64>,
    is_open: Vec<bool>,
    /// By block: the hosts that are finished with; non-zero only in open groups.
    finished: Vec<u64>,
}

impl BlockSearch {
    /// Starts a search with two upper bounds for each block, of which the smaller counts.
    pub(super) fn start(&mut self, own: &Bounds, shared: &Bounds) {
        let finished = self.finished.chunks_mut(GROUP_BLOCKS);
        let open = self.is_open.iter().zip(finished);
        open.filter(|(is_open, _)| **is_open)
            .for_each(|(_, finished)| finished.fill(0));
        self.finished.resize(own.len(), 0);
        let both = own.groups().iter().zip(shared.groups());
        self.groups.clear();
        self.groups
            .extend(both.map(|(one, other)| smaller(*one, *other)));
        self.is_open.clear();
        self.is_open.resize(self.groups.len(), false);
        self.bounds.resize(own.len(), f64::NEG_INFINITY);
    }

    /// The block with the largest bound and the bound, the first of equals; `None` when no block
    /// is left. Bounds of groups are those at the start of the search; changes made since then are
    /// seen when a group is opened.
    pub(super) fn next(&mut self, own: &mut Bounds, shared: &Bounds) -> Option<(usize, f64)> {
        loop {
            let most = block::top(&self.groups);
            if most == f64::NEG_INFINITY {
                return None;
            }
            let group = block::position(&self.groups, most)?;
            let start = group * GROUP_BLOCKS;
            let end = self.bounds.len().min(start + GROUP_BLOCKS);
            let here = &mut self.bounds[start..end];
            if self.is_open[group] {
                let block = start + block::position(here, most)?;
                return Some((block, most));
            }
            own.tighten(group);
            let both = own.of_group(group).iter().zip(shared.of_group(group));
            for (bound, (one, other)) in here.iter_mut().zip(both) {
                *bound = smaller(*one, *other);
            }
            self.groups[group] = block::top(here);
            self.is_open[group] = true;
        }
    }

    /// The hosts of a block that are finished with: returned already, or not feasible.
    pub(super) fn finished(&self, block: usize) -> u64 {
        self.finished[block]
    }

    /// Marks hosts of a block in an open group as finished.
    pub(super) fn finish(&mut self, block: usize, hosts: u64) {
        self.finished[block] |= hosts;
    }

    /// Sets the bound of the block that [`Self::next`] yielded.
    pub(super) fn set(&mut self, block: usize, bound: f64) {
        self.bounds[block] = bound;
        let group = block / GROUP_BLOCKS;
        let end = self.bounds.len().min((group + 1) * GROUP_BLOCKS);
        self.groups[group] = block::top(&self.bounds[group * GROUP_BLOCKS..end]);
    }
}
