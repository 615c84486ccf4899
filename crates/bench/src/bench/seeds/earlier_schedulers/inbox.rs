//! The messages of hosts to schedulers.

use parking_lot::Mutex;

/// The part of a host's row in the table that schedulers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) host: u32,
    /// Grows with each change of the row.
    pub(super) version: i64,
    /// The places that are taken.
    pub(super) taken: i32,
}

/// A message of a host to a scheduler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) row: Row,
    /// Whether this answers a claim of this scheduler.
    pub(super) answers_own_claim: bool,
}

/// The messages that a scheduler has not handled yet.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<Vec<Message>>);

impl Inbox {
    pub(super) fn push(&self, message: Message) {
        self.0.lock().push(message);
    }

    pub(super) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.0.lock())
    }
}
