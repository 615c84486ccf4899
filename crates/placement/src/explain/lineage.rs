//! Roots, parents and children in columns, so that walking a tree reads no provider rows.

use crate::ids::ProviderId;
use crate::slot_set::bits;
use crate::state::State;

/// The root and the parent of each provider. Empty when no provider has a parent.
#[derive(Default)]
pub(super) struct Lineage {
    /// By slot of a provider that is no root: the root of its tree.
    root_of: Vec<u32>,
    /// By slot of a provider that is no root: its parent.
    parent_of: Vec<u32>,
}

impl Lineage {
    pub(super) fn new(state: &State) -> Self {
        if state.non_roots().is_empty() {
            return Self::default();
        }
        let slots = state.provider_slots();
        let mut lineage = Self {
            root_of: vec![0; slots],
            parent_of: vec![0; slots],
        };
        for word in 0..slots.div_ceil(64) {
            for slot in bits(state.non_roots().word(word), word) {
                let Some(provider) = state.provider(ProviderId(slot)) else {
                    continue;
                };
                lineage.root_of[slot as usize] = provider.root.0;
                lineage.parent_of[slot as usize] = provider.parent.map_or(slot, |parent| parent.0);
            }
        }
        lineage
    }

    /// The root of the tree of a provider that is no root itself.
    #[inline]
    pub(super) fn root_of(&self, slot: u32) -> u32 {
        self.root_of[slot as usize]
    }
}

/// The children of each provider, in rising order of slot (compressed sparse rows).
pub(super) struct Children {
    /// By slot: the offset of its first child. Its children end at the offset of the next slot.
    offsets: Vec<u32>,
    children: Vec<u32>,
}

impl Children {
    pub(super) fn new(state: &State, lineage: &Lineage) -> Self {
        let slots = state.provider_slots();
        let mut offsets = vec![0u32; slots + 1];
        let non_roots = || state.non_roots().iter();
        for slot in non_roots() {
            offsets[lineage.parent_of[slot as usize] as usize + 1] += 1;
        }
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum;
        }
        // By slot: the offset at which its next child is stored.
        let mut free_offsets = offsets.clone();
        let mut children = vec![0; sum as usize];
        for slot in non_roots() {
            let offset = &mut free_offsets[lineage.parent_of[slot as usize] as usize];
            children[*offset as usize] = slot;
            *offset += 1;
        }
        Self { offsets, children }
    }

    /// The children of a provider.
    #[inline]
    pub(super) fn children_of(&self, slot: u32) -> &[u32] {
        let slot = slot as usize;
        &self.children[self.offsets[slot] as usize..self.offsets[slot + 1] as usize]
    }
}
