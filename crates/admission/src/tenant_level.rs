//! The priority level of tenants: three pools of seats, for cheap and for costly kinds of requests, and for
//! multi-create requests, each of which asks for two or more instances.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cost::{CostTable, INSTANCE_COST_US};
use crate::fair_pool::Charge;
use crate::options::{AdmissionOptions, Seats};
use crate::pool::{Hold, Pool};
use crate::pool_kind::PoolKind;
use crate::recent_projects::RecentProjects;
use crate::refusal::Refusal;
use crate::seat::{IncomingRequest, Seat};

/// The longest time for which a seat is held after a cheap or costly request.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// The longest time for which a seat is held because of what its request has stored. It is this short because requests
/// of other projects may wait for the seat, and because the size of what is stored is only an upper bound: not
/// everything in a body is stored.
const STORING_HOLD_MAX: Duration = Duration::from_millis(20);

/// How much work behind the API (building instances, and storing) may be left to do before further multi-create
/// requests wait. It is measured by the time that an eighth of the processors needs for it.
///
/// The time is this long because requests for a few thousand servers are common and should not wait. Other projects do
/// not suffer from the work: it is shared fairly, and goes at a limited pace while several projects are present.
const WORK_AHEAD_MAX: Duration = Duration::from_secs(20);

/// What a project is charged for reading a request that is refused or leaves its queue, in microseconds.
const REFUSAL_COST_US: i64 = 50;

/// The outcome of the arrival of a request that was not refused.
#[derive(Debug)]
pub enum Arrival {
    /// The request runs now. Its seat has to be given back with [`TenantLevel::finish`].
    Started(Seat),
    /// The request waits for a seat of its pool. The ticket identifies it when it gets a seat, or stops waiting.
    Waiting(Ticket),
}

/// Identifies a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    id: u64,
    project: u64,
    user: u64,
    pool: PoolKind,
}

/// Why a request does not wait any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The request has waited for too long.
    TimedOut,
    /// The client of the request has gone, so nobody waits for its response.
    ClientGone,
}

/// The state of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatus {
    /// The seats of the pool, taken or free. While several projects are present, fewer may be in use.
    pub seats: usize,
    /// Seats that are taken, including those in `held`.
    pub taken: usize,
    /// Seats that are held after a costly or multi-create request. The seat that is held after a cheap request is not
    /// counted: other projects may take it.
    pub held: usize,
    /// Requests that wait for a seat of this pool now.
    pub waiting: usize,
    /// Requests refused since the start because too many waited, also those removed from a queue to make room.
    pub refused: u64,
    /// Requests refused since the start because their time to wait was over.
    pub timed_out: u64,
}

/// A request that waits in a pool: the value with which its task is woken, and the seat that it will get.
#[derive(Debug)]
struct Queued<W> {
    seat: Seat,
    waiter: W,
}

/// The priority level of tenants. `W` is the value with which the caller of this type wakes the task of a waiting
/// request.
///
/// Call [`Self::start_next`] until it returns nothing: after [`Self::finish`], [`Self::give_back_early`] and
/// [`Self::abandon`], at the time that `finish` returned, after an [`Self::arrive`] whose request waits, and at the
/// time [`Self::shared_until`], which may change with each `arrive`.
#[derive(Debug)]
pub struct TenantLevel<W> {
    /// The most waiting requests of one project.
    queue_max: usize,
    /// The most waiting requests of all projects together.
    queue_total_max: usize,
    cheap: Pool<Queued<W>>,
    costly: Pool<Queued<W>>,
    multi_create: Pool<Queued<W>>,
    /// The costs of kinds of requests, learned from the requests so far.
    costs: CostTable,
    /// How many requests each project has open, that is, running or waiting. Projects without any are left out.
    open: BTreeMap<u64, u64>,
    /// The projects that sent the last requests.
    recent: RecentProjects,
    /// The time at which an eighth of the processors, working on nothing else, would have done the accepted work behind
    /// the API.
    work_end: Duration,
    /// The longest time for which a costly or multi-create request keeps its seat from others by a hold. It is shorter
    /// than a request may wait, so that the next request gets the seat before its wait times out.
    hold_max: Duration,
    processors: u32,
    next_id: u64,
}

