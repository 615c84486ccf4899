//! Admission control: before a request is carried out it needs a seat of its priority level. The rules
//! are those of [`placewright_admission`]; here are the clock, the locks, and the requests that wait.

mod metrics;
mod operators;
mod tenants;

use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher as _, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use placewright_admission::{
    AdmissionOptions, IncomingRequest, Kind, LaterWork, PoolKind, Refusal,
};
use placewright_auth::Identity;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};

use crate::error::{ApiError, ApiResult};
use metrics::AdmissionCollector;
use operators::{OperatorLevel, OperatorPermit};
use tenants::{TenantPermit, Tenants};

/// The time after which clients are told to try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The delay of a refusal whose request did not wait in a queue, so that clients that try again at once cannot
/// keep the processors busy with refusals.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// The longest time for which a cheap request keeps its seat. A cheap request that takes longer waits for something
/// else, such as a cell that does not answer, and must not keep other requests from running.
const SEAT_TIME_MAX: Duration = Duration::from_millis(250);

/// The longest time for which any other request keeps its seat. Such requests may compute for longer;
/// [`CostlyExecutor`](crate::CostlyExecutor) also bounds how many of them compute at a time.
const COSTLY_SEAT_TIME_MAX: Duration = Duration::from_secs(5);

/// Admission control of the services of one process. Clones share the seats.
#[derive(Clone)]
pub struct AdmissionControl(Arc<Shared>);

struct Shared {
    is_enabled: bool,
    /// Hashes the names of projects and users to keys of equal size. It is seeded at random, so that no caller
    /// can choose two names with one key.
    hasher: RandomState,
    operators: OperatorLevel,
    tenants: Arc<Tenants>,
}

/// The present load of a priority level, or of one of its pools of seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelStatus {
    /// `operators`, `tenants`, `tenants-costly`, or `tenants-multi-create`.
    pub level: &'static str,
    /// The seats of the level or pool, whether free or taken.
    pub seats: usize,
    /// Seats that are taken.
    pub taken: usize,
    /// The taken seats that are held after their request has ended.
    pub held: usize,
    /// Requests that wait for a seat.
    pub waiting: usize,
    /// Requests refused since the start because too many waited.
    pub refused: u64,
    /// Requests refused since the start because they had waited for too long.
    pub timed_out: u64,
}

/// The right of a request to be carried out, until it is dropped.
pub(crate) enum Permit<'a> {
    /// The request needs no seat.
    Exempt,
    /// The request has a seat of the operators' level.
    Operator {
        /// Gives the seat back.
        _seat: OperatorPermit<'a>,
    },
    /// The request has a seat of the tenants' level.
    Tenant(TenantPermit<'a>),
}

/// A request that waits for its permit.
pub(crate) type Waiting<'a> = Pin<Box<dyn Future<Output = ApiResult<Permit<'a>>> + Send + 'a>>;

/// When a request may be carried out.
pub(crate) enum Admission<'a> {
    Now(Permit<'a>),
    Later(Waiting<'a>),
}

impl fmt::Debug for AdmissionControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AdmissionControl")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Default for AdmissionControl {
    /// Admission control that is disabled: every request is carried out at once.
    fn default() -> Self {
        Self::new(&AdmissionOptions {
            is_enabled: false,
            ..AdmissionOptions::default()
        })
    }
}

impl AdmissionControl {
    /// Admission control with seats for this machine's processors.
    #[must_use]
    pub fn new(options: &AdmissionOptions) -> Self {
        let seats = options.seats(available_parallelism().map_or(1, usize::from));
        Self(Arc::new(Shared {
            is_enabled: options.is_enabled,
            hasher: RandomState::new(),
            operators: OperatorLevel::new(options, seats),
            tenants: Arc::new(Tenants::new(options, seats)),
        }))
    }

