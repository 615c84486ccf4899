//! Seats that projects share fairly: start-time fair queueing (Goyal, Vin and Cheng, 1996), with one flow
//! for each project and, within it, one for each user.
//!
//! A flow has a virtual start, which grows by the virtual cost of each of its requests that runs. The next request to
//! run is the first one of the flow with the smallest virtual start. The virtual time is the largest virtual start of
//! the requests that have run. A flow that becomes active begins at the virtual time or later, so a project cannot save
//! up a share while it sends nothing.
//!
//! The virtual cost of a request is its estimated cost multiplied by the requests that its project (for the nested
//! flows: its user) has open when it arrives, itself included. So the virtual start of a project with many open
//! requests grows faster, and the project is served less often: opening more connections gains nothing.
//!
//! A project that waits for each response before it sends its next request may get ahead of the others by a bounded
//! amount, the lead. Without the lead, each time such a project had used as much as the others use in one turn, it
//! would have to wait for one request of every other project.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most flows without open requests that are kept, so that what their projects have used still counts when they
/// send requests again.
const IDLE_FLOWS_MAX: usize = 1024;

/// The number of new flows after which idle flows are looked for and forgotten again.
const FORGET_EVERY: usize = 1024;

/// The lead of a project with one open request: the cost of this many of its requests, but at most [`LEAD_MAX_US`].
const LEAD_REQUESTS: u64 = 64;
/// The longest lead, in microseconds of processor time.
const LEAD_MAX_US: u64 = 50_000;

/// What a request costs, and the project and user that are charged for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    /// The key of the project: a hash of its name.
    pub(crate) project: u64,
    /// The key of the user: a hash of its name.
    pub(crate) user: u64,
    /// The estimated cost in microseconds.
    pub(crate) cost: u64,
    /// How many requests the project had open when this one arrived, including this one.
    pub(crate) crowd: u64,
}

impl Charge {
    /// By how much the request makes the virtual start of its project's flow grow.
    fn virtual_cost(&self) -> u64 {
        self.cost.saturating_mul(self.crowd)
    }

    /// How far the virtual start of the request may be ahead of that of its flow, in microseconds.
    fn lead(&self) -> u64 {
        match self.crowd {
            1 => self.cost.saturating_mul(LEAD_REQUESTS).min(LEAD_MAX_US),
            _ => 0,
        }
    }
}

/// The rank of a flow among those that are ready, which means that they have a waiting request and may have another
/// seat. The flow with the smallest rank is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// The virtual start of the flow's next request: its lead is subtracted, but it is at least the virtual time.
    virtual_start: u64,
    /// The virtual cost of the flow's next request. Of flows with equal starts, the one with the cheapest next request
    /// is served first.
    virtual_cost: u64,
    /// A number that grows with each flow that becomes ready, so that flows with equal starts are served in the order
    /// in which they became ready.
    order: u64,
}

/// A pool of seats, and the requests that wait for one. `W` is what the code that uses the pool keeps for each
/// waiting request.
#[derive(Debug)]
pub(crate) struct FairPool<W> {
    seats: usize,
    /// How many of the seats are given out while several projects are present, that is, sent requests lately.
    seats_when_shared: usize,
    /// Whether several projects are present.
    is_shared: bool,
    /// The most seats that one project may have at a time.
    seats_per_project: usize,
    /// The seats that no project may take now. A seat that is held only from the project whose request ended is not
    /// counted: other projects may take it.
    taken: usize,
    /// How many requests of all projects wait.
    waiting: usize,
    /// The largest virtual start with which a request has run. At the end of a busy period it advances to
    /// `latest_start`.
    virtual_time: u64,
    /// The largest virtual start of any flow.
    latest_start: u64,
    /// The flows, by project.
    flows: BTreeMap<u64, Flow<W>>,
    /// The flows that have a request to run and may have another seat, by rank, each with its project.
    ready: BTreeSet<(Rank, u64)>,
    /// The [`Rank::order`] of the next flow that becomes ready.
    next_order: u64,
    /// The number of flows at which idle ones are looked for and forgotten.
    forget_at: usize,
}

