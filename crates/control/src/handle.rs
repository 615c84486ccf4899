//! The handle on control: submits commands, reads the state, and calls cells.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::RwLock;
use placewright_conductor::control::{self, ControlState, Outcome, Refusal};
use placewright_conductor::{Action, CellId, InstanceId, Reply, super_conductor};
use placewright_engine::{Engine, Reading, SubmitError};
use placewright_link::{CellLink, CellOperation, LinkError, LinkFuture};
use placewright_placement::Timestamp;
use placewright_secrets::Sealer;

use crate::clock::Clock;
pub(crate) use crate::clock::now;
use crate::machine::ControlMachine;
use crate::options::Options;
use crate::placement_metrics::PlacementMetrics;
use crate::views::Views;

/// The answer to a command of the conductor: its outcome or refusal, or why there is neither.
pub type CommandAnswer =
    Result<Result<super_conductor::Outcome, super_conductor::Refusal>, SubmitError>;

type EngineAnswer = Result<Result<Outcome, Refusal>, SubmitError>;

/// A handle on control, for APIs. Clones refer to the same control.
#[derive(Clone)]
pub struct ControlHandle {
    pub(crate) shared: Arc<Shared>,
}

/// The data behind all clones of the handle.
pub(crate) struct Shared {
    pub(crate) engine: Engine<ControlMachine>,
    pub(crate) views: RwLock<Views>,
    pub(crate) links: RwLock<BTreeMap<CellId, Arc<dyn CellLink>>>,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) sealer: Sealer,
    pub(crate) metrics: PlacementMetrics,
}

impl fmt::Debug for ControlHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ControlHandle")
            .finish_non_exhaustive()
    }
}

impl ControlHandle {
    /// Creates the handle, with a key for secrets that is lost when the process ends. It reaches no cell
    /// before [`Runtime::add_cell`](crate::Runtime::add_cell).
    #[must_use]
    pub fn new(engine: Engine<ControlMachine>, options: Options) -> Self {
        Self::with_clock(engine, options, Clock::default())
    }

    /// As [`new`](Self::new), with the caller's clock.
    #[must_use]
    pub fn with_clock(engine: Engine<ControlMachine>, options: Options, clock: Clock) -> Self {
        let (sealer, metrics) = (Sealer::default(), PlacementMetrics::default());
        Self::with_parts(engine, options, clock, sealer, metrics)
    }

    /// As [`new`](Self::new), with the keys that seal the secrets of instances, and registered metrics.
    #[must_use]
    pub fn with_sealer(
        engine: Engine<ControlMachine>,
        options: Options,
        sealer: Sealer,
        metrics: PlacementMetrics,
    ) -> Self {
        Self::with_parts(engine, options, Clock::default(), sealer, metrics)
    }

