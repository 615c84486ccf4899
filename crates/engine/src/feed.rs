//! The stream of durable entries: recent ones from memory, older ones from the journal.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{oneshot, watch};

use crate::Machine;
use crate::entries::Entries;
use crate::error::FollowError;
use crate::history::HistoryRequest;
use crate::shared::{Progress, Shared};

/// Reads the durable entries in order, each of them once; none is left out or merged with another. A slow
/// reader costs the writer nothing: entries that were evicted from memory are read from the
/// journal.
pub struct Follower<M: Machine> {
    shared: Arc<Shared<M>>,
    progress: watch::Receiver<Progress>,
    /// The sequence of the entry to return next.
    next_sequence: u64,
}

impl<M: Machine> Follower<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>, after: u64) -> Result<Self, FollowError> {
        let progress = shared.progress.subscribe();
        let end = shared.durable();
        if after > end {
            return Err(FollowError::Ahead { after, end });
        }
        let first_held = shared.first_held.load(Ordering::Acquire);
        if after + 1 < first_held {
            return Err(FollowError::Trimmed {
                asked: after + 1,
                first_held,
            });
        }
        Ok(Self {
            shared,
            progress,
            next_sequence: after + 1,
        })
    }

    /// Waits for the next entries and returns at least one; `None` after the engine was shut down.
    /// Cancel safe: dropping the future loses nothing.
    pub async fn next_entries(&mut self) -> Option<Result<Entries, FollowError>> {
        loop {
            let progress = *self.progress.borrow_and_update();
            let recent = self.shared.recent.read().get(self.next_sequence);
            let found = match recent {
                Some(entries) => Ok(entries),
                None if self.next_sequence <= progress.durable => self.request_history().await?,
                None if progress.is_closed => return None,
                None => {
                    self.progress.changed().await.ok()?;
                    continue;
                }
            };
            if let Ok(entries) = &found {
                self.next_sequence = entries.last_sequence() + 1;
            }
            return Some(found);
        }
    }

    /// Makes [`Follower::next_entries`] continue with the entry `sequence`, which must be one of the entries
    /// that were returned last. This is for readers with bounded buffers: they drop the [`Entries`] that they
    /// have no room for, and read them again later, so that the entries occupy no memory meanwhile.
    pub fn go_back_to(&mut self, sequence: u64) {
        self.next_sequence = sequence.min(self.next_sequence);
    }

    /// Reads from the journal; `None` after the engine was shut down.
    async fn request_history(&self) -> Option<Result<Entries, FollowError>> {
        let (reply, answer) = oneshot::channel();
        let request = HistoryRequest::Read {
            from: self.next_sequence,
            until: self.shared.durable(),
            reply,
        };
        self.shared.history_requests.send(request).ok()?;
        answer.await.ok()
    }
}
