//! The bounded queue between requests and the thread that writes the log.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::event::Event;

/// How long the thread waits after a write, so that under load it writes many events together.
const GATHER_TIME: Duration = Duration::from_millis(5);

/// The longest time that the thread waits for an event.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(1);

/// The approximate bytes of an event, without texts and allocations.
const EVENT_BYTES: usize = 1024;
/// The approximate bytes of a consumer's allocations, without the amounts.
const HELD_BYTES: usize = 256;
/// The approximate bytes of an amount, or of an id.
const AMOUNT_BYTES: usize = 48;

/// The events that the thread has not taken yet.
#[derive(Debug)]
pub(crate) struct EventQueue {
    bytes_max: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    events: Vec<Event>,
    /// The approximate memory of `events`, in bytes.
    bytes: usize,
    /// The number of events that were left out after the last of `events`.
    left_out: u64,
    is_reopen_requested: bool,
    is_closed: bool,
    /// Whether the thread waits in [`EventQueue::wait_for_more`], so that a new event need not wake it.
    is_gathering: bool,
}

/// The events that the thread takes out of the queue together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    /// The number of events that were left out after the last of `events`.
    pub(crate) left_out: u64,
    pub(crate) is_reopen_requested: bool,
    pub(crate) is_closed: bool,
}

impl EventQueue {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Adds an event, without waiting for the thread. False if it was left out, because the queue is
    /// full or closed.
    pub(crate) fn offer(&self, event: Event) -> bool {
        let bytes = bytes_of(&event);
        let mut state = self.state.lock();
        // After an event was left out, further ones are left out, too, until the thread takes the batch:
        // so the line with the number of missing lines stands where they are missing.
        // An empty queue accepts an event of any size.
        let is_full = !state.events.is_empty() && state.bytes + bytes > self.bytes_max;
        if state.is_closed || state.left_out > 0 || is_full {
            state.left_out += 1;
            return false;
        }
        state.bytes += bytes;
        state.events.push(event);
        let is_half_full = state.bytes >= self.bytes_max / 2;
        if state.events.len() == 1 && !state.is_gathering || is_half_full {
            self.changed.notify_one();
        }
        true
    }

    /// Makes the thread open its file or socket again.
    pub(crate) fn request_reopen(&self) {
        self.state.lock().is_reopen_requested = true;
        self.changed.notify_one();
    }

    /// Makes the thread write the queued events and end.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits until there is an event, or until [`Self::request_reopen`] or [`Self::close`] is called, and takes
    /// all that is queued. After [`IDLE_WAIT_MAX`] it returns an empty batch, so that the thread can report
    /// missing lines even if no event comes.
    pub(crate) fn take_batch(&self, recycled: Vec<Event>) -> Batch {
        let mut state = self.state.lock();
        let has_no_events = state.events.is_empty() && state.left_out == 0;
        if has_no_events && !state.is_reopen_requested && !state.is_closed {
            self.changed.wait_for(&mut state, IDLE_WAIT_MAX);
        }
        state.bytes = 0;
        Batch {
            events: std::mem::replace(&mut state.events, recycled),
            left_out: std::mem::take(&mut state.left_out),
            is_reopen_requested: std::mem::take(&mut state.is_reopen_requested),
            is_closed: state.is_closed,
        }
    }

    /// Waits for [`GATHER_TIME`], in which more events may come; ends early if the queue gets half full or is closed.
    pub(crate) fn wait_for_more(&self) {
        let mut state = self.state.lock();
        if !state.is_closed && state.bytes < self.bytes_max / 2 {
            state.is_gathering = true;
            self.changed.wait_for(&mut state, GATHER_TIME);
            state.is_gathering = false;
        }
    }
}

/// The approximate memory of an event, in bytes.
fn bytes_of(event: &Event) -> usize {
    let holdings = event.noted.held.iter().map(|held| {
        let amounts = held
            .allocations
            .iter()
            // The UUID of the provider is counted as one more amount.
            .map(|(_, amounts)| 1 + amounts.len());
        HELD_BYTES + amounts.sum::<usize>() * AMOUNT_BYTES
    });
    let texts = event.path.len() + event.reason.text.as_ref().map_or(0, String::len);
    EVENT_BYTES + texts + holdings.sum::<usize>() + event.noted.ids.len() * AMOUNT_BYTES
}
