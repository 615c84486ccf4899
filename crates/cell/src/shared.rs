//! The data that the tasks of a cell share while the cell leads.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use placewright_conductor::cell_conductor::{Event, Refusal};
use placewright_conductor::{CellId, Reply};
use placewright_engine::{Engine, SubmitError};
use placewright_errors::chain;
use placewright_link::{LinkError, PlacementLink};
use placewright_placement::Timestamp;
use tokio::sync::watch;

use crate::claim_queue::ClaimQueue;
use crate::counters::Counters;
use crate::machine::{CellMachine, TimedEvent};
use crate::options::Options;
use crate::read_model::ReadModel;
use crate::retry_schedule::micros;

/// The parts that a cell has during its whole life, whether it leads or stands by.
#[derive(Clone)]
pub(crate) struct CellParts {
    pub(crate) options: Arc<Options>,
    pub(crate) engine: Engine<CellMachine>,
    pub(crate) placement: Arc<dyn PlacementLink>,
    pub(crate) counts: Arc<Counters>,
}

/// The data that the tasks of a cell share while the cell leads. It is made anew each time the replica begins to lead.
pub(crate) struct LeaderState {
    pub(crate) options: Arc<Options>,
    pub(crate) engine: Engine<CellMachine>,
    pub(crate) placement: Arc<dyn PlacementLink>,
    /// No task waits for anything while it holds this lock.
    pub(crate) read_model: Mutex<ReadModel>,
    pub(crate) claim_requests: ClaimQueue,
    /// True once the cell does not lead any more, or is shutting down.
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) counts: Arc<Counters>,
}

/// The present time of the system clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(since.map_or(0, micros))
}

impl LeaderState {
    /// Submits an event. The future returns the decision once it is durable; dropping the future does
    /// not withdraw the event.
    pub(crate) fn submit(
        &self,
        event: Event,
    ) -> impl Future<Output = Result<Result<Reply, Refusal>, SubmitError>> + Send + use<> {
        self.engine.submit(TimedEvent {
            event,
            at: now(),
            options: self.options.conductor,
        })
    }

    /// Submits an event without waiting for its decision. For events that occur again if they are lost.
    pub(crate) fn submit_and_forget(&self, event: Event) {
        drop(self.submit(event));
    }

    /// The error for a caller whose event the engine could not handle.
    pub(crate) fn submit_error(&self, error: &SubmitError) -> LinkError {
        submit_error(&self.engine, self.options.cell, error)
    }

    /// Waits until the cell does not lead any more, or is shutting down.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // This struct holds the sender of the channel, so the channel is open.
        let _ = stop.wait_for(|is_stopped| *is_stopped).await;
    }
}

/// The error for a caller whose event the engine could not handle.
pub(crate) fn submit_error(
    engine: &Engine<CellMachine>,
    cell: CellId,
    error: &SubmitError,
) -> LinkError {
    match error {
        SubmitError::NotLeading => not_leading(engine, cell),
        error => LinkError::Unavailable {
            peer: peer(cell),
            why: chain(error),
        },
    }
}

/// The error for a caller of a replica that does not lead.
pub(crate) fn not_leading(engine: &Engine<CellMachine>, cell: CellId) -> LinkError {
    let leadership = engine.replica().leadership();
    let leadership = leadership.map(|leadership| leadership.borrow().clone());
    // With epoch 0 no leader is known. A replica that has just begun to lead may not work as the cell yet: then its own
    // address does not help the caller.
    let leader = leadership.filter(|leadership| leadership.epoch > 0 && !leadership.is_own);
    LinkError::NotLeading {
        peer: peer(cell),
        leader: leader.map(|leader| leader.address),
    }
}

pub(crate) fn peer(cell: CellId) -> String {
    format!("cell {cell}")
}
