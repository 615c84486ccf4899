//! The queue of updates of hosts that wait to be sent to another replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use placewright_link::{PostedUpdate, ReplicaLink};
use placewright_scheduler::host_state::Receipt;
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The most updates of one call.
const BATCH_MAX: usize = 100;
/// The most updates that wait for their call.
const WAITING_MAX: usize = 4_096;
/// How long the other replica may take to answer a call, and how long the sender of an update waits for its receipt.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long no updates are queued for the other replica after a call to it has failed.
const LEFT_OUT_FOR: Duration = Duration::from_secs(1);

/// The queue of updates for one other replica. Only one call is under way at a time, so that updates arrive in their
/// order. Updates that come meanwhile go together in the next call.
pub(super) struct UpdateQueue {
    link: Arc<dyn ReplicaLink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Whether there is a task that makes the calls.
    is_sending: bool,
    /// When the next call may be made, if the last one failed.
    left_out_until: Option<Instant>,
}

/// An update that waits to be sent, with the channel to the caller that waits for its receipt.
struct Waiting {
    posted: PostedUpdate,
    receipt: oneshot::Sender<Receipt>,
}

impl UpdateQueue {
    pub(super) fn new(link: Arc<dyn ReplicaLink>) -> Self {
        Self {
            link,
            state: Mutex::default(),
        }
    }

    /// Sends an update, and returns the other replica's receipt, which says what became of it. `None` if the other
    /// replica does not answer, or cannot read it.
    pub(super) async fn send(self: &Arc<Self>, posted: PostedUpdate) -> Option<Receipt> {
        let receipt = self.push(posted)?;
        timeout(ANSWER_TIMEOUT, receipt).await.ok()?.ok()
    }

    /// Puts an update into the queue. Returns `None` if the other replica is left out, or too many updates wait. After
    /// a replica was left out, the first call shows whether it answers again; no further updates are queued until that
    /// call was answered.
    fn push(self: &Arc<Self>, posted: PostedUpdate) -> Option<oneshot::Receiver<Receipt>> {
        let (receipt, receiver) = oneshot::channel();
        let is_first = {
            let mut state = self.state.lock();
            let is_left_out = |until| state.is_sending || Instant::now() < until;
            if state.left_out_until.is_some_and(is_left_out) || state.waiting.len() >= WAITING_MAX {
                return None;
            }
            state.waiting.push(Waiting { posted, receipt });
            !std::mem::replace(&mut state.is_sending, true)
        };
        if is_first {
            let sending = Sending {
                queue: Arc::clone(self),
                has_ended: false,
            };
            // The task serves all callers. So it does not run within the future of one of them, which may be dropped.
            spawn_contained(ContainedWork::HostUpdates, sending.run());
        }
        Some(receiver)
    }
}

/// The task that makes the calls, as long as updates wait.
struct Sending {
    queue: Arc<UpdateQueue>,
    /// Whether the task has ended because no updates wait. From then on another task may be sending.
    has_ended: bool,
}

impl Sending {
    async fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            let updates = batch.iter().map(|waiting| waiting.posted.clone()).collect();
            let taking = timeout(ANSWER_TIMEOUT, self.queue.link.take_host_updates(updates));
            let why = match taking.await {
                Ok(Ok(receipts)) => {
                    self.queue.state.lock().left_out_until = None;
                    deliver(batch, receipts);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer in time".to_owned(),
            };
            tracing::debug!(why, "updates of hosts do not reach another replica");
            let mut state = self.queue.state.lock();
            state.left_out_until = Some(Instant::now() + LEFT_OUT_FOR);
            state.waiting.clear();
        }
    }

    /// The updates that have waited longest, without those whose callers have gone. `None` if none are left; the task
    /// then ends.
    fn next_batch(&mut self) -> Option<Vec<Waiting>> {
        let mut state = self.queue.state.lock();
        state.waiting.retain(|waiting| !waiting.receipt.is_closed());
        let count = state.waiting.len().min(BATCH_MAX);
        if count == 0 {
            state.is_sending = false;
            self.has_ended = true;
            return None;
        }
        Some(state.waiting.drain(..count).collect())
    }
}

impl Drop for Sending {
    /// If the task ends early, by a panic or with its runtime, the callers that wait get no receipt, and the next
    /// update starts another task.
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = self.queue.state.lock();
            state.is_sending = false;
            state.waiting.clear();
        }
    }
}

