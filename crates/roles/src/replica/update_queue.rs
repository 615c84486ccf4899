//! The updates of hosts that wait to be sent to another replica.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_link::{PostedUpdate, ReplicaLink};
use placewright_scheduler::host_state::Receipt;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// The most updates of one call.
const BATCH_MAX: usize = 100;
/// How long the other replica may take to answer. Whoever sent an update waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The queue of updates for one other replica. One call is under way at a time, so that updates arrive in their order. What
/// comes meanwhile goes together in the next call.
#[derive(Default)]
pub(crate) struct UpdateQueue {
    waiting: Mutex<Vec<Waiting>>,
    /// Locked by whoever makes a call.
    call: tokio::sync::Mutex<()>,
}

struct Waiting {
    posted: PostedUpdate,
    receipt: oneshot::Sender<Receipt>,
}

impl UpdateQueue {
    /// Sends an update; returns what became of it. `None` if the other replica does not answer, or cannot read it.
    pub(crate) async fn send(
        &self,
        link: &Arc<dyn ReplicaLink>,
        posted: PostedUpdate,
    ) -> Option<Receipt> {
        let (sender, mut receiver) = oneshot::channel();
        self.waiting.lock().push(Waiting {
            posted,
            receipt: sender,
        });
        let _own_call = self.call.lock().await;
        loop {
            match receiver.try_recv() {
                Ok(receipt) => return Some(receipt),
                // It was in a call that failed.
                Err(TryRecvError::Closed) => return None,
                Err(TryRecvError::Empty) => self.send_next(link).await,
            }
        }
    }

    /// Sends the updates that have waited longest. Those that get no receipt are dropped.
    async fn send_next(&self, link: &Arc<dyn ReplicaLink>) {
        let batch: Vec<Waiting> = {
            let mut waiting = self.waiting.lock();
            let count = waiting.len().min(BATCH_MAX);
            waiting.drain(..count).collect()
        };
        let updates = batch.iter().map(|waiting| waiting.posted.clone()).collect();
        let taking = tokio::time::timeout(ANSWER_TIMEOUT, link.take_host_updates(updates));
        let receipts = match taking.await {
            Ok(Ok(receipts)) => receipts,
            Ok(Err(error)) => {
                tracing::debug!(%error, "updates of hosts do not reach another replica");
                return;
            }
            Err(_) => return,
        };
        for (waiting, receipt) in batch.into_iter().zip(receipts) {
            if let Some(receipt) = receipt {
                // Whoever sent the update may be gone.
                let _ = waiting.receipt.send(receipt);
            }
        }
    }
}
