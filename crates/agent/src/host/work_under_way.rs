//! The work under way on a host: at most one piece for each guest, and at most one order that is queued behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::cell_conductor::Order;

use crate::driver::{DriverError, Operation};
use crate::guest_log::GuestKey;

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All operations of the work succeeded.
    Done,
    /// An operation failed; the ones after it were not tried.
    Failed {
        /// The error of the driver.
        error: DriverError,
        /// Whether the guest was removed afterwards.
        was_undone: bool,
    },
    /// The work was cancelled.
    Cancelled,
}

/// A piece of work that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkResult {
    /// The number of the work.
    pub number: u64,
    /// The guest that was worked on.
    pub guest: GuestKey,
    /// How the work ended.
    pub outcome: Outcome,
}

/// The order that is queued behind the work under way on a guest.
#[derive(Clone, Debug)]
pub(super) enum QueuedOrder {
    Nothing,
    Destroy,
    Step(Arc<Order>),
}

/// A piece of work under way, and the order that is queued behind it.
#[derive(Clone, Debug)]
pub(super) struct RunningWork {
    number: u64,
    pub(super) operations: Vec<Operation>,
    /// The order that the work carries out; `None` for work that destroys the guest.
    pub(super) order: Option<Arc<Order>>,
    is_cancelled: bool,
    pub(super) queued: QueuedOrder,
}

/// All work under way on the host, by guest, each piece with the order that is queued behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkUnderWay {
    last_number: u64,
    work: BTreeMap<GuestKey, RunningWork>,
}

impl WorkUnderWay {
    pub(super) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    pub(super) fn is_under_way(&self, key: GuestKey) -> bool {
        self.work.contains_key(&key)
    }

    /// Registers work, and returns the number that it is given.
    pub(super) fn begin(
        &mut self,
        key: GuestKey,
        operations: &[Operation],
        order: Option<Arc<Order>>,
    ) -> u64 {
        self.last_number += 1;
        let running = RunningWork {
            number: self.last_number,
            operations: operations.to_vec(),
            order,
            is_cancelled: false,
            queued: QueuedOrder::Nothing,
        };
        self.work.insert(key, running);
        self.last_number
    }

    /// Removes work that has ended; none if there is no work with this number.
    pub(super) fn end(&mut self, key: GuestKey, number: u64) -> Option<RunningWork> {
        let running = self.work.get(&key)?;
        if running.number != number {
            return None;
        }
        self.work.remove(&key)
    }

    /// Queues a step behind the work under way, unless that work is for the same attempt and is not cancelled.
    /// Returns the work's number if it has to be cancelled now.
    pub(super) fn queue_step(&mut self, key: GuestKey, order: Arc<Order>) -> Option<u64> {
        let running = self.work.get_mut(&key)?;
        let is_same_attempt = running
            .order
            .as_ref()
            .is_some_and(|running_order| running_order.attempt == order.attempt);
        if is_same_attempt && !running.is_cancelled {
            return None;
        }
        running.queued = QueuedOrder::Step(order);
        // Work without an order destroys the guest, and is never cancelled.
        let must_cancel = !running.is_cancelled && running.order.is_some();
        running.is_cancelled |= must_cancel;
        must_cancel.then_some(running.number)
    }

    /// Queues the destruction of the guest behind the work under way. Returns the work's number if
    /// it has to be cancelled now.
    pub(super) fn queue_destroy(&mut self, key: GuestKey) -> Option<u64> {
        let running = self.work.get_mut(&key)?;
        if running.order.is_none() {
            // The work under way destroys the guest already.
            running.queued = QueuedOrder::Nothing;
            return None;
        }
        running.queued = QueuedOrder::Destroy;
        let must_cancel = !running.is_cancelled;
        running.is_cancelled = true;
        must_cancel.then_some(running.number)
    }

    /// Drops the queued steps, because the session has ended: the cell orders those again that are
    /// still needed.
    pub(super) fn drop_queued_steps(&mut self) {
        for running in self.work.values_mut() {
            if matches!(running.queued, QueuedOrder::Step(_)) {
                running.queued = QueuedOrder::Nothing;
            }
        }
    }
}
