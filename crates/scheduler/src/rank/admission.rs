//! Feasibility of hosts: cheap tests for 64 hosts at a time, exact tests for single hosts on
//! demand.

/// The feasibility of 64 hosts for a class of requests, as far as masks can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Hosts that are feasible.
    pub sure: u64,
    /// Hosts that need an exact test; [`Admission::admits`] makes it.
    pub unsure: u64,
}

/// Decides which hosts are feasible for a request. Conditions of the request's class, whose
/// results are cached, are separate from those of the single request.
pub trait Admission {
    /// Tests the 64 hosts of a block for the class. No host is both sure and unsure.
    fn block(&self, block: usize) -> Admitted;

    /// The hosts of a block that satisfy everything of the class but capacity.
    fn kind(&self, block: usize) -> u64;

    /// The exact test of an unsure host for the class. Called only for hosts with the best score.
    fn admits(&self, slot: u32) -> bool;

    /// The exact test of one host for the class: [`Self::block`] and [`Self::admits`] combined,
    /// without the cost of testing its neighbours.
    fn admits_alone(&self, slot: u32) -> bool;

    /// The hosts of a mask that this single request does not exclude by masks.
    fn request_block(&self, block: usize, mask: u64) -> u64;

    /// The exact test of a host for this single request, after [`Self::request_block`] let it
    /// pass. Called only for hosts with the best score.
    fn request_admits(&self, slot: u32) -> bool;
}
