//! The work under way on a host: at most one piece for each guest.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::cell_conductor::Order;

use crate::driver::{DriverError, Operation};
use crate::record::GuestKey;

/// The result of work.
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

/// What follows when the work under way on a guest has ended.
#[derive(Clone, Debug)]
pub(super) enum NextStep {
    Nothing,
    Destroy,
    Step(Arc<Order>),
}

/// A piece of work under way, and what follows it.
#[derive(Clone, Debug)]
pub(super) struct RunningWork {
    number: u64,
    pub(super) operations: Vec<Operation>,
    pub(super) order: Option<Arc<Order>>,
    is_cancelled: bool,
    pub(super) then: NextStep,
}

/// All work under way on the host, by guest.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkQueue {
    last: u64,
    work: BTreeMap<GuestKey, RunningWork>,
}

impl WorkQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    pub(super) fn is_at(&self, key: GuestKey) -> bool {
        self.work.contains_key(&key)
    }

    /// Registers work, and returns its number.
    pub(super) fn begin(
        &mut self,
        key: GuestKey,
        operations: &[Operation],
        order: Option<Arc<Order>>,
    ) -> u64 {
        self.last += 1;
        let under = RunningWork {
            number: self.last,
            operations: operations.to_vec(),
            order,
            is_cancelled: false,
            then: NextStep::Nothing,
        };
        self.work.insert(key, under);
        self.last
    }

    /// Removes work that has ended.
    pub(super) fn end(&mut self, key: GuestKey, number: u64) -> Option<RunningWork> {
        let under = self.work.get(&key)?;
        if under.number != number {
            return None;
        }
        self.work.remove(&key)
    }

    /// Queues a step behind the work under way. Returns the work's number if the work is to be
    /// cancelled, because it is for another attempt.
    pub(super) fn wait_with(&mut self, key: GuestKey, order: Arc<Order>) -> Option<u64> {
        let under = self.work.get_mut(&key)?;
        let is_same = under
            .order
            .as_ref()
            .is_some_and(|before| before.attempt == order.attempt);
        if is_same && !under.is_cancelled {
            return None;
        }
        under.then = NextStep::Step(order);
        // A removal is never cancelled.
        let may_cancel = !under.is_cancelled && under.order.is_some();
        under.is_cancelled |= may_cancel;
        may_cancel.then_some(under.number)
    }

    /// Queues a removal behind the work under way. Returns the work's number if it is to be
    /// cancelled.
    pub(super) fn wait_to_destroy(&mut self, key: GuestKey) -> Option<u64> {
        let under = self.work.get_mut(&key)?;
        if under.order.is_none() {
            under.then = NextStep::Nothing;
            return None;
        }
        under.then = NextStep::Destroy;
        let may_cancel = !under.is_cancelled;
        under.is_cancelled = true;
        may_cancel.then_some(under.number)
    }

    /// Drops the steps that wait, because the session has ended: the cell asks again for those that
    /// it still wants.
    pub(super) fn forget_what_waits(&mut self) {
        for under in self.work.values_mut() {
            if matches!(under.then, NextStep::Step(_)) {
                under.then = NextStep::Nothing;
            }
        }
    }
}
