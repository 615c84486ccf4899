//! A cell at work: its tasks, and what they share, start and stop with it.

use std::sync::Arc;

use parking_lot::Mutex;
use placewright_engine::FollowError;
use placewright_tasks::{Task, Tasks};
use tokio::sync::watch;

use crate::claim_queue::ClaimQueue;
use crate::read_model::ReadModel;
use crate::shared::{Parts, Shared, now};
use crate::{claim_requests, outbox, secrets, timers};

/// A cell at work, in the replica that leads. Dropping it stops it.
pub(crate) struct ActiveCell {
    pub(crate) shared: Arc<Shared>,
    tasks: Tasks,
}

impl ActiveCell {
    /// Starts to work as the cell. All that is needed comes from the state: agents connect anew and report all that
    /// they have, and what was under way is sent again.
    pub(crate) async fn start(parts: &Parts) -> Result<Self, FollowError> {
        // Changes after the entry that is followed are applied to the read model again, which changes nothing.
        let follower = parts.engine.follow(parts.engine.durable_sequence())?;
        let read = (parts.engine).read(|machine| ReadModel::new(&machine.state, now()));
        let mut read_model = read.await;
        read_model
            .follower_queues
            .set_queue_max(parts.options.follower_queue.max(1));
        let shared = Arc::new(Shared {
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
