//! The data that the tasks of a cell share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
use crate::machine::{CellMachine, TimedEvent};
use crate::options::Options;
use crate::read_model::ReadModel;
use crate::retry_schedule::micros;

/// The data that the tasks of a cell share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) engine: Engine<CellMachine>,
    pub(crate) placement: Arc<dyn PlacementLink>,
    /// No task waits for anything while it holds this lock.
    pub(crate) read_model: Mutex<ReadModel>,
    pub(crate) claim_requests: ClaimQueue,
    /// True once the cell is shutting down.
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) counts: Counters,
}

/// Counters since the start, for [`CellMetrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) orders: AtomicU64,
    pub(crate) orders_dropped: AtomicU64,
    pub(crate) claim_requests: AtomicU64,
    pub(crate) claim_requests_failed: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) followers_cut_off: AtomicU64,
}

/// Counters since the cell's start, and present sizes, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellMetrics {
    /// The number of instances.
    pub instances: u64,
    /// The number of hosts that ever began a session.
    pub hosts: u64,
    /// The number of hosts that are up.
    pub hosts_up: u64,
    /// Connections of agents since the start.
    pub connections: u64,
    /// Orders sent to agents.
    pub orders: u64,
    /// Orders that were not sent, because there was no connection or its queue was full; they are
    /// repeated.
    pub orders_dropped: u64,
    /// Claim requests that placement answered.
    pub claim_requests: u64,
    /// Claim requests that placement did not answer; they are repeated.
    pub claim_requests_failed: u64,
    /// Effects that were repeated because there was no answer.
    pub repeated: u64,
    /// The present number of followers.
    pub followers: u64,
    /// Followers that were disconnected because they received nothing for too long.
    pub followers_cut_off: u64,
    /// Events that wait to be decided.
    pub queued: u64,
}

/// Adds to a counter.
pub(crate) fn add_to(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// The present time of the system clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(since.map_or(0, micros))
}

impl Shared {
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

    pub(crate) fn peer(&self) -> String {
        peer(self.options.cell)
    }

    /// The error for a caller whose event the engine could not handle.
    pub(crate) fn unavailable(&self, error: &SubmitError) -> LinkError {
        LinkError::Unavailable {
            peer: self.peer(),
            why: chain(error),
        }
    }

    /// Waits until the cell is shutting down.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender is in this struct, so it cannot be gone.
        let _ = stop.wait_for(|is_stopped| *is_stopped).await;
    }

    pub(crate) fn metrics(&self) -> CellMetrics {
        let counts = &self.counts;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let read_model = self.read_model.lock();
        CellMetrics {
            instances: read_model.instance_count() as u64,
            hosts: read_model.hosts().count() as u64,
            hosts_up: read_model.hosts().filter(|(_, host)| host.is_up()).count() as u64,
            connections: value(&counts.connections),
            orders: value(&counts.orders),
            orders_dropped: value(&counts.orders_dropped),
            claim_requests: value(&counts.claim_requests),
            claim_requests_failed: value(&counts.claim_requests_failed),
            repeated: value(&counts.repeated),
            followers: read_model.follower_queues.count() as u64,
            followers_cut_off: value(&counts.followers_cut_off),
            queued: self.engine.queued() as u64,
        }
    }
}

fn peer(cell: CellId) -> String {
    format!("cell {cell}")
}
