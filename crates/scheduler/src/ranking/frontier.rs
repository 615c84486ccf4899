//! Which block comes next: the one that can hold the best of all that is left.

use super::{GROUP_BLOCKS, kernel};

/// For each block, a bound of what its hosts can have; none has more.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    bounds: Vec<f64>,
    /// The largest bound of each group of blocks.
    groups: Vec<f64>,
}

impl Frontier {
    /// Starts with the smaller of two bounds for each block.
    pub(super) fn start(&mut self, own: &[f64], shared: &[f64]) {
        self.bounds.clear();
        self.bounds.extend_from_slice(own);
        self.groups.clear();
        self.groups
            .resize(own.len().div_ceil(GROUP_BLOCKS), f64::NEG_INFINITY);
        kernel::meet(&mut self.bounds, shared, &mut self.groups);
    }

    /// The block with the largest bound, the first of several, and the bound; nothing if nobody is
    /// left.
    pub(super) fn next(&self) -> Option<(usize, f64)> {
        let most = kernel::top(&self.groups);
        if most == f64::NEG_INFINITY {
            return None;
        }
        let group = self.groups.iter().position(|bound| *bound == most)?;
        let start = group * GROUP_BLOCKS;
        let here = self.bounds[start..].iter();
        let block = start + here.take(GROUP_BLOCKS).position(|bound| *bound == most)?;
        Some((block, most))
    }

    /// Gives a block another bound.
    pub(super) fn set(&mut self, block: usize, bound: f64) {
        self.bounds[block] = bound;
        let group = block / GROUP_BLOCKS;
        let end = self.bounds.len().min((group + 1) * GROUP_BLOCKS);
        self.groups[group] = kernel::top(&self.bounds[group * GROUP_BLOCKS..end]);
    }
}
