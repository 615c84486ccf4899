//! Which hosts are feasible: tests by masks for 64 hosts at a time, exact tests for single hosts.
//!
//! The conditions of a request are in two parts. Those of its *class* are the same for all equal
//! requests (capacity, traits, most filters), so what is found out about them can be kept. Those
//! of the single *request* (its server group, excluded hosts) are tested in each search anew.

/// The feasibility of 64 hosts for a class of requests, as far as masks can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFeasibility {
    /// Hosts that are feasible.
    pub feasible: u64,
    /// Hosts that need the exact test, [`Feasibility::decide_for_class`].
    pub undecided: u64,
}

impl BlockFeasibility {
    /// The hosts that are feasible or may be.
    #[must_use]
    pub fn possible(&self) -> u64 {
        self.feasible | self.undecided
    }
}

/// Decides which hosts are feasible for a request.
pub trait Feasibility {
    /// Tests the 64 hosts of a block for the class by masks. No host is both feasible and
    /// undecided.
    fn class_block(&self, block: usize) -> BlockFeasibility;

    /// The hosts of a block that satisfy everything of the class but capacity.
    fn class_eligible(&self, block: usize) -> u64;

    /// The exact test of an undecided host for the class.
    fn decide_for_class(&self, slot: u32) -> bool;

    /// Whether a host is feasible for the class: [`Self::class_block`] and
    /// [`Self::decide_for_class`] for one host, without the cost of its neighbours.
    fn is_feasible_for_class(&self, slot: u32) -> bool;

    /// The hosts of a mask that this single request does not exclude by masks.
    fn request_block(&self, block: usize, mask: u64) -> u64;

    /// The exact test of a host that [`Self::request_block`] let pass for this single request.
    fn is_feasible_for_request(&self, slot: u32) -> bool;
}
