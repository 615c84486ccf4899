//! The limit of renewed certificates that a holder has at the same time.
//!
//! Each renewal writes a line of the register and waits for the disk. Without a limit, the holder of one
//! certificate could fill the disk with renewals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use placewright_identity::Identity;

use crate::invitation::sha256;

/// The most certificates of the same names that were issued by renewal and have not expired. Several
/// holders may share names, as all agents of `host/*` do.
pub const RENEWED_MAX: usize = 10_000;

/// The renewed certificates that have not expired.
#[derive(Debug, Default)]
pub struct Renewals {
    /// The expiry times of the certificates in seconds since 1970, by a hash of the certificates' names.
    expiries_by_names: BTreeMap<[u8; 32], BinaryHeap<Reverse<i64>>>,
}

impl Renewals {
    /// Whether a certificate of these names may be renewed at the time `now`, in seconds since 1970. Forgets the
    /// certificates that have expired by then.
    pub fn may_add(&mut self, identity: &Identity, now: i64) -> bool {
        self.expiries_by_names.retain(|_, expiries| {
            while expiries
                .peek()
                .is_some_and(|Reverse(expires_at)| *expires_at < now)
            {
                expiries.pop();
            }
            !expiries.is_empty()
        });
        let expiries = self.expiries_by_names.get(&names_hash(identity));
        expiries.is_none_or(|expiries| expiries.len() < RENEWED_MAX)
    }

    /// Counts a renewed certificate that expires at `expires_at`, in seconds since 1970.
    pub fn add(&mut self, identity: &Identity, expires_at: i64) {
        let expiries = self.expiries_by_names.entry(names_hash(identity));
        expiries.or_default().push(Reverse(expires_at));
    }
}

fn names_hash(identity: &Identity) -> [u8; 32] {
    sha256(identity.uris().join("\n").as_bytes())
}
