//! The result of a search, in flat storage: a few vectors, however many candidates there are.

use super::plan::Plan;
use super::tree::TreeSearch;
use crate::ids::{ClassId, ProviderId};
use crate::rows::Allocation;
use crate::slot_set::bits;

/// The candidates found, and the providers for the summaries of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    group_count: usize,
    /// The allocations of all candidates, one candidate after the other.
    allocations: Vec<Allocation>,
    /// End offsets into the allocations, one for each candidate.
    allocation_ends: Vec<u32>,
    /// The providers that serve each group of each candidate.
    mapped: Vec<ProviderId>,
    /// End offsets into the mapped providers, one for each group of each candidate.
    mapping_ends: Vec<u32>,
    summaries: Vec<ProviderId>,
    is_incomplete: bool,
}

/// A view of one candidate: a way to serve the request.
#[derive(Clone, Copy, Debug)]
pub struct CandidateView<'a> {
    candidates: &'a Candidates,
    index: usize,
}

impl Candidates {
    /// An empty result for a request of this many groups.
    #[must_use]
    pub fn new(group_count: usize) -> Self {
        Self {
            group_count,
            ..Self::default()
        }
    }

    /// The number of candidates.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allocation_ends.len()
    }

    /// Whether there are no candidates.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The candidate at an index; `None` if there are not as many candidates.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<CandidateView<'_>> {
        (index < self.len()).then_some(CandidateView {
            candidates: self,
            index,
        })
    }

    /// The candidates in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CandidateView<'_>> {
        (0..self.len()).map(|index| CandidateView {
            candidates: self,
            index,
        })
    }

    /// The providers for the summaries of the answer, each once, in rising order of slot: the
    /// whole trees of all providers in use, or for clients without nested providers only those in
    /// use.
    #[must_use]
    pub fn summaries(&self) -> &[ProviderId] {
        &self.summaries
    }

    /// Whether all candidates within the query's limit are included. False if the server's own
    /// bound left some out, if the search of a tree was abandoned after its step budget, or if a tree
    /// with very many candidates changed during the search.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Adds a candidate in which one host serves all groups.
    pub(super) fn push_host(
        &mut self,
        host: ProviderId,
        total: &[(ClassId, i64)],
        group_count: usize,
    ) {
        self.allocations
            .extend(total.iter().map(|(class, amount)| Allocation {
                provider: host,
                class: *class,
                amount: narrow(*amount),
            }));
        self.allocation_ends.push(end_of(&self.allocations));
        for _ in 0..group_count {
            self.mapped.push(host);
            self.mapping_ends.push(end_of(&self.mapped));
        }
    }

    /// Adds the candidate that a tree search has chosen.
    pub(super) fn push_assignment(&mut self, plan: &Plan<'_>, search: &TreeSearch) {
        let start = self.allocations.len();
        let mut variables = plan.variables.iter().enumerate().peekable();
        for group in 0..plan.group_count {
            let mapped_start = self.mapped.len();
            // The variables are in the order of their groups.
            while let Some((index, variable)) = variables.next_if(|(_, next)| next.group == group) {
                let provider = search.provider_of(index);
                self.mapped.push(provider);
                let resources = &plan.conditions[variable.condition].resources;
                let allocations = resources.iter().map(|(class, amount)| Allocation {
                    provider,
                    class: *class,
                    amount: narrow(*amount),
                });
                self.allocations.extend(allocations);
            }
            sort_and_dedup(&mut self.mapped, mapped_start);
            self.mapping_ends.push(end_of(&self.mapped));
        }
        debug_assert!(variables.next().is_none());
        sort_and_merge(&mut self.allocations, start);
        self.allocation_ends.push(end_of(&self.allocations));
    }

    /// Removes the last candidate.
    pub(super) fn pop(&mut self) {
        self.allocation_ends.pop();
        let allocations = self.allocation_ends.last().map_or(0, |end| *end as usize);
        self.allocations.truncate(allocations);
        self.mapping_ends
            .truncate(self.mapping_ends.len() - self.group_count);
        let mapped = self.mapping_ends.last().map_or(0, |end| *end as usize);
        self.mapped.truncate(mapped);
    }

    /// The key by which candidates are deduplicated: allocations and mappings.
    pub(super) fn key(&self, index: usize) -> (&[Allocation], Vec<&[ProviderId]>) {
        let candidate = CandidateView {
            candidates: self,
            index,
        };
        (candidate.allocations(), candidate.mappings().collect())
    }

    /// The approximate memory that the candidates take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.allocations.len() * size_of::<Allocation>()
            + (self.mapped.len() + self.summaries.len()) * size_of::<ProviderId>()
            + (self.allocation_ends.len() + self.mapping_ends.len()) * size_of::<u32>()
    }

    /// The number of allocations and the number of mapped providers over all candidates.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.allocations.len(), self.mapped.len())
    }

    /// The providers of all allocations and mappings from given indexes on, with repetitions.
    pub(super) fn providers_since(
        &self,
        (allocations, mapped): (usize, usize),
    ) -> impl Iterator<Item = ProviderId> + '_ {
        let allocations = self.allocations.get(allocations..).unwrap_or_default();
        let mapped = self.mapped.get(mapped..).unwrap_or_default();
        let providers = allocations.iter().map(|allocation| allocation.provider);
        providers.chain(mapped.iter().copied())
    }

    /// Sets whether candidates are missing.
    pub(super) fn set_incomplete(&mut self, is_incomplete: bool) {
        self.is_incomplete = is_incomplete;
    }

    /// Collects the providers for the summaries, and sets whether candidates are missing.
    pub(super) fn finish(&mut self, plan: &Plan<'_>, is_incomplete: bool) {
        self.is_incomplete = is_incomplete;
        let state = plan.state;
        // Clients that know of nested providers get candidates with several providers of a tree, and summaries of whole
        // trees.
        let with_whole_trees = plan.may_use_several_per_tree;
        let words = state.provider_slots().div_ceil(64);
        let mut included = vec![0u64; words];
        // Sets the bit of a provider; true if it was not set.
        let mark = |mask: &mut Vec<u64>, id: ProviderId| {
            let bit = 1 << (id.0 % 64);
            let is_new = mask[id.index() / 64] & bit == 0;
            mask[id.index() / 64] |= bit;
            is_new
        };
        let mut roots = vec![0u64; if with_whole_trees { words } else { 0 }];
        // Allocations that follow each other are often of one provider.
        let mut previous = None;
        for allocation in &self.allocations {
            let id = allocation.provider;
            if previous.replace(id) == Some(id) || !mark(&mut included, id) || !with_whole_trees {
                continue;
            }
            let Some(root) = state.provider(id).map(|provider| provider.root) else {
                continue;
            };
            if mark(&mut roots, root) {
                for member in state.subtree(root) {
                    mark(&mut included, member);
                }
            }
        }
        self.summaries = included
            .iter()
            .enumerate()
            .flat_map(|(word, mask)| bits(*mask, word))
            .map(ProviderId)
            .collect();
    }
}

