//! The priority level of tenants: two pools of seats, one for cheap and one for costly kinds of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cost::{CostTable, Kind, background};
use crate::fair_pool::{FairPool, Share};
use crate::options::{AdmissionOptions, Seats};
use crate::recent_projects::RecentProjects;

/// The longest time for which a seat is held after its request and what that began behind the API.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// What a refused request costs its project, in microseconds: its head and body were read.
const REFUSAL_COST_US: i64 = 50;

/// A pool of seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// For requests that compute for less than a millisecond, and may wait for the disk.
    Cheap,
    /// For requests that compute for longer.
    Costly,
}

/// A request that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct IncomingRequest {
    /// Whose fair share of the level it uses.
    pub project: u64,
    /// Whose fair share of the project's it uses.
    pub user: u64,
    /// What it is.
    pub kind: Kind,
    /// How many instances it asks to be built.
    pub instances: u32,
}

/// What becomes of a request that was not refused.
#[derive(Debug)]
pub enum Arrival {
    /// It runs now.
    Started(Seat),
    /// It waits.
    Waiting(Ticket),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many of its project wait.
    #[error("{0} requests of this project wait already, which is the most (admission.queue_max)")]
    ProjectQueueFull(usize),
    /// Too many wait in all, none of them of a project with a longer queue.
    #[error("{0} requests wait already, which is the most")]
    QueueFull(usize),
    /// It has waited for too long.
    #[error("no turn came within {} ms (admission.queue_time_ms)", .0.as_millis())]
    TimedOut(Duration),
}

/// A request that waits.
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
    /// Its time to wait is over.
    TimedOut,
    /// Nobody waits for its response any more.
    ClientGone,
}

/// A request that runs. It is given back with [`TenantLevel::finish`].
#[derive(Debug)]
#[must_use = "a seat that is not given back stays taken"]
pub struct Seat {
    request: IncomingRequest,
    pool: PoolKind,
    estimate: u64,
    crowd: u64,
    /// Whether it still takes a seat of the pool.
    is_taken: bool,
}

impl Seat {
    /// The pool that it belongs to.
    #[must_use]
    pub fn pool(&self) -> PoolKind {
        self.pool
    }

    /// How much more its project pays for it than was charged when it began.
    fn more_than_estimated(&self, actual: u64) -> i64 {
        let [actual, estimate, crowd] = [actual, self.estimate, self.crowd]
            .map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        actual.saturating_sub(estimate).saturating_mul(crowd)
    }
}

/// What a pool is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatus {
    /// All seats.
    pub seats: usize,
    /// Seats that are taken, held ones included.
    pub taken: usize,
    /// Seats that are held after their request.
    pub held: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests refused at once since the start.
    pub refused: u64,
    /// Requests refused since the start because their time to wait was over.
    pub timed_out: u64,
}

/// A request that waits in a pool: what its caller knows of it, and its seat for later.
#[derive(Debug)]
struct Queued<W> {
    seat: Seat,
    waiter: W,
}

#[derive(Debug)]
struct Pool<W> {
    fair: FairPool<Queued<W>>,
    /// Seats that are held, by the time of their end, with their projects.
    held: BTreeSet<(Duration, u64, u64)>,
    refused: u64,
    timed_out: u64,
}

impl<W> Pool<W> {
    fn new(seats: usize, seats_per_project: usize) -> Self {
        Self {
            fair: FairPool::new(seats, seats_per_project),
            held: BTreeSet::new(),
            refused: 0,
            timed_out: 0,
        }
    }
}

/// The priority level of tenants. `W` is how its user reaches a request that waits.
///
/// After [`Self::finish`], [`Self::give_back_early`], and at the time that `finish` returned, call
/// [`Self::start_next`] until it returns nothing.
#[derive(Debug)]
pub struct TenantLevel<W> {
    queue_max: usize,
    queue_total_max: usize,
    cheap: Pool<W>,
    costly: Pool<W>,
    costs: CostTable,
    /// Open requests (running or waiting) of each project that has any.
    open: BTreeMap<u64, u64>,
    recent: RecentProjects,
    next_id: u64,
}

impl<W> TenantLevel<W> {
    /// A level without requests.
    ///
    /// One project has at most half of the cheap seats and all but one of the costly seats, so that the
    /// request of another one need not wait for its.
    #[must_use]
    pub fn new(options: &AdmissionOptions, seats: Seats) -> Self {
        Self {
            queue_max: options.queue_max,
            queue_total_max: options.queue_total_max,
            cheap: Pool::new(seats.cheap, seats.cheap.div_ceil(2)),
            costly: Pool::new(seats.costly, seats.costly.saturating_sub(1)),
            costs: CostTable::default(),
            open: BTreeMap::new(),
            recent: RecentProjects::default(),
            next_id: 0,
        }
    }

