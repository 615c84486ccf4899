//! The limits of those who follow the change stream.

use std::sync::Arc;

use placewright_http::{ApiError, ApiResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most large events in memory, of all followers. A follower that takes nothing of its event
/// gives up its place after `placement.write_timeout_ms`.
const LARGE_EVENTS_MAX: usize = 2;

/// The limits of followers and of large events.
#[derive(Debug)]
pub(crate) struct Followers {
    places: Arc<Semaphore>,
    places_max: usize,
    large_events: Arc<Semaphore>,
}

impl Followers {
    /// Places for so many followers.
    pub(crate) fn new(places_max: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places_max)),
            places_max,
            large_events: Arc::new(Semaphore::new(LARGE_EVENTS_MAX)),
        }
    }

    /// A place for a follower.
    ///
    /// # Errors
    ///
    /// 503 when all are taken.
    pub(crate) fn enter(&self) -> ApiResult<OwnedSemaphorePermit> {
        let entered = Arc::clone(&self.places).try_acquire_owned();
        entered.map_err(|_| {
            ApiError::unavailable(format!(
                "The change stream has {0} readers; placement.followers_max allows {0}.",
                self.places_max
            ))
        })
    }

    /// The turns of large events.
    pub(crate) fn large_events(&self) -> Arc<Semaphore> {
        Arc::clone(&self.large_events)
    }
}
