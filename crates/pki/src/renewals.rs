//! How many certificates a holder may have at a time.
//!
//! Each renewal is a line of the ledger and a wait for the disk. Whoever holds one certificate could
//! otherwise fill the disk with renewals of it.

use std::collections::{BTreeMap, VecDeque};

use placewright_identity::Identity;

use crate::invitation::sha256;

/// The most certificates of the same names that were got by renewal and have not ended. Several holders
/// may share names, as all agents of `host/*` do.
pub const RENEWED_MAX: usize = 10_000;

/// The renewals of a process that have not ended, by the names of their holders.
#[derive(Debug, Default)]
pub struct Renewals(BTreeMap<[u8; 32], VecDeque<i64>>);

impl Renewals {
    /// Whether one more certificate of these names may be had by renewal at the time `now`, in seconds
    /// since 1970.
    pub fn may_add(&mut self, identity: &Identity, now: i64) -> bool {
        self.0.retain(|_, ends| {
            while ends.front().is_some_and(|end| *end < now) {
                ends.pop_front();
            }
            !ends.is_empty()
        });
        let ends = self.0.get(&key(identity));
        ends.is_none_or(|ends| ends.len() < RENEWED_MAX)
    }

    /// Counts a certificate that ends at `end`.
    pub fn add(&mut self, identity: &Identity, end: i64) {
        self.0.entry(key(identity)).or_default().push_back(end);
    }
}

fn key(identity: &Identity) -> [u8; 32] {
    sha256(identity.uris().join("\n").as_bytes())
}
