//! Collects what the leader has appended to the journal for the next message to one follower.

use std::sync::Arc;

use futures_util::FutureExt as _;
use placewright_engine::AppendedBatch;
use placewright_link::EntryBatch;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::outcome;

/// The size in bytes of the batches in a message at which no further one is added.
const BYTES_MAX: usize = 1 << 20;

/// The batches for the next message to a follower.
pub(crate) struct EntryBatches {
    /// Receives each batch that the leader appends; `None` if the follower takes no batches.
    appended: Option<Receiver<Arc<AppendedBatch>>>,
    /// The batches that have been gathered for the next message.
    batches: Vec<EntryBatch>,
    /// The size of these batches together.
    bytes: usize,
}

impl EntryBatches {
    pub(crate) fn new(appended: Option<Receiver<Arc<AppendedBatch>>>) -> Self {
        Self {
            appended,
            batches: Vec::new(),
            bytes: 0,
        }
    }

    /// Waits for the next batch, and adds it and the further ones that are there already. Returns the number of the
    /// last entry in them; `None` if the engine was dropped. While the next message is full, the future does not
    /// complete.
    pub(crate) async fn gather(&mut self) -> Option<u64> {
        if self.bytes >= BYTES_MAX {
            return std::future::pending().await;
        }
        let mut last = self.add_next().await?;
        while self.bytes < BYTES_MAX
            && let Some(Some(next)) = self.add_next().now_or_never()
        {
            last = next;
        }
        Some(last)
    }

    /// Adds the batches that are there already, as far as they fit into the message. Does not wait for further ones.
    pub(crate) fn gather_ready(&mut self) {
        // Without a batch the future is not ready, and nothing is added.
        let _ = self.gather().now_or_never();
    }

    /// Takes the batches that have been gathered.
    pub(crate) fn take(&mut self) -> Vec<EntryBatch> {
        self.bytes = 0;
        std::mem::take(&mut self.batches)
    }

    /// Waits for a batch, and adds it. Batches that this stream has missed are left out. Returns the last entry of the
    /// batch; `None` if the engine was dropped.
    async fn add_next(&mut self) -> Option<u64> {
        let Some(appended) = &mut self.appended else {
            return std::future::pending().await;
        };
        loop {
            match appended.recv().await {
                Ok(batch) => {
                    self.bytes += batch.payload.len();
                    self.batches.push(outcome::to_entry_batch(&batch));
                    return Some(batch.link.last);
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use placewright_journal::batch::Link;
    use tokio::sync::broadcast::Sender;

    use super::*;

    fn send(sender: &Sender<Arc<AppendedBatch>>, first: u64, bytes: usize) {
        let link = Link {
            first,
            last: first + 1,
            previous: 1,
            checksum: 2,
        };
        let payload = vec![0; bytes];
        sender
            .send(Arc::new(AppendedBatch { link, payload }))
            .unwrap();
    }

    fn firsts(batches: &mut EntryBatches) -> Vec<u64> {
        batches.take().iter().map(|batch| batch.first).collect()
    }

    #[test]
    fn a_message_has_all_batches_that_fit_and_none_that_were_missed() {
        let sender = Sender::new(4);
        let mut batches = EntryBatches::new(Some(sender.subscribe()));
        batches.gather_ready();
        assert!(firsts(&mut batches).is_empty());
        for (first, bytes) in [(1, 10), (3, BYTES_MAX), (5, 10)] {
            send(&sender, first, bytes);
        }
        assert_eq!(batches.gather().now_or_never(), Some(Some(4)));
        assert_eq!(batches.gather().now_or_never(), None);
        assert_eq!(firsts(&mut batches), [1, 3]);
        for first in [7, 9, 11, 13] {
            send(&sender, first, 10);
        }
        assert_eq!(batches.gather().now_or_never(), Some(Some(14)));
        assert_eq!(firsts(&mut batches), [7, 9, 11, 13]);
        drop(sender);
        assert_eq!(batches.gather().now_or_never(), Some(None));
        assert_eq!(EntryBatches::new(None).gather().now_or_never(), None);
    }
}
