//! Who will do: asked of 64 hosts at a glance, and closely of those that matter.

use super::BLOCK_HOSTS;

/// Which of 64 hosts will do for a class of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Those that will do.
    pub sure: u64,
    /// Those that have to be asked one by one.
    pub unsure: u64,
}

/// Says which hosts will do.
pub trait Admission {
    /// The 64 hosts of a block, as far as the class of the request goes. No host is both sure and
    /// unsure.
    fn block(&self, block: usize) -> Admitted;

    /// The hosts of a block that could do for the class if they had room.
    fn kind(&self, block: usize) -> u64;

    /// Whether an unsure host will do for the class. Asked only of hosts that matter.
    fn admits(&self, slot: u32) -> bool;

    /// Whether one host will do for the class: what [`Self::block`] and [`Self::admits`] say together,
    /// for a host whose neighbours nobody asks about.
    fn admits_alone(&self, slot: u32) -> bool;

    /// Which hosts of a mask this one request does not refuse at a glance.
    fn request_block(&self, block: usize, mask: u64) -> u64;

    /// Whether this one request takes a host of which [`Self::request_block`] said yes. Asked only of
    /// hosts that matter.
    fn request_admits(&self, slot: u32) -> bool;
}

/// What was said of blocks and hosts, remembered for those that come up several times.
pub(super) struct Memo<'a, A> {
    admission: &'a A,
    entries: [Entry; 16],
}

#[derive(Clone, Copy)]
struct Entry {
    block: usize,
    admitted: Admitted,
    /// What the one request leaves of both masks.
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

    /// The hosts of a block that may do for the class.
    pub(super) fn class(&mut self, block: usize) -> u64 {
        let admitted = self.entry(block).admitted;
        admitted.sure | admitted.unsure
    }

    /// The hosts of a block that could do for the class if they had room.
    pub(super) fn kind(&self, block: usize) -> u64 {
        self.admission.kind(block)
    }

    /// The hosts of a block that may do for the request.
    pub(super) fn request(&mut self, block: usize) -> u64 {
        self.entry(block).request
    }

    /// Whether a host that may do for the class does.
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

    /// Whether a host that may do for the request, and does for the class, does.
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
