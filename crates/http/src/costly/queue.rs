//! The queues of costly requests: which of them runs next.
//!
//! One caller may have all places but one: the *regular places*. If it has them all, one of its short requests may run
//! in the place that is left, the *extra place*. Over all callers, at most one request is there at a time.

use std::collections::{HashMap, VecDeque};

use super::{Caller, CostlyOptions, WorkLength};

/// The places in which costly requests run, and the requests that wait for one. `W` is what the code that uses the
/// queue keeps for each waiting request.
pub(super) struct FairQueue<W> {
    options: CostlyOptions,
    /// How many requests run in regular places.
    running: usize,
    /// How many requests of each caller run in regular places. Callers that have none there are left out.
    running_by_caller: HashMap<Caller, usize>,
    /// Whether a short request runs in the extra place.
    is_extra_taken: bool,
    /// How many requests wait.
    waiting: usize,
    /// The requests that wait, by caller. There is no empty queue in it.
    waiting_by_caller: HashMap<Caller, CallerQueue<W>>,
    /// The callers of `waiting_by_caller`, in their turn for regular places.
    order: VecDeque<Caller>,
    /// The callers that have short requests in `waiting_by_caller`, in their turn for the extra place.
    order_of_extra: VecDeque<Caller>,
}

/// The place in which a request runs, to be given back with [`FairQueue::end`].
#[must_use]
pub(super) struct Place {
    caller: Caller,
    /// Whether this is the extra place, which only short requests may take.
    is_extra: bool,
}

/// The waiting requests of one caller.
struct CallerQueue<W> {
    short: VecDeque<W>,
    long: VecDeque<W>,
    /// The kind of request that is served next if both wait. The kinds alternate, so that neither waits for the whole
    /// queue of the other one.
    next: WorkLength,
}

impl<W> FairQueue<W> {
    pub(super) fn new(options: CostlyOptions) -> Self {
        Self {
            options,
            running: 0,
            running_by_caller: HashMap::new(),
            is_extra_taken: false,
            waiting: 0,
            waiting_by_caller: HashMap::new(),
            order: VecDeque::new(),
            order_of_extra: VecDeque::new(),
        }
    }

    /// How many requests of all callers wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many requests of one kind of a caller wait.
    pub(super) fn waiting_of(&self, caller: Caller, length: WorkLength) -> usize {
        let queue = self.waiting_by_caller.get(&caller);
        queue.map_or(0, |queue| match length {
            WorkLength::Short => queue.short.len(),
            WorkLength::Long => queue.long.len(),
        })
    }

    /// Whether a caller may have one more regular place, if one is free.
    fn may_have_another(&self, caller: Caller) -> bool {
        // If several requests may run at a time, one of these places is left for other callers.
        let per_caller_max = self.options.running_max.saturating_sub(1).max(1);
        let running_of_caller = self.running_by_caller.get(&caller).copied().unwrap_or(0);
        running_of_caller < per_caller_max
    }

    /// Whether as many requests run as may run at a time.
    fn is_full(&self) -> bool {
        self.running + usize::from(self.is_extra_taken) >= self.options.running_max
    }

    /// A place in which a request may run now; none if it has to wait.
    fn free_place(&self, caller: Caller, length: WorkLength) -> Option<Place> {
        let is_extra = !self.may_have_another(caller);
        let may_run =
            !self.is_full() && (!is_extra || (length == WorkLength::Short && !self.is_extra_taken));
        may_run.then_some(Place { caller, is_extra })
    }

    /// Takes a place for a new request; none if it has to wait. The request overtakes no other one: each call of
    /// [`Self::end`] is followed by calls of [`Self::next`], so no waiting request could take the place.
    pub(super) fn start(&mut self, caller: Caller, length: WorkLength) -> Option<Place> {
        let place = self.free_place(caller, length)?;
        if place.is_extra {
            self.is_extra_taken = true;
        } else {
            self.running += 1;
            *self.running_by_caller.entry(caller).or_default() += 1;
        }
        Some(place)
    }

    /// Gives the place of a request back. [`Self::next`] then has to be called until it returns nothing.
    pub(super) fn end(&mut self, place: Place) {
        if place.is_extra {
            self.is_extra_taken = false;
            return;
        }
        self.running -= 1;
        if let Some(running_of_caller) = self.running_by_caller.get_mut(&place.caller) {
            *running_of_caller -= 1;
            if *running_of_caller == 0 {
                self.running_by_caller.remove(&place.caller);
            }
        }
    }

