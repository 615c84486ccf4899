//! Sharing providers, which offer their inventory to the trees of their aggregates. A sharing provider is *in reach* of
//! each provider that is in one of its aggregates, and of the tree of that provider.

use smallvec::SmallVec;

use super::plan::Plan;
use crate::ids::{AggregateId, ProviderId};
use crate::slot_set::bits;

/// The sharing providers relevant to a request, and the aggregates they share through.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// By aggregate number: its sharing members.
    by_aggregate: Vec<SmallVec<[ProviderId; 2]>>,
    /// The sharing providers, in rising order of slot.
    providers: Vec<ProviderId>,
    /// Bit mask of the providers in an aggregate that has a sharing member.
    reached: Vec<u64>,
}

impl Sharing {
    /// Collects the sharing providers that may serve any variable of the plan.
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let state = plan.state;
        let mut sharing = Self::default();
        let Some(sharing_trait) = state.sharing_trait() else {
            return sharing;
        };
        for slot in state.trait_members(sharing_trait).iter() {
            let id = ProviderId(slot);
            let is_relevant = plan
                .conditions
                .iter()
                .any(|condition| condition.takes_shared && condition.admits(state, id));
            let Some(provider) = state.provider(id).filter(|_| is_relevant) else {
                continue;
            };
            for aggregate in &provider.aggregates {
                if sharing.by_aggregate.len() <= aggregate.index() {
                    sharing
                        .by_aggregate
                        .resize_with(aggregate.index() + 1, SmallVec::new);
                }
                let members = state.aggregate_members(*aggregate);
                let sharers = &mut sharing.by_aggregate[aggregate.index()];
                if sharers.is_empty() {
                    members.union_into(&mut sharing.reached);
                }
                sharers.push(id);
            }
            if !provider.aggregates.is_empty() {
                sharing.providers.push(id);
            }
        }
        sharing
    }

    /// Whether no sharing provider is relevant to the request.
    pub(crate) fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// Whether a provider is a relevant sharing provider, and so may be used by other trees too.
    pub(crate) fn contains(&self, id: ProviderId) -> bool {
        self.providers.binary_search(&id).is_ok()
    }

    /// Each sharing provider with the aggregates that it shares through, in rising order of slot.
    pub(crate) fn providers<'p>(
        &'p self,
        plan: &'p Plan<'_>,
    ) -> impl Iterator<Item = (ProviderId, &'p [AggregateId])> {
        self.providers.iter().filter_map(|id| {
            let provider = plan.state.provider(*id)?;
            Some((*id, provider.aggregates.as_slice()))
        })
    }

    /// Which of the 64 providers from `64 * word` on are in an aggregate that has a sharing
    /// member.
    pub(crate) fn reached_word(&self, word: usize) -> u64 {
        self.reached.get(word).copied().unwrap_or(0)
    }

    /// Adds the sharing providers in reach of a member of a tree; duplicates are possible.
    pub(crate) fn collect(&self, plan: &Plan<'_>, member: ProviderId, into: &mut Vec<ProviderId>) {
        let Some(provider) = plan.state.provider(member) else {
            return;
        };
        for aggregate in &provider.aggregates {
            if let Some(sharers) = self.by_aggregate.get(aggregate.index()) {
                into.extend_from_slice(sharers);
            }
        }
    }

    /// Sets the bits of the roots of all trees that have this sharing provider in reach.
    pub(crate) fn mark_served_roots(&self, plan: &Plan<'_>, id: ProviderId, roots: &mut [u64]) {
        let Some(provider) = plan.state.provider(id).filter(|_| self.contains(id)) else {
            return;
        };
        for aggregate in &provider.aggregates {
            let members = plan.state.aggregate_members(*aggregate);
            for word in 0..members.word_count() {
                for slot in bits(members.word(word), word) {
                    mark_root(plan, ProviderId(slot), roots);
                }
            }
        }
    }
}

/// Sets the bit of the root of a provider's tree.
pub(crate) fn mark_root(plan: &Plan<'_>, id: ProviderId, roots: &mut [u64]) {
    if let Some(provider) = plan.state.provider(id) {
        let root = provider.root;
        if let Some(word) = roots.get_mut(root.index() / 64) {
            *word |= 1 << (root.0 % 64);
        }
    }
}
