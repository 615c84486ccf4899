//! The entries that the store has lost, as far as a process knows; see `loss.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use placewright_journal::JournalError;
use tokio::sync::{oneshot, watch};

use crate::error::{AppendAgainError, StoreError};

/// Entries that the store has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The first entry that is missing or replaced.
    pub first: u64,
    /// The last missing entry, as far as this process knows: the last entry that it has applied.
    pub last: u64,
    /// The first entry up to `last` that this process has in memory; `None` if it has none.
    pub first_in_memory: Option<u64>,
    /// Whether the journal has other entries in place of some that this process has applied; true also if that cannot
    /// be excluded, because no entry is in memory to compare with.
    pub is_replaced: bool,
}

impl Loss {
    /// Why the lost entries cannot be appended again from the memory of this process; `None` if they can.
    pub fn reason_against_appending(&self) -> Option<AppendAgainError> {
        let Loss {
            first,
            last,
            first_in_memory,
            ..
        } = *self;
        if self.is_replaced {
            return Some(AppendAgainError::Replaced { first, last });
        }
        // The entry before the lost ones has to be in memory, too: if the journal has the same entry there, the lost
        // entries can be appended after it.
        let is_in_memory = first_in_memory.is_some_and(|held| held < first || held == 1);
        (!is_in_memory).then_some(AppendAgainError::NotInMemory { first, last })
    }
}

/// The entries that an engine knows or suspects to be lost, and the requests to append them again.
pub(crate) struct LostEntries {
    /// The loss; `None` while nothing is missing.
    pub(crate) loss: watch::Sender<Option<Loss>>,
    /// Whether `loss` is not `None`, to be read without a lock.
    is_lost: AtomicBool,
    /// Whether something points to a loss, so that the writer has to compare this process with the journal.
    pub(crate) is_suspected: AtomicBool,
    /// The callers who request that the lost entries be appended again.
    pub(crate) requests: Mutex<Vec<AppendAgainReply>>,
    /// How often the writer has accepted the present end of the journal after a possible loss. A thread with a journal
    /// handle of its own accepts the end there, too, when the number has grown.
    pub(crate) end_acceptances: Arc<AtomicU64>,
}

/// Where a request is answered: with the first and the last entry that were appended, or with why none was.
pub(crate) type AppendAgainReply = oneshot::Sender<Result<(u64, u64), AppendAgainError>>;

impl LostEntries {
    pub(crate) fn new() -> Self {
        Self {
            loss: watch::Sender::new(None),
            is_lost: AtomicBool::new(false),
            is_suspected: AtomicBool::new(false),
            requests: Mutex::default(),
            end_acceptances: Arc::default(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The error for callers who would need the lost entries; `None` while nothing is missing.
    pub(crate) fn error(&self) -> Option<StoreError> {
        if !self.is_lost() {
            return None;
        }
        let loss = self.loss.borrow();
        loss.as_ref().map(|loss| StoreError::Lost {
            first: loss.first,
            last: loss.last,
        })
    }

    pub(crate) fn suspect(&self) {
        self.is_suspected.store(true, Ordering::Release);
    }

    /// If the error points to a loss, makes the writer look for one.
    pub(crate) fn suspect_by(&self, error: &JournalError) {
        if matches!(
            error,
            JournalError::Lost { .. } | JournalError::Missing { .. }
        ) {
            self.suspect();
        }
    }

    /// Queues a request to append the lost entries again. The writer, which the caller has to wake, answers it.
    pub(crate) fn request(&self) -> oneshot::Receiver<Result<(u64, u64), AppendAgainError>> {
        let (sender, receiver) = oneshot::channel();
        self.requests.lock().push(sender);
        receiver
    }

    pub(crate) fn set(&self, loss: Option<Loss>) {
        self.is_lost.store(loss.is_some(), Ordering::Release);
        self.loss.send_replace(loss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_for(first: u64, first_in_memory: Option<u64>) -> Option<AppendAgainError> {
        let loss = Loss {
            first,
            last: 9,
            first_in_memory,
            is_replaced: false,
        };
        loss.reason_against_appending()
    }

    #[test]
    fn lost_entries_are_appended_again_only_if_all_are_in_memory() {
        assert!(reason_for(5, Some(4)).is_none());
        assert!(reason_for(5, Some(5)).is_some());
        assert!(reason_for(5, None).is_some());
        // The first entry of all has none before it.
        assert!(reason_for(1, Some(1)).is_none());
        assert!(reason_for(1, Some(5)).is_some());
    }
}
