//! Sets of operations of one history, by their numbers.

/// A set of operations, as bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OperationSet(Box<[u64]>);

impl OperationSet {
    /// An empty set for numbers below `count`.
    pub(crate) fn empty(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)].into_boxed_slice())
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0[number / 64] & (1 << (number % 64)) != 0
    }
}