impl<W> TenantLevel<W> {
    /// A level without requests.
    ///
    /// One project has at most half of the cheap seats and all but one of the costly seats, so that requests of other
    /// projects find a seat while its requests run.
    #[must_use]
    pub fn new(options: &AdmissionOptions, seats: Seats) -> Self {
        let costly_pool = || {
            Pool::new(
                seats.costly,
                seats.costly_when_shared,
                seats.costly.saturating_sub(1),
            )
        };
        Self {
            queue_max: options.queue_max,
            queue_total_max: options.queue_total_max,
            cheap: Pool::new(seats.cheap, seats.cheap, seats.cheap.div_ceil(2)),
            costly: costly_pool(),
            multi_create: costly_pool(),
            costs: CostTable::default(),
            open: BTreeMap::new(),
            recent: RecentProjects::default(),
            work_end: Duration::ZERO,
            hold_max: options.queue_time * 9 / 10,
            processors: u32::try_from(seats.processors).unwrap_or(u32::MAX).max(1),
            next_id: 0,
        }
    }

    /// Lets a request run, or puts it into the queue of its project together with `waiter`. If a waiting request of
    /// another project has to be removed to make room, the `waiter` of that request is dropped.
    ///
    /// # Errors
    ///
    /// Too many requests wait.
    pub fn arrive(
        &mut self,
        request: IncomingRequest,
        now: Duration,
        waiter: impl FnOnce() -> W,
    ) -> Result<Arrival, Refusal> {
        let project = request.project;
        self.recent.note(project, now);
        self.note_shared(now);
        let estimate = self.costs.estimate(request.kind, request.later_work);
        let pool = self.costs.pool(request.kind, request.later_work);
        let crowd = self.open.get(&project).copied().unwrap_or(0) + 1;
        let charge = Charge {
            project,
            user: request.user,
            cost: estimate,
            crowd,
        };
        let mut seat = Seat {
            request,
            pool,
            estimate,
            crowd,
            taken_at: now,
            was_shared: self.recent.are_several(now),
            is_taken: true,
            is_refused: false,
        };
        if self.pool(pool).fair.try_start(charge) {
            self.open.insert(project, crowd);
            return Ok(Arrival::Started(seat));
        }
        self.make_room(pool, project)?;
        seat.is_taken = false;
        let id = self.next_id;
        self.next_id += 1;
        let queued = Queued {
            seat,
            waiter: waiter(),
        };
        self.pool(pool).fair.wait(id, charge, queued);
        self.open.insert(project, crowd);
        Ok(Arrival::Waiting(Ticket {
            id,
            project,
            user: request.user,
            pool,
        }))
    }

    /// Makes sure that one more request of a project may wait: in the project's queue, and among the requests of all
    /// projects.
    fn make_room(&mut self, pool: PoolKind, project: u64) -> Result<(), Refusal> {
        let pools = [&self.cheap, &self.costly, &self.multi_create];
        let of_project: usize = pools.iter().map(|pool| pool.fair.waiting_of(project)).sum();
        if of_project >= self.queue_max {
            self.refuse(pool, project);
            return Err(Refusal::ProjectQueueFull(of_project));
        }
        let pools = [&self.cheap, &self.costly, &self.multi_create];
        let waiting: usize = pools.iter().map(|pool| pool.fair.waiting()).sum();
        if waiting >= self.queue_total_max {
            // The arriving request is counted in the queue of its project.
            let own_queue = self.pool(pool).fair.waiting_of(project) + 1;
            let longest = PoolKind::ALL
                .into_iter()
                .max_by_key(|kind| self.pool(*kind).fair.longest_queue());
            let other_pool = longest.unwrap_or(pool);
            let removed = self.pool(other_pool).fair.remove_from_longest(own_queue);
            let Some((other_project, _)) = removed else {
                self.refuse(pool, project);
                return Err(Refusal::QueueFull(waiting));
            };
            self.close(other_project);
            self.refuse(other_pool, other_project);
        }
        Ok(())
    }

    /// Lets the next request run. None if no request waits for which a seat is free.
    pub fn start_next(&mut self, now: Duration) -> Option<(Seat, W)> {
        self.end_holds(now);
        self.note_shared(now);
        let mut pools = [&mut self.cheap, &mut self.costly, &mut self.multi_create].into_iter();
        let Queued { mut seat, waiter } = pools.find_map(|pool| pool.fair.next())?;
        seat.is_taken = true;
        seat.taken_at = now;
        seat.was_shared = self.recent.are_several(now);
        Some((seat, waiter))
    }

