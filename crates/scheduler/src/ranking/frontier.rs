//! Which block comes next: the one that can hold the best of all that is left.

use super::bounds::Bounds;
use super::{GROUP_BLOCKS, kernel, smaller};

/// What is left of a search among blocks.
///
/// The blocks of a group are looked at when the group comes out on top: for all others the two bounds
/// of the group are enough.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    /// The bounds of blocks, where their group is open.
    bounds: Vec<f64>,
    /// A bound for each group; the largest of its blocks' where it is open.
    groups: Vec<f64>,
    is_open: Vec<bool>,
    /// The hosts of blocks that nobody has to look at again; none outside of open groups.
    dealt_with: Vec<u64>,
}

impl Frontier {
    /// Starts with two bounds for each block, of which the smaller counts.
    pub(super) fn start(&mut self, own: &Bounds, shared: &Bounds) {
        let open = self
            .is_open
            .iter()
            .zip(self.dealt_with.chunks_mut(GROUP_BLOCKS));
        open.filter(|(is_open, _)| **is_open)
            .for_each(|(_, done)| done.fill(0));
        self.dealt_with.resize(own.len(), 0);
        let both = own.groups().iter().zip(shared.groups());
        self.groups.clear();
        self.groups
            .extend(both.map(|(one, other)| smaller(*one, *other)));
        self.is_open.clear();
        self.is_open.resize(self.groups.len(), false);
        self.bounds.resize(own.len(), f64::NEG_INFINITY);
    }

    /// The block with the largest bound, the first of several, and the bound; nothing if nobody is
    /// left. The bounds are those that the search started with: what was changed meanwhile matters
    /// for blocks of groups that did not come up.
    pub(super) fn next(&mut self, own: &mut Bounds, shared: &Bounds) -> Option<(usize, f64)> {
        loop {
            let most = kernel::top(&self.groups);
            if most == f64::NEG_INFINITY {
                return None;
            }
            let group = kernel::position(&self.groups, most)?;
            let start = group * GROUP_BLOCKS;
            let end = self.bounds.len().min(start + GROUP_BLOCKS);
            let here = &mut self.bounds[start..end];
            if self.is_open[group] {
                let block = start + kernel::position(here, most)?;
                return Some((block, most));
            }
            own.tighten(group);
            let both = own.of_group(group).iter().zip(shared.of_group(group));
            for (bound, (one, other)) in here.iter_mut().zip(both) {
                *bound = smaller(*one, *other);
            }
            self.groups[group] = kernel::top(here);
            self.is_open[group] = true;
        }
    }

    /// The hosts of a block that nobody has to look at again.
    pub(super) fn dealt_with(&self, block: usize) -> u64 {
        self.dealt_with[block]
    }

    /// Nobody has to look at these hosts of a block again, one of an open group.
    pub(super) fn deal_with(&mut self, block: usize, hosts: u64) {
        self.dealt_with[block] |= hosts;
    }

    /// Gives a block that came out on top another bound.
    pub(super) fn set(&mut self, block: usize, bound: f64) {
        self.bounds[block] = bound;
        let group = block / GROUP_BLOCKS;
        let end = self.bounds.len().min((group + 1) * GROUP_BLOCKS);
        self.groups[group] = kernel::top(&self.bounds[group * GROUP_BLOCKS..end]);
    }
}