    /// Registers the metrics `placewright_admission_*`, which are read from the pools when they are scraped.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("placewright_admission");
        registry.register_collector(Box::new(AdmissionCollector(self.clone())));
    }

    /// Whether several projects of tenants send requests at present, and so share the seats. Always false if admission
    /// control is disabled.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.is_enabled && self.0.tenants.is_shared()
    }

    /// The time in which one instance is accepted while several projects send requests, which limits the pace of
    /// requests for instances; see `TenantLevel::time_per_instance` of the admission crate.
    #[must_use]
    pub fn time_per_instance(&self) -> Duration {
        self.0.tenants.time_per_instance()
    }

    /// The seats and waiting requests of the operators' level, and of each pool of the tenants' level.
    #[must_use]
    pub fn status(&self) -> [LevelStatus; 4] {
        let [cheap, costly, multi_create] = PoolKind::ALL.map(|pool| self.0.tenants.status(pool));
        [self.0.operators.status(), cheap, costly, multi_create]
    }

    /// Lets a request run now or later. `later_work` returns the work behind the API that it causes.
    pub(crate) fn admit(
        &self,
        identity: &Identity,
        kind: Kind,
        later_work: impl FnOnce() -> LaterWork,
    ) -> Admission<'_> {
        if !self.0.is_enabled {
            return Admission::Now(Permit::Exempt);
        }
        if identity.is_operator_or_service() {
            return match self.0.operators.try_enter() {
                Some(seat) => Admission::Now(Permit::Operator { _seat: seat }),
                None => Admission::Later(Box::pin(async {
                    let seat = self.0.operators.wait().await.map_err(to_api)?;
                    Ok(Permit::Operator { _seat: seat })
                })),
            };
        }
        let (user, project) = (identity.user_id(), identity.project_id());
        let request = IncomingRequest {
            // A user without a project counts as a project.
            project: self.0.hasher.hash_one(project.or(user)),
            user: self.0.hasher.hash_one(user),
            kind,
            later_work: later_work(),
        };
        match self.0.tenants.arrive(request) {
            Ok(tenants::Arrived::Started(permit)) => Admission::Now(Permit::Tenant(permit)),
            Ok(tenants::Arrived::Waiting(waiting)) => Admission::Later(Box::pin(async {
                let permit = waiting.permit().await.map_err(to_api)?;
                Ok(Permit::Tenant(permit))
            })),
            Err(refusal) => Admission::Later(Box::pin(async move {
                tokio::time::sleep(REFUSAL_DELAY).await;
                Err(to_api(refusal))
            })),
        }
    }
}

/// The error response of a refusal.
fn to_api(refusal: Refusal) -> ApiError {
    ApiError::new(429, format!("Try again later: {refusal}.")).with_retry_after(RETRY_AFTER)
}

impl Permit<'_> {
    /// The counter of the time for which the request keeps a processor busy; `None` for requests that are not measured.
    pub(crate) fn busy_time(&self) -> Option<BusyTime> {
        match self {
            Self::Tenant(permit) => Some(permit.busy_time()),
            Self::Exempt | Self::Operator { .. } => None,
        }
    }

    /// Carries the request out. A tenant's request that takes longer than the seat time of its pool gives its seat back
    /// before it ends. A tenant's request that ends with an error is noted as refused, because it causes no work behind
    /// the API.
    pub(crate) async fn run<T>(
        &mut self,
        mut work: impl Future<Output = ApiResult<T>> + Unpin,
    ) -> ApiResult<T> {
        let Self::Tenant(permit) = self else {
            return work.await;
        };
        let time_max = match permit.pool() {
            PoolKind::Cheap => SEAT_TIME_MAX,
            PoolKind::Costly | PoolKind::MultiCreate => COSTLY_SEAT_TIME_MAX,
        };
        let result = match tokio::time::timeout(time_max, &mut work).await {
            Ok(result) => result,
            Err(_) => {
                permit.give_back_early();
                work.await
            }
        };
        if result.is_err() {
            permit.note_refused();
        }
        result
    }
}

/// The time for which one request has kept a processor busy. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct BusyTime(Arc<AtomicU64>);

impl BusyTime {
    fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Runs the work, and adds the time for which its polls use a processor to `busy_time`. The time in which the work
/// waits for the disk or for other tasks, or in which its thread waits for a processor, is not added. Otherwise a kind
/// of request would seem costly because other work keeps the processors busy.
pub(crate) async fn measure<F: Future>(busy_time: Option<BusyTime>, work: F) -> F::Output {
    let Some(busy_time) = busy_time else {
        return work.await;
    };
    let mut work = pin!(work);
    poll_fn(|context| {
        let started = thread_time();
        let poll = work.as_mut().poll(context);
        busy_time.add(thread_time().saturating_sub(started));
        poll
    })
    .await
}

/// For how long this thread has used a processor.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests;
