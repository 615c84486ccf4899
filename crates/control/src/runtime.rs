//! The tasks around the state machine, started and ended together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use placewright_conductor::CellId;
use placewright_conductor::control::Change;
use placewright_conductor::super_conductor::{self, Command, Refusal};
use placewright_engine::{
    CommandId, Entries, FollowError, Follower, Machine as _, SubmitError, TakeoverReason,
};
use placewright_link::CellLink;
use placewright_tasks::{Task, Tasks};

use crate::auditor::{AuditMetrics, AuditReport, Auditor};
use crate::cell_follower::CellFollower;
use crate::fleet;
use crate::handle::ControlHandle;
use crate::leading::Leading;
use crate::machine::ControlMachine;
use crate::options::RepairOptions;
use crate::outbox::{self, Outbox};
use crate::pending_work::{self, PendingWork};
use crate::placement_queue::{self, PlacementQueue};
use crate::rankers::Rankers;
use crate::runtime_context::RuntimeContext;
use crate::scheduler::SchedulerHandle;
use crate::secrets;

/// The interval at which the state is searched for work that was missed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The number of sweeps after each of which the outboxes drop the times of messages that are no longer needed.
const SWEEPS_PER_CLEANUP: u32 = 60;
/// The most attempts at the start to seal what an earlier release left in the clear.
const SEAL_ATTEMPTS: u32 = 10;
/// The time between two of these attempts.
const SEAL_INTERVAL: Duration = Duration::from_secs(1);

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
    context: Arc<RuntimeContext>,
    tasks: Tasks,
}

