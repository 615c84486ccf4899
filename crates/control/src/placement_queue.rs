//! Selects hosts for builds and moves: a thread ranks hosts and submits claims, and a task handles
//! the answers.
//!
//! The thread does not wait for an answer before it ranks hosts for the next instance. Until a claim is decided, the
//! [placer](crate::placer) counts its instances as if they were on their hosts.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::placer::TimeSlice;
use crate::scheduler::SchedulerHandle;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indexmap::IndexMap;
use parking_lot::{Condvar, Mutex};
use placewright_conductor::{InstanceId, MigrationId};
use placewright_tasks::Task;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::handle::ControlHandle;
use crate::plan::{OngoingPlacement, PlacementPlan, PlanContext, Planner, PlanningWork};

mod pace;
mod submit;
mod work_queue;

use pace::Pace;
use work_queue::WorkQueue;

pub(crate) use submit::Submitted;

/// No work is taken out of the queue while this many commands or more wait for their answers.
const COMMANDS_BEFORE_PAUSE: usize = 128;
/// The most claims that may wait for their answers when a command with several claims is submitted, that command's
/// claims included. A command that has more claims than this by itself is submitted only when no other claims wait. So
/// the commands of APIs and cells are decided between two such commands. A command with one claim is submitted
/// regardless of this limit.
const CLAIMS_UNDER_WAY_MAX: usize = 512;
/// The most reservations and moves that are ranked together.
const WORK_AT_ONCE: usize = 16;
/// While placements wait for their pace, the interval of checks whether the pace is still limited.
const PACE_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The most instances of one request that are claimed by one command, if each of them may be placed without the others.
/// Hosts for one command are searched in time slices. Each slice first checks whether all of the command's instances
/// still wait, so a larger command would spend much of its slices on these checks.
const CLAIMS_AT_ONCE: usize = 256;
/// Replaces [`CLAIMS_AT_ONCE`] while the pace is limited. The commands of other projects wait while a command is
/// decided, which takes more than 10 microseconds for each of its instances.
const CLAIMS_AT_ONCE_WHEN_LIMITED: usize = 64;

/// An instance or a move that waits for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitingForHost {
    /// An instance that is to be built.
    Instance {
        /// The reservation, which all instances of one request have in common.
        reservation: Uuid,
        instance: InstanceId,
        /// The project of the instance.
        project: String,
    },
    /// A move of an instance.
    Move {
        migration: MigrationId,
        /// The project of the instance.
        project: String,
    },
}

impl WaitingForHost {
    /// The UUID of the instance or of the move.
    pub(crate) fn id(&self) -> Uuid {
        match self {
            Self::Instance { instance, .. } => instance.0,
            Self::Move { migration, .. } => migration.0,
        }
    }
}

/// The queue of instances and moves that wait for a host, and the thread that ranks hosts for them.
#[derive(Clone)]
pub(crate) struct PlacementQueue {
    shared: Arc<Shared>,
    thread: Arc<QueueThread>,
}

/// The thread of a queue. When the last handle of the queue is dropped, the thread is told to end.
struct QueueThread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// The data that the thread and the handles share.
struct Shared {
    control: ControlHandle,
    scheduler: SchedulerHandle,
    queue: Mutex<Queue>,
    wake: Condvar,
    pace: Pace,
}

/// Instances and moves that wait for a host, and the commands under way.
#[derive(Default)]
struct Queue {
    work: WorkQueue,
    /// Work that was taken out of the queue for a time slice that ended before the work was begun, each with its
    /// project. It is done before the work in the queue.
    next: VecDeque<(String, PlanningWork)>,
    /// The instances and moves that are queued or being placed.
    busy: HashSet<Uuid>,
    /// The number of commands that wait for their answers.
    commands_under_way: usize,
    /// The number of claims in those commands.
    claims_under_way: usize,
    is_stopping: bool,
}

