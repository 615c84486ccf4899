//! A cache of the feasibility tests of one search, so that a block that is visited several times is
//! tested once.

use crate::block::BLOCK_HOSTS;
use crate::rank::feasibility::{BlockFeasibility, Feasibility};

/// The number of blocks that are cached. A search visits few blocks, often the same ones.
const ENTRIES: usize = 16;

/// A direct-mapped cache of the tests of one search.
pub(super) struct FeasibilityCache<'a, F> {
    feasibility: &'a F,
    entries: [Entry; ENTRIES],
}

/// The result of the tests of one block of hosts.
#[derive(Clone, Copy)]
struct Entry {
    block: usize,
    /// The feasible and the undecided hosts of the class.
    for_class: BlockFeasibility,
    /// The feasible and undecided hosts of the class, without those that masks exclude for the present request of the
    /// class.
    possible_for_request: u64,
}

impl<'a, F: Feasibility> FeasibilityCache<'a, F> {
    pub(super) fn new(feasibility: &'a F) -> Self {
        let empty = Entry {
            block: usize::MAX,
            for_class: BlockFeasibility::default(),
            possible_for_request: 0,
        };
        Self {
            feasibility,
            entries: [empty; ENTRIES],
        }
    }

    /// The tests of a block, made now if they are not cached.
    fn entry(&mut self, block: usize) -> &mut Entry {
        let entry = &mut self.entries[block % ENTRIES];
        if entry.block != block {
            let for_class = self.feasibility.test_block_for_class(block);
            let possible_for_request = match for_class.possible() {
                0 => 0,
                mask => self.feasibility.filter_block_for_request(block, mask),
            };
            *entry = Entry {
                block,
                for_class,
                possible_for_request,
            };
        }
        entry
    }

    /// The hosts of a block that are feasible or undecided for the class.
    pub(super) fn possible_for_class(&mut self, block: usize) -> u64 {
        self.entry(block).for_class.possible()
    }

    /// The hosts of a block that satisfy everything of the class but capacity.
    pub(super) fn eligible(&self, block: usize) -> u64 {
        self.feasibility.eligible_for_class(block)
    }

    /// The hosts of a block that are feasible or undecided for the class, without those that masks
    /// exclude for the single request.
    pub(super) fn possible_for_request(&mut self, block: usize) -> u64 {
        self.entry(block).possible_for_request
    }

    /// Whether a host is feasible for the class. The result of the exact test is cached.
    pub(super) fn is_feasible_for_class(&mut self, block: usize, bit: usize) -> bool {
        let host_bit = 1 << bit;
        if self.entries[block % ENTRIES].block != block {
            return self.feasibility.is_feasible_for_class(slot_of(block, bit));
        }
        let for_class = self.entry(block).for_class;
        if for_class.undecided & host_bit == 0 {
            return for_class.feasible & host_bit != 0;
        }
        let is_feasible = self
            .feasibility
            .passes_exact_test_for_class(slot_of(block, bit));
        let entry = self.entry(block);
        entry.for_class.undecided &= !host_bit;
        entry.for_class.feasible |= u64::from(is_feasible) << bit;
        is_feasible
    }

    /// Whether a host that is feasible for the class is also feasible for the single request.
    pub(super) fn is_feasible_for_request(&mut self, block: usize, bit: usize) -> bool {
        if self.entries[block % ENTRIES].block != block {
            let host_bit = 1 << bit;
            return self.feasibility.filter_block_for_request(block, host_bit) == host_bit
                && self
                    .feasibility
                    .passes_exact_test_for_request(slot_of(block, bit));
        }
        let entry = self.entry(block);
        if entry.possible_for_request >> bit & 1 == 0 {
            return false;
        }
        let is_feasible = self
            .feasibility
            .passes_exact_test_for_request(slot_of(block, bit));
        if !is_feasible {
            self.entry(block).possible_for_request &= !(1 << bit);
        }
        is_feasible
    }
}

/// The slot of a host by its block and its bit in the block's mask.
pub(super) fn slot_of(block: usize, bit: usize) -> u32 {
    u32::try_from(block * BLOCK_HOSTS + bit).unwrap_or(u32::MAX)
}
