//! The live view of all hosts, for the pages of operators.
//!
//! A sampler looks at what changed in the state, a few times a second, and keeps a compact row for each host with the
//! version in which it last changed. It runs only while somebody follows. A page that follows gets the rows that changed
//! since the version that it has, whether that is the last one, an older one or none: so a break of its connection costs
//! it what changed meanwhile, and no page is remembered here. What one look found is written once for all pages.
//!
//! The rows show the state as it is, also what is not durable yet; when a change is undone the rows follow.

mod dictionary;
mod host;
mod rows;
mod sampler;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use placewright_control::SchedulerHandle;
use placewright_http::{ApiError, ApiResult};
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::{Semaphore, mpsc, watch};

use rows::Rows;
pub(crate) use stream::Place;
use stream::{FleetStream, QUEUED_PIECES_MAX};

/// The most pages that follow the fleet at a time. Each of them costs what it is sent, twice a second at most.
const FOLLOWERS_MAX: usize = 256;

/// What one look at the state found, written for all pages that have the version before it.
#[derive(Debug, Default)]
struct Look {
    /// The version before it.
    from: u64,
    /// The version that it made.
    to: u64,
    /// The events; `None` if there are so many that each page reads the rows by itself.
    events: Option<Bytes>,
}

/// What the sampler and the streams share.
struct Shared {
    scheduler: SchedulerHandle,
    rows: Mutex<Rows>,
    looks: watch::Sender<Arc<Look>>,
    followers: Arc<Semaphore>,
    is_sampled: Mutex<bool>,
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
    /// A view of the hosts of this scheduler. Nothing is looked at before somebody follows.
    #[must_use]
    pub fn new(scheduler: SchedulerHandle) -> Self {
        let shared = Shared {
            scheduler,
            rows: Mutex::new(Rows::new()),
            looks: watch::Sender::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            is_sampled: Mutex::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The events for a page that has everything up to `after`, as server-sent events. They end when the service stops.
    ///
    /// # Errors
    ///
    /// 503 when too many pages follow.
    pub(crate) fn follow(
        &self,
        after: Option<Place>,
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
