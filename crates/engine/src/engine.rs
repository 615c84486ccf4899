//! The public handle: opens an engine, submits commands, reads, follows, shuts down.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use placewright_journal::{Journal, JournalError};
use placewright_tasks::Task;
use tokio::sync::{oneshot, watch};

use crate::entries::RecentEntries;
use crate::error::{FollowError, RecoverError, SnapshotError};
use crate::history::{self, HistoryRequest};
use crate::lost_entries::LostEntries;
use crate::reading::Reading;
use crate::recover::{Recovered, recover_until};
use crate::replica::Replica;
use crate::replica_state::{ReplicaOptions, ReplicaState};
use crate::shared::{self, Progress, Queue, Shared, State, wake_writer};
use crate::snapshot;
use crate::snapshot_schedule::{SnapshotRequest, SnapshotSchedule};
use crate::throttle::Throttle;
use crate::writer;
use crate::{Follower, Machine, Observer, Options, SnapshotReport};

/// A running state machine. Clones are handles to the same engine; dropping the last one shuts it
/// down.
pub struct Engine<M: Machine> {
    inner: Arc<Inner<M>>,
}

impl<M: Machine> Clone for Engine<M> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

/// The parts that all clones of an engine share.
struct Inner<M: Machine> {
    shared: Arc<Shared<M>>,
    /// `None` once the engine has shut down.
    threads: Mutex<Option<Threads>>,
}

/// The threads of an engine.
struct Threads {
    /// Decides, appends and answers commands.
    writer: JoinHandle<()>,
    /// Decides the next commands while the writer waits for the disk.
    ahead: JoinHandle<()>,
    /// Makes snapshots in the background.
    snapshot: JoinHandle<()>,
    /// Reads old entries for followers.
    history: JoinHandle<()>,
    /// Set to interrupt a snapshot, and rebuilding a state of the past.
    stop: Arc<AtomicBool>,
}

impl<M: Machine> Engine<M> {
    /// Recovers the state from the journal and starts. Blocks until the state is complete.
    ///
    /// # Errors
    /// See [`crate::recover()`]; or a thread cannot be started.
    pub fn open(
        journal: impl Journal + 'static,
        options: Options,
        observer: impl Observer,
    ) -> Result<Self, RecoverError> {
        Self::open_with(journal, options, observer, None)
    }

    /// As [`Engine::open`], as one of several replicas on one journal; see [`Replica`].
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_replica(
        journal: impl Journal + 'static,
        options: Options,
        observer: impl Observer,
        replica: ReplicaOptions<M>,
    ) -> Result<Self, RecoverError> {
        Self::open_with(journal, options, observer, Some(replica))
    }

