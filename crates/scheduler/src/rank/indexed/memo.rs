//! The feasibility tests of one search, each made once.

use crate::block::BLOCK_HOSTS;
use crate::rank::admission::{Admission, Admitted};

/// A direct-mapped cache of the tests of one search, for blocks that are visited several times.
pub(super) struct Memo<'a, A> {
    admission: &'a A,
    entries: [Entry; 16],
}

#[derive(Clone, Copy)]
struct Entry {
    block: usize,
    admitted: Admitted,
    /// The hosts of both masks that also satisfy the single request.
    request: u64,
}

impl<'a, A: Admission> Memo<'a, A> {
    pub(super) fn new(admission: &'a A) -> Self {
        let nothing = Entry {
            block: usize::MAX,
            admitted: Admitted::default(),
            request: 0,
        };
        Self {
            admission,
            entries: [nothing; 16],
        }
    }

    fn entry(&mut self, block: usize) -> &mut Entry {
        let entry = &mut self.entries[block % 16];
        if entry.block != block {
            let admitted = self.admission.block(block);
            let mask = admitted.sure | admitted.unsure;
            let request = match mask {
                0 => 0,
                _ => self.admission.request_block(block, mask),
            };
            *entry = Entry {
                block,
                admitted,
                request,
            };
        }
        entry
    }

    /// The hosts of a block that are sure or unsure for the class.
    pub(super) fn class(&mut self, block: usize) -> u64 {
        let admitted = self.entry(block).admitted;
        admitted.sure | admitted.unsure
    }

    /// The hosts of a block that satisfy everything of the class but capacity.
    pub(super) fn kind(&self, block: usize) -> u64 {
        self.admission.kind(block)
    }

    /// The hosts of a block that are sure or unsure for the class and not excluded by the request.
    pub(super) fn request(&mut self, block: usize) -> u64 {
        self.entry(block).request
    }

    /// Whether a host is feasible for the class; an exact test is made once and remembered.
    pub(super) fn class_admits(&mut self, block: usize, bit: usize) -> bool {
        let one = 1 << bit;
        if self.entries[block % 16].block != block {
            return self.admission.admits_alone(slot_of(block, bit));
        }
        let admitted = self.entry(block).admitted;
        if admitted.unsure & one == 0 {
            return admitted.sure & one != 0;
        }
        let does = self.admission.admits(slot_of(block, bit));
        let entry = self.entry(block);
        entry.admitted.unsure &= !one;
        entry.admitted.sure |= u64::from(does) << bit;
        does
    }

    /// Whether a host that is feasible for the class is feasible for the single request too.
    pub(super) fn request_admits(&mut self, block: usize, bit: usize) -> bool {
        if self.entries[block % 16].block != block {
            let one = 1 << bit;
            return self.admission.request_block(block, one) == one
                && self.admission.request_admits(slot_of(block, bit));
        }
        let entry = self.entry(block);
        if entry.request >> bit & 1 == 0 {
            return false;
        }
        let does = self.admission.request_admits(slot_of(block, bit));
        if !does {
            self.entry(block).request &= !(1 << bit);
        }
        does
    }
}

pub(super) fn slot_of(block: usize, bit: usize) -> u32 {
    u32::try_from(block * BLOCK_HOSTS + bit).unwrap_or(u32::MAX)
}