/// The flow of one project.
#[derive(Debug)]
struct Flow<W> {
    /// The virtual start of the next request of the project, before its lead is subtracted.
    virtual_start: u64,
    /// The seats that the project has, including those that are held after its requests.
    taken: usize,
    /// How many requests of the project wait.
    waiting: usize,
    /// The flows of the project's users, by user.
    users: BTreeMap<u64, UserFlow<W>>,
    /// The virtual time among the users of the project.
    users_virtual_time: u64,
    /// The rank of the flow if it is ready.
    ready: Option<Rank>,
}

/// The flow of one user of a project, as long as the user has open requests.
#[derive(Debug)]
struct UserFlow<W> {
    /// The virtual start of the user's next request, among the users of the project.
    virtual_start: u64,
    /// How many requests of the user run or wait.
    open: u64,
    /// The requests of the user that wait, the oldest first.
    queue: VecDeque<WaitingRequest<W>>,
}

#[derive(Debug)]
struct WaitingRequest<W> {
    id: u64,
    charge: Charge,
    /// The virtual cost of the request in the flow of its user, which counts only that user's open requests.
    user_cost: u64,
    waiter: W,
}

impl<W> Default for Flow<W> {
    fn default() -> Self {
        Self {
            virtual_start: 0,
            taken: 0,
            waiting: 0,
            users: BTreeMap::new(),
            users_virtual_time: 0,
            ready: None,
        }
    }
}

impl<W> Flow<W> {
    /// The user whose request is next; none if no request waits.
    fn next_user(&self) -> Option<u64> {
        let waiting = self.users.iter().filter_map(|(user, flow)| {
            let first = flow.queue.front()?;
            Some((flow.virtual_start, first.id, *user))
        });
        waiting.min().map(|(.., user)| user)
    }

    /// The request that is next; none if no request waits.
    fn next_request(&self) -> Option<&WaitingRequest<W>> {
        self.users.get(&self.next_user()?)?.queue.front()
    }

    /// Counts a request of a user as open. Returns its virtual cost in the flow of that user.
    fn open(&mut self, charge: &Charge) -> u64 {
        let start = self.users_virtual_time;
        let user = self.users.entry(charge.user).or_insert_with(|| UserFlow {
            virtual_start: start,
            open: 0,
            queue: VecDeque::new(),
        });
        user.open += 1;
        charge.cost.saturating_mul(user.open)
    }

    /// Charges a user for a request that runs now.
    fn start_user(&mut self, user: u64, cost: u64) {
        if let Some(user) = self.users.get_mut(&user) {
            self.users_virtual_time = self.users_virtual_time.max(user.virtual_start);
            user.virtual_start = self.users_virtual_time.saturating_add(cost);
        }
    }

    fn is_idle(&self) -> bool {
        self.taken == 0 && self.users.is_empty()
    }
}

impl<W> FairPool<W> {
    pub(crate) fn new(seats: usize, seats_when_shared: usize, seats_per_project: usize) -> Self {
        let seats = seats.max(1);
        Self {
            seats,
            seats_when_shared: seats_when_shared.clamp(1, seats),
            is_shared: false,
            seats_per_project: seats_per_project.clamp(1, seats),
            taken: 0,
            waiting: 0,
            virtual_time: 0,
            latest_start: 0,
            flows: BTreeMap::new(),
            ready: BTreeSet::new(),
            next_order: 0,
            forget_at: FORGET_EVERY,
        }
    }

    pub(crate) fn seats(&self) -> usize {
        self.seats
    }

