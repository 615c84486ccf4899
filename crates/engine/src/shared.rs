//! The data that the engine's threads and handles share.
//!
//! Lock order: `state`, then a replica's `pending`, then `queue`, then `recent` or `snapshot_schedule`. No thread waits
//! for the journal while it holds one of these locks, with rare exceptions: the entries of another writer are read
//! while `state` is locked after an append that conflicted with them, after an append whose outcome was not known, and
//! after the leadership was handed over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::watch;

use crate::entries::RecentEntries;
use crate::error::SubmitError;
use crate::history::HistoryRequest;
use crate::lost_entries::LostEntries;
use crate::replica_state::ReplicaState;
use crate::snapshot_schedule::{SnapshotRequest, SnapshotSchedule};
use crate::submission::{Decided, Submission};
use crate::{Machine, Observer, Options};

/// The machine and its position in the journal.
pub(crate) struct State<M> {
    pub(crate) machine: M,
    /// The last entry applied. While an append is under way, it is after the last durable entry.
    pub(crate) applied: u64,
    /// The number of times that applied changes were undone.
    pub(crate) rollbacks: u64,
}

/// The progress that callers wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// The last durable entry.
    pub(crate) durable: u64,
    /// The number of times that applied changes were undone.
    pub(crate) rollbacks: u64,
    /// Whether the engine was shut down.
    pub(crate) is_closed: bool,
}

/// Commands decided during one hold of the state's lock, with the data that undoes their changes.
pub(crate) struct CommandBatch<M: Machine> {
    /// The sequence of the first record.
    pub(crate) first: u64,
    /// The encoded records, concatenated.
    pub(crate) buffer: Vec<u8>,
    /// The end offset of each record in `buffer`.
    pub(crate) ends: Vec<usize>,
    /// The data that undoes the changes, in the order of the changes.
    pub(crate) undos: Vec<M::Undo>,
    pub(crate) decided: Vec<Decided<M>>,
    /// How long the decisions took, including the wait for the state's lock.
    pub(crate) decide_time: Duration,
}

/// The initial capacity of the queue of waiting commands, so that it seldom has to grow
/// while callers wait.
pub(crate) const COMMANDS_CAPACITY: usize = 256;
/// For how many changes of each command a new batch has capacity: more than most commands make.
const UNDOS_PER_COMMAND: usize = 4;
/// For how many bytes of the record of each command a new batch has capacity. A buffer that needs more grows.
const BYTES_PER_COMMAND: usize = 128;
/// A batch whose buffer has grown beyond this is not recycled.
pub(crate) const RECYCLED_BYTES_MAX: usize = 1 << 20;
/// The number of batches that are recycled: as many as are in flight at once under the usual load.
const RECYCLED_BATCHES_MAX: usize = 16;

impl<M: Machine> CommandBatch<M> {
    /// An empty batch with capacity for some commands.
    pub(crate) fn with_capacity(commands: usize) -> Self {
        Self {
            first: 0,
            buffer: Vec::with_capacity(commands * BYTES_PER_COMMAND),
            ends: Vec::with_capacity(commands),
            undos: Vec::with_capacity(commands * UNDOS_PER_COMMAND),
            decided: Vec::with_capacity(commands),
            decide_time: Duration::ZERO,
        }
    }
}

/// Waiting and decided commands, and the state of the threads that process them.
pub(crate) struct Queue<M: Machine> {
    /// Commands that are not decided yet.
    pub(crate) waiting: VecDeque<Submission<M>>,
    /// Decided batches that are not yet taken for an append.
    pub(crate) decided: VecDeque<CommandBatch<M>>,
    /// The number of commands in `decided`.
    pub(crate) decided_commands: usize,
    /// The total size of the decided batches' records.
    pub(crate) decided_bytes: usize,
    /// Empty batches with capacity: allocating memory for each batch would take longer than deciding it.
    recycled: Vec<CommandBatch<M>>,
    /// The writer sleeps until this many commands wait; 0 while it is awake.
    pub(crate) writer_wakes_at: usize,
    /// Whether the thread that decides ahead of the writer has taken commands and not yet queued
    /// their decisions.
    pub(crate) is_deciding_ahead: bool,
    /// Whether an append is under way.
    pub(crate) is_appending: bool,
    /// Whether the engine accepts no more commands.
    pub(crate) is_closed: bool,
}

