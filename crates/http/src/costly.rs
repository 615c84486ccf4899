//! Costly requests run on threads of their own, a few at a time, callers in turn.
//!
//! The threads that read and write sockets answer requests that cost microseconds. A request that may cost
//! milliseconds (a search over all hosts, a long list, a large body) would hold up every connection of its thread, so
//! it is handed over to another runtime. There at most `running_max` requests run at a time, each in one *place*. Each
//! caller's requests wait in a queue of their own, and the callers take turns: a caller with many requests waits for
//! its own ones, and another caller's next request waits for at most one request of each other caller. If there are
//! several places, one caller may have all of them but one. So one place stays free for the others.
//!
//! All services of a cloud may be one caller to the Placement API, so the requests of one caller do not simply wait in
//! the order in which they came. Short requests (queries for few candidates) and long requests of a caller wait in two
//! queues, which take turns. In addition, a caller that has all places that it may have may run a short request in the
//! place that is kept free for others. This is then the *extra place*, and the others are the *regular places*. Over
//! all callers, at most one request runs in the extra place at a time. So a scheduler's query for some candidates does
//! not wait for many queries for all of them.

mod queue;

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_auth::Identity;
use placewright_tasks::{ContainedWork, contain_panic};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::queue::{FairQueue, Place};
use crate::error::ApiError;

/// How many costly requests run and wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostlyOptions {
    /// The most requests that run at a time.
    pub running_max: usize,
    /// The most waiting requests of one caller, of each [`WorkLength`].
    pub waiting_per_caller_max: usize,
    /// The most waiting requests of all callers together.
    pub waiting_max: usize,
}

impl Default for CostlyOptions {
    fn default() -> Self {
        Self {
            running_max: 4,
            waiting_per_caller_max: 256,
            waiting_max: 4096,
        }
    }
}

/// Why a costly request was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CostlyError {
    /// Too many costly requests of the caller and of the same [`WorkLength`] wait; the number of them.
    #[error(
        "{0} costly requests of this project (or user) and of the same kind wait already, and no \
         more may wait (placement.costly_waiting_per_caller_max)"
    )]
    TooManyOfCaller(usize),
    /// Too many costly requests of all callers together wait; the number of them.
    #[error(
        "{0} costly requests wait already, and no more may wait (placement.costly_waiting_max)"
    )]
    TooManyInAll(usize),
    /// The request panicked: a bug.
    #[error("an internal error occurred")]
    Panicked,
}

/// The time after which clients are told to try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl CostlyError {
    /// The response for the client: 500 after a panic, else 503 with `Retry-After`.
    #[must_use]
    pub fn to_api(self) -> ApiError {
        match self {
            Self::Panicked => ApiError::new(500, self.to_string()),
            Self::TooManyOfCaller(_) | Self::TooManyInAll(_) => {
                ApiError::unavailable(format!("Try again later: {self}."))
                    .with_retry_after(RETRY_AFTER)
            }
        }
    }
}

/// How long a costly request is expected to run.
///
/// A request that turns out to be longer than expected delays other requests of its caller, and hardly those of others:
/// a caller's turn and most of the places do not depend on the expected length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkLength {
    /// The request asks for few candidates.
    Short,
    /// The cost of the request grows with the fleet or with its body.
    Long,
}

/// A key for the callers whose requests share a queue: a hash of the project, or of the user if there is no project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller(u64);

/// Runs costly requests. Clones share threads and queues.
#[derive(Clone)]
pub struct CostlyExecutor {
    shared: Arc<Shared>,
    /// The runtime on which requests run; if `None`, they run where they are awaited.
    runtime: Option<Handle>,
}

struct Shared {
    options: CostlyOptions,
    /// Hashes the names of callers. It is seeded at random, so that no caller can choose a name with the key of another
    /// one.
    hasher: RandomState,
    queue: Mutex<FairQueue<oneshot::Sender<Permit>>>,
}

/// The right of a request to run; dropping it gives it to the next request.
struct Permit {
    /// `None` once the place was given back.
    place: Option<Place>,
    shared: Arc<Shared>,
}

impl fmt::Debug for CostlyExecutor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CostlyExecutor")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Default for CostlyExecutor {
    /// Runs requests where they are awaited, for services without threads of their own.
    fn default() -> Self {
        Self::new(CostlyOptions::default(), None)
    }
}

