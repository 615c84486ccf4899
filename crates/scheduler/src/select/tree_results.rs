//! Which provider trees are feasible for a query, kept until the trees change.

use placewright_placement::{HostSearch, ProviderId, State};

/// The minimum and maximum number of entries.
const ENTRIES: (usize, usize) = (64, 1 << 14);

/// Which query of which class a result belongs to. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryKey {
    /// The number of the entry of the class.
    pub(super) number: u64,
    /// Whether it is the query that is searched when the first finds nothing.
    pub(super) is_fallback: bool,
}

/// The versions of placement's state that a result depends on, besides the hosts in the change
/// log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateVersion {
    structure: u64,
    sharing: u64,
}

impl StateVersion {
    pub(super) fn of(state: &State, search: &HostSearch<'_>) -> Self {
        let log = state.touched();
        // Changes of sharing providers matter only to queries that may take from them.
        let sharing = if search.takes_shared() {
            log.sharing() + 1
        } else {
            0
        };
        Self {
            structure: log.structure(),
            sharing,
        }
    }
}

/// The results of one query: a direct-mapped table by the root of the tree.
#[derive(Debug, Default)]
pub(super) struct TreeResults {
    valid_for: Option<(QueryKey, StateVersion)>,
    /// Entries of other generations are invalid.
    generation: u32,
    /// Empty until the first tree is tested.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    root: u32,
    generation: u32,
    /// The position of the tree's last change for which the result holds, shifted left; the lowest
    /// bit is the result.
    result: u64,
}

const NO_ENTRY: Entry = Entry {
    root: u32::MAX,
    generation: 0,
    result: 0,
};

impl TreeResults {
    /// Forgets all results unless they are for this query and version.
    pub(super) fn start(&mut self, query: QueryKey, version: StateVersion) {
        if self.valid_for == Some((query, version)) {
            return;
        }
        self.valid_for = Some((query, version));
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.entries.fill(NO_ENTRY);
        }
    }

    /// Whether a tree is feasible: as it was found before, or by a test now.
    pub(super) fn is_feasible(
        &mut self,
        state: &State,
        root: ProviderId,
        test: impl FnOnce() -> bool,
    ) -> bool {
        if self.entries.is_empty() {
            // Twice as many entries as trees, so that collisions are few.
            let wanted = (state.parents().len() * 2).next_power_of_two();
            self.entries = vec![NO_ENTRY; wanted.clamp(ENTRIES.0, ENTRIES.1)];
        }
        let position = state.touched().last(root);
        let generation = self.generation;
        let entry = self.entry(root);
        if (entry.root, entry.generation, entry.result >> 1) != (root.0, generation, position) {
            *entry = Entry {
                root: root.0,
                generation,
                result: position << 1 | u64::from(test()),
            };
        }
        entry.result & 1 == 1
    }

    fn entry(&mut self, root: ProviderId) -> &mut Entry {
        // Spreads neighbouring roots; the length is a power of two.
        let spread = root.0.wrapping_mul(0x9e37_79b1) >> 8;
        let number = spread as usize & (self.entries.len() - 1);
        &mut self.entries[number]
    }
}
