//! The seats of the level of operators and services, as one atomic number.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the seats that are taken, and those who wait for one.
///
/// A free seat is taken with one atomic operation and given back with another one, without a lock. Who
/// waits, and in which order, is kept by the user of this type behind a lock, in a queue that is needed
/// only while all seats are taken:
///
/// - To wait: with the lock held, call [`Self::enter_or_wait`], and add an entry to the queue if it says so.
/// - To leave: if [`Self::leave`] says [`Exit::PassOn`], take the first entry of the queue with the lock
///   held, and let it have the seat; if the queue is empty, because that entry has left, call it again.
/// - To stop waiting: with the lock held, remove the entry, and call [`Self::stop_waiting`].
#[derive(Debug)]
pub struct SeatCounter {
    seats: u32,
    /// The seats taken in the lower half, those who wait in the upper half.
    state: AtomicU64,
}

/// Whether a request may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// It has a seat.
    Seated,
    /// It is counted as waiting.
    Waiting,
}

/// What happens with the seat of a request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Nobody waits, so the seat is free for a request that comes later.
    Freed,
    /// It stays taken, for the first one that waits.
    PassOn,
}

const ONE_WAITS: u64 = 1 << 32;

fn taken(state: u64) -> u64 {
    state & u64::from(u32::MAX)
}

fn waiting(state: u64) -> u64 {
    state >> 32
}

impl SeatCounter {
    /// So many free seats; at least one.
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

    /// Takes a seat, or counts one more who waits.
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

    /// Gives a seat back, or keeps it for one who waits.
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

    /// Counts one less who waits, unless a seat is being passed on to each of them already.
    pub fn stop_waiting(&self) {
        // Nobody is counted when all of them are about to get a seat: the result does not matter.
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

    /// How many wait now.
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
    fn who_stops_waiting_is_not_counted() {
        let seats = SeatCounter::new(1);
        assert!(seats.try_enter());
        assert_eq!(seats.enter_or_wait(), Entrance::Waiting);
        seats.stop_waiting();
        assert_eq!(seats.leave(), Exit::Freed);
        seats.stop_waiting();
        assert_eq!((seats.taken(), seats.waiting()), (0, 0));
    }
}