impl PlacementQueue {
    /// Starts the thread. The commands that it submits come out of the receiver, for
    /// [`handle_answers`].
    pub(crate) fn start(
        control: ControlHandle,
        scheduler: SchedulerHandle,
    ) -> (Self, mpsc::UnboundedReceiver<Submitted>) {
        let shared = Arc::new(Shared {
            control,
            scheduler,
            queue: Mutex::default(),
            wake: Condvar::new(),
            pace: Pace::default(),
        });
        let (sender, submitted) = mpsc::unbounded_channel();
        let shared_by_thread = Arc::clone(&shared);
        let run = move || shared_by_thread.run(&sender);
        let thread = placewright_tasks::spawn_thread(Task::ControlPlaces, run);
        if let Err(error) = &thread {
            tracing::error!(%error, "the system gives no thread: nothing is scheduled");
        }
        let thread = Arc::new(QueueThread {
            shared: Arc::clone(&shared),
            handle: Mutex::new(thread.ok()),
        });
        let placement_queue = Self { shared, thread };
        (placement_queue, submitted)
    }

    /// Queues instances and moves that wait for a host, unless they are queued or being placed already. The
    /// instances of one reservation are ranked together, so all of them have to be in one call.
    pub(crate) fn schedule(&self, waiting: Vec<WaitingForHost>) {
        if waiting.is_empty() {
            return;
        }
        let mut queue = self.shared.queue.lock();
        let mut reservations: IndexMap<Uuid, (String, Vec<InstanceId>)> = IndexMap::new();
        for waiting in waiting {
            match waiting {
                WaitingForHost::Instance {
                    reservation,
                    instance,
                    project,
                } if queue.busy.insert(instance.0) => {
                    let reservation = reservations.entry(reservation);
                    let (_, instances) = reservation.or_insert_with(|| (project, Vec::new()));
                    instances.push(instance);
                }
                WaitingForHost::Move { migration, project } if queue.busy.insert(migration.0) => {
                    queue.work.push(&project, PlanningWork::Move(migration));
                }
                WaitingForHost::Instance { .. } | WaitingForHost::Move { .. } => {}
            }
        }
        for (project, instances) in reservations.into_values() {
            queue.work.push(&project, PlanningWork::Builds(instances));
        }
        self.shared.wake.notify_one();
    }

    /// Limits the pace of placements to one instance for each `instance_time` while several projects send requests.
    pub(crate) fn limit_pace(
        &self,
        instance_time: Duration,
        has_several_projects: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        self.shared.pace.set(instance_time, has_several_projects);
    }

    /// Ends the thread, and blocks until it has ended.
    pub(crate) fn stop(&self) {
        self.shared.tell_to_stop();
        if let Some(thread) = self.thread.handle.lock().take() {
            // A thread that panicked has logged it.
            let _ = thread.join();
        }
    }
}

impl Drop for QueueThread {
    fn drop(&mut self) {
        // The thread itself holds no handle of the queue, only the shared data.
        self.shared.tell_to_stop();
    }
}

impl Shared {
    fn tell_to_stop(&self) {
        self.queue.lock().is_stopping = true;
        self.wake.notify_one();
    }

    fn run(&self, submitted: &mpsc::UnboundedSender<Submitted>) {
        let mut planner = Planner::new(self.control.options().clone(), self.scheduler.number());
        let mut next_placement_at = Instant::now();
        while let Some((taken, is_pace_limited)) = self.take_work(next_placement_at) {
            // Here tests inject a panic of this thread.
            placewright_tasks::injection_point(Task::ControlPlaces);
            planner.silent_cells = self.control.shared.views.read().silent_cells();
            let plans = self.plan(&mut planner, taken, is_pace_limited);
            let planned_at = self.scheduler.moment();
            for plan in plans {
                let claim_count = plan.claim_count();
                self.wait_for_room(claim_count);
                if let Some(command) = self.submit(plan, planned_at) {
                    if is_pace_limited {
                        let now = Instant::now();
                        next_placement_at =
                            self.pace
                                .next_placement_at(claim_count, next_placement_at, now);
                    }
                    let mut queue = self.queue.lock();
                    queue.commands_under_way += 1;
                    queue.claims_under_way += command.claim_count;
                    drop(queue);
                    // Sending fails only while control shuts down, when the receiver is gone.
                    let _ = submitted.send(command);
                }
            }
        }
    }

