//! A running cell: opening, links and shutdown.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use placewright_conductor::cell_conductor::Event;
use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, InstanceId, Reply};
use placewright_engine::{Engine, Observer, RecoverError};
use placewright_journal::{Journal, JournalError, SqliteJournal, SqliteOptions};
use placewright_link::{
    AgentConnection, AgentLink, CellEvent, CellLink, CellOperation, LinkError, LinkFuture,
    PlacementLink,
};
use placewright_tasks::{ContainedWork, Task, Tasks, spawn_contained};
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::claim_queue::ClaimQueue;
use crate::claim_requests;
use crate::options::Options;
use crate::read_model::ReadModel;
use crate::shared::{CellMetrics, Counters, Shared, now};
use crate::{agents, follow, outbox, secrets, timers};

/// The events that the channel to a follower holds, besides those in the follower's queue here.
const CHANNEL_EVENTS: usize = 512;

/// A running cell. Dropping it ends it; see [`Cell::shutdown`].
pub struct Cell {
    shared: Arc<Shared>,
    tasks: Tasks,
}

/// Why a cell cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The store cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The state in the store cannot be read.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The durable changes cannot be followed.
    #[error("the store's entries cannot be followed")]
    Follow(#[from] placewright_engine::FollowError),
    /// Loading the state panicked, which is a bug.
    #[error("an internal error occurred while the state was loaded")]
    Panicked,
}

