//! Which hosts are feasible: tests by masks for 64 hosts at a time, exact tests for single hosts.
//!
//! The conditions of a request are in two parts. The conditions of its *request class* are the same for all
//! requests of the class (capacity, traits, most filters), so that test results can be cached. The
//! conditions of the *single request* (its server group, excluded hosts) are tested anew in each search.

/// The feasibility of the hosts of a block for a request class, as far as masks decide it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFeasibility {
    /// Hosts that are feasible.
    pub feasible: u64,
    /// Hosts that need the exact test, [`Feasibility::passes_exact_test_for_class`].
    pub undecided: u64,
}

impl BlockFeasibility {
    /// The hosts that are feasible or undecided.
    #[must_use]
    pub fn possible(&self) -> u64 {
        self.feasible | self.undecided
    }
}

/// Decides which hosts are feasible for a request.
pub trait Feasibility {
    /// Tests the hosts of a block for the class by masks. No host is both feasible and undecided.
    fn test_block_for_class(&self, block: usize) -> BlockFeasibility;

    /// The hosts of a block that satisfy everything of the class but capacity.
    fn eligible_for_class(&self, block: usize) -> u64;

    /// The exact test of an undecided host for the class.
    fn passes_exact_test_for_class(&self, slot: u32) -> bool;

    /// Whether a host is feasible for the class: combines [`Self::test_block_for_class`] and
    /// [`Self::passes_exact_test_for_class`] for one host, which is cheaper than testing its whole
    /// block.
    fn is_feasible_for_class(&self, slot: u32) -> bool;

    /// The hosts of a mask, without those that masks exclude for this single request.
    fn filter_block_for_request(&self, block: usize, mask: u64) -> u64;

    /// The exact test for this single request of a host that [`Self::filter_block_for_request`]
    /// returned.
    fn passes_exact_test_for_request(&self, slot: u32) -> bool;
}