    /// Lets a request run, or puts it into the queue of its project together with `waiter`.
    ///
    /// # Errors
    ///
    /// Too many requests wait. A waiter that gave way to this one is dropped.
    pub fn arrive(
        &mut self,
        request: IncomingRequest,
        now: Duration,
        waiter: impl FnOnce() -> W,
    ) -> Result<Arrival, Refusal> {
        let project = request.project;
        self.recent.note(project, now);
        let estimate = self.costs.estimate(request.kind, request.instances);
        let pool = match self.costs.is_costly(request.kind, request.instances) {
            true => PoolKind::Costly,
            false => PoolKind::Cheap,
        };
        let crowd = self.open.get(&project).copied().unwrap_or(0) + 1;
        let share = Share {
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
            is_taken: true,
        };
        if self.pool(pool).fair.try_start(share) {
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
        self.pool(pool).fair.wait(id, share, queued);
        self.open.insert(project, crowd);
        Ok(Arrival::Waiting(Ticket {
            id,
            project,
            user: request.user,
            pool,
        }))
    }

    /// Makes sure that one more request of a project may wait: in its own queue, and among all.
    fn make_room(&mut self, pool: PoolKind, project: u64) -> Result<(), Refusal> {
        let of_project = self.cheap.fair.waiting_of(project) + self.costly.fair.waiting_of(project);
        if of_project >= self.queue_max {
            self.refuse(pool, project);
            return Err(Refusal::ProjectQueueFull(of_project));
        }
        let waiting = self.cheap.fair.waiting() + self.costly.fair.waiting();
        if waiting >= self.queue_total_max {
            let own = self.pool(pool).fair.waiting_of(project);
            let Some((other, _)) = self.pool(pool).fair.remove_from_longest(own + 1) else {
                self.refuse(pool, project);
                return Err(Refusal::QueueFull(waiting));
            };
            self.close(other);
            self.refuse(pool, other);
        }
        Ok(())
    }

    /// Lets the next request run, if a seat is free for one.
    pub fn start_next(&mut self, now: Duration) -> Option<(Seat, W)> {
        self.end_holds(now);
        let cheap = self.cheap.fair.next();
        let Queued { mut seat, waiter } = cheap.or_else(|| self.costly.fair.next())?;
        seat.is_taken = true;
        Some((seat, waiter))
    }

    /// Takes a request that waits out of its queue; nothing if it does not wait any more.
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
    /// Its project pays for what it really took. When other projects are present, the seat of a request
    /// that is costly, or that began work behind the API, is held for as long again, and the time is
    /// returned at which it is free.
    #[must_use = "the seat is free at that time only if somebody calls `start_next`"]
    pub fn finish(&mut self, seat: Seat, busy: Duration, now: Duration) -> Option<Duration> {
        let IncomingRequest {
            project,
            user,
            kind,
            instances,
        } = seat.request;
        self.costs.learn(kind, instances, busy);
        let id = self.next_id;
        self.next_id += 1;
        let actual = CostTable::actual(instances, busy);
        let more = seat.more_than_estimated(actual);
        let pool = self.pool(seat.pool);
        pool.fair.charge(project, more);
        pool.fair.close(project, user);
        self.close(project);
        if !seat.is_taken {
            return None;
        }
        let behind = Duration::from_micros(background(instances));
        let is_held = seat.pool == PoolKind::Costly || !behind.is_zero();
        if !is_held || !self.recent.has_other_than(project, now) {
            self.pool(seat.pool).fair.free_seat(project);
            return None;
        }
        let pool = self.pool(seat.pool);
        let rest = pool.fair.rest_after(actual);
        let until = now + behind + Duration::from_micros(rest).min(HOLD_MAX);
        pool.held.insert((until, id, project));
        Some(until)
    }

    /// Ends a request whose client has gone before it ran. It costs nothing, and nothing is learned.
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

    /// Gives a seat back although its request goes on, because that only waits.
    pub fn give_back_early(&mut self, seat: &mut Seat) {
        if std::mem::take(&mut seat.is_taken) {
            self.pool(seat.pool).fair.free_seat(seat.request.project);
        }
    }

    /// What a pool is doing.
    #[must_use]
    pub fn status(&self, pool: PoolKind) -> PoolStatus {
        let pool = match pool {
            PoolKind::Cheap => &self.cheap,
            PoolKind::Costly => &self.costly,
        };
        PoolStatus {
            seats: pool.fair.seats(),
            taken: pool.fair.taken(),
            held: pool.held.len(),
            waiting: pool.fair.waiting(),
            refused: pool.refused,
            timed_out: pool.timed_out,
        }
    }

    /// How many projects it has something to remember of.
    #[must_use]
    pub fn projects(&self) -> usize {
        self.cheap.fair.flows() + self.costly.fair.flows()
    }

    fn pool(&mut self, pool: PoolKind) -> &mut Pool<W> {
        match pool {
            PoolKind::Cheap => &mut self.cheap,
            PoolKind::Costly => &mut self.costly,
        }
    }

    /// Counts a refusal.
    fn refuse(&mut self, pool: PoolKind, project: u64) {
        let pool = self.pool(pool);
        pool.refused += 1;
        pool.fair.charge(project, REFUSAL_COST_US);
    }

    /// Counts one request of a project less as open.
    fn close(&mut self, project: u64) {
        if let Some(open) = self.open.get_mut(&project) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&project);
            }
        }
    }

    /// Frees the seats whose time is over.
    fn end_holds(&mut self, now: Duration) {
        for pool in [&mut self.cheap, &mut self.costly] {
            while let Some(&(until, _, project)) = pool.held.first()
                && until <= now
            {
                pool.held.pop_first();
                pool.fair.free_seat(project);
            }
        }
    }
}
