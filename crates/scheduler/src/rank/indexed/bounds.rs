//! Upper bounds for blocks of hosts and for groups of blocks: a search compares the bounds of
//! groups, and looks at the blocks of few groups.

use crate::block::{self, larger};

/// The number of blocks in a group.
pub(super) const GROUP_BLOCKS: usize = 16;

/// For each block an upper bound over its hosts, and for each group an upper bound over its
/// blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    blocks: Vec<f64>,
    groups: Vec<f64>,
}

impl Bounds {
    /// Sets the number of blocks and gives all the same bound.
    pub(super) fn reset(&mut self, blocks: usize, bound: f64) {
        self.blocks.clear();
        self.blocks.resize(blocks, bound);
        self.groups.clear();
        self.groups.resize(blocks.div_ceil(GROUP_BLOCKS), bound);
    }

    /// Sets the bounds of all blocks and groups.
    pub(super) fn fill(&mut self, bound: f64) {
        self.blocks.fill(bound);
        self.groups.fill(bound);
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The bounds by block.
    pub(super) fn blocks(&self) -> &[f64] {
        &self.blocks
    }

    /// The bounds by group.
    pub(super) fn groups(&self) -> &[f64] {
        &self.groups
    }

    /// The bounds of the blocks of a group.
    pub(super) fn of_group(&self, group: usize) -> &[f64] {
        let start = group * GROUP_BLOCKS;
        let end = self.blocks.len().min(start + GROUP_BLOCKS);
        &self.blocks[start..end]
    }

    /// Raises the bounds of a block and its group to at least this value.
    #[inline]
    pub(super) fn raise(&mut self, block: usize, bound: f64) {
        if bound > self.blocks[block] {
            self.blocks[block] = bound;
            let group = &mut self.groups[block / GROUP_BLOCKS];
            *group = larger(*group, bound);
        }
    }

    /// Sets the bound of a block to a lower value. The bound of its group stays until
    /// [`Self::tighten`].
    #[inline]
    pub(super) fn lower(&mut self, block: usize, bound: f64) {
        self.blocks[block] = bound;
    }

    /// Sets the bound of a block and tightens its group.
    pub(super) fn set(&mut self, block: usize, bound: f64) {
        let previous = std::mem::replace(&mut self.blocks[block], bound);
        let group = block / GROUP_BLOCKS;
        if bound >= self.groups[group] {
            self.groups[group] = bound;
        } else if previous >= self.groups[group] {
            self.tighten(group);
        }
    }

    /// Sets the bound of a group to the largest of its blocks.
    pub(super) fn tighten(&mut self, group: usize) {
        self.groups[group] = block::max(self.of_group(group));
    }

    /// Changes the bounds of all blocks, then tightens all groups.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut [f64])) {
        change(&mut self.blocks);
        (0..self.groups.len()).for_each(|group| self.tighten(group));
    }
}
