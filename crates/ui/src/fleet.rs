//! The live view of all hosts, for the pages of operators.
//!
//! A sampler looks at the state a few times a second, and keeps a compact row for each host with the version in which
//! it last changed. Each *look*, one pass over all hosts that may have changed, makes a new version if it finds that a
//! host, the name of an aggregate or the topology changed. The sampler runs only while somebody follows.
//!
//! A page that follows gets the rows that changed since the version that it has, whether that is the last one, an older
//! one or none. So after a break of its connection it gets only what changed meanwhile, and nothing about a page is
//! remembered here. The events of one look are written once for all pages.
//!
//! The rows also show changes that are not durable yet. When such a change is undone, the rows change back.

mod dictionary;
mod host;
mod past;
mod rows;
mod sampler;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use placewright_control::{PastStates, SchedulerHandle};
use placewright_http::{ApiError, ApiResult};
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::{Semaphore, mpsc, watch};

pub(crate) use past::past_fleet;
use rows::Rows;
pub(crate) use stream::StreamPosition;
use stream::{FleetStream, QUEUED_PIECES_MAX};

/// The most pages that follow the fleet at a time. Each of them is sent the events of at most two looks a second.
const FOLLOWERS_MAX: usize = 256;

/// The result of one look at the state, as the events for all pages that have the version before it.
#[derive(Debug, Default)]
struct Look {
    /// The version before the look.
    from: u64,
    /// The version that the look made.
    to: u64,
    /// The events; `None` if so many hosts changed that each stream reads the rows itself, in pieces.
    events: Option<Bytes>,
}

/// The data that the sampler and the streams share.
struct Shared {
    scheduler: SchedulerHandle,
    rows: Mutex<Rows>,
    /// The latest look that found a change.
    looks: watch::Sender<Arc<Look>>,
    /// A permit for each page that may follow; a page that follows holds one.
    followers: Arc<Semaphore>,
    /// Whether the sampler runs.
    is_sampler_running: Mutex<bool>,
}

impl Shared {
    fn has_followers(&self) -> bool {
        self.followers.available_permits() < FOLLOWERS_MAX
    }
}

/// A handle on the view of the fleet. Clones refer to the same view.
#[derive(Clone)]
pub struct FleetHandle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for FleetHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FleetHandle")
            .finish_non_exhaustive()
    }
}

impl FleetHandle {
    /// A view of the hosts of this scheduler. The sampler does not run before somebody follows.
    #[must_use]
    pub fn new(scheduler: SchedulerHandle) -> Self {
        let shared = Shared {
            scheduler,
            rows: Mutex::new(Rows::new()),
            looks: watch::Sender::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            is_sampler_running: Mutex::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The past states of the engine whose present hosts this view shows.
    pub(crate) fn past_states(&self) -> PastStates {
        PastStates::new(self.shared.scheduler.engine().clone())
    }

    /// The server-sent events for a page that has all rows up to the position `after`; `None` stands for a page that
    /// has no rows. The stream ends when the service stops.
    ///
    /// # Errors
    ///
    /// 503 when too many pages follow.
    pub(crate) fn follow(
        &self,
        after: Option<StreamPosition>,
        stopping: watch::Receiver<bool>,
    ) -> ApiResult<mpsc::Receiver<Bytes>> {
        let permit = Arc::clone(&self.shared.followers).try_acquire_owned();
        let permit = permit.map_err(|_| {
            ApiError::unavailable(format!("{FOLLOWERS_MAX} pages follow the fleet already."))
        })?;
        sampler::ensure(&self.shared, &stopping);
        let (sender, receiver) = mpsc::channel(QUEUED_PIECES_MAX);
        let stream = FleetStream::new(Arc::clone(&self.shared), sender, stopping, permit);
        spawn_contained(ContainedWork::HttpConnection, stream.run(after));
        Ok(receiver)
    }
}
