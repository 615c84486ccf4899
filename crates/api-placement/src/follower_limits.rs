//! The limits of the clients that follow the change stream.

use std::sync::Arc;

use placewright_http::{ApiError, ApiResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most large events in memory, of all followers together; the change stream says which events are large. No
/// follower occupies one for ever: the connection of a follower that reads nothing of its event is closed after
/// `placement.write_timeout_ms`.
const LARGE_EVENTS_MAX: usize = 2;

/// The limits of followers and of large events.
#[derive(Debug)]
pub(crate) struct FollowerLimits {
    follower_permits: Arc<Semaphore>,
    followers_max: usize,
    large_event_permits: Arc<Semaphore>,
}

impl FollowerLimits {
    /// Creates the limits for at most `followers_max` followers.
    pub(crate) fn new(followers_max: usize) -> Self {
        Self {
            follower_permits: Arc::new(Semaphore::new(followers_max)),
            followers_max,
            large_event_permits: Arc::new(Semaphore::new(LARGE_EVENTS_MAX)),
        }
    }

    /// A permit for one follower.
    ///
    /// # Errors
    ///
    /// 503 when all permits are in use.
    pub(crate) fn acquire_follower_permit(&self) -> ApiResult<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.follower_permits).try_acquire_owned();
        permit.map_err(|_| {
            ApiError::unavailable(format!(
                "The change stream has {0} readers; placement.followers_max allows {0}.",
                self.followers_max
            ))
        })
    }

    /// The permits for large events.
    pub(crate) fn large_event_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.large_event_permits)
    }
}
