//! Past states of control: the states as they were after earlier entries of the journal.
//!
//! A past state is rebuilt from what the journal still holds, on a thread for blocking work. This never touches the
//! state that the engine runs. Only one state is rebuilt at a time. The last one is kept for a while, so that further
//! questions about the same state, or about one a little later, cost little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use placewright_conductor::ControlState;
use placewright_engine::{Engine, Past, PastError, PastLimits, PastRange, PastState};
use placewright_placement::Timestamp;
use placewright_tasks::{ContainedWork, contain_panic_sync, spawn_contained};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::decisions::time_text;
use crate::machine::ControlMachine;

/// How much one rebuild may cost. With the default options a million entries lie between two snapshots at most
/// (`store.snapshot_entries`).
const LIMITS: PastLimits = PastLimits {
    entries_max: 2_000_000,
    time_max: Duration::from_secs(30),
    // Half of one processor core.
    duty: 0.5,
};
/// A state that nobody has asked about for this long is dropped.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// A moment: an entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// The sequence of the entry.
    pub sequence: u64,
    /// When it was appended, as ISO 8601 in UTC; `None` if the journal does not say.
    pub at: Option<String>,
}

/// The states that can be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldRange {
    /// The moment of the oldest state.
    pub oldest: Moment,
    /// The moment of the newest state, which is durable.
    pub newest: Moment,
}

/// Why a state of the past is not shown.
#[derive(Debug, thiserror::Error)]
pub enum PastFailure {
    /// Another past state is being rebuilt.
    #[error("another state of the past is being rebuilt")]
    Busy,
    /// The state cannot be rebuilt.
    #[error(transparent)]
    Past(#[from] PastError),
    /// The rebuild panicked, which is a bug.
    #[error("an internal error occurred while the state was rebuilt")]
    Panicked,
}

/// Rebuilds states of the past. Clones share the one state that is kept.
#[derive(Clone)]
pub struct PastStates {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine<ControlMachine>,
    /// A permit for the one rebuild that may be under way, and for reading the rebuilt state.
    rebuild: Arc<Semaphore>,
    /// A permit for asking the journal what it holds.
    asking: Arc<Semaphore>,
    /// The state that was rebuilt last; `None` while another one is rebuilt from it, and after [`KEPT_FOR`].
    kept_state: Mutex<Option<PastState<ControlMachine>>>,
    /// The number of questions about past states that were answered so far. If it has not changed for [`KEPT_FOR`],
    /// nobody has asked lately.
    answer_count: AtomicU64,
}

impl std::fmt::Debug for PastStates {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PastStates").finish_non_exhaustive()
    }
}

impl PastStates {
    /// The states of the past of this engine. Nothing is rebuilt before somebody asks.
    #[must_use]
    pub fn new(engine: Engine<ControlMachine>) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                rebuild: Arc::new(Semaphore::new(1)),
                asking: Arc::new(Semaphore::new(1)),
                kept_state: Mutex::new(None),
                answer_count: AtomicU64::new(0),
            }),
        }
    }

    /// The states that can be rebuilt now.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub async fn held(&self) -> Result<HeldRange, PastFailure> {
        let permit = Arc::clone(&self.shared.asking).acquire_owned().await;
        let mut past = self.shared.open().await?;
        blocking(move || {
            let _permit = permit;
            let PastRange { oldest, newest } = past.range()?;
            Ok(HeldRange {
                oldest: moment(&mut past, oldest)?,
                newest: moment(&mut past, newest)?,
            })
        })
        .await
    }

    /// Computes a value from the state after an entry, and gives it with the moment of that entry. `compute` runs on a
    /// thread for blocking work.
    ///
    /// # Errors
    ///
    /// The state cannot be rebuilt, or another one is being rebuilt.
    pub async fn read_at<T: Send + 'static>(
        &self,
        sequence: u64,
        compute: impl FnOnce(&ControlState) -> T + Send + 'static,
    ) -> Result<(Moment, T), PastFailure> {
        let permit = Arc::clone(&self.shared.rebuild).try_acquire_owned();
        let permit = permit.map_err(|_| PastFailure::Busy)?;
        let mut past = self.shared.open().await?;
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            // The work goes on when its caller has gone away, so the permit and the timer belong to the work.
            let _permit = permit;
            past.check_held(sequence)?;
            let earlier = shared.kept_state.lock().take();
            let state = past.rebuild(sequence, earlier, &LIMITS)?;
            let value = compute(&state.machine().state);
            *shared.kept_state.lock() = Some(state);
            shared.drop_later();
            Ok((moment(&mut past, sequence)?, value))
        })
        .await
    }
}

impl Shared {
    /// Opens the journal, which takes long while the store hangs.
    async fn open(&self) -> Result<Past, PastError> {
        let opened = tokio::time::timeout(LIMITS.time_max, self.engine.open_past());
        opened
            .await
            .unwrap_or(Err(PastError::TimeUp(LIMITS.time_max)))
    }

    /// Drops the kept state once [`KEPT_FOR`] has passed, unless this method is called again before.
    fn drop_later(self: &Arc<Self>) {
        let answer = self.answer_count.fetch_add(1, Ordering::Relaxed) + 1;
        let shared = Arc::downgrade(self);
        spawn_contained(ContainedWork::HttpRequest, async move {
            tokio::time::sleep(KEPT_FOR).await;
            let Some(shared) = shared.upgrade() else {
                return;
            };
            if shared.answer_count.load(Ordering::Relaxed) == answer {
                // A large state takes a while to drop.
                let dropped = shared.kept_state.lock().take();
                let _ = tokio::task::spawn_blocking(move || drop(dropped)).await;
            }
        });
    }
}

fn moment(past: &mut Past, sequence: u64) -> Result<Moment, PastError> {
    let at = past.appended_at(sequence)?;
    let at = at.map(|at| time_text(Timestamp(at)));
    Ok(Moment { sequence, at })
}

/// Runs work on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PastError> + Send + 'static,
) -> Result<T, PastFailure> {
    let contained =
        tokio::task::spawn_blocking(|| contain_panic_sync(ContainedWork::HttpRequest, work));
    match contained.await {
        Ok(Ok(result)) => Ok(result?),
        Ok(Err(_)) | Err(_) => Err(PastFailure::Panicked),
    }
}