/// Everything that the handles of an engine share with its threads.
pub(crate) struct Shared<M: Machine> {
    pub(crate) state: RwLock<State<M>>,
    /// The sequence of the last durable entry.
    pub(crate) durable: AtomicU64,
    /// The first entry that the journal held at the start, or after this process last trimmed it. Another replica may
    /// have trimmed more since.
    pub(crate) first_held: AtomicU64,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) queue: Mutex<Queue<M>>,
    /// Wakes the writer.
    pub(crate) writer_wake: Condvar,
    /// Wakes the thread that decides ahead of the writer.
    pub(crate) ahead_wake: Condvar,
    pub(crate) recent: RwLock<RecentEntries>,
    /// When an append, or an attempt to follow the journal, last failed; `None` if one has succeeded since.
    pub(crate) append_failed: Mutex<Option<Instant>>,
    pub(crate) lost: LostEntries,
    pub(crate) snapshot_schedule: Mutex<SnapshotSchedule>,
    pub(crate) snapshot_requests: mpsc::Sender<SnapshotRequest>,
    pub(crate) history_requests: mpsc::Sender<HistoryRequest>,
    pub(crate) options: Options,
    pub(crate) observer: Arc<dyn Observer>,
    /// What this engine needs as one of several replicas; `None` if this engine alone writes the journal.
    pub(crate) replica: Option<ReplicaState<M>>,
}

impl<M: Machine> Queue<M> {
    /// An empty queue with capacity for some commands.
    pub(crate) fn with_capacity(commands: usize) -> Self {
        Self {
            waiting: VecDeque::with_capacity(commands),
            decided: VecDeque::new(),
            decided_commands: 0,
            decided_bytes: 0,
            recycled: Vec::with_capacity(RECYCLED_BATCHES_MAX),
            writer_wakes_at: 0,
            is_deciding_ahead: false,
            is_appending: false,
            is_closed: false,
        }
    }

    /// Whether the decided batches suffice for a full append.
    pub(crate) fn has_full_append(&self, options: &Options) -> bool {
        self.decided_commands >= options.batch_commands_max
            || self.decided_bytes >= options.batch_bytes_max
    }

    /// An empty batch with the memory of an earlier one, if there is one.
    pub(crate) fn take_recycled(&mut self) -> Option<CommandBatch<M>> {
        self.recycled.pop()
    }

    /// Keeps the memory of an emptied batch for a later batch.
    pub(crate) fn recycle(&mut self, batch: CommandBatch<M>) {
        if self.recycled.len() < RECYCLED_BATCHES_MAX
            && batch.buffer.capacity() <= RECYCLED_BYTES_MAX
        {
            debug_assert!(batch.decided.is_empty() && batch.undos.is_empty());
            self.recycled.push(batch);
        }
    }
}

impl<M: Machine> Shared<M> {
    /// Queues a command. Wakes one thread if that is needed to decide it, otherwise none.
    pub(crate) fn enqueue(&self, submission: Submission<M>) -> Result<(), SubmitError> {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(SubmitError::ShuttingDown);
        }
        if queue.waiting.len() >= self.options.queue_commands_max {
            return Err(SubmitError::Overloaded);
        }
        queue.waiting.push_back(submission);
        let waiting_count = queue.waiting.len();
        if queue.writer_wakes_at != 0 && waiting_count >= queue.writer_wakes_at {
            queue.writer_wakes_at = 0;
            drop(queue);
            self.writer_wake.notify_one();
        } else if queue.is_appending
            && !queue.is_deciding_ahead
            && waiting_count == self.options.ahead_commands_min
        {
            // Only the command that reaches the minimum wakes the thread: if more wait, it was woken or looks by
            // itself.
            drop(queue);
            self.ahead_wake.notify_one();
        }
        Ok(())
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Waits until the entry `sequence` is durable. `rollbacks` is [`State::rollbacks`] from the time when the
    /// entry was applied: if it has grown since, the entry may have been undone, and the result is false.
    pub(crate) async fn wait_durable(&self, sequence: u64, rollbacks: u64) -> bool {
        let mut progress = self.progress.subscribe();
        loop {
            let current = *progress.borrow_and_update();
            if current.rollbacks != rollbacks {
                return false;
            }
            if current.durable >= sequence {
                return true;
            }
            if progress.changed().await.is_err() {
                return false;
            }
        }
    }
}

/// Wakes the writer if it sleeps, regardless of how many commands it waits for.
pub(crate) fn wake_writer<M: Machine>(shared: &Shared<M>, queue: &mut Queue<M>) {
    if queue.writer_wakes_at != 0 {
        queue.writer_wakes_at = 0;
        shared.writer_wake.notify_one();
    }
}