    /// Plans one piece of work after the other until the time slice is over, and at least one. Work that is not planned
    /// goes back into the queue.
    fn plan(
        &self,
        planner: &mut Planner,
        mut taken: VecDeque<(String, PlanningWork)>,
        is_pace_limited: bool,
    ) -> Vec<PlacementPlan> {
        let contention = self.scheduler.contention();
        let part_max = match is_pace_limited {
            true => CLAIMS_AT_ONCE_WHEN_LIMITED,
            false => CLAIMS_AT_ONCE,
        };
        let mut plans = Vec::new();
        // What is left of each piece of work, with its project.
        let mut remaining = Vec::new();
        self.scheduler
            .with_state_at(|scheduler, control, sequence| {
                let slice = TimeSlice::begin();
                while let Some((project, work)) = taken.pop_front() {
                    let mut remaining_work = VecDeque::new();
                    let mut context = PlanContext {
                        project: &project,
                        part_max,
                        scheduler: &mut *scheduler,
                        control,
                        sequence,
                        contention,
                        slice: &slice,
                        plans: &mut plans,
                        remaining: &mut remaining_work,
                    };
                    planner.plan(&mut context, work);
                    remaining.push((project, remaining_work));
                    if slice.is_over() {
                        break;
                    }
                }
            });
        let mut queue = self.queue.lock();
        queue.next.append(&mut taken);
        // What is left of a piece of work continues after the other work of its project, so that a small request does
        // not wait for a large one.
        for (project, remaining_work) in remaining {
            for work in remaining_work {
                queue.work.push(&project, work);
            }
        }
        plans
    }

    /// Waits until a command with this many claims may be submitted, or until control stops. A command with
    /// one claim never waits.
    fn wait_for_room(&self, claim_count: usize) {
        let mut queue = self.queue.lock();
        while claim_count > 1
            && queue.claims_under_way > 0
            && queue.claims_under_way + claim_count > CLAIMS_UNDER_WAY_MAX
            && !queue.is_stopping
        {
            self.wake.wait(&mut queue);
        }
    }

    /// Waits for work, and takes some of it out of the queue; while the pace is limited, not before
    /// `next_placement_at`. The second value is whether the pace is limited. `None` if control stops.
    fn take_work(
        &self,
        next_placement_at: Instant,
    ) -> Option<(VecDeque<(String, PlanningWork)>, bool)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            let is_empty = queue.work.is_empty() && queue.next.is_empty();
            if is_empty || queue.commands_under_way >= COMMANDS_BEFORE_PAUSE {
                self.wake.wait(&mut queue);
                continue;
            }
            let is_pace_limited = self.pace.is_limited();
            let now = Instant::now();
            if is_pace_limited && now < next_placement_at {
                // Whether several projects send requests may change meanwhile.
                let until = next_placement_at.min(now + PACE_CHECK_INTERVAL);
                self.wake.wait_until(&mut queue, until);
                continue;
            }
            let count = if is_pace_limited { 1 } else { WORK_AT_ONCE };
            let mut taken = std::mem::take(&mut queue.next);
            while taken.len() < count
                && let Some(work) = queue.work.take()
            {
                taken.push_back(work);
            }
            return Some((taken, is_pace_limited));
        }
    }

    /// Marks instances and moves as no longer busy. The next sweep over all pending work queues those that still wait.
    fn mark_not_busy(&self, ids: &[Uuid]) {
        let mut queue = self.queue.lock();
        for id in ids {
            queue.busy.remove(id);
        }
    }

    /// Queues a placement that needs another search.
    fn requeue(&self, ongoing: Box<OngoingPlacement>) {
        let project = ongoing.project.clone();
        let work = PlanningWork::Ongoing(ongoing);
        self.queue.lock().work.push(&project, work);
        self.wake.notify_one();
    }
}

/// Handles the answers to submitted commands, as long as the task lives.
pub(crate) async fn handle_answers(
    placement_queue: PlacementQueue,
    mut submitted: mpsc::UnboundedReceiver<Submitted>,
) {
    let shared = &placement_queue.shared;
    let mut under_way = FuturesUnordered::new();
    let answered = |command: Submitted| async move {
        (command.answer.await, command.handler, command.claim_count)
    };
    loop {
        tokio::select! {
            command = submitted.recv() => match command {
                Some(command) => under_way.push(answered(command)),
                None => return,
            },
            Some((answer, handler, claim_count)) = under_way.next(), if !under_way.is_empty() => {
                let follow_up = shared.handle_answer(answer, handler);
                let mut queue = shared.queue.lock();
                queue.claims_under_way = queue.claims_under_way.saturating_sub(claim_count);
                match follow_up {
                    Some(command) => {
                        queue.claims_under_way += command.claim_count;
                        under_way.push(answered(command));
                    }
                    None => queue.commands_under_way -= 1,
                }
                shared.wake.notify_one();
            }
        }
    }
}
