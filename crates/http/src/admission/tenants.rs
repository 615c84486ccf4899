//! The level of tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use placewright_admission::{
    AdmissionOptions, Arrival, Departure, IncomingRequest, PoolKind, Refusal, Seat, Seats,
    TenantLevel, Ticket,
};
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{BusyTime, LevelStatus};

/// The level of tenants, with its clock and the requests that wait.
pub(super) struct Tenants {
    level: Mutex<TenantLevel<oneshot::Sender<Seat>>>,
    /// The level's times are counted from here.
    started: Instant,
    queue_total_max: usize,
    queue_time: Duration,
    /// Whether a task waits for the time at which one project alone is present.
    is_sharing_watched: AtomicBool,
}

/// A request with a seat; dropping it gives the seat to the next one.
pub(crate) struct TenantPermit<'a> {
    tenants: &'a Arc<Tenants>,
    /// `None` only while the permit is dropped.
    seat: Option<Seat>,
    pool: PoolKind,
    busy_time: BusyTime,
}

/// A request that waits. When it is dropped, it leaves its queue.
pub(super) struct WaitingTenant<'a> {
    tenants: &'a Arc<Tenants>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Seat>,
    /// The reason for which the request leaves the queue when this is dropped.
    departure: Departure,
}

/// The state of a request that was not refused at once.
pub(super) enum Arrived<'a> {
    Started(TenantPermit<'a>),
    Waiting(WaitingTenant<'a>),
}

impl Tenants {
    pub(super) fn new(options: &AdmissionOptions, seats: Seats) -> Self {
        Self {
            level: Mutex::new(TenantLevel::new(options, seats)),
            started: Instant::now(),
            queue_total_max: options.queue_total_max,
            queue_time: options.queue_time,
            is_sharing_watched: AtomicBool::new(false),
        }
    }

    pub(super) fn status(&self, pool: PoolKind) -> LevelStatus {
        let status = self.level.lock().status(pool);
        LevelStatus {
            level: match pool {
                PoolKind::Cheap => "tenants",
                PoolKind::Costly => "tenants-costly",
                PoolKind::MultiCreate => "tenants-multi-create",
            },
            seats: status.seats,
            taken: status.taken,
            held: status.held,
            waiting: status.waiting,
            refused: status.refused,
            timed_out: status.timed_out,
        }
    }

    /// The pace of instances while several projects are present: the time from one instance to the next.
    pub(super) fn time_per_instance(&self) -> Duration {
        self.level.lock().time_per_instance()
    }

    pub(super) fn is_shared(&self) -> bool {
        self.level.lock().is_shared(self.started.elapsed())
    }

    /// Lets a request run, or puts it into its queue.
    pub(super) fn arrive(
        self: &Arc<Self>,
        request: IncomingRequest,
    ) -> Result<Arrived<'_>, Refusal> {
        let mut receiver = None;
        let make_waiter = || {
            let (sender, new_receiver) = oneshot::channel();
            receiver = Some(new_receiver);
            sender
        };
        let now = self.started.elapsed();
        let (arrival, must_watch_sharing) = {
            let mut level = self.level.lock();
            let arrival = level.arrive(request, now, make_waiter);
            (arrival, level.shared_until(now).is_some())
        };
        if must_watch_sharing {
            self.watch_sharing();
        }
        Ok(match (arrival?, receiver) {
            (Arrival::Waiting(ticket), Some(receiver)) => {
                // The arrival may have shown that other projects are gone, so that a waiting request may have a seat.
                self.change(|_, _| ());
                Arrived::Waiting(WaitingTenant {
                    tenants: self,
                    ticket,
                    receiver,
                    departure: Departure::ClientGone,
                })
            }
            (Arrival::Started(seat), _) => Arrived::Started(TenantPermit::new(self, seat)),
            // This cannot happen: a request that waits has made its receiver.
            (Arrival::Waiting(_), None) => return Err(Refusal::QueueFull(0)),
        })
    }

    /// Changes the level, then starts the requests that can have a seat now.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut TenantLevel<oneshot::Sender<Seat>>, Duration) -> T,
    ) -> T {
        let now = self.started.elapsed();
        let mut level = self.level.lock();
        let result = change(&mut level, now);
        while let Some((seat, waiter)) = level.start_next(now) {
            // Sending only wakes the task of the request, so the lock is not held while that task runs.
            if let Err(seat) = waiter.send(seat) {
                level.abandon(seat);
            }
        }
        result
    }

    /// Whether requests wait while several projects are present: when one alone is present, more seats are given out.
    fn must_watch_sharing(&self) -> bool {
        let now = self.started.elapsed();
        self.level.lock().shared_until(now).is_some()
    }

    /// Starts a task, if there is none yet, that starts waiting requests when one project alone is present. To be
    /// called while requests wait and several projects are present.
    fn watch_sharing(self: &Arc<Self>) {
        if self.is_sharing_watched.load(Ordering::Acquire)
            || Handle::try_current().is_err()
            || self.is_sharing_watched.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let tenants = Arc::clone(self);
        spawn_contained(ContainedWork::HttpRequest, async move {
            loop {
                let now = tenants.started.elapsed();
                let until = tenants.level.lock().shared_until(now);
                let Some(until) = until else { break };
                tokio::time::sleep_until(tenants.started + until).await;
            }
            tenants.is_sharing_watched.store(false, Ordering::Release);
            tenants.change(|_, _| ());
            // A request that began to wait before the flag was reset started no task, so this checks again for it.
            if tenants.must_watch_sharing() {
                tenants.watch_sharing();
            }
        });
    }

    /// Ends a request, and starts other requests when its seat is free, which may be later than now.
    fn finish(self: &Arc<Self>, seat: Seat, busy_time: Duration) {
        let free_at = self.change(|level, now| level.finish(seat, busy_time, now));
        // Without a runtime no task waits for the seat.
        if let Some(free_at) = free_at
            && Handle::try_current().is_ok()
        {
            let (tenants, free_at) = (Arc::clone(self), self.started + free_at);
            spawn_contained(ContainedWork::HttpRequest, async move {
                tokio::time::sleep_until(free_at).await;
                // Nothing is changed, but the requests that can have the seat now are started.
                tenants.change(|_, _| ());
            });
        }
    }
}