impl CostlyExecutor {
    /// Runs requests on `runtime`; without one, where they are awaited.
    #[must_use]
    pub fn new(options: CostlyOptions, runtime: Option<Handle>) -> Self {
        Self {
            shared: Arc::new(Shared {
                options,
                hasher: RandomState::new(),
                queue: Mutex::new(FairQueue::new(options)),
            }),
            runtime,
        }
    }

    /// The key of a caller's queue. It stands for the caller's project, or for its user if it has no project.
    #[must_use]
    pub fn caller(&self, identity: &Identity) -> Caller {
        self.caller_or_anonymous(Some(identity))
    }

    /// As [`Self::caller`]; all requests without an identity share one queue.
    pub(crate) fn caller_or_anonymous(&self, identity: Option<&Identity>) -> Caller {
        let name =
            identity.and_then(|identity| identity.project_id().or_else(|| identity.user_id()));
        Caller(self.shared.hasher.hash_one(name))
    }

    /// How many requests wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().waiting()
    }

    /// Runs a request when it is its turn. `length` is how long it is expected to run. When the returned future is
    /// dropped, the request ends at its next `await`.
    ///
    /// # Errors
    /// See [`CostlyError`].
    pub fn run<T: Send + 'static>(
        &self,
        caller: Caller,
        length: WorkLength,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, CostlyError>> + Send {
        // Boxed at once: the future that awaits this one answers cheap requests, too, and is moved for each
        // request, so it has to be small.
        let work = Box::pin(contain_panic(ContainedWork::HttpRequest, work));
        async move {
            let permit = self.wait_for_permit(caller, length).await?;
            let ended = match &self.runtime {
                None => work.await,
                Some(runtime) => {
                    let mut task = AbortOnDrop(runtime.spawn(async move {
                        let value = work.await;
                        drop(permit);
                        value
                    }));
                    let ended = (&mut task.0).await;
                    ended.map_err(|_| CostlyError::Panicked)?
                }
            };
            ended.map_err(|_| CostlyError::Panicked)
        }
    }

    /// Waits until it is the request's turn, or refuses it if too many requests wait.
    async fn wait_for_permit(
        &self,
        caller: Caller,
        length: WorkLength,
    ) -> Result<Permit, CostlyError> {
        let receiver = {
            let options = &self.shared.options;
            let mut queue = self.shared.queue.lock();
            if let Some(place) = queue.start(caller, length) {
                return Ok(self.shared.new_permit(place));
            }
            let is_full = queue.waiting() >= options.waiting_max
                || queue.waiting_of(caller, length) >= options.waiting_per_caller_max;
            if is_full {
                queue.forget(oneshot::Sender::is_closed);
            }
            if queue.waiting() >= options.waiting_max {
                return Err(CostlyError::TooManyInAll(queue.waiting()));
            }
            let waiting_of_caller = queue.waiting_of(caller, length);
            if waiting_of_caller >= options.waiting_per_caller_max {
                return Err(CostlyError::TooManyOfCaller(waiting_of_caller));
            }
            let (sender, receiver) = oneshot::channel();
            queue.wait(caller, length, sender);
            receiver
        };
        // The receiver fails only if its sender was dropped unused, which happens only together with the queues.
        receiver.await.map_err(|_| CostlyError::Panicked)
    }
}

impl Shared {
    fn new_permit(self: &Arc<Self>, place: Place) -> Permit {
        Permit {
            place: Some(place),
            shared: Arc::clone(self),
        }
    }

    /// Ends a request, and starts those that may run now.
    fn end_and_start_others(self: &Arc<Self>, place: Place) {
        let mut queue = self.queue.lock();
        queue.end(place);
        queue.forget(oneshot::Sender::is_closed);
        while let Some((place, sender)) = queue.next() {
            // If the request does not wait any more, the place is taken out of its permit before the permit is dropped,
            // because dropping a permit with a place would take the lock again.
            if let Err(mut permit) = sender.send(self.new_permit(place))
                && let Some(place) = permit.place.take()
            {
                queue.end(place);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.shared.end_and_start_others(place);
        }
    }
}

/// A task that is aborted when nobody waits for it any more.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
