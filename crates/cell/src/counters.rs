//! The counters of a cell.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start, for [`crate::CellMetrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) orders: AtomicU64,
    pub(crate) orders_dropped: AtomicU64,
    pub(crate) claim_requests: AtomicU64,
    pub(crate) claim_requests_failed: AtomicU64,
    pub(crate) effects_repeated: AtomicU64,
    pub(crate) followers_cut_off: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add_to(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}
