//! Upper bounds for blocks of hosts and for groups of blocks: a search compares the bounds of groups, and examines the
//! blocks of few groups.

use crate::block::{self, larger};

/// The number of blocks in a group.
pub(super) const GROUP_BLOCKS: usize = 16;

/// For each block an upper bound over its hosts, and for each group an upper bound over its
/// blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    by_block: Vec<f64>,
    by_group: Vec<f64>,
}

impl Bounds {
    /// Sets the number of blocks and gives all the same bound.
    pub(super) fn reset(&mut self, block_count: usize, bound: f64) {
        self.by_block.clear();
        self.by_block.resize(block_count, bound);
        self.by_group.clear();
        self.by_group
            .resize(block_count.div_ceil(GROUP_BLOCKS), bound);
    }

    /// Sets the bounds of all blocks and groups.
    pub(super) fn fill(&mut self, bound: f64) {
        self.by_block.fill(bound);
        self.by_group.fill(bound);
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.by_block.len()
    }

    /// The bounds by block.
    pub(super) fn by_block(&self) -> &[f64] {
        &self.by_block
    }

    /// The bounds by group.
    pub(super) fn by_group(&self) -> &[f64] {
        &self.by_group
    }

    /// The bounds of the blocks of a group.
    pub(super) fn of_group(&self, group: usize) -> &[f64] {
        let start = group * GROUP_BLOCKS;
        let end = self.by_block.len().min(start + GROUP_BLOCKS);
        &self.by_block[start..end]
    }

    /// Raises the bounds of a block and its group to at least this value.
    #[inline]
    pub(super) fn raise(&mut self, block: usize, bound: f64) {
        if bound > self.by_block[block] {
            self.by_block[block] = bound;
            let group = &mut self.by_group[block / GROUP_BLOCKS];
            *group = larger(*group, bound);
        }
    }

    /// Sets the bound of a block to a lower value. The bound of its group stays until
    /// [`Self::tighten`].
    #[inline]
    pub(super) fn lower(&mut self, block: usize, bound: f64) {
        self.by_block[block] = bound;
    }

    /// Sets the bound of a block and tightens its group.
    pub(super) fn set(&mut self, block: usize, bound: f64) {
        let previous = std::mem::replace(&mut self.by_block[block], bound);
        let group = block / GROUP_BLOCKS;
        if bound >= self.by_group[group] {
            self.by_group[group] = bound;
        } else if previous >= self.by_group[group] {
            self.tighten(group);
        }
    }

    /// Sets the bound of a group to the largest of its blocks.
    pub(super) fn tighten(&mut self, group: usize) {
        self.by_group[group] = block::max(self.of_group(group));
    }

    /// Changes the bounds of all blocks, then tightens all groups.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut [f64])) {
        change(&mut self.by_block);
        (0..self.by_group.len()).for_each(|group| self.tighten(group));
    }
}