/// Narrows an amount; one that fits an inventory always fits `u32`.
fn narrow(amount: i64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

/// Sorts the providers from `start` on, and removes repeated ones.
fn sort_and_dedup(providers: &mut Vec<ProviderId>, start: usize) {
    if providers.len() < start + 2 {
        return;
    }
    providers[start..].sort_unstable();
    let mut end = start + 1;
    for index in start + 1..providers.len() {
        if providers[index] != providers[end - 1] {
            providers[end] = providers[index];
            end += 1;
        }
    }
    providers.truncate(end);
}

/// Sorts the allocations from `start` on, and adds up those of the same class of the same provider.
fn sort_and_merge(allocations: &mut Vec<Allocation>, start: usize) {
    if allocations.len() < start + 2 {
        return;
    }
    let key = |allocation: &Allocation| (allocation.provider, allocation.class);
    allocations[start..].sort_unstable_by_key(key);
    let mut last = start;
    for index in start + 1..allocations.len() {
        let next = allocations[index];
        if key(&next) == key(&allocations[last]) {
            let sum = allocations[last].amount.saturating_add(next.amount);
            allocations[last].amount = sum;
        } else {
            last += 1;
            allocations[last] = next;
        }
    }
    allocations.truncate(last + 1);
}

/// The position after the last element of a flat list.
fn end_of<T>(flat: &[T]) -> u32 {
    u32::try_from(flat.len()).unwrap_or(u32::MAX)
}

impl<'a> CandidateView<'a> {
    /// The allocations to claim: each provider and class once; those of one provider are adjacent.
    #[must_use]
    pub fn allocations(&self) -> &'a [Allocation] {
        slice(
            &self.candidates.allocations,
            &self.candidates.allocation_ends,
            self.index,
        )
    }

    /// Which providers serve each group, in the order of the query's groups; each provider once.
    pub fn mappings(&self) -> impl ExactSizeIterator<Item = &'a [ProviderId]> {
        let candidates = self.candidates;
        let start = self.index * candidates.group_count;
        (start..start + candidates.group_count)
            .map(|group| slice(&candidates.mapped, &candidates.mapping_ends, group))
    }
}

/// The part of a flat vector between two consecutive end offsets.
fn slice<'a, T>(flat: &'a [T], ends: &[u32], index: usize) -> &'a [T] {
    let end = |index: usize| ends[index] as usize;
    let begin = index.checked_sub(1).map_or(0, end);
    &flat[begin..end(index)]
}