/// Gives each caller its receipt, or `None` if the other replica gave none.
fn deliver(batch: Vec<Waiting>, receipts: Vec<Option<Receipt>>) {
    for (waiting, receipt) in batch.into_iter().zip(receipts) {
        if let Some(receipt) = receipt {
            // This fails if the caller has gone.
            let _ = waiting.receipt.send(receipt);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use placewright_link::{FollowStart, LeaderConnection, LinkError, LinkFuture, ReplicaIdentity};
    use placewright_scheduler::host_state::{HostUpdate, NumberedUpdate};
    use tokio::sync::mpsc;
    use uuid::Uuid;

    use super::*;

    type Receipts = Result<Vec<Option<Receipt>>, LinkError>;

    /// A call to a replica: the numbers of its updates. The test answers it.
    struct Call {
        sequences: Vec<u64>,
        answer: oneshot::Sender<Receipts>,
    }

    impl Call {
        fn apply_all(self) {
            let receipts = vec![Some(Receipt::Applied); self.sequences.len()];
            let _ = self.answer.send(Ok(receipts));
        }
    }

    struct HeldReplica(mpsc::UnboundedSender<Call>);

    fn away() -> LinkError {
        LinkError::Unavailable {
            peer: "held".into(),
            why: "test".into(),
        }
    }

    impl ReplicaLink for HeldReplica {
        fn identify(&self) -> LinkFuture<'_, ReplicaIdentity> {
            Box::pin(async { Err(away()) })
        }

        fn follow(&self, _: FollowStart) -> LinkFuture<'_, LeaderConnection> {
            Box::pin(async { Err(away()) })
        }

        fn find_offer(&self, _: Uuid) -> LinkFuture<'_, Option<Vec<u8>>> {
            Box::pin(async { Err(away()) })
        }

        fn take_host_updates(
            &self,
            updates: Vec<PostedUpdate>,
        ) -> LinkFuture<'_, Vec<Option<Receipt>>> {
            let (answer, answered) = oneshot::channel();
            let sequences = updates.iter().map(|posted| posted.update.sequence);
            let call = Call {
                sequences: sequences.collect(),
                answer,
            };
            let _ = self.0.send(call);
            Box::pin(async { answered.await.unwrap_or_else(|_| Err(away())) })
        }
    }

    fn queue() -> (Arc<UpdateQueue>, mpsc::UnboundedReceiver<Call>) {
        let (sender, calls) = mpsc::unbounded_channel();
        let queue = UpdateQueue::new(Arc::new(HeldReplica(sender)));
        (Arc::new(queue), calls)
    }

    fn posted(sequence: u64) -> PostedUpdate {
        PostedUpdate {
            host: Uuid::nil(),
            update: Arc::new(NumberedUpdate {
                incarnation: 1,
                sequence,
                update: HostUpdate::Alive,
            }),
        }
    }

    #[tokio::test]
    async fn after_a_failed_call_the_replica_is_left_out_for_a_while() {
        let (queue, mut calls) = queue();
        let sends = join_all((0..250).map(|sequence| queue.send(posted(sequence))));
        let fail = async {
            if let Some(call) = calls.recv().await {
                let _ = call.answer.send(Err(away()));
            }
        };
        let (receipts, ()) = tokio::join!(sends, fail);
        assert!(receipts.iter().all(Option::is_none));
        // The updates that waited for the next call have failed, too, and further ones are refused at once.
        assert_eq!(queue.send(posted(250)).now_or_never(), Some(None));
        assert!(calls.try_recv().is_err());

        queue.state.lock().left_out_until = Some(Instant::now());
        let again = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.send(posted(251)).await }
        });
        let call = calls.recv().await.expect("the replica is called again");
        assert_eq!(call.sequences, [251]);
        assert_eq!(queue.send(posted(252)).now_or_never(), Some(None));
        call.apply_all();
        assert_eq!(again.await.ok(), Some(Some(Receipt::Applied)));
        let (receipt, ()) = tokio::join!(queue.send(posted(253)), async {
            calls.recv().await.expect("it answers").apply_all();
        });
        assert_eq!(receipt, Some(Receipt::Applied));
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_takes_no_update_of_others_with_it() {
        let (queue, mut calls) = queue();
        let mut sends: Vec<_> = (0..4).map(|n| Box::pin(queue.send(posted(n)))).collect();
        assert!(sends[0].as_mut().now_or_never().is_none());
        let call = calls.recv().await.expect("the first update is sent");
        assert_eq!(call.sequences, [0]);
        for send in &mut sends {
            assert!(send.as_mut().now_or_never().is_none());
        }
        sends.drain(..2);
        call.apply_all();
        let call = calls.recv().await.expect("the next updates are sent");
        assert_eq!(call.sequences, [2, 3]);
        drop(sends.remove(0));
        call.apply_all();
        assert_eq!(sends.remove(0).await, Some(Receipt::Applied));
    }

    #[tokio::test]
    async fn no_more_updates_wait_than_fit() {
        let (queue, mut calls) = queue();
        let first = queue.push(posted(0));
        let call = calls.recv().await.expect("the first update is sent");
        let waiting = (0..WAITING_MAX as u64).map(|sequence| queue.push(posted(sequence)));
        let waiting: Vec<_> = waiting.collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(queue.push(posted(1)).is_none());
        // Updates whose callers have gone make room for others.
        drop(waiting);
        call.apply_all();
        assert!(first.expect("it was sent").await.is_ok());
        let (receipt, ()) = tokio::join!(queue.send(posted(7)), async {
            let call = calls.recv().await.expect("there is room");
            assert_eq!(call.sequences, [7]);
            call.apply_all();
        });
        assert_eq!(receipt, Some(Receipt::Applied));
    }
}