impl<'a> TenantPermit<'a> {
    fn new(tenants: &'a Arc<Tenants>, seat: Seat) -> Self {
        Self {
            tenants,
            pool: seat.pool(),
            seat: Some(seat),
            busy_time: BusyTime::default(),
        }
    }

    pub(super) fn pool(&self) -> PoolKind {
        self.pool
    }

    pub(super) fn busy_time(&self) -> BusyTime {
        self.busy_time.clone()
    }

    pub(super) fn note_refused(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.note_refused();
        }
    }

    pub(super) fn give_back_early(&mut self) {
        if let Some(seat) = &mut self.seat {
            self.tenants.change(|level, _| level.give_back_early(seat));
        }
    }
}

impl Drop for TenantPermit<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.tenants.finish(seat, self.busy_time.get());
        }
    }
}

impl<'a> WaitingTenant<'a> {
    /// Waits for a seat. The request is refused if it has waited for too long, or was removed from its queue.
    pub(super) async fn permit(mut self) -> Result<TenantPermit<'a>, Refusal> {
        let queue_time = self.tenants.queue_time;
        match tokio::time::timeout(queue_time, &mut self.receiver).await {
            Ok(Ok(seat)) => Ok(TenantPermit::new(self.tenants, seat)),
            // The request was removed from the queue for one of a project that has fewer waiting requests.
            Ok(Err(_)) => Err(Refusal::QueueFull(self.tenants.queue_total_max)),
            Err(_) => {
                self.departure = Departure::TimedOut;
                Err(Refusal::TimedOut(queue_time))
            }
        }
    }
}

impl Drop for WaitingTenant<'_> {
    fn drop(&mut self) {
        // The request has received its seat, or was removed from its queue.
        if self.receiver.is_terminated() {
            return;
        }
        self.receiver.close();
        let (ticket, departure) = (self.ticket, self.departure);
        match self.receiver.try_recv() {
            // The request got a seat just before it was dropped.
            Ok(seat) => self.tenants.change(|level, _| level.abandon(seat)),
            Err(_) => self
                .tenants
                .change(|level, _| level.leave(ticket, departure)),
        }
    }
}
