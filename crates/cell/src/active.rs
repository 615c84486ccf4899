//! The running cell of the replica that leads: its tasks, and the data that they share.

use std::sync::Arc;

use parking_lot::Mutex;
use placewright_engine::FollowError;
use placewright_tasks::{Task, Tasks};
use tokio::sync::watch;

use crate::claim_queue::ClaimQueue;
use crate::read_model::ReadModel;
use crate::shared::{CellParts, LeaderState, now};
use crate::{claim_requests, outbox, secrets, timers};

/// A running cell, which only the replica that leads has. Dropping it stops its tasks.
pub(crate) struct ActiveCell {
    pub(crate) shared: Arc<LeaderState>,
    tasks: Tasks,
}

impl ActiveCell {
    /// Starts the tasks of the cell. They need nothing but the journaled state: agents connect again and report their
    /// hosts' soft state, and messages and orders without an answer are sent again.
    pub(crate) async fn start(parts: &CellParts) -> Result<Self, FollowError> {
        // The read model may be made from a newer state than the entry with which the follower begins. The changes
        // between the two are applied to the read model a second time, which has no effect.
        let follower = parts.engine.follow(parts.engine.durable_sequence())?;
        let read = (parts.engine).read(|machine| ReadModel::new(&machine.state, now()));
        let mut read_model = read.await;
        read_model
            .follower_queues
            .set_queue_max(parts.options.follower_queue.max(1));
        let shared = Arc::new(LeaderState {
            options: Arc::clone(&parts.options),
            engine: parts.engine.clone(),
            placement: Arc::clone(&parts.placement),
            read_model: Mutex::new(read_model),
            claim_requests: ClaimQueue::default(),
            stop: watch::Sender::new(false),
            counts: Arc::clone(&parts.counts),
        });
        let tasks = Tasks::default();
        let outbox = outbox::run(Arc::clone(&shared), follower);
        tasks.spawn(Task::CellOutbox, outbox);
        tasks.spawn(
            Task::CellClaimRequests,
            claim_requests::run(Arc::clone(&shared)),
        );
        tasks.spawn(Task::CellTick, timers::tick(Arc::clone(&shared)));
        tasks.spawn(
            Task::CellRepeat,
            timers::resend_unanswered(Arc::clone(&shared)),
        );
        let keep_sealed = secrets::keep_sealed(Arc::clone(&shared));
        tasks.spawn(Task::CellSecrets, keep_sealed);
        Ok(Self { shared, tasks })
    }

    /// Stops the tasks, the agents' connections and the followers' streams, and waits for the tasks.
    pub(crate) async fn stop(self) {
        self.request_stop();
        self.tasks.join().await;
    }

    fn request_stop(&self) {
        self.tasks.allow_end();
        self.shared.stop.send_replace(true);
    }
}

impl Drop for ActiveCell {
    fn drop(&mut self) {
        self.request_stop();
    }
}