    /// Removes a waiting request from its queue; does nothing if it does not wait any more.
    pub fn leave(&mut self, ticket: Ticket, departure: Departure) {
        let Ticket { id, project, .. } = ticket;
        let pool = self.pool(ticket.pool);
        if pool.fair.remove(id, project, ticket.user).is_none() {
            return;
        }
        pool.timed_out += u64::from(departure == Departure::TimedOut);
        pool.fair.charge(project, REFUSAL_COST_US);
        self.close(project);
    }

    /// Ends a request that kept a processor busy for this time.
    ///
    /// The project is charged for what the request really cost: the time in `busy`, and the work behind the API. While
    /// several projects are present, the seat may be held for a while. Then the end of the hold is returned, otherwise
    /// `None`. A held seat of a cheap request is withheld only from the project of the request. A held seat of a costly
    /// or multi-create request is withheld from all projects.
    #[must_use = "the hold ends at that time only if somebody calls `start_next`"]
    pub fn finish(&mut self, seat: Seat, busy: Duration, now: Duration) -> Option<Duration> {
        let IncomingRequest {
            project,
            user,
            kind,
            later_work: expected_work,
        } = seat.request;
        let later_work = expected_work.unless(seat.is_refused);
        // Refused requests for instances would make these kinds of requests seem cheaper than they are.
        if later_work.instances == expected_work.instances {
            self.costs.learn(kind, expected_work.instances, busy);
        }
        let work_until = self.add_work(later_work.cost(), now);
        let id = self.next_id;
        self.next_id += 1;
        let actual = CostTable::actual(later_work, busy);
        let more = seat.more_than_estimated(actual);
        let pool = self.pool(seat.pool);
        pool.fair.charge(project, more);
        pool.fair.close(project, user);
        self.close(project);
        if !seat.is_taken {
            return None;
        }
        let took = now.saturating_sub(seat.taken_at);
        // Normally the seat is held for as long as the request had it, so that a processor is idle for projects that
        // wait for each response. In two cases it is held only for as long as the request used a processor. The first
        // is that another project waits for a seat of the pool. The second is that the request began while its project
        // was alone: such a request shared the processors with many others of its project, so the time for which it had
        // the seat says little.
        let fair = &self.pool(seat.pool).fair;
        let is_awaited = fair.waiting() > fair.waiting_of(project);
        let is_short = is_awaited || !seat.was_shared;
        // A request that waits may have come as soon as this one had its seat.
        let waited = match fair.waiting() {
            0 => Duration::ZERO,
            _ => took,
        };
        let hold = if is_short { took.min(busy) } else { took };
        let storing = self.time_of_work(later_work.storing_cost());
        let hold_end = now + (hold + storing.min(STORING_HOLD_MAX)).min(HOLD_MAX);
        let latest_end = now + self.hold_max.saturating_sub(waited);
        let until = match seat.pool {
            PoolKind::Cheap => seat.taken_at + self.time_of_cheap(actual, seat.crowd),
            PoolKind::Costly => hold_end.min(latest_end),
            PoolKind::MultiCreate => work_until.max(hold_end).min(latest_end),
        };
        let is_shared = self.recent.are_several(now);
        let pool = self.pool(seat.pool);
        if until <= now || !is_shared {
            pool.fair.free_seat(project);
            return None;
        }
        pool.hold(Hold {
            until,
            id,
            project,
            is_withheld_from_all: seat.pool != PoolKind::Cheap,
        });
        Some(until)
    }

    /// How long a cheap request keeps its seat, its own time and the hold together, if it cost `cost` microseconds of
    /// processor time and its project had `crowd` requests open.
    ///
    /// The time is such that a project with many open requests uses an eighth of the processors with all its seats. So
    /// a project that waits for each response finds a processor idle whenever it needs one. With fewer open requests
    /// the time is shorter, and with one open request the seat is not held.
    fn time_of_cheap(&self, cost: u64, crowd: u64) -> Duration {
        let seats = u64::try_from(self.cheap.fair.seats_per_project()).unwrap_or(u64::MAX);
        // 0 for one open request, and nearly `cost` for many.
        let scaled_cost = cost - cost / crowd.max(1);
        let time = Duration::from_micros(scaled_cost.saturating_mul(seats).saturating_mul(8));
        (time / self.processors).min(HOLD_MAX)
    }

