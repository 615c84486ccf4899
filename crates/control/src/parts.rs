//! What the tasks of control share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use placewright_conductor::CellId;
use placewright_conductor::control::Control;

use crate::conductor::Conductor;
use crate::outbox::Outbox;
use crate::place::Places;
use crate::scheduler::Ranker;
use crate::signs::Signs;
use crate::wanted::{self, Wanted};

/// The data that the tasks share.
pub(crate) struct Parts {
    pub(crate) conductor: Conductor,
    pub(crate) ranker: Ranker,
    pub(crate) signs: Mutex<Signs>,
    pub(crate) outboxes: RwLock<BTreeMap<CellId, Arc<Outbox>>>,
    pub(crate) places: Places,
}

impl Parts {
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
    pub(crate) fn do_now(&self, wanted: Wanted) {
        match wanted {
            Wanted::Schedule(reservation, instance) => self.places.schedule(reservation, instance),
            Wanted::ScheduleMove(migration) => self.places.schedule_move(migration),
            Wanted::Tell(cell, key) => {
                if let Some(outbox) = self.outboxes.read().get(&cell) {
                    outbox.tell(key);
                }
            }
        }
    }

    /// Makes due what the state calls for, of one cell or of all.
    pub(crate) fn remind(&self, control: &Control, only: Option<CellId>) {
        let at = Instant::now();
        let outboxes = self.outboxes.read();
        for wanted in wanted::all(control) {
            match wanted {
                Wanted::Tell(cell, key) if only.is_none_or(|only| only == cell) => {
                    if let Some(outbox) = outboxes.get(&cell) {
                        outbox.remind(key, at);
                    }
                }
                Wanted::Tell(..) => {}
                Wanted::Schedule(reservation, instance) => {
                    self.places.schedule(reservation, instance);
                }
                Wanted::ScheduleMove(migration) => self.places.schedule_move(migration),
            }
        }
        self.places.go();
    }
}