/// Why a cell cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddCellError {
    /// The store does not accept the command.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The state refuses the cell: another cell has the name, or the id is that of cell0.
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
        control: ControlHandle,
        scheduler: SchedulerHandle,
    ) -> Result<Arc<Self>, FollowError> {
        let engine = control.engine();
        let follower = engine.follow(engine.durable_sequence())?;
        let (placement_queue, submitted) =
            PlacementQueue::start(control.clone(), scheduler.clone());
        let leading = Leading::of(control.engine());
        let context = Arc::new(RuntimeContext {
            control,
            scheduler,
            availability_reports: Mutex::default(),
            outboxes: RwLock::default(),
            placement_queue,
            leading,
            rankers: Mutex::default(),
        });
        fleet::apply_all_to_scheduler(&context);
        let tasks = Tasks::default();
        let handle_answers =
            placement_queue::handle_answers(context.placement_queue.clone(), submitted);
        tasks.spawn(Task::ControlOutcomes, handle_answers);
        let follow = follow(Arc::clone(&context), follower);
        tasks.spawn(Task::ControlFollow, follow);
        tasks.spawn(Task::ControlSweep, find_missed_work(Arc::clone(&context)));
        tasks.spawn(Task::ControlLeader, follow_leadership(Arc::clone(&context)));
        let keep_sealed = secrets::keep_sealed(context.control.clone());
        tasks.spawn(Task::ControlSecrets, keep_sealed);
        Ok(Arc::new(Self { context, tasks }))
    }

    /// Seals the secrets that an earlier release left in the clear in the store. To be called before anything is
    /// served. Returns how many specifications had such secrets. A replica that does not lead does nothing, because the
    /// one that leads does this.
    pub async fn seal_open_secrets(&self) -> usize {
        let mut leading = self.context.leading.clone();
        leading.until_known().await;
        if !leading.is_own() {
            return 0;
        }
        let with_bodies = true;
        let mut replaced = 0;
        for _ in 0..SEAL_ATTEMPTS {
            let pass = secrets::seal_again(&self.context.control, with_bodies).await;
            replaced += pass.replaced;
            if pass.refused == 0 || !leading.is_own() {
                return replaced;
            }
            let refused = pass.refused;
            tracing::warn!(
                refused,
                "the store does not take sealed secrets in place of open ones; trying again"
            );
            tokio::time::sleep(SEAL_INTERVAL).await;
        }
        tracing::error!(
            "secrets of an earlier release stay in the clear in the store until the next start"
        );
        replaced
    }

    /// Limits the pace of placements to one instance in `instance_time` while several projects send requests, that is,
    /// while `has_several_projects` returns true. Without this call there is no limit.
    pub fn limit_pace(
        &self,
        instance_time: Duration,
        has_several_projects: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        self.context
            .placement_queue
            .limit_pace(instance_time, has_several_projects);
    }

    /// Starts periodic audits, and returns the handle that runs one on request.
    pub fn start_audits(&self, metrics: AuditMetrics) -> Arc<Auditor> {
        let auditor = Arc::new(Auditor::new(Arc::clone(&self.context), metrics));
        let run = Arc::clone(&auditor).run();
        self.tasks.spawn(Task::ControlAudits, run);
        auditor
    }

    /// Audits now, without updating metrics; with `repair`, inconsistencies are repaired where possible.
    pub async fn audit(&self, repair: Option<RepairOptions>) -> AuditReport {
        let auditor = Auditor::new(Arc::clone(&self.context), AuditMetrics::default());
        auditor.audit(repair).await
    }

    /// The handle on control's state machine.
    #[must_use]
    pub fn control(&self) -> &ControlHandle {
        &self.context.control
    }

    /// The handle on control's scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &SchedulerHandle {
        &self.context.scheduler
    }

    /// The number of hosts in the scheduler's table that are enabled and up.
    #[must_use]
    pub fn host_count(&self) -> usize {
        let scheduler = &self.context.scheduler;
        scheduler.with_state(|scheduler, _| scheduler.hosts().usable().len())
    }

    /// Adds a cell and follows it from now on. For a known cell, its link is replaced.
    ///
    /// # Errors
    ///
    /// See [`AddCellError`].
    pub async fn add_cell(&self, config: CellConfig) -> Result<(), AddCellError> {
        let CellConfig { cell, name, link } = config;
        let control = &self.context.control;
        let reading = control.read(move |control, _| {
            let row = control.conductor.cells().get(&cell);
            row.is_some_and(|row| row.disabled)
        });
        // A cell that an operator has disabled stays disabled.
        let disabled = reading.await;
        let command = Command::SetCell {
            cell,
            name,
            disabled,
        };
        control.submit(command).await??;
        control.shared.links.write().insert(cell, link);
        control.shared.views.write().cells.entry(cell).or_default();
        let outbox = Arc::new(Outbox::new(cell));
        {
            let mut outboxes = self.context.outboxes.write();
            if outboxes.contains_key(&cell) {
                // The cell is followed already, and through the new link from the next connection
                // on.
                return Ok(());
            }
            outboxes.insert(cell, Arc::clone(&outbox));
        }
        let run = deliver_while_leading(Arc::clone(&self.context), outbox);
        self.tasks.spawn(Task::ControlOutbox, run);
        let run = CellFollower::new(cell, Arc::clone(&self.context)).run();
        self.tasks.spawn(Task::ControlCell, run);
        self.context.resend_messages(cell);
        Ok(())
    }

    /// Ends the tasks. Work under way continues after the next start. A second call does nothing.
    pub async fn shutdown(&self) {
        self.tasks.shutdown().await;
        let placement_queue = self.context.placement_queue.clone();
        // An error would mean that `stop` panicked, and then nothing would be left to do.
        let _ = tokio::task::spawn_blocking(move || placement_queue.stop()).await;
    }
}

/// Carries out the work that durable changes call for.
async fn follow(context: Arc<RuntimeContext>, mut follower: Follower<ControlMachine>) {
    loop {
        match follower.next_entries().await {
            None => return,
            Some(Ok(entries)) => process_entries(&context, &entries),
            Some(Err(error)) => {
                // The sweep finds the work of the missed changes. It does not pass aggregates and
                // services to the scheduler, so all of them are passed again here.
                tracing::warn!(%error, "durable changes were missed");
                *context.rankers.lock() = Rankers::default();
                let engine = context.control.engine();
                match engine.follow(engine.durable_sequence()) {
                    Ok(new) => follower = new,
                    Err(_) => tokio::time::sleep(SWEEP_INTERVAL).await,
                }
                fleet::apply_all_to_scheduler(&context);
            }
        }
    }
}

