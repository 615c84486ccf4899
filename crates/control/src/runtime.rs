//! The tasks around the state machine, started and ended together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use placewright_conductor::CellId;
use placewright_conductor::control::Change;
use placewright_conductor::super_conductor::{self, Command, Refusal};
use placewright_engine::{Entries, FollowError, Follower, Machine as _, SubmitError};
use placewright_link::CellLink;
use placewright_tasks::{Task, Tasks};

use crate::auditor::{AuditMetrics, Audited, Auditor};
use crate::cells::CellFollower;
use crate::fleet;
use crate::handle::ControlHandle;
use crate::machine::ControlMachine;
use crate::options::RepairOptions;
use crate::outbox::{self, Outbox};
use crate::pending_work::{self, PendingWork};
use crate::place::{self, PlacementQueue};
use crate::runtime_context::RuntimeContext;
use crate::scheduler::SchedulerHandle;
use crate::secrets;

/// The interval at which the state is searched for work that was missed.
const SWEEP: Duration = Duration::from_secs(1);
/// Times of messages that are no longer needed are forgotten once in so many sweeps.
const TIDY: u32 = 60;

/// The configuration of a cell.
#[derive(Clone)]
pub struct CellConfig {
    /// The id of the cell.
    pub cell: CellId,
    /// The name of the cell, for operators.
    pub name: String,
    /// The link that reaches the cell.
    pub link: Arc<dyn CellLink>,
}

/// The running tasks of control. Dropping it ends them; see [`Runtime::shutdown`].
pub struct Runtime {
    parts: Arc<RuntimeContext>,
    tasks: Tasks,
}

/// Why a cell cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddCellError {
    /// The store does not accept the command.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// It contradicts the cells that are known.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Runtime").finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts the tasks; work that was under way continues. It has to be called in a Tokio runtime.
    ///
    /// # Errors
    ///
    /// The durable changes cannot be followed.
    pub fn start(
        conductor: ControlHandle,
        ranker: SchedulerHandle,
    ) -> Result<Arc<Self>, FollowError> {
        let engine = conductor.engine();
        let follower = engine.follow(engine.durable_sequence())?;
        let (places, outcomes) = PlacementQueue::start(conductor.clone(), ranker.clone());
        let parts = Arc::new(RuntimeContext {
            conductor,
            ranker,
            availability_reports: Mutex::default(),
            outboxes: RwLock::default(),
            places,
        });
        fleet::tell_all(&parts);
        let tasks = Tasks::default();
        let hear = place::handle_answers(parts.places.clone(), outcomes);
        tasks.spawn(Task::ControlOutcomes, hear);
        let follow = follow(Arc::clone(&parts), follower);
        tasks.spawn(Task::ControlFollow, follow);
        tasks.spawn(Task::ControlSweep, find_missed_work(Arc::clone(&parts)));
        let keep_sealed = secrets::keep_sealed(parts.conductor.clone());
        tasks.spawn(Task::ControlSecrets, keep_sealed);
        Ok(Arc::new(Self { parts, tasks }))
    }

    /// Seals the secrets that an earlier release left in the clear in the store. To be called before
    /// anything is served. Returns how many specifications had any.
    pub async fn seal_open_secrets(&self) -> usize {
        secrets::seal_again(&self.parts.conductor, true).await
    }

    /// Starts periodic audits, and returns the handle that runs one on request.
    pub fn start_audits(&self, metrics: AuditMetrics) -> Arc<Auditor> {
        let auditor = Arc::new(Auditor::new(Arc::clone(&self.parts), metrics));
        let run = Arc::clone(&auditor).run();
        self.tasks.spawn(Task::ControlAudits, run);
        auditor
    }

    /// Audits now; with `repair`, inconsistencies are repaired where possible.
    pub async fn audit(&self, repair: Option<RepairOptions>) -> Audited {
        let auditor = Auditor::new(Arc::clone(&self.parts), AuditMetrics::default());
        auditor.audit(repair).await
    }

    /// The handle on control's state machine.
    #[must_use]
    pub fn conductor(&self) -> &ControlHandle {
        &self.parts.conductor
    }

    /// The handle on control's scheduler.
    #[must_use]
    pub fn ranker(&self) -> &SchedulerHandle {
        &self.parts.ranker
    }

    /// The number of hosts in the scheduler's table.
    #[must_use]
    pub fn hosts_known(&self) -> usize {
        let ranker = &self.parts.ranker;
        ranker.decide(|scheduler, _| scheduler.hosts().usable().len())
    }

    /// Adds a cell and follows it from now on. For a known cell, its link is replaced.
    ///
    /// # Errors
    ///
    /// See [`AddCellError`].
    pub async fn add_cell(&self, config: CellConfig) -> Result<(), AddCellError> {
        let CellConfig { cell, name, link } = config;
        let conductor = &self.parts.conductor;
        let is_disabled = conductor.read(move |control, _| {
            let known = control.conductor.cells().get(&cell);
            known.is_some_and(|known| known.disabled)
        });
        let disabled = is_disabled.await;
        let command = Command::SetCell {
            cell,
            name,
            disabled,
        };
        conductor.submit(command).await??;
        conductor.shared.links.write().insert(cell, link);
        conductor
            .shared
            .views
            .write()
            .cells
            .entry(cell)
            .or_default();
        let outbox = Arc::new(Outbox::new(cell));
        {
            let mut outboxes = self.parts.outboxes.write();
            if outboxes.contains_key(&cell) {
                // The cell is followed already, and through the new link from the next connection
                // on.
                return Ok(());
            }
            outboxes.insert(cell, Arc::clone(&outbox));
        }
        let run = outbox::run(conductor.clone(), outbox);
        self.tasks.spawn(Task::ControlOutbox, run);
        let run = CellFollower::new(cell, Arc::clone(&self.parts)).run();
        self.tasks.spawn(Task::ControlCell, run);
        self.parts.returned(cell);
        Ok(())
    }

    /// Ends the tasks. Work under way continues after the next start. A second call does nothing.
    pub async fn shutdown(&self) {
        self.tasks.shutdown().await;
        let places = self.parts.places.clone();
        // It does not panic, and after a panic there would be nothing left to do.
        let _ = tokio::task::spawn_blocking(move || places.stop()).await;
    }
}

