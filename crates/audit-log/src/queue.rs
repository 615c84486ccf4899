//! The bounded queue between requests and the thread that writes.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::event::Event;

/// How long events gather after a write, so that a service under load writes many at a time.
const GATHER: Duration = Duration::from_millis(5);

/// The longest wait for an event.
const IDLE: Duration = Duration::from_secs(1);

/// The memory that an event takes beside what consumers hold.
const EVENT_BYTES: usize = 1024;
const HELD_BYTES: usize = 256;
const AMOUNT_BYTES: usize = 48;

/// The events that wait for the thread.
#[derive(Debug)]
pub(crate) struct EventQueue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<Event>,
    bytes: usize,
    left_out: u64,
    reopen: bool,
    closed: bool,
    /// Whether the thread waits for more, and looks again soon.
    gathers: bool,
}

/// What the thread takes at a time.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) events: Vec<Event>,
    /// How many events were left out after the last of them.
    pub(crate) left_out: u64,
    pub(crate) reopen: bool,
    pub(crate) closed: bool,
}

impl EventQueue {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            waiting: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Adds an event, unless there is no room for it. Never waits for the thread.
    pub(crate) fn offer(&self, event: Event) -> bool {
        let bytes = bytes_of(&event);
        let mut waiting = self.waiting.lock();
        // What comes after an event that was left out is left out too, until the thread has taken
        // all that waits: so its line is where lines are missing.
        let is_full = !waiting.events.is_empty() && waiting.bytes + bytes > self.bytes_max;
        if waiting.closed || waiting.left_out > 0 || is_full {
            waiting.left_out += 1;
            return false;
        }
        waiting.bytes += bytes;
        waiting.events.push(event);
        let is_half_full = waiting.bytes >= self.bytes_max / 2;
        if waiting.events.len() == 1 && !waiting.gathers || is_half_full {
            self.wake.notify_one();
        }
        true
    }

    /// Has the thread open its file again.
    pub(crate) fn reopen(&self) {
        self.waiting.lock().reopen = true;
        self.wake.notify_one();
    }

    /// Has the thread write what waits, and end.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits for something to do, but not for ever: lines that are missing are told of once they can
    /// be, whether others come or not.
    pub(crate) fn take(&self, spare: Vec<Event>) -> Taken {
        let mut waiting = self.waiting.lock();
        let is_idle = waiting.events.is_empty() && waiting.left_out == 0;
        if is_idle && !waiting.reopen && !waiting.closed {
            self.wake.wait_for(&mut waiting, IDLE);
        }
        waiting.bytes = 0;
        Taken {
            events: std::mem::replace(&mut waiting.events, spare),
            left_out: std::mem::take(&mut waiting.left_out),
            reopen: std::mem::take(&mut waiting.reopen),
            closed: waiting.closed,
        }
    }

    /// Lets events gather for a moment, unless the queue is half full or is closed meanwhile.
    pub(crate) fn gather(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.closed && waiting.bytes < self.bytes_max / 2 {
            waiting.gathers = true;
            self.wake.wait_for(&mut waiting, GATHER);
            waiting.gathers = false;
        }
    }
}

/// About how much memory an event takes.
fn bytes_of(event: &Event) -> usize {
    let held = event.noted.held.iter().map(|held| {
        let amounts = held
            .allocations
            .iter()
            .map(|(_, amounts)| 1 + amounts.len());
        HELD_BYTES + amounts.sum::<usize>() * AMOUNT_BYTES
    });
    let texts = event.path.len() + event.reason.text.as_ref().map_or(0, String::len);
    EVENT_BYTES + texts + held.sum::<usize>() + event.noted.ids.len() * AMOUNT_BYTES
}
