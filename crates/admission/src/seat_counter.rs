//! The seats of the level of operators and services, as one atomic number.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the seats that are taken, and the requests that wait for one.
///
/// A free seat is taken with one atomic operation and given back with another one, without a lock. The requests that
/// wait are kept, in order, by the user of this type in a queue behind a lock, which is needed only while all seats are
/// taken:
///
/// - To wait: with the lock held, call [`Self::enter_or_wait`], and add an entry to the queue if it returns
///   [`Entrance::Waiting`].
/// - To leave: call [`Self::leave`]. If it returns [`Exit::PassOn`], remove the first entry of the queue with the lock
///   held, and give the seat to its request. If no request takes the seat, because it has stopped waiting, call
///   [`Self::leave`] again.
/// - To stop waiting: with the lock held, remove the entry, and call [`Self::stop_waiting`].
#[derive(Debug)]
pub struct SeatCounter {
    seats: u32,
    /// The number of seats taken in the lower 32 bits, and of requests that wait in the upper 32 bits.
    ///
    /// Taking a seat synchronises with the leaving before it (`Acquire` and `Release`). Reads for metrics need no order
    /// (`Relaxed`).
    state: AtomicU64,
}

/// Whether a request may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// The request has a seat.
    Seated,
    /// The request has to wait, and is counted among those that wait.
    Waiting,
}

/// Whether the seat of a request that has ended becomes free, or is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Nobody waits, so the seat is free for a request that comes later.
    Freed,
    /// The seat stays taken, for the first request that waits.
    PassOn,
}

/// The amount that one waiting request adds to [`SeatCounter::state`].
const ONE_WAITS: u64 = 1 << 32;

fn taken(state: u64) -> u64 {
    state & u64::from(u32::MAX)
}

fn waiting(state: u64) -> u64 {
    state >> 32
}

impl SeatCounter {
    /// Creates a counter of a level with this number of seats, all of them free. A level has at least one seat.
    #[must_use]
    pub fn new(seats: usize) -> Self {
        Self {
            seats: u32::try_from(seats).unwrap_or(u32::MAX).max(1),
            state: AtomicU64::new(0),
        }
    }

    /// Takes a seat if one is free.
    pub fn try_enter(&self) -> bool {
        let seats = u64::from(self.seats);
        self.state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                (taken(state) < seats).then_some(state + 1)
            })
            .is_ok()
    }

    /// Takes a seat if one is free; otherwise adds one to the requests that wait.
    pub fn enter_or_wait(&self) -> Entrance {
        let seats = u64::from(self.seats);
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
                let more = if taken(state) < seats { 1 } else { ONE_WAITS };
                state.checked_add(more)
            });
        match before {
            Ok(state) if taken(state) < seats => Entrance::Seated,
            _ => Entrance::Waiting,
        }
    }

    /// Frees a seat; if requests wait, keeps it taken for one of them instead.
    pub fn leave(&self) -> Exit {
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
                state.checked_sub(if waiting(state) > 0 { ONE_WAITS } else { 1 })
            });
        match before {
            Ok(state) if waiting(state) > 0 => Exit::PassOn,
            _ => Exit::Freed,
        }
    }

    /// Subtracts one request from those that wait.
    pub fn stop_waiting(&self) {
        // The number may be 0 already, because [`Self::leave`] subtracts a request when it passes a seat on, before the
        // entry is removed from the queue. Then it stays 0.
        let _ = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
                state.checked_sub(ONE_WAITS)
            });
    }

    /// The seats of the level, whether free or taken. The number does not change.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.seats as usize
    }

    /// The seats that are taken now.
    #[must_use]
    pub fn taken(&self) -> usize {
        usize::try_from(taken(self.state.load(Ordering::Relaxed))).unwrap_or(usize::MAX)
    }

    /// The number of requests that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        usize::try_from(waiting(self.state.load(Ordering::Relaxed))).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_passed_on_to_those_who_wait() {
        let seats = SeatCounter::new(2);
        assert!(seats.try_enter() && seats.try_enter() && !seats.try_enter());
        assert_eq!(seats.enter_or_wait(), Entrance::Waiting);
        assert_eq!((seats.taken(), seats.waiting()), (2, 1));
        assert_eq!(seats.leave(), Exit::PassOn);
        assert!(!seats.try_enter(), "the seat is not free");
        assert_eq!(seats.leave(), Exit::Freed);
        assert_eq!(seats.enter_or_wait(), Entrance::Seated);
    }

    #[test]
    fn a_request_that_stops_waiting_is_not_counted() {
        let seats = SeatCounter::new(1);
        assert!(seats.try_enter());
        assert_eq!(seats.enter_or_wait(), Entrance::Waiting);
        seats.stop_waiting();
        assert_eq!(seats.leave(), Exit::Freed);
        seats.stop_waiting();
        assert_eq!((seats.taken(), seats.waiting()), (0, 0));
    }
}
