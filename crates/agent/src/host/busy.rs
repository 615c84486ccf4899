//! The work under way on a host: at most one piece for a guest.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::cell_conductor::Order;

use crate::driver::{DriverError, Verb};
use crate::record::GuestKey;

/// How work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed.
    Failed {
        /// Why.
        error: DriverError,
        /// Whether nothing of the guest is left.
        is_undone: bool,
    },
    /// It was given up as asked.
    Cancelled,
}

/// The end of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The work's number.
    pub number: u64,
    /// The guest.
    pub guest: GuestKey,
    /// How.
    pub outcome: Outcome,
}

/// What comes after the work under way.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Nothing,
    Destroy,
    Step(Arc<Order>),
}

/// Work under way.
#[derive(Clone, Debug)]
pub(super) struct Under {
    number: u64,
    pub(super) verbs: Vec<Verb>,
    pub(super) order: Option<Arc<Order>>,
    is_cancelled: bool,
    pub(super) then: Then,
}

/// All work under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy {
    last: u64,
    work: BTreeMap<GuestKey, Under>,
}

impl Busy {
    pub(super) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    pub(super) fn is_at(&self, key: GuestKey) -> bool {
        self.work.contains_key(&key)
    }

    /// Begins work, with the next number.
    pub(super) fn begin(
        &mut self,
        key: GuestKey,
        verbs: &[Verb],
        order: Option<Arc<Order>>,
    ) -> u64 {
        self.last += 1;
        let under = Under {
            number: self.last,
            verbs: verbs.to_vec(),
            order,
            is_cancelled: false,
            then: Then::Nothing,
        };
        self.work.insert(key, under);
        self.last
    }

    /// Takes ended work out.
    pub(super) fn end(&mut self, key: GuestKey, number: u64) -> Option<Under> {
        let under = self.work.get(&key)?;
        if under.number != number {
            return None;
        }
        self.work.remove(&key)
    }

    /// Has a step wait for the work under way. Returns the work's number if it is to be cancelled:
    /// it is the work for another attempt.
    pub(super) fn wait_with(&mut self, key: GuestKey, order: Arc<Order>) -> Option<u64> {
        let under = self.work.get_mut(&key)?;
        let is_same = under
            .order
            .as_ref()
            .is_some_and(|before| before.attempt == order.attempt);
        if is_same && !under.is_cancelled {
            return None;
        }
        under.then = Then::Step(order);
        // Destroying is never given up.
        let may_cancel = !under.is_cancelled && under.order.is_some();
        under.is_cancelled |= may_cancel;
        may_cancel.then_some(under.number)
    }

    /// Has the guest destroyed after the work under way. Returns its number if it is to be
    /// cancelled.
    pub(super) fn wait_to_destroy(&mut self, key: GuestKey) -> Option<u64> {
        let under = self.work.get_mut(&key)?;
        if under.order.is_none() {
            under.then = Then::Nothing;
            return None;
        }
        under.then = Then::Destroy;
        let may_cancel = !under.is_cancelled;
        under.is_cancelled = true;
        may_cancel.then_some(under.number)
    }

    /// A session ended: its steps that wait are asked for again if they are still wanted.
    pub(super) fn forget_what_waits(&mut self) {
        for under in self.work.values_mut() {
            if matches!(under.then, Then::Step(_)) {
                under.then = Then::Nothing;
            }
        }
    }
}