    fn open_with(
        journal: impl Journal + 'static,
        options: Options,
        observer: impl Observer,
        replica: Option<ReplicaOptions<M>>,
    ) -> Result<Self, RecoverError> {
        let mut journal: Box<dyn Journal> = Box::new(journal);
        let observer: Arc<dyn Observer> = Arc::new(observer);
        let to_the_end = u64::MAX;
        let recovered = recover_until(
            journal.as_mut(),
            to_the_end,
            observer.as_ref(),
            &mut Throttle::unlimited(),
        )?;
        let first_held = journal.first_held()?;
        let (snapshot_requests, snapshot_receiver) = mpsc::channel();
        let (history_requests, history_receiver) = mpsc::channel();
        let shared = Arc::new(Shared {
            durable: AtomicU64::new(recovered.sequence),
            first_held: AtomicU64::new(first_held),
            progress: watch::Sender::new(Progress {
                durable: recovered.sequence,
                rollbacks: 0,
                is_closed: false,
            }),
            queue: Mutex::new(Queue::with_capacity(shared::COMMANDS_CAPACITY)),
            writer_wake: Condvar::new(),
            ahead_wake: Condvar::new(),
            recent: RwLock::new(RecentEntries::new(options.recent_bytes)),
            append_failed: Mutex::new(None),
            lost: LostEntries::new(),
            snapshot_schedule: Mutex::new(initial_schedule(&recovered)),
            snapshot_requests,
            history_requests,
            options,
            observer,
            replica: replica.map(|replica| ReplicaState::new(replica, recovered.leader)),
            state: RwLock::new(State {
                machine: recovered.machine,
                applied: recovered.sequence,
                rollbacks: 0,
            }),
        });
        let threads = start(&shared, journal, snapshot_receiver, history_receiver)?;
        Ok(Self {
            inner: Arc::new(Inner {
                shared,
                threads: Mutex::new(Some(threads)),
            }),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<M>> {
        &self.inner.shared
    }

    /// The flag that interrupts background work when the engine shuts down; `None` once it has shut down.
    pub(crate) fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        let threads = self.inner.threads.lock();
        threads.as_ref().map(|threads| Arc::clone(&threads.stop))
    }

    /// A handle with which the links between replicas reach this engine.
    pub fn replica(&self) -> Replica<M> {
        Replica {
            shared: Arc::downgrade(&self.inner.shared),
        }
    }

    /// Evaluates a function on the state and returns its value when the state that it read is
    /// durable. If a change in that state is undone instead, the function is evaluated again.
    ///
    /// The state cannot change while `compute` runs, so it should take milliseconds at most.
    pub fn read<T: Send>(
        &self,
        compute: impl Fn(&M) -> T + Send,
    ) -> impl Future<Output = T> + Send {
        let shared = Arc::clone(&self.inner.shared);
        async move {
            loop {
                let mut reading = Reading::default();
                let value = reading.read(&shared, &compute);
                if reading.wait_durable(&shared).await {
                    return value;
                }
            }
        }
    }

    /// As [`Engine::read`] for long evaluations: runs in slices, between which the state may
    /// change. `begin` creates the accumulator. `run_slice` computes one slice; it returns the value with the
    /// last slice, and `None` before. A slice should take no more than a millisecond or two.
    ///
    /// Returns when the state that each slice read is durable. If a change in one of these states is undone
    /// instead, the evaluation begins again.
    pub fn read_in_slices<S: Send, T: Send>(
        &self,
        begin: impl Fn() -> S + Send,
        run_slice: impl Fn(&M, &mut S) -> Option<T> + Send,
    ) -> impl Future<Output = T> + Send {
        let shared = Arc::clone(&self.inner.shared);
        async move {
            loop {
                let mut reading = Reading::default();
                let mut accumulator = begin();
                let value = loop {
                    if let Some(value) =
                        reading.read(&shared, |machine| run_slice(machine, &mut accumulator))
                    {
                        break value;
                    }
                    yield_to_other_tasks().await;
                };
                if reading.wait_durable(&shared).await {
                    return value;
                }
            }
        }
    }

    /// Computes one of several values that are returned together, from the state as it is now. [`Engine::wait_durable`]
    /// then waits until the states from which these values were computed are durable.
    ///
    /// The state cannot change while `compute` runs, so it should take milliseconds at most.
    pub fn read_part<T>(&self, reading: &mut Reading, compute: impl FnOnce(&M) -> T) -> T {
        reading.read(&self.inner.shared, compute)
    }

    /// Waits until the states from which the values of a reading were computed are durable. False if a change in one of
    /// these states was undone: then none of the values may be used.
    pub fn wait_durable(&self, reading: Reading) -> impl Future<Output = bool> + Send + use<M> {
        let shared = Arc::clone(&self.inner.shared);
        async move { reading.wait_durable(&shared).await }
    }

    /// Computes a value from the state as it is, durable or not. This is for values from which only a command is made,
    /// because the command is decided on the state anew, and for values that may be wrong after a change was undone.
    pub fn read_now<T>(&self, compute: impl FnOnce(&M) -> T) -> T {
        compute(&self.inner.shared.state.read().machine)
    }

    /// As [`Engine::read_now`], with the sequence of the last entry that the state has. That entry may not be durable
    /// yet. If it is undone, another entry gets its sequence.
    pub fn read_now_at<T>(&self, compute: impl FnOnce(&M, u64) -> T) -> T {
        let state = self.inner.shared.state.read();
        compute(&state.machine, state.applied)
    }

    /// The sequence of the last durable entry.
    pub fn durable_sequence(&self) -> u64 {
        self.inner.shared.durable()
    }

    /// The sequence of the first entry that can still be followed, as far as this process knows. Another replica may
    /// have trimmed the journal further: then a follower gets [`FollowError::Trimmed`] when it reads.
    pub fn first_held(&self) -> u64 {
        self.inner.shared.first_held.load(Ordering::Acquire)
    }

    /// The number of commands that wait to be decided.
    pub fn queued(&self) -> usize {
        self.inner.shared.queue.lock().waiting.len()
    }

    /// The time since an append last failed, or since this replica last failed to follow the journal; `None` once
    /// appending or following has succeeded again.
    pub fn time_since_failed_append(&self) -> Option<Duration> {
        let failed = *self.inner.shared.append_failed.lock();
        failed.map(|failed_at| failed_at.elapsed())
    }

    /// Follows every durable entry after `after`, in order; 0 starts with the first entry.
    ///
    /// # Errors
    /// [`FollowError::Trimmed`] or [`FollowError::Ahead`].
    pub fn follow(&self, after: u64) -> Result<Follower<M>, FollowError> {
        Follower::new(Arc::clone(&self.inner.shared), after)
    }

    /// Makes a snapshot of the durable state now, and trims the journal as far as [`Options::snapshots_kept`] and
    /// [`Options::retain_entries`] allow.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn snapshot(
        &self,
    ) -> impl Future<Output = Result<SnapshotReport, SnapshotError>> + Send + use<M> {
        let (reply, answer) = oneshot::channel();
        let request = SnapshotRequest::Now(reply);
        let sent = self.inner.shared.snapshot_requests.send(request);
        async move {
            sent.map_err(|_| SnapshotError::Stopped)?;
            answer.await.unwrap_or(Err(SnapshotError::Stopped))
        }
    }

    /// Stops accepting commands, decides and answers the waiting ones, ends the background threads, and
    /// closes the journal. Reads still work afterwards. Blocks; a second call does nothing.
    pub fn shutdown(&self) {
        self.inner.shutdown();
    }
}

/// Yields once to the other tasks of the runtime.
async fn yield_to_other_tasks() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// The schedule right after a recovery.
fn initial_schedule<M>(recovered: &Recovered<M>) -> SnapshotSchedule {
    SnapshotSchedule {
        snapshot_sequence: recovered.snapshot,
        newest_snapshot_bytes: recovered.snapshot_bytes,
        entry_bytes: recovered.replayed_bytes,
        is_requested: false,
        retry_at: None,
    }
}

/// Starts the threads of an engine.
fn start<M: Machine>(
    shared: &Arc<Shared<M>>,
    journal: Box<dyn Journal>,
    snapshot_receiver: mpsc::Receiver<SnapshotRequest>,
    history_receiver: mpsc::Receiver<HistoryRequest>,
) -> Result<Threads, RecoverError> {
    let stop = Arc::new(AtomicBool::new(false));
    let snapshot_journal = journal.try_clone()?;
    let history_journal = journal.try_clone()?;
    let end_acceptances = Arc::clone(&shared.lost.end_acceptances);
    let history = spawn(Task::EngineHistory, move || {
        history::run(history_journal, &history_receiver, &end_acceptances);
    })?;
    let snapshot = {
        let (shared, stop) = (Arc::clone(shared), Arc::clone(&stop));
        spawn(Task::EngineSnapshot, move || {
            snapshot::run(&shared, snapshot_journal, &snapshot_receiver, &stop);
        })?
    };
    let ahead = {
        let shared = Arc::clone(shared);
        spawn(Task::EngineAhead, move || writer::run_ahead(&shared))?
    };
    let writer = {
        let shared = Arc::clone(shared);
        spawn(Task::EngineWriter, move || writer::run(&shared, journal))?
    };
    Ok(Threads {
        writer,
        ahead,
        snapshot,
        history,
        stop,
    })
}

/// A panic in one of the engine's own threads may leave an inconsistent state in memory, so it ends the process.
/// Durable entries are safe, and a restart recovers them.
fn spawn(task: Task, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, JournalError> {
    placewright_tasks::spawn_thread(task, run).map_err(|source| JournalError::Io {
        path: "(threads)".into(),
        doing: "start a thread",
        source,
    })
}

impl<M: Machine> Inner<M> {
    fn shutdown(&self) {
        let mut threads = self.threads.lock();
        let Some(running) = threads.take() else {
            return;
        };
        let shared = &self.shared;
        if let Some(replica) = &shared.replica {
            // Commands that are handed over from now on would have an unknown outcome.
            replica.pending.lock().is_closed = true;
        }
        {
            let mut queue = shared.queue.lock();
            queue.is_closed = true;
            wake_writer(shared, &mut queue);
            shared.ahead_wake.notify_one();
        }
        running.stop.store(true, Ordering::Relaxed);
        // Errors are ignored: a thread that has ended needs no message, and a panic was logged.
        let _ = shared.snapshot_requests.send(SnapshotRequest::Stop);
        let _ = shared.history_requests.send(HistoryRequest::Stop);
        let _ = running.ahead.join();
        let _ = running.writer.join();
        let _ = running.snapshot.join();
        let _ = running.history.join();
        shared
            .progress
            .send_modify(|progress| progress.is_closed = true);
    }
}

impl<M: Machine> Drop for Inner<M> {
    fn drop(&mut self) {
        self.shutdown();
    }
}
