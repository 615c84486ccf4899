//! What the search answers, in flat storage: a thousand candidates are a handful of vectors.

use crate::ids::ProviderId;
use crate::state::Allocation;

/// The candidates found, and the providers that a client should be told about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    groups: usize,
    allocations: Vec<Allocation>,
    allocation_ends: Vec<u32>,
    mapped: Vec<ProviderId>,
    /// One for each group of each candidate.
    mapping_ends: Vec<u32>,
    summaries: Vec<ProviderId>,
}

/// One way to serve a request.
#[derive(Clone, Copy, Debug)]
pub struct CandidateView<'a> {
    answer: &'a Candidates,
    index: usize,
}

impl Candidates {
    /// No candidates yet, for a request of so many groups.
    #[must_use]
    pub fn new(groups: usize) -> Self {
        Self {
            groups,
            ..Self::default()
        }
    }

    /// How many candidates there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allocation_ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A candidate by its place.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<CandidateView<'_>> {
        (index < self.len()).then_some(CandidateView {
            answer: self,
            index,
        })
    }

    /// The candidates in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CandidateView<'_>> {
        (0..self.len()).map(|index| CandidateView {
            answer: self,
            index,
        })
    }

    /// The providers that a client should be told about, each once, in rising order of slot: the
    /// whole trees of all providers in use, or only those, for clients that know of no trees.
    #[must_use]
    pub fn summaries(&self) -> &[ProviderId] {
        &self.summaries
    }
}

impl<'a> CandidateView<'a> {
    /// What would be claimed: each provider and class once; those of one provider are neighbours.
    #[must_use]
    pub fn allocations(&self) -> &'a [Allocation] {
        slice(
            &self.answer.allocations,
            &self.answer.allocation_ends,
            self.index,
        )
    }

    /// Which providers serve each group, in the order of the query's groups; each provider once.
    pub fn mappings(&self) -> impl ExactSizeIterator<Item = &'a [ProviderId]> {
        let answer = self.answer;
        let first = self.index * answer.groups;
        (first..first + answer.groups)
            .map(|place| slice(&answer.mapped, &answer.mapping_ends, place))
    }
}

/// The part of a flat vector that ends at an entry of `ends` and begins at the one before.
fn slice<'a, T>(flat: &'a [T], ends: &[u32], index: usize) -> &'a [T] {
    let end = |index: usize| ends[index] as usize;
    let begin = index.checked_sub(1).map_or(0, end);
    &flat[begin..end(index)]
}
