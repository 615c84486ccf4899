//! What the tasks of control share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use placewright_conductor::CellId;
use placewright_conductor::control::ControlState;

use crate::availability::AvailabilityReports;
use crate::handle::ControlHandle;
use crate::outbox::Outbox;
use crate::pending_work::{self, PendingWork};
use crate::place::PlacementQueue;
use crate::scheduler::SchedulerHandle;

/// The data that the tasks share.
pub(crate) struct RuntimeContext {
    pub(crate) conductor: ControlHandle,
    pub(crate) ranker: SchedulerHandle,
    pub(crate) availability_reports: Mutex<AvailabilityReports>,
    pub(crate) outboxes: RwLock<BTreeMap<CellId, Arc<Outbox>>>,
    pub(crate) places: PlacementQueue,
}

impl RuntimeContext {
    /// Makes all messages to a cell due that has come (back) up.
    pub(crate) fn returned(&self, cell: CellId) {
        if let Some(outbox) = self.outboxes.read().get(&cell) {
            outbox.forget_sent();
        }
        self.conductor.engine().read_now(|machine| {
            self.remind(&machine.0, Some(cell));
        });
    }

    /// Carries out one piece of work.
    pub(crate) fn do_now(&self, wanted: PendingWork) {
        match wanted {
            PendingWork::Schedule(reservation, instance) => {
                self.places.schedule(reservation, instance);
            }
            PendingWork::ScheduleMove(migration) => self.places.schedule_move(migration),
            PendingWork::Tell(cell, key) => {
                if let Some(outbox) = self.outboxes.read().get(&cell) {
                    outbox.tell(key);
                }
            }
        }
    }

    /// Makes due what the state calls for, of one cell or of all.
    pub(crate) fn remind(&self, control: &ControlState, only: Option<CellId>) {
        let at = Instant::now();
        let outboxes = self.outboxes.read();
        for wanted in pending_work::all(control) {
            match wanted {
                PendingWork::Tell(cell, key) if only.is_none_or(|only| only == cell) => {
                    if let Some(outbox) = outboxes.get(&cell) {
                        outbox.remind(key, at);
                    }
                }
                PendingWork::Tell(..) => {}
                PendingWork::Schedule(reservation, instance) => {
                    self.places.schedule(reservation, instance);
                }
                PendingWork::ScheduleMove(migration) => self.places.schedule_move(migration),
            }
        }
        self.places.go();
    }
}