/// Carries out what durable changes call for.
async fn follow(parts: Arc<RuntimeContext>, mut follower: Follower<ControlMachine>) {
    loop {
        match follower.next_entries().await {
            None => return,
            Some(Ok(entries)) => take_entries(&parts, &entries),
            Some(Err(error)) => {
                // Missed changes are found by the sweep; the scheduler's view of the fleet is
                // passed on anew.
                tracing::warn!(%error, "durable changes were missed");
                let engine = parts.conductor.engine();
                match engine.follow(engine.durable_sequence()) {
                    Ok(anew) => follower = anew,
                    Err(_) => tokio::time::sleep(SWEEP).await,
                }
                fleet::tell_all(&parts);
            }
        }
    }
}

fn take_entries(parts: &RuntimeContext, entries: &Entries) {
    let mut changes: Vec<Change> = Vec::new();
    for (sequence, record) in entries.iter() {
        // Most entries concern placement only and call for nothing here.
        if !placewright_records::control::may_concern_conductor(record) {
            continue;
        }
        match ControlMachine::decode(record) {
            Ok(more) => {
                let of_conductor = |change: &Change| matches!(change, Change::Conductor(_));
                changes.extend(more.into_iter().filter(of_conductor));
            }
            // The engine applied this record, so it was readable once.
            Err(error) => tracing::error!(sequence, %error, "a durable record cannot be read"),
        }
    }
    if changes.is_empty() {
        return;
    }
    let wanted: Vec<PendingWork> = parts
        .conductor
        .engine()
        .read_now(|machine| pending_work::of_changes(&machine.0, &changes).collect());
    for one in wanted {
        parts.do_now(one);
    }
    parts.places.go();
    let of_conductor = changes.iter().filter_map(|change| match change {
        Change::Conductor(change) => Some(change),
        Change::Placement(_) => None,
    });
    let of_fleet: Vec<&super_conductor::Change> = of_conductor
        .filter(|change| fleet::concerns(change))
        .collect();
    if !of_fleet.is_empty() {
        fleet::apply_to_scheduler(of_fleet, parts);
    }
}

/// Searches the state periodically for work that is still to be done.
async fn find_missed_work(parts: Arc<RuntimeContext>) {
    let mut round = 0u32;
    loop {
        parts
            .conductor
            .engine()
            .read_now(|machine| parts.remind(&machine.0, None));
        round = round.wrapping_add(1);
        if round.is_multiple_of(TIDY) {
            let at = Instant::now();
            let most = parts.conductor.options().resend_max;
            for outbox in parts.outboxes.read().values() {
                outbox.drop_obsolete(at, most);
            }
        }
        tokio::time::sleep(SWEEP).await;
    }
}
