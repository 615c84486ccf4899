//! What is known of entries that the store has lost; see `lost.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use placewright_journal::JournalError;
use tokio::sync::{oneshot, watch};

use crate::error::{AppendAgainError, StoreError};

/// Entries that the store has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The first entry that is missing.
    pub first: u64,
    /// The last entry that is missing, as far as this process knows: the last one that it has applied.
    pub last: u64,
    /// The first entry that this process has in memory; `None` if it has none.
    pub first_in_memory: Option<u64>,
    /// Whether the journal has other entries in their place, or before them.
    pub is_replaced: bool,
}

impl Loss {
    /// Why the entries cannot be appended again from the memory of this process, if they cannot.
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
        // One entry before them has to be the journal's, so that they follow on what they followed.
        let is_in_memory = first_in_memory.is_some_and(|held| held < first || first == 1);
        (!is_in_memory).then_some(AppendAgainError::NotInMemory { first, last })
    }
}

/// What an engine knows of lost entries.
pub(crate) struct LostEntries {
    /// The loss; `None` while nothing is missing.
    pub(crate) known: watch::Sender<Option<Loss>>,
    /// As `known`, for those who only ask whether there is a loss.
    is_lost: AtomicBool,
    /// Whether something points to a loss, so that the writer has to look.
    pub(crate) is_suspected: AtomicBool,
    /// The callers who want the entries to be appended again.
    pub(crate) requests: Mutex<Vec<AppendAgainReply>>,
    /// Grows when the writer has taken the journal as it is now, because other handles have to do the same.
    pub(crate) generation: Arc<AtomicU64>,
}

pub(crate) type AppendAgainReply = oneshot::Sender<Result<(u64, u64), AppendAgainError>>;

impl LostEntries {
    pub(crate) fn new() -> Self {
        Self {
            known: watch::Sender::new(None),
            is_lost: AtomicBool::new(false),
            is_suspected: AtomicBool::new(false),
            requests: Mutex::default(),
            generation: Arc::default(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The error for those who would need the lost entries; `None` while nothing is missing.
    pub(crate) fn error(&self) -> Option<StoreError> {
        if !self.is_lost() {
            return None;
        }
        let known = self.known.borrow();
        known.as_ref().map(|loss| StoreError::Lost {
            first: loss.first,
            last: loss.last,
        })
    }

    pub(crate) fn suspect(&self) {
        self.is_suspected.store(true, Ordering::Release);
    }

    /// Has the writer look if an error points to a loss.
    pub(crate) fn suspect_by(&self, error: &JournalError) {
        if matches!(
            error,
            JournalError::Lost { .. } | JournalError::Missing { .. }
        ) {
            self.suspect();
        }
    }

    pub(crate) fn request(&self) -> oneshot::Receiver<Result<(u64, u64), AppendAgainError>> {
        let (sender, receiver) = oneshot::channel();
        self.requests.lock().push(sender);
        receiver
    }

    pub(crate) fn set(&self, loss: Option<Loss>) {
        self.is_lost.store(loss.is_some(), Ordering::Release);
        self.known.send_replace(loss);
    }
}