    fn with_parts(
        engine: Engine<ControlMachine>,
        options: Options,
        clock: Clock,
        sealer: Sealer,
        metrics: PlacementMetrics,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                views: RwLock::default(),
                links: RwLock::default(),
                options,
                clock,
                sealer,
                metrics,
            }),
        }
    }

    /// The sealer, which seals and opens the secrets of instances.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        &self.shared.sealer
    }

    /// The engine that runs control's state machine.
    #[must_use]
    pub fn engine(&self) -> &Engine<ControlMachine> {
        &self.shared.engine
    }

    /// The options of the runtime.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// The present time by control's clock, which tests can move.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Queues a command at once; the future returns its outcome once that is durable.
    pub fn submit(
        &self,
        command: super_conductor::Command,
    ) -> impl Future<Output = CommandAnswer> + Send + use<> {
        let command = self.at_now(command);
        finish(self.shared.engine.submit_with_sequence(command))
    }

    /// Submits a command that was made from the state that `reading` saw, without waiting until that state is durable;
    /// see [`Engine::submit_after`].
    pub fn submit_after(
        &self,
        reading: Reading,
        command: super_conductor::Command,
    ) -> impl Future<Output = CommandAnswer> + Send + use<> {
        let command = self.at_now(command);
        finish(self.shared.engine.submit_after(reading, command))
    }

    fn at_now(&self, command: super_conductor::Command) -> control::Command {
        let at = self.now();
        control::Command::Conductor { command, at }
    }

    /// Computes a value from control's state and the cells' latest reports. When this returns, the state that `compute`
    /// has read is durable. `compute` may be called more than once.
    ///
    /// The state cannot change while `compute` runs, so it should take milliseconds at most.
    pub fn read<T: Send>(
        &self,
        compute: impl Fn(&ControlState, &Views) -> T + Send,
    ) -> impl Future<Output = T> + Send {
        let shared = Arc::clone(&self.shared);
        async move {
            let views = &shared.views;
            let read = shared
                .engine
                .read(move |machine: &ControlMachine| compute(&machine.state, &views.read()));
            read.await
        }
    }

    /// Computes one of several values that belong to one response; see [`Engine::read_part`].
    pub fn read_part<T>(
        &self,
        reading: &mut Reading,
        compute: impl FnOnce(&ControlState, &Views) -> T,
    ) -> T {
        let Shared { engine, views, .. } = &*self.shared;
        engine.read_part(reading, |machine| compute(&machine.state, &views.read()))
    }

    /// Waits until the state that the parts of a reading saw is durable. False if some of that state was undone: then
    /// none of the values may be used. See [`Engine::wait_durable`].
    pub async fn wait_durable(&self, reading: Reading) -> bool {
        self.shared.engine.wait_durable(reading).await
    }

    /// Whether a cell is configured, so that operations can be sent to it.
    #[must_use]
    pub fn has_link(&self, cell: CellId) -> bool {
        self.link(cell).is_ok()
    }

    /// Performs an operation that a cell decides alone: shelve, rebuild, remove a host.
    ///
    /// # Errors
    ///
    /// The cell is not known, is down, does not answer in time, or cannot do it now.
    pub async fn perform_in_cell(
        &self,
        cell: CellId,
        mut operation: CellOperation,
    ) -> Result<Reply, LinkError> {
        let link = self.link(cell)?;
        // The cell need not have the keys with which control seals.
        if let CellOperation::Rebuild { instance, spec, .. } = &mut operation
            && let Err(why) = self.sealer().open_spec(*instance, spec)
        {
            return Ok(Reply::Refused(format!(
                "the secrets of the server cannot be opened: {why}"
            )));
        }
        self.with_timeout(cell, link.perform(operation)).await
    }

    /// The history of an instance's actions, oldest first.
    ///
    /// # Errors
    ///
    /// The instance's cell is not known, is down or does not answer in time. An instance without a
    /// cell has no actions, which is not an error.
    pub async fn actions(&self, instance: InstanceId) -> Result<Vec<Action>, LinkError> {
        let find = move |control: &ControlState, _: &Views| {
            let mapping = control.conductor.mappings().get(&instance)?;
            mapping.cell.filter(|cell| *cell != CellId::CELL0)
        };
        let Some(cell) = self.read(find).await else {
            return Ok(Vec::new());
        };
        let link = self.link(cell)?;
        self.with_timeout(cell, link.actions(instance)).await
    }

    /// The link to a cell.
    pub(crate) fn link(&self, cell: CellId) -> Result<Arc<dyn CellLink>, LinkError> {
        let link = self.shared.links.read().get(&cell).cloned();
        link.ok_or_else(|| LinkError::Unreachable {
            peer: format!("cell {cell}"),
            why: "it is not configured".to_owned(),
        })
    }

    /// Waits for a cell's answer within the time-out.
    pub(crate) async fn with_timeout<T>(
        &self,
        cell: CellId,
        answer: LinkFuture<'_, T>,
    ) -> Result<T, LinkError> {
        let timed = tokio::time::timeout(self.shared.options.answer_timeout, answer);
        timed.await.unwrap_or_else(|_| {
            Err(LinkError::TimedOut {
                peer: format!("cell {cell}"),
            })
        })
    }
}

/// Adds the entry of a submitted command to the audit log's event, and returns the answer of the conductor.
fn finish<F>(submitted: F) -> impl Future<Output = CommandAnswer> + Send + use<F>
where
    F: Future<Output = (EngineAnswer, Option<u64>)> + Send,
{
    let note = placewright_audit_log::current_note();
    submitted.map(move |(answer, sequence)| {
        if let (Some(note), Some(sequence)) = (note, sequence) {
            // The audit log lists allocations only for commands of placement, and this is one of the conductor.
            note.add_entry(sequence, []);
        }
        match answer? {
            Ok(Outcome::Conductor(outcome)) => Ok(Ok(outcome)),
            Err(Refusal::Conductor(refusal)) => Ok(Err(refusal)),
            // A command of the conductor never has an answer of placement.
            Ok(Outcome::Placement(_)) | Err(Refusal::Placement(_)) => Err(SubmitError::Panicked),
        }
    })
}
