//! The queues of costly requests: which of them runs next.

use std::collections::{HashMap, VecDeque};

use super::{Caller, CostlyOptions, WorkLength};

/// The places in which costly requests run, and the requests that wait for one. `W` is what the user of the queue keeps
/// for each waiting request.
pub(super) struct FairQueue<W> {
    options: CostlyOptions,
    /// How many requests run, without the one in the extra place.
    running: usize,
    /// How many of them each caller has. Callers without such a request are left out.
    running_by_caller: HashMap<Caller, usize>,
    /// Whether a short request runs in the extra place.
    is_extra_taken: bool,
    /// How many requests wait.
    waiting: usize,
    /// The requests that wait, by caller. There is no empty queue in it.
    waiting_by_caller: HashMap<Caller, CallerQueue<W>>,
    /// The callers of `waiting_by_caller`, the next one first.
    order: VecDeque<Caller>,
}

/// The place in which a request runs, to be given back with [`FairQueue::end`].
pub(super) struct Place {
    caller: Caller,
    /// Whether this is the one place that only short requests may take, whose request is not counted among those that
    /// run at a time.
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
        }
    }

    /// How many requests of all callers wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many requests of a caller wait.
    pub(super) fn waiting_of(&self, caller: Caller) -> usize {
        self.waiting_by_caller
            .get(&caller)
            .map_or(0, CallerQueue::len)
    }

    /// A place in which a request may run now.
    fn free_place(&self, caller: Caller, length: WorkLength) -> Option<Place> {
        let running_of_caller = self.running_by_caller.get(&caller).copied().unwrap_or(0);
        // If several requests may run at a time, one of these places is left for other callers.
        let per_caller_max = self.options.running_max.saturating_sub(1).max(1);
        let is_extra =
            self.running >= self.options.running_max || running_of_caller >= per_caller_max;
        let may_run = !is_extra || (length == WorkLength::Short && !self.is_extra_taken);
        may_run.then_some(Place { caller, is_extra })
    }

    /// Takes a place for a request that may run now. Each call of [`Self::end`] is followed by calls of [`Self::next`],
    /// so no waiting request could have the place.
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
        queue.requests(length).push_back(waiter);
        self.waiting += 1;
    }

    /// Lets the next request run that may: one of the first caller in turn.
    pub(super) fn next(&mut self) -> Option<(Place, W)> {
        let mut order = self.order.iter().enumerate();
        let (index, caller, length) = order.find_map(|(index, caller)| {
            let queue = self.waiting_by_caller.get(caller)?;
            let mut lengths = queue.lengths();
            let length = lengths.find(|length| self.free_place(*caller, *length).is_some())?;
            Some((index, *caller, length))
        })?;
        let queue = self.waiting_by_caller.get_mut(&caller)?;
        let waiter = queue.requests(length).pop_front()?;
        queue.next = length.other();
        self.order.remove(index);
        if queue.len() == 0 {
            self.waiting_by_caller.remove(&caller);
        } else {
            self.order.push_back(caller);
        }
        self.waiting -= 1;
        let place = self.start(caller, length)?;
        Some((place, waiter))
    }
}

impl<W> CallerQueue<W> {
    fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    fn requests(&mut self, length: WorkLength) -> &mut VecDeque<W> {
        match length {
            WorkLength::Short => &mut self.short,
            WorkLength::Long => &mut self.long,
        }
    }

    /// The kinds of requests that wait, the one that is served next first.
    fn lengths(&self) -> impl Iterator<Item = WorkLength> {
        [self.next, self.next.other()]
            .into_iter()
            .filter(move |length| match length {
                WorkLength::Short => !self.short.is_empty(),
                WorkLength::Long => !self.long.is_empty(),
            })
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
