//! The data that the tasks of control share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use placewright_conductor::CellId;
use placewright_conductor::control::ControlState;

use crate::availability::AvailabilityReports;
use crate::handle::ControlHandle;
use crate::leading::Leading;
use crate::outbox::Outbox;
use crate::pending_work::{self, PendingWork};
use crate::placement_queue::{PlacementQueue, WaitingForHost};
use crate::rankers::Rankers;
use crate::scheduler::SchedulerHandle;

/// The data that the tasks share.
pub(crate) struct RuntimeContext {
    pub(crate) control: ControlHandle,
    pub(crate) scheduler: SchedulerHandle,
    pub(crate) availability_reports: Mutex<AvailabilityReports>,
    pub(crate) outboxes: RwLock<BTreeMap<CellId, Arc<Outbox>>>,
    pub(crate) placement_queue: PlacementQueue,
    pub(crate) leading: Leading,
    pub(crate) rankers: Mutex<Rankers>,
}

impl RuntimeContext {
    /// Whether this process ranks hosts for work that has just begun to wait, because it accepted the request.
    fn ranks_new(&self, waiting: &WaitingForHost) -> bool {
        let engine = self.control.engine();
        !engine.is_replica() || self.rankers.lock().is_own(waiting.id(), engine.origin())
    }

    /// Whether this process ranks hosts for work that has waited for a while: it accepted the request, or it leads and
    /// the replica that accepted the request is silent.
    fn ranks_waiting(&self, waiting: &WaitingForHost, leads: bool, at: Instant) -> bool {
        let engine = self.control.engine();
        if !engine.is_replica() {
            return true;
        }
        let rankers = self.rankers.lock();
        match leads {
            true => rankers.is_due(waiting.id(), engine.origin(), at),
            false => rankers.is_own(waiting.id(), engine.origin()),
        }
    }

    /// Queues all messages to a cell that has come up, also those that were sent to it before.
    pub(crate) fn resend_messages(&self, cell: CellId) {
        if let Some(outbox) = self.outboxes.read().get(&cell) {
            outbox.make_all_due();
        }
        self.control.engine().read_now(|machine| {
            self.queue_pending_work(&machine.state, Some(cell));
        });
    }

    /// Queues the work that changes call for. A message is due at once, also if it was sent before the
    /// change.
    pub(crate) fn queue_changed_work(&self, pending: Vec<PendingWork>) {
        let leads = self.leading.is_own();
        let mut waiting = Vec::new();
        for work in pending {
            match work {
                PendingWork::Schedule(one) if self.ranks_new(&one) => waiting.push(one),
                PendingWork::Schedule(_) => {}
                // The replica that leads sends all messages.
                PendingWork::Send(cell, key) if leads => {
                    if let Some(outbox) = self.outboxes.read().get(&cell) {
                        outbox.queue_changed(key);
                    }
                }
                PendingWork::Send(..) => {}
            }
        }
        self.placement_queue.schedule(waiting);
    }

    /// Queues the work that the state calls for: the selection of hosts, and those messages to one cell,
    /// or to all, that are due.
    pub(crate) fn queue_pending_work(&self, control: &ControlState, only_cell: Option<CellId>) {
        let at = Instant::now();
        let leads = self.leading.is_own();
        let outboxes = self.outboxes.read();
        let mut waiting = Vec::new();
        for work in pending_work::all(control) {
            match work {
                PendingWork::Send(cell, key)
                    if leads && only_cell.is_none_or(|only| only == cell) =>
                {
                    if let Some(outbox) = outboxes.get(&cell) {
                        outbox.queue_if_due(key, at);
                    }
                }
                PendingWork::Send(..) => {}
                PendingWork::Schedule(one) if self.ranks_waiting(&one, leads, at) => {
                    waiting.push(one);
                }
                PendingWork::Schedule(_) => {}
            }
        }
        self.placement_queue.schedule(waiting);
    }
}
