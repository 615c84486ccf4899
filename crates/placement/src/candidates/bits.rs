//! A small bit set: suppliers of one tree, or indexes of required traits.

use smallvec::SmallVec;

/// A set of numbers below some hundreds, stored inline up to 128.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits(SmallVec<[u64; 2]>);

impl Bits {
    /// The set of all numbers below `count`.
    pub(crate) fn all_below(count: usize) -> Self {
        let mut bits = Self::default();
        for number in 0..count {
            bits.insert(number);
        }
        bits
    }

    pub(crate) fn insert(&mut self, number: usize) {
        let word = number / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    #[inline]
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0
            .get(number / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(crate) fn union(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.0.truncate(other.0.len());
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= theirs;
        }
    }

    /// Removes every number of `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= !theirs;
        }
    }

    /// Whether the two sets have a common number.
    #[inline]
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .any(|(mine, theirs)| mine & theirs != 0)
    }

    /// Whether every number of `other` is in this set.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .enumerate()
            .all(|(index, word)| word & !self.0.get(index).copied().unwrap_or(0) == 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The members, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = word.checked_ilog2()?;
                word &= !(1 << bit);
                Some(index * 64 + bit as usize)
            })
        })
    }
}
