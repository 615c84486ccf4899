//! The best hosts of a search so far.

use super::admission::{Admission, Memo, slot_of};
use super::{BLOCK_HOSTS, kernel};

/// A host and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The host.
    pub slot: u32,
    /// Its score: higher is better. Comparable within one search only.
    pub score: f64,
}

impl Ranked {
    /// Better score first, then lower slot.
    fn precedes(&self, other: &Self) -> bool {
        self.score > other.score || (self.score == other.score && self.slot < other.slot)
    }
}

/// The best hosts seen so far.
pub(super) struct Found {
    pub(super) hosts: Vec<Ranked>,
    pub(super) count: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.hosts.len() == self.count
    }

    /// Whether a host would be among the best.
    fn takes(&self, host: &Ranked) -> bool {
        !self.is_full() || self.hosts.last().is_some_and(|last| host.precedes(last))
    }

    fn put(&mut self, host: Ranked) {
        let place = self.hosts.partition_point(|other| other.precedes(&host));
        self.hosts.truncate(self.count - 1);
        self.hosts.insert(place, host);
    }

    /// Whether a block whose hosts score at most this can hold one of the best.
    pub(super) fn wants(&self, block: usize, most: f64) -> bool {
        if !self.is_full() {
            return most > f64::NEG_INFINITY;
        }
        let Some(last) = self.hosts.last() else {
            return false;
        };
        let tie_is_late = block > last.slot as usize / BLOCK_HOSTS;
        most > last.score || (most == last.score && !tie_is_late)
    }
}

/// Offers the hosts of a block, the best first.
pub(super) fn offer<A: Admission>(
    block: usize,
    scores: &[f64; BLOCK_HOSTS],
    memo: &mut Memo<'_, A>,
    found: &mut Found,
) {
    let mut mask = memo.request(block);
    if let Some(last) = found.hosts.last().filter(|_| found.is_full()) {
        mask &= kernel::at_least(scores, last.score);
    }
    while let Some(bit) = kernel::first_best(scores, mask) {
        mask &= !(1 << bit);
        let host = Ranked {
            slot: slot_of(block, bit),
            score: scores[bit],
        };
        if !found.takes(&host) {
            return;
        }
        if memo.class_admits(block, bit) && memo.request_admits(block, bit) {
            found.put(host);
        }
    }
}
