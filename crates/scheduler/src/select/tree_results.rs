//! A cache of the provider trees that are feasible for a query, valid until the trees change.

use placewright_placement::{HostSearch, ProviderId, State};

/// The minimum and maximum number of entries.
const ENTRIES_MIN: usize = 64;
const ENTRIES_MAX: usize = 1 << 14;

/// Identifies the query to which a result belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryKey {
    /// The number of the request class; numbers are never reused.
    pub(super) number: u64,
    /// Whether the query is the fallback query of the class.
    pub(super) is_fallback: bool,
}

/// The versions of placement's state that a result depends on, besides the hosts in the change log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateVersion {
    /// The version of placement's structure.
    structure: u64,
    /// The version of the sharing providers, plus 1; 0 if the query uses none.
    sharing: u64,
}

impl StateVersion {
    pub(super) fn current(state: &State, search: &HostSearch<'_>) -> Self {
        let log = state.tree_changes();
        // Changes of sharing providers only matter to queries that may use them.
        let sharing = if search.depends_on_sharing() {
            log.sharing_version() + 1
        } else {
            0
        };
        Self {
            structure: log.structure_version(),
            sharing,
        }
    }
}

/// The results for one query: a direct-mapped cache by the root of the tree.
#[derive(Debug, Default)]
pub(super) struct TreeResults {
    valid_for: Option<(QueryKey, StateVersion)>,
    /// Only entries of this generation are valid, so that all are cleared by a new generation.
    generation: u32,
    /// Empty until the first tree is tested.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    root: u32,
    generation: u32,
    /// The lowest bit is the result. The other bits are the position, in placement's tree change log, of the
    /// tree's last change for which the result is valid.
    position_and_result: u64,
}

const NO_ENTRY: Entry = Entry {
    root: u32::MAX,
    generation: 0,
    position_and_result: 0,
};

impl TreeResults {
    /// Clears the results unless they are valid for this query and version.
    pub(super) fn clear_unless_valid(&mut self, query: QueryKey, version: StateVersion) {
        if self.valid_for == Some((query, version)) {
            return;
        }
        self.valid_for = Some((query, version));
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // The number wrapped around, so entries of earlier generations would become valid again.
            self.entries.fill(NO_ENTRY);
        }
    }

    /// Whether a tree is feasible, from the cache or by a test now.
    pub(super) fn is_feasible(
        &mut self,
        state: &State,
        root: ProviderId,
        test: impl FnOnce() -> bool,
    ) -> bool {
        if self.entries.is_empty() {
            // Twice as many entries as trees, so that collisions are few.
            let count = (state.parents().len() * 2).next_power_of_two();
            self.entries = vec![NO_ENTRY; count.clamp(ENTRIES_MIN, ENTRIES_MAX)];
        }
        let position = state.tree_changes().last_change(root);
        let generation = self.generation;
        let entry = self.entry(root);
        if (entry.root, entry.generation, entry.position_and_result >> 1)
            != (root.0, generation, position)
        {
            *entry = Entry {
                root: root.0,
                generation,
                position_and_result: position << 1 | u64::from(test()),
            };
        }
        entry.position_and_result & 1 == 1
    }

    /// The entry for a tree. It may still have the result for another tree.
    fn entry(&mut self, root: ProviderId) -> &mut Entry {
        // Fibonacci hashing, which spreads neighbouring roots. The number of entries is a power of two.
        let hash = root.0.wrapping_mul(0x9e37_79b1) >> 8;
        let index = hash as usize & (self.entries.len() - 1);
        &mut self.entries[index]
    }
}
