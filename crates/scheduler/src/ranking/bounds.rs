//! Bounds of what the hosts of a block can have, in two layers: a search looks at few groups, and at
//! the blocks of fewer.

use super::{GROUP_BLOCKS, kernel, larger};

/// For each block, a bound of what its hosts have, and for each group of blocks one that is no less.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    blocks: Vec<f64>,
    groups: Vec<f64>,
}

impl Bounds {
    /// Sets the bounds of so many blocks to the same.
    pub(super) fn reset(&mut self, blocks: usize, bound: f64) {
        self.blocks.clear();
        self.blocks.resize(blocks, bound);
        self.groups.clear();
        self.groups.resize(blocks.div_ceil(GROUP_BLOCKS), bound);
    }

    /// Sets all bounds to the same.
    pub(super) fn fill(&mut self, bound: f64) {
        self.blocks.fill(bound);
        self.groups.fill(bound);
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The bounds of blocks.
    pub(super) fn blocks(&self) -> &[f64] {
        &self.blocks
    }

    /// The bounds of groups.
    pub(super) fn groups(&self) -> &[f64] {
        &self.groups
    }

    /// The bounds of the blocks of a group.
    pub(super) fn of_group(&self, group: usize) -> &[f64] {
        let start = group * GROUP_BLOCKS;
        let end = self.blocks.len().min(start + GROUP_BLOCKS);
        &self.blocks[start..end]
    }

    /// Makes the bound of a block no less than this.
    #[inline]
    pub(super) fn raise(&mut self, block: usize, bound: f64) {
        if bound > self.blocks[block] {
            self.blocks[block] = bound;
            let group = &mut self.groups[block / GROUP_BLOCKS];
            *group = larger(*group, bound);
        }
    }

    /// Gives a block a lower bound; that of its group stays until somebody [tightens](Self::tighten)
    /// it.
    #[inline]
    pub(super) fn lower(&mut self, block: usize, bound: f64) {
        self.blocks[block] = bound;
    }

    /// Gives a block another bound, and its group the one that follows from it.
    pub(super) fn put(&mut self, block: usize, bound: f64) {
        let before = std::mem::replace(&mut self.blocks[block], bound);
        let group = block / GROUP_BLOCKS;
        if bound >= self.groups[group] {
            self.groups[group] = bound;
        } else if before >= self.groups[group] {
            self.tighten(group);
        }
    }

    /// Gives a group the largest bound of its blocks.
    pub(super) fn tighten(&mut self, group: usize) {
        self.groups[group] = kernel::top(self.of_group(group));
    }

    /// Changes the bounds of all blocks.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut [f64])) {
        change(&mut self.blocks);
        (0..self.groups.len()).for_each(|group| self.tighten(group));
    }
}