impl Cell {
    /// Opens a cell on the store in a directory, which is created if it is missing. Jobs that were
    /// under way continue.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn open(
        directory: &Path,
        store: SqliteOptions,
        options: Options,
        observer: impl Observer,
        placement: Arc<dyn PlacementLink>,
    ) -> Result<Arc<Self>, OpenError> {
        let directory = directory.to_owned();
        let engine_options = options.engine.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let journal = SqliteJournal::open(&directory, store)?;
            for notice in journal.notices() {
                if notice.is_warning() {
                    tracing::warn!("{notice}");
                } else {
                    tracing::info!("{notice}");
                }
            }
            Ok(Engine::open(journal, engine_options, observer)?)
        });
        let engine = opened.await.unwrap_or(Err(OpenError::Panicked))?;
        Self::start(engine, options, placement)
    }

    /// Opens a cell on any journal.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn open_on(
        journal: impl Journal + 'static,
        options: Options,
        observer: impl Observer,
        placement: Arc<dyn PlacementLink>,
    ) -> Result<Arc<Self>, OpenError> {
        let engine_options = options.engine.clone();
        let opened = tokio::task::spawn_blocking(move || {
            Ok(Engine::open(journal, engine_options, observer)?)
        });
        let engine = opened.await.unwrap_or(Err(OpenError::Panicked))?;
        Self::start(engine, options, placement)
    }

    /// Starts the tasks of a cell on its engine.
    fn start(
        engine: Engine<crate::CellMachine>,
        options: Options,
        placement: Arc<dyn PlacementLink>,
    ) -> Result<Arc<Self>, OpenError> {
        // Nothing has been submitted yet, so the state is that of the last entry.
        let follower = engine.follow(engine.durable_sequence())?;
        let mut read_model = engine.read_now(|machine| ReadModel::new(&machine.state, now()));
        read_model
            .follower_queues
            .set_queue_max(options.follower_queue.max(1));
        let shared = Arc::new(Shared {
            options,
            engine,
            placement,
            read_model: Mutex::new(read_model),
            claim_requests: ClaimQueue::default(),
            stop: watch::Sender::new(false),
            counts: Counters::default(),
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
        Ok(Arc::new(Self { shared, tasks }))
    }

    /// The id of the cell.
    #[must_use]
    pub fn id(&self) -> CellId {
        self.shared.options.cell
    }

    /// Counters and sizes for metrics.
    #[must_use]
    pub fn metrics(&self) -> CellMetrics {
        self.shared.metrics()
    }

    /// The cell's engine, for tests and audits.
    #[must_use]
    pub fn engine(&self) -> &Engine<crate::CellMachine> {
        &self.shared.engine
    }

    /// Ends the cell: connections are closed, submitted events are made durable and answered, and
    /// the store is closed. A second call does nothing.
    pub async fn shutdown(&self) {
        self.tasks.allow_end();
        self.shared.stop.send_replace(true);
        self.tasks.join().await;
        let engine = self.shared.engine.clone();
        // The shutdown does not panic, and after a panic there would be nothing left to do.
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }

    fn check_running(&self) -> Result<(), LinkError> {
        if *self.shared.stop.borrow() {
            return Err(LinkError::Unreachable {
                peer: self.shared.peer(),
                why: "it is shutting down".into(),
            });
        }
        Ok(())
    }

    async fn submit(&self, events: Vec<Event>) -> Result<Vec<Reply>, LinkError> {
        self.check_running()?;
        let submitted: Vec<_> = events
            .into_iter()
            .map(|event| self.shared.submit(event))
            .collect();
        let mut replies = Vec::with_capacity(submitted.len());
        for decided in submitted {
            let decided = decided
                .await
                .map_err(|error| self.shared.unavailable(&error))?;
            replies.push(decided.unwrap_or_else(|refusal| Reply::Refused(refusal.to_string())));
        }
        Ok(replies)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.tasks.allow_end();
        self.shared.stop.send_replace(true);
    }
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl CellLink for Cell {
    fn cell_id(&self) -> LinkFuture<'_, CellId> {
        Box::pin(async { self.check_running().map(|()| self.id()) })
    }

    fn deliver(&self, mut messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        Box::pin(async move {
            for envelope in &mut messages {
                secrets::seal_message(&self.shared, &mut envelope.message)?;
            }
            self.submit(messages.into_iter().map(Event::Message).collect())
                .await
        })
    }

    fn perform(&self, mut operation: CellOperation) -> LinkFuture<'_, Reply> {
        if let CellOperation::Rebuild { instance, spec } = &mut operation
            && let Err(error) = secrets::seal_spec(&self.shared, *instance, spec)
        {
            return Box::pin(async { Err(error) });
        }
        let event = match operation {
            CellOperation::Shelve { instance } => Event::Shelve { instance },
            CellOperation::Rebuild { instance, spec } => Event::Rebuild {
                instance,
                spec: *spec,
            },
            CellOperation::RemoveHost { host } => Event::HostRemoved { host },
            CellOperation::Reconcile { host } => {
                let reply = agents::restart_session(&self.shared, host);
                return Box::pin(async move { Ok(reply) });
            }
            CellOperation::RefuseRebuild { instance, fault } => Event::RebuildRefused {
                instance,
                fault: *fault,
            },
        };
        Box::pin(async {
            let replies = self.submit(vec![event]).await?;
            Ok(replies.into_iter().next().unwrap_or(Reply::Accepted))
        })
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        Box::pin(async move {
            self.check_running()?;
            let read = self.shared.engine.read(move |machine| {
                let range = (instance, 0)..=(instance, u32::MAX);
                let rows = machine.state.actions().range(range);
                rows.map(|(_, action)| action.clone()).collect()
            });
            Ok(read.await)
        })
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        Box::pin(async {
            self.check_running()?;
            let (to_follower, events) = mpsc::channel(CHANNEL_EVENTS);
            let (follower, wake) = self.shared.read_model.lock().follow();
            let shared = Arc::clone(&self.shared);
            let subscription = follow::Subscription { shared, follower };
            spawn_contained(
                ContainedWork::Follower,
                follow::send_stream(subscription, wake, to_follower),
            );
            Ok(events)
        })
    }
}

impl AgentLink for Cell {
    fn connect(&self) -> LinkFuture<'_, AgentConnection> {
        Box::pin(async {
            self.check_running()?;
            Ok(agents::connect(&self.shared))
        })
    }
}
