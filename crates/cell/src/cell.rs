//! A cell: opening, links and shutdown.

use std::path::Path;
use std::sync::Arc;

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

use crate::active::ActiveCell;
use crate::counters::Counters;
use crate::leadership::{self, Current, Unconfirmed};
use crate::machine::CellMachine;
use crate::metrics::{self, CellMetrics};
use crate::options::Options;
use crate::shared::{self, CellParts, LeaderState};
use crate::{agents, follow, secrets};

/// The most events that wait in the channel to a follower, in addition to those in the follower's queue of the read
/// model.
const CHANNEL_EVENTS: usize = 512;

/// A running cell, or one of several replicas of it. Dropping it ends it; see [`Cell::shutdown`].
pub struct Cell {
    parts: CellParts,
    current: Current,
    /// True once the cell is shutting down.
    stop: watch::Sender<bool>,
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
        Self::on_engine(engine, options, placement).await
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
        Self::on_engine(engine, options, placement).await
    }

    /// Starts a cell on an engine. If the engine is one of several replicas on one journal, this process works as the
    /// cell while it leads. Otherwise it stands by: calls to it fail with [`LinkError::NotLeading`]. A process that
    /// stands by submits no commands, so the link between the replicas need not hand over commands to the leader.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn on_engine(
        engine: Engine<CellMachine>,
        options: Options,
        placement: Arc<dyn PlacementLink>,
    ) -> Result<Arc<Self>, OpenError> {
        let parts = CellParts {
            options: Arc::new(options),
            engine,
            placement,
            counts: Arc::new(Counters::default()),
        };
        let (current, stop) = (Current::default(), watch::Sender::new(false));
        let tasks = Tasks::default();
        if parts.engine.replica().leadership().is_some() {
            let run = leadership::run(parts.clone(), Arc::clone(&current), stop.subscribe());
            tasks.spawn(Task::CellLeadership, run);
        } else {
            let active = ActiveCell::start(&parts).await?;
            *current.write() = Some(Arc::clone(&active.shared));
            let run = leadership::run_alone(active, Arc::clone(&current), stop.subscribe());
            tasks.spawn(Task::CellLeadership, run);
        }
        Ok(Arc::new(Self {
            parts,
            current,
            stop,
            tasks,
        }))
    }

    /// The id of the cell.
    #[must_use]
    pub fn id(&self) -> CellId {
        self.parts.options.cell
    }

    /// Whether this process works as the cell; otherwise it stands by, as one of several replicas.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.current.read().is_some()
    }

    /// Counters and sizes for metrics.
    #[must_use]
    pub fn metrics(&self) -> CellMetrics {
        let current = self.current.read().clone();
        metrics::metrics(&self.parts, current.as_deref())
    }

    /// The cell's engine, for tests and audits.
    #[must_use]
    pub fn engine(&self) -> &Engine<crate::CellMachine> {
        &self.parts.engine
    }

    /// Ends the cell: connections are closed, submitted events are made durable and answered, and
    /// the store is closed. A second call does nothing.
    pub async fn shutdown(&self) {
        self.tasks.allow_end();
        self.stop.send_replace(true);
        self.tasks.join().await;
        let engine = self.parts.engine.clone();
        // The shutdown does not panic, and after a panic there would be nothing left to do.
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }

    /// The data of the running cell, if this replica works as the cell.
    fn leading(&self) -> Result<Arc<LeaderState>, LinkError> {
        if *self.stop.borrow() {
            return Err(LinkError::Unreachable {
                peer: self.peer(),
                why: "it is shutting down".into(),
            });
        }
        let current = self.current.read().clone();
        current.ok_or_else(|| self.not_leading())
    }

    /// As [`Cell::leading`], but first makes sure that no other replica works as the cell, so that later reads are not
    /// stale.
    async fn confirmed(&self) -> Result<Arc<LeaderState>, LinkError> {
        let shared = self.leading()?;
        match leadership::confirm(&self.parts).await {
            Ok(()) => Ok(shared),
            Err(Unconfirmed::NotLeading) => Err(self.not_leading()),
            Err(Unconfirmed::Store(Some(error))) => Err(shared.submit_error(&error)),
            Err(Unconfirmed::Store(None)) => Err(LinkError::Unavailable {
                peer: self.peer(),
                why: "its store does not answer".into(),
            }),
        }
    }

    fn peer(&self) -> String {
        shared::peer(self.id())
    }

    fn not_leading(&self) -> LinkError {
        shared::not_leading(&self.parts.engine, self.id())
    }
}

async fn submit(shared: &LeaderState, events: Vec<Event>) -> Result<Vec<Reply>, LinkError> {
    let submitted: Vec<_> = events
        .into_iter()
        .map(|event| shared.submit(event))
        .collect();
    let mut replies = Vec::with_capacity(submitted.len());
    for decided in submitted {
        let decided = decided.await.map_err(|error| shared.submit_error(&error))?;
        replies.push(decided.unwrap_or_else(|refusal| Reply::Refused(refusal.to_string())));
    }
    Ok(replies)
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.tasks.allow_end();
        self.stop.send_replace(true);
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
        Box::pin(async { self.leading().map(|_| self.id()) })
    }

    fn deliver(&self, mut messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        Box::pin(async move {
            let shared = self.leading()?;
            for envelope in &mut messages {
                secrets::seal_message(&shared, &mut envelope.message)?;
            }
            submit(&shared, messages.into_iter().map(Event::Message).collect()).await
        })
    }

    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply> {
        Box::pin(async move {
            let shared = self.leading()?;
            let event = match operation {
                CellOperation::Shelve { instance, request } => Event::Shelve { instance, request },
                CellOperation::Rebuild {
                    instance,
                    mut spec,
                    request,
                } => {
                    secrets::seal_spec(&shared, instance, &mut spec)?;
                    Event::Rebuild {
                        instance,
                        spec: *spec,
                        request,
                    }
                }
                CellOperation::RemoveHost { host } => Event::HostRemoved { host },
                CellOperation::Reconcile { host } => {
                    return Ok(agents::restart_session(&shared, host));
                }
                CellOperation::RefuseRebuild {
                    instance,
                    fault,
                    request,
                } => Event::RebuildRefused {
                    instance,
                    fault: *fault,
                    request,
                },
            };
            let replies = submit(&shared, vec![event]).await?;
            Ok(replies.into_iter().next().unwrap_or(Reply::Accepted))
        })
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        Box::pin(async move {
            let shared = self.confirmed().await?;
            let read = shared.engine.read(move |machine| {
                let range = (instance, 0)..=(instance, u32::MAX);
                let rows = machine.state.actions().range(range);
                rows.map(|(_, action)| action.clone()).collect()
            });
            Ok(read.await)
        })
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        Box::pin(async {
            let shared = self.confirmed().await?;
            let (to_follower, events) = mpsc::channel(CHANNEL_EVENTS);
            let (follower, wake) = shared.read_model.lock().follow();
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
            let shared = self.confirmed().await?;
            Ok(agents::connect(&shared))
        })
    }
}
