//! A pool of seats, some of which may be held after their requests.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::fair_pool::FairPool;

/// A seat that is held after its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hold {
    /// When the hold ends, counted from the same start as the `now` of [`Pool::end_holds`].
    pub(crate) until: Duration,
    /// Distinguishes holds that end at the same time.
    pub(crate) id: u64,
    /// The project whose request ended.
    pub(crate) project: u64,
    /// Whether the seat is withheld from all projects until the hold ends. If not, other projects may take it at once,
    /// but until the hold ends it still counts towards the limit of its own project.
    pub(crate) is_withheld_from_all: bool,
}

/// Seats, the requests that wait for them, and the seats that are held. `Q` is what is kept for each waiting request.
#[derive(Debug)]
pub(crate) struct Pool<Q> {
    pub(crate) fair: FairPool<Q>,
    /// Seats that are held after their request, ordered by when their hold ends.
    pub(crate) held: BTreeSet<Hold>,
    /// The number of held seats that no project may take.
    pub(crate) withheld_from_all: usize,
    /// How many requests were refused since the start because too many waited, among them waiting ones that were
    /// removed to make room.
    pub(crate) refused: u64,
    /// How many requests were refused since the start because they had waited for too long.
    pub(crate) timed_out: u64,
}

impl<Q> Pool<Q> {
    /// A pool of `seats` seats. While several projects are present, which means that they sent requests lately, only
    /// `seats_when_shared` of them are given out. One project may have at most `seats_per_project` at a time.
    pub(crate) fn new(seats: usize, seats_when_shared: usize, seats_per_project: usize) -> Self {
        Self {
            fair: FairPool::new(seats, seats_when_shared, seats_per_project),
            held: BTreeSet::new(),
            withheld_from_all: 0,
            refused: 0,
            timed_out: 0,
        }
    }

    /// Holds the seat of a request that has ended. A seat that is withheld from all projects stays taken until the hold
    /// ends; any other is free for other projects from now on.
    pub(crate) fn hold(&mut self, hold: Hold) {
        match hold.is_withheld_from_all {
            true => self.withheld_from_all += 1,
            false => self.fair.hold_seat(hold.project),
        }
        self.held.insert(hold);
    }

    /// Ends the holds whose time is over.
    pub(crate) fn end_holds(&mut self, now: Duration) {
        while let Some(hold) = self.held.pop_first() {
            if hold.until > now {
                self.held.insert(hold);
                return;
            }
            if hold.is_withheld_from_all {
                self.withheld_from_all -= 1;
                self.fair.free_seat(hold.project);
            } else {
                self.fair.end_hold(hold.project);
            }
        }
    }
}
