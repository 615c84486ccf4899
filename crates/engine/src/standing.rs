//! The place of an engine among the processes that use its journal: whether it leads, whether its state is the newest,
//! and whether the store still has every acknowledged entry.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use placewright_journal::Fence;
use tokio::sync::{oneshot, watch};

use crate::error::{AppendAgainError, StoreError, SubmitError};
use crate::history::HistoryRequest;
use crate::leadership::Leadership;
use crate::lost_entries::Loss;
use crate::replica_state::ReplicaState;
use crate::shared::{Shared, wake_writer};
use crate::{Engine, Machine};

impl<M: Machine> Engine<M> {
    /// Whether this engine is one of several replicas on one journal.
    pub fn is_replica(&self) -> bool {
        self.shared().replica.is_some()
    }

    /// The number of this replica, which is new at each start: the origin in the [`crate::CommandId`] of its
    /// commands. 0 if this engine is not a replica.
    pub fn origin(&self) -> u64 {
        let replica = self.shared().replica.as_ref();
        replica.map_or(0, |replica| replica.origin)
    }

    /// Whether this engine decides commands itself: it leads, or it alone writes the journal. The answer may be
    /// outdated, because another replica may have taken over already. So it may decide which process does work that
    /// only one should do, but no correctness may depend on it.
    pub fn leads(&self) -> bool {
        let replica = self.shared().replica.as_ref();
        replica.is_none_or(ReplicaState::is_leading)
    }

    /// Who leads, and each change of that; `None` if this engine is not a replica.
    pub fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        let replica = self.shared().replica.as_ref()?;
        Some(replica.leadership.subscribe())
    }

    /// Waits until this engine has applied every entry that was acknowledged by any replica before the call, so that a
    /// read that begins afterwards is linearizable. All callers who wait at the same time share one request to the
    /// store for the end of the journal (as Raft's ReadIndex). An engine that alone writes its journal needs no
    /// request.
    ///
    /// # Errors
    /// [`SubmitError::Unavailable`] when the store does not answer or has lost entries, and
    /// [`SubmitError::ShuttingDown`] when the engine is shut down.
    pub fn confirm(&self) -> impl Future<Output = Result<(), SubmitError>> + Send + use<M> {
        confirm(Arc::clone(self.shared()))
    }

    /// Which acknowledged entries the store has lost, and each change of that; `None` while it has all of them. While
    /// entries are lost, commands and confirmed reads are refused.
    pub fn lost_entries(&self) -> watch::Receiver<Option<Loss>> {
        self.shared().lost.loss.subscribe()
    }

    /// Whether the store has lost entries; see [`Engine::lost_entries`].
    pub fn has_lost_entries(&self) -> bool {
        self.shared().lost.is_lost()
    }

    /// Appends the lost entries again, from the memory of this process. Returns the first and the last entry appended.
    ///
    /// # Errors
    /// See [`AppendAgainError`].
    pub fn append_lost_again(
        &self,
    ) -> impl Future<Output = Result<(u64, u64), AppendAgainError>> + Send + use<M> {
        let shared = self.shared();
        let answer = shared.lost.request();
        wake_writer(shared, &mut shared.queue.lock());
        async move { (answer.await).unwrap_or(Err(AppendAgainError::ShuttingDown)) }
    }
}

/// See [`Engine::confirm`].
pub(crate) async fn confirm<M: Machine>(shared: Arc<Shared<M>>) -> Result<(), SubmitError> {
    if let Some(error) = shared.lost.error() {
        return Err(SubmitError::Unavailable(Arc::new(error)));
    }
    // A fence is left out only by a test build, to prove that a test notices it.
    if shared.replica.is_none() || Fence::Confirm.is_left_out() {
        return Ok(());
    }
    let applied = shared.durable();
    let (reply, answer) = oneshot::channel();
    let sent = shared.history_requests.send(HistoryRequest::End(reply));
    sent.map_err(|_| SubmitError::ShuttingDown)?;
    let end = answer.await.map_err(|_| SubmitError::ShuttingDown)?;
    let end = end.map_err(SubmitError::Unavailable)?;
    if let Some(replica) = &shared.replica {
        replica.known_end.fetch_max(end, Ordering::Relaxed);
    }
    if end < applied {
        shared.lost.suspect();
        wake_writer(&shared, &mut shared.queue.lock());
        let (first, last) = (end + 1, applied);
        let lost = StoreError::Lost { first, last };
        return Err(SubmitError::Unavailable(Arc::new(lost)));
    }
    let mut progress = shared.progress.subscribe();
    let reached = progress
        .wait_for(|progress| progress.durable >= end || progress.is_closed)
        .await
        .is_ok_and(|progress| progress.durable >= end);
    if reached {
        Ok(())
    } else {
        Err(SubmitError::ShuttingDown)
    }
}