    /// Adds accepted work behind the API, in microseconds of one processor. Returns the time from which on further work
    /// may be accepted: then no more than [`WORK_AHEAD_MAX`] of work is left.
    fn add_work(&mut self, work: u64, now: Duration) -> Duration {
        if work == 0 {
            return now;
        }
        let time = self.time_of_work(work);
        let end = self.work_end.max(now).saturating_add(time);
        // While one project is alone, its work is not slowed down and may be done before `work_end`. The bound keeps
        // such work from delaying later requests.
        self.work_end = end.min(now + WORK_AHEAD_MAX + time);
        self.work_end.saturating_sub(WORK_AHEAD_MAX)
    }

    /// The time that an eighth of the processors needs for work, which is in microseconds of one processor.
    fn time_of_work(&self, work: u64) -> Duration {
        Duration::from_micros(work).saturating_mul(8) / self.processors
    }

    /// The time that an eighth of the processors needs to build an instance. While several projects are present,
    /// requests for instances are accepted at this pace, and their instances should be placed at it.
    #[must_use]
    pub fn time_per_instance(&self) -> Duration {
        self.time_of_work(INSTANCE_COST_US)
    }

    /// Lets the pools know whether several projects are present.
    fn note_shared(&mut self, now: Duration) {
        let is_shared = self.recent.are_several(now);
        for pool in [&mut self.cheap, &mut self.costly, &mut self.multi_create] {
            pool.fair.set_shared(is_shared);
        }
    }

    /// Ends a request whose client had gone before it ran. The charge for it is taken back, and the table of costs
    /// learns nothing from it.
    pub fn abandon(&mut self, seat: Seat) {
        let IncomingRequest { project, user, .. } = seat.request;
        let refund = seat.more_than_estimated(0);
        let pool = self.pool(seat.pool);
        pool.fair.charge(project, refund);
        pool.fair.close(project, user);
        if seat.is_taken {
            pool.fair.free_seat(project);
        }
        self.close(project);
    }

    /// Gives a seat back before the request has ended. The caller does this when the request has had the seat for its
    /// longest time, so that the request does not keep others from running.
    pub fn give_back_early(&mut self, seat: &mut Seat) {
        if std::mem::take(&mut seat.is_taken) {
            self.pool(seat.pool).fair.free_seat(seat.request.project);
        }
    }

    /// Whether several projects have sent requests lately.
    #[must_use]
    pub fn is_shared(&self, now: Duration) -> bool {
        self.recent.are_several(now)
    }

    /// The time from which on one project alone is present, unless another one sends a request before: then more seats
    /// are given out. `None` if no request waits, or if one project alone is present already.
    #[must_use]
    pub fn shared_until(&self, now: Duration) -> Option<Duration> {
        let pools = [&self.cheap, &self.costly, &self.multi_create];
        let is_anybody_waiting = pools.iter().any(|pool| pool.fair.waiting() > 0);
        let until = self.recent.several_until();
        until.filter(|until| is_anybody_waiting && now < *until)
    }

    /// The state of a pool now.
    #[must_use]
    pub fn status(&self, pool: PoolKind) -> PoolStatus {
        let pool = match pool {
            PoolKind::Cheap => &self.cheap,
            PoolKind::Costly => &self.costly,
            PoolKind::MultiCreate => &self.multi_create,
        };
        PoolStatus {
            seats: pool.fair.seats(),
            taken: pool.fair.taken(),
            held: pool.withheld_from_all,
            waiting: pool.fair.waiting(),
            refused: pool.refused,
            timed_out: pool.timed_out,
        }
    }

    /// The number of flows in all pools. A project has a flow in each pool in which it has requests or is remembered.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        let pools = [&self.cheap, &self.costly, &self.multi_create];
        pools.iter().map(|pool| pool.fair.flow_count()).sum()
    }

    fn pool(&mut self, pool: PoolKind) -> &mut Pool<Queued<W>> {
        match pool {
            PoolKind::Cheap => &mut self.cheap,
            PoolKind::Costly => &mut self.costly,
            PoolKind::MultiCreate => &mut self.multi_create,
        }
    }

    /// Counts a refusal, and charges the project for reading the request.
    fn refuse(&mut self, pool: PoolKind, project: u64) {
        let pool = self.pool(pool);
        pool.refused += 1;
        pool.fair.charge(project, REFUSAL_COST_US);
    }

    /// Subtracts one from the open requests of a project.
    fn close(&mut self, project: u64) {
        if let Some(open) = self.open.get_mut(&project) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&project);
            }
        }
    }

    /// Ends the holds whose time is over.
    fn end_holds(&mut self, now: Duration) {
        for pool in [&mut self.cheap, &mut self.costly, &mut self.multi_create] {
            pool.end_holds(now);
        }
    }
}