    pub(crate) fn seats_per_project(&self) -> usize {
        self.seats_per_project
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Notes whether several projects are present.
    pub(crate) fn set_shared(&mut self, is_shared: bool) {
        if self.is_shared == is_shared {
            return;
        }
        self.is_shared = is_shared;
        let waiting = self.flows.iter().filter(|(_, flow)| flow.waiting > 0);
        let waiting: Vec<u64> = waiting.map(|(project, _)| *project).collect();
        for project in waiting {
            self.update_ready(project);
        }
    }

    /// The most seats that one project may have now. While several projects are present, at least one seat is left to
    /// other projects, unless only one seat may be used then.
    fn seats_per_project_now(&self) -> usize {
        match self.is_shared {
            true => self
                .seats_per_project
                .min((self.seats_when_shared - 1).max(1)),
            false => self.seats_per_project,
        }
    }

    fn has_free_seat(&self) -> bool {
        let seats = match self.is_shared {
            true => self.seats_when_shared,
            false => self.seats,
        };
        self.taken < seats
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of projects that have a flow.
    pub(crate) fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// How many requests of a project wait.
    pub(crate) fn waiting_of(&self, project: u64) -> usize {
        self.flows.get(&project).map_or(0, |flow| flow.waiting)
    }

    /// Takes a seat for a new request, if one is free for its project.
    pub(crate) fn try_start(&mut self, charge: Charge) -> bool {
        let of_project = self.flows.get(&charge.project).map_or(0, |flow| flow.taken);
        // A request that waits for the free seat is not passed over. There is one if the projects have just stopped
        // sharing the pool, and the caller has not started the waiting requests yet.
        let is_free = self.has_free_seat() && self.ready.is_empty();
        if !is_free || of_project >= self.seats_per_project_now() {
            return false;
        }
        let virtual_time = self.virtual_time;
        let flow = self.flow(charge.project);
        flow.virtual_start = flow.virtual_start.max(virtual_time);
        let virtual_start = flow.virtual_start.saturating_sub(charge.lead());
        let user_cost = flow.open(&charge);
        flow.start_user(charge.user, user_cost);
        self.virtual_time = virtual_time.max(virtual_start);
        self.start(charge);
        true
    }

    /// Adds a request to the queue of its project. Each request has a greater `id` than the ones before it.
    pub(crate) fn wait(&mut self, id: u64, charge: Charge, waiter: W) {
        let virtual_time = self.virtual_time;
        let flow = self.flow(charge.project);
        let user_cost = flow.open(&charge);
        if flow.waiting == 0 {
            flow.virtual_start = flow.virtual_start.max(virtual_time);
        }
        flow.waiting += 1;
        if let Some(user) = flow.users.get_mut(&charge.user) {
            user.queue.push_back(WaitingRequest {
                id,
                charge,
                user_cost,
                waiter,
            });
        }
        self.waiting += 1;
        self.update_ready(charge.project);
    }

    /// Lets the next request run, and returns its waiter; none if no request waits for which a seat is free.
    pub(crate) fn next(&mut self) -> Option<W> {
        if !self.has_free_seat() {
            return None;
        }
        let (rank, project) = *self.ready.first()?;
        let flow = self.flows.get_mut(&project)?;
        let user = flow.next_user()?;
        let request = flow.users.get_mut(&user)?.queue.pop_front()?;
        flow.waiting -= 1;
        flow.start_user(user, request.user_cost);
        self.waiting -= 1;
        self.virtual_time = self.virtual_time.max(rank.virtual_start);
        self.start(request.charge);
        Some(request.waiter)
    }

    /// Removes a waiting request from its queue, and stops counting it as open. None if no such request waits.
    pub(crate) fn remove(&mut self, id: u64, project: u64, user: u64) -> Option<W> {
        let flow = self.flows.get_mut(&project)?;
        let queue = &mut flow.users.get_mut(&user)?.queue;
        let position = queue.iter().position(|request| request.id == id)?;
        let request = queue.remove(position)?;
        flow.waiting -= 1;
        self.waiting -= 1;
        self.close(project, user);
        self.update_ready(project);
        Some(request.waiter)
    }

    /// How many requests wait in the longest queue of a project.
    pub(crate) fn longest_queue(&self) -> usize {
        let lengths = self.flows.values().map(|flow| flow.waiting);
        lengths.max().unwrap_or(0)
    }

    /// Removes the newest request of the project with the longest queue, if that queue is longer than `longer_than`.
    /// Returns the project and the waiter of the request.
    pub(crate) fn remove_from_longest(&mut self, longer_than: usize) -> Option<(u64, W)> {
        let longest = self.flows.iter().max_by_key(|(_, flow)| flow.waiting);
        let (project, flow) = longest.filter(|(_, flow)| flow.waiting > longer_than)?;
        let newest = flow.users.iter().filter_map(|(user, flow)| {
            let last = flow.queue.back()?;
            Some((last.id, *user))
        });
        let ((id, user), project) = (newest.max()?, *project);
        Some((project, self.remove(id, project, user)?))
    }

    /// Stops counting a request as open. If it ran, its seat has to be given back, too: by [`Self::free_seat`], or by
    /// [`Self::hold_seat`] and [`Self::end_hold`].
    pub(crate) fn close(&mut self, project: u64, user: u64) {
        let Some(flow) = self.flows.get_mut(&project) else {
            return;
        };
        if let Some(of_user) = flow.users.get_mut(&user) {
            of_user.open -= 1;
            if of_user.open == 0 {
                flow.users.remove(&user);
            }
        }
    }

    /// Gives a seat of a project back.
    pub(crate) fn free_seat(&mut self, project: u64) {
        self.hold_seat(project);
        self.end_hold(project);
    }

    /// Frees a seat for other projects, but still counts it among the seats that its own project may have, until
    /// [`Self::end_hold`].
    pub(crate) fn hold_seat(&mut self, project: u64) {
        if self.flows.contains_key(&project) {
            self.taken -= 1;
        }
        if self.taken == 0 && self.waiting == 0 {
            // This is the end of a busy period. The virtual time reaches the start of every flow, so what projects used
            // in this period does not count in the next one.
            self.virtual_time = self.latest_start;
        }
    }

    /// Ends the hold of a seat, so that its project may have the seat again.
    pub(crate) fn end_hold(&mut self, project: u64) {
        if let Some(flow) = self.flows.get_mut(&project) {
            flow.taken -= 1;
            self.update_ready(project);
        }
    }

    /// Adds `more` to the virtual start of a project's flow: the cost of a refusal, or the difference between the
    /// charges for the real and the estimated cost of a request, which may be negative. Does nothing for an unknown
    /// project.
    pub(crate) fn charge(&mut self, project: u64, more: i64) {
        if let Some(flow) = self.flows.get_mut(&project) {
            flow.virtual_start = flow
                .virtual_start
                .max(self.virtual_time)
                .saturating_add_signed(more);
            self.latest_start = self.latest_start.max(flow.virtual_start);
            self.update_ready(project);
        }
    }

    /// Takes a seat, and charges the project.
    fn start(&mut self, charge: Charge) {
        if let Some(flow) = self.flows.get_mut(&charge.project) {
            flow.taken += 1;
            self.taken += 1;
            let start = flow.virtual_start.max(self.virtual_time);
            flow.virtual_start = start.saturating_add(charge.virtual_cost());
            self.latest_start = self.latest_start.max(flow.virtual_start);
        }
        self.update_ready(charge.project);
    }

    /// Adds the flow of a project to the set of ready flows, or removes it, as its present state requires.
    ///
    /// The flow gets a new [`Rank::order`] each time.
    fn update_ready(&mut self, project: u64) {
        let seats_per_project = self.seats_per_project_now();
        let Some(flow) = self.flows.get_mut(&project) else {
            return;
        };
        if let Some(rank) = flow.ready.take() {
            self.ready.remove(&(rank, project));
        }
        if flow.taken >= seats_per_project {
            return;
        }
        // While a project has as many seats as it may have, its requests wait for a seat of its own. It does not save
        // up a share in this time.
        flow.virtual_start = flow.virtual_start.max(self.virtual_time);
        let Some(request) = flow.next_request() else {
            return;
        };
        let start = flow.virtual_start.saturating_sub(request.charge.lead());
        let rank = Rank {
            virtual_start: start.max(self.virtual_time),
            virtual_cost: request.charge.virtual_cost(),
            order: self.next_order,
        };
        self.next_order += 1;
        flow.ready = Some(rank);
        self.ready.insert((rank, project));
    }

    /// The flow of a project, which is made if it is not known.
    fn flow(&mut self, project: u64) -> &mut Flow<W> {
        if self.flows.len() >= self.forget_at && !self.flows.contains_key(&project) {
            self.forget_idle();
        }
        self.flows.entry(project).or_default()
    }

    /// Forgets idle flows, except those whose virtual start is farthest ahead of the virtual time.
    fn forget_idle(&mut self) {
        let virtual_time = self.virtual_time;
        let mut ahead: Vec<u64> = self
            .flows
            .values()
            .filter(|flow| flow.is_idle() && flow.virtual_start > virtual_time)
            .map(|flow| flow.virtual_start)
            .collect();
        let mut remembered_from = virtual_time + 1;
        if ahead.len() > IDLE_FLOWS_MAX {
            let forgotten = ahead.len() - IDLE_FLOWS_MAX;
            let (_, start, _) = ahead.select_nth_unstable(forgotten);
            remembered_from = *start + 1;
        }
        self.flows
            .retain(|_, flow| !flow.is_idle() || flow.virtual_start >= remembered_from);
        self.forget_at = self.flows.len() + FORGET_EVERY;
    }
}