fn process_entries(context: &RuntimeContext, entries: &Entries) {
    let mut changes: Vec<Change> = Vec::new();
    for entry in entries.entries() {
        // Most entries concern placement only and call for nothing here.
        if !placewright_records::control::may_concern_conductor(entry.record) {
            continue;
        }
        match ControlMachine::decode(entry.record) {
            Ok(more) => {
                let of_conductor = |change: &Change| matches!(change, Change::Conductor(_));
                let before = changes.len();
                changes.extend(more.into_iter().filter(of_conductor));
                note_rankers(context, entry.command, &changes[before..]);
            }
            // The engine applied this record, so it was readable once.
            Err(error) => {
                tracing::error!(sequence = entry.sequence, %error, "a durable record cannot be read");
            }
        }
    }
    if changes.is_empty() {
        return;
    }
    let pending: Vec<PendingWork> = context
        .control
        .engine()
        .read_now(|machine| pending_work::of_changes(&machine.state, &changes).collect());
    context.queue_changed_work(pending);
    let of_conductor = changes.iter().filter_map(|change| match change {
        Change::Conductor(change) => Some(change),
        Change::Placement(_) => None,
    });
    let for_scheduler: Vec<&super_conductor::Change> = of_conductor
        .filter(|change| fleet::concerns_scheduler(change))
        .collect();
    if !for_scheduler.is_empty() {
        fleet::apply_to_scheduler(for_scheduler, context);
    }
}

/// Notes which replica accepted the builds and moves that the changes of one entry concern. A command without an id was
/// submitted to the replica that led.
fn note_rankers(context: &RuntimeContext, command: Option<CommandId>, changes: &[Change]) {
    if !context.control.engine().is_replica() {
        return;
    }
    let origin = command.map_or_else(|| context.leading.origin(), |id| id.origin);
    let at = Instant::now();
    let mut rankers = context.rankers.lock();
    for change in changes {
        if let Change::Conductor(change) = change {
            rankers.note(origin, change, at);
        }
    }
}

/// Whenever this process begins to lead, queues all pending work. When a leader is gone, forgets it as a ranker of
/// hosts, so that the next leader takes over at once the requests that the former one accepted.
async fn follow_leadership(context: Arc<RuntimeContext>) {
    let Some(mut leadership) = context.control.engine().leadership() else {
        return std::future::pending().await;
    };
    let mut former = leadership.borrow().clone();
    loop {
        if leadership.changed().await.is_err() {
            return std::future::pending().await;
        }
        let present = leadership.borrow_and_update().clone();
        // A leader that has handed over goes on as a replica, and ranks hosts for the requests that it accepted.
        if present.epoch != former.epoch && present.reason != TakeoverReason::HandedOver {
            context.rankers.lock().forget(former.origin);
        }
        if present.is_own {
            let engine = context.control.engine();
            engine.read_now(|machine| context.queue_pending_work(&machine.state, None));
        }
        former = present;
    }
}

/// Delivers messages to a cell whenever this process leads.
async fn deliver_while_leading(context: Arc<RuntimeContext>, outbox: Arc<Outbox>) {
    let leading = context.leading.clone();
    let deliver = || {
        // This process does not know what another replica has sent meanwhile, so everything is sent again.
        outbox.clear();
        context.resend_messages(outbox.cell());
        outbox::run(context.control.clone(), Arc::clone(&outbox))
    };
    leading.while_own(deliver).await;
}

/// Searches the state periodically for work that is still to be done.
async fn find_missed_work(context: Arc<RuntimeContext>) {
    let mut sweeps = 0u32;
    loop {
        context
            .control
            .engine()
            .read_now(|machine| context.queue_pending_work(&machine.state, None));
        sweeps = sweeps.wrapping_add(1);
        if sweeps.is_multiple_of(SWEEPS_PER_CLEANUP) {
            let at = Instant::now();
            let resend_max = context.control.options().resend_max;
            for outbox in context.outboxes.read().values() {
                outbox.drop_obsolete(at, resend_max);
            }
        }
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}