    /// Adds a request to the queue of its caller.
    pub(super) fn wait(&mut self, caller: Caller, length: WorkLength, waiter: W) {
        let queue = self.waiting_by_caller.entry(caller).or_insert_with(|| {
            self.order.push_back(caller);
            CallerQueue {
                short: VecDeque::new(),
                long: VecDeque::new(),
                next: WorkLength::Short,
            }
        });
        if length == WorkLength::Short && queue.short.is_empty() {
            self.order_of_extra.push_back(caller);
        }
        queue.requests(length).push_back(waiter);
        self.waiting += 1;
    }

    /// Removes the waiting requests whose clients have gone, so that they count in no limit and take nobody's turn.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&W) -> bool) {
        let mut waiting = 0;
        self.waiting_by_caller.retain(|_, queue| {
            for requests in [&mut queue.short, &mut queue.long] {
                requests.retain(|waiter| !is_gone(waiter));
                waiting += requests.len();
            }
            !queue.is_empty()
        });
        self.waiting = waiting;
        let queues = &self.waiting_by_caller;
        self.order.retain(|caller| queues.contains_key(caller));
        let has_short = |caller: &Caller| queues.get(caller).is_some_and(|q| !q.short.is_empty());
        self.order_of_extra.retain(has_short);
    }

    /// Lets the next waiting request run, and returns its place and what was kept for it; none if no request that waits
    /// may run now.
    pub(super) fn next(&mut self) -> Option<(Place, W)> {
        let next = self.next_for_regular().or_else(|| self.next_for_extra())?;
        self.waiting -= 1;
        Some(next)
    }

    /// The next request for a regular place: of the first caller in turn that may have another one; none if no such
    /// place is free for anybody.
    fn next_for_regular(&mut self) -> Option<(Place, W)> {
        if self.is_full() {
            return None;
        }
        let mut order = self.order.iter();
        let index = order.position(|caller| self.may_have_another(*caller))?;
        let caller = self.order.remove(index)?;
        let queue = self.waiting_by_caller.get_mut(&caller)?;
        let length = queue.next_length();
        let waiter = queue.requests(length).pop_front()?;
        queue.next = length.other();
        let has_no_short = queue.short.is_empty();
        if queue.is_empty() {
            self.waiting_by_caller.remove(&caller);
        } else {
            self.order.push_back(caller);
        }
        if length == WorkLength::Short && has_no_short {
            self.order_of_extra.retain(|other| *other != caller);
        }
        Some((self.start(caller, length)?, waiter))
    }

    /// The next request for the extra place, if that is free. This changes no caller's turn for the regular places. If
    /// it did, a caller whose short requests come one after the other would always be the last one in turn for its long
    /// requests.
    fn next_for_extra(&mut self) -> Option<(Place, W)> {
        if self.is_extra_taken || self.is_full() {
            return None;
        }
        let caller = self.order_of_extra.pop_front()?;
        let queue = self.waiting_by_caller.get_mut(&caller)?;
        let waiter = queue.short.pop_front()?;
        if !queue.short.is_empty() {
            self.order_of_extra.push_back(caller);
        } else if queue.is_empty() {
            self.waiting_by_caller.remove(&caller);
            self.order.retain(|other| *other != caller);
        }
        self.is_extra_taken = true;
        let is_extra = true;
        Some((Place { caller, is_extra }, waiter))
    }
}

impl<W> CallerQueue<W> {
    fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    fn requests(&mut self, length: WorkLength) -> &mut VecDeque<W> {
        match length {
            WorkLength::Short => &mut self.short,
            WorkLength::Long => &mut self.long,
        }
    }

    /// The kind of request that is served next. The queue is not empty.
    fn next_length(&self) -> WorkLength {
        match (self.short.is_empty(), self.long.is_empty()) {
            (true, _) => WorkLength::Long,
            (_, true) => WorkLength::Short,
            (false, false) => self.next,
        }
    }
}

impl WorkLength {
    fn other(self) -> Self {
        match self {
            Self::Short => Self::Long,
            Self::Long => Self::Short,
        }
    }
}
