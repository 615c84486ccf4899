//! Selects hosts for builds and moves: a thread ranks hosts and submits claims, and a task handles
//! the answers.
//!
//! The thread does not wait for an answer before it ranks hosts for the next instance. The
//! [placer](crate::placer) counts claims that are submitted but not decided.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

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
use crate::plan::{OngoingPlacement, PlanContext, Planner, PlanningWork};

mod submit;

pub(crate) use submit::Submitted;

/// The most commands that wait for their answers.
const COMMANDS_UNDER_WAY_MAX: usize = 128;
/// The most claims that wait for their answers, unless a single command has more: such commands are
/// decided one at a time, with others in between.
const CLAIMS_UNDER_WAY_MAX: usize = 512;
/// The most reservations and moves that are ranked together.
const WORK_AT_ONCE: usize = 16;

/// The queue of instances and moves that wait for a host, and the thread that ranks hosts for them.
#[derive(Clone)]
pub(crate) struct PlacementQueue {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// The data that the thread and the handles share.
struct Shared {
    control: ControlHandle,
    scheduler: SchedulerHandle,
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// Instances and moves that wait for a host, and the commands under way.
#[derive(Default)]
struct Queue {
    /// Instances that have just arrived, by reservation.
    arriving: IndexMap<Uuid, Vec<InstanceId>>,
    work: VecDeque<PlanningWork>,
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
        });
        let (sender, submitted) = mpsc::unbounded_channel();
        let shared_by_thread = Arc::clone(&shared);
        let run = move || shared_by_thread.run(&sender);
        let thread = placewright_tasks::spawn_thread(Task::ControlPlaces, run);
        if let Err(error) = &thread {
            tracing::error!(%error, "the system gives no thread: nothing is scheduled");
        }
        let placement_queue = Self {
            shared,
            thread: Arc::new(Mutex::new(thread.ok())),
        };
        (placement_queue, submitted)
    }

    /// Queues an instance that waits for a host. Ranking begins with the next
    /// [`Self::start_ranking`], so that the instances of one reservation are ranked together.
    pub(crate) fn schedule(&self, reservation: Uuid, instance: InstanceId) {
        let mut queue = self.shared.queue.lock();
        if queue.busy.insert(instance.0) {
            queue
                .arriving
                .entry(reservation)
                .or_default()
                .push(instance);
        }
    }

    /// Queues a move that waits for a host.
    pub(crate) fn schedule_move(&self, migration: MigrationId) {
        let mut queue = self.shared.queue.lock();
        if queue.busy.insert(migration.0) {
            queue.work.push_back(PlanningWork::Move(migration));
        }
    }

    /// Begins to rank the instances that were queued.
    pub(crate) fn start_ranking(&self) {
        let mut queue = self.shared.queue.lock();
        let arriving = std::mem::take(&mut queue.arriving);
        queue
            .work
            .extend(arriving.into_values().map(PlanningWork::Builds));
        self.shared.wake.notify_one();
    }

    /// Ends the thread, and blocks until it has ended.
    pub(crate) fn stop(&self) {
        self.shared.queue.lock().is_stopping = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has logged it.
            let _ = thread.join();
        }
    }
}

impl Drop for PlacementQueue {
    fn drop(&mut self) {
        // The last handle is dropped. The thread holds no handle, only what is shared with it.
        if Arc::strong_count(&self.thread) == 1 {
            self.shared.queue.lock().is_stopping = true;
            self.shared.wake.notify_one();
        }
    }
}

impl Shared {
    fn run(&self, submitted: &mpsc::UnboundedSender<Submitted>) {
        let mut planner = Planner::new(self.control.options().clone());
        while let Some(mut queued) = self.take_work() {
            placewright_tasks::injection_point(Task::ControlPlaces);
            planner.silent_cells = self.control.shared.views.read().silent_cells();
            while !queued.is_empty() && !self.queue.lock().is_stopping {
                let contention = self.scheduler.contention();
                let plans = self.scheduler.decide(|scheduler, control| {
                    let mut plans = Vec::new();
                    let slice = TimeSlice::begin();
                    while let Some(work) = queued.pop_front() {
                        let mut context = PlanContext {
                            scheduler: &mut *scheduler,
                            control,
                            contention,
                            slice: &slice,
                            plans: &mut plans,
                            // The rest continues after the other work, so that a small request does
                            // not wait for a large one.
                            rest: &mut queued,
                        };
                        planner.plan(&mut context, work);
                        if slice.is_over() {
                            break;
                        }
                    }
                    plans
                });
                let planned_at = self.scheduler.moment();
                for plan in plans {
                    self.wait_for_room(plan.claim_count());
                    if let Some(command) = self.submit(plan, planned_at) {
                        let mut queue = self.queue.lock();
                        queue.commands_under_way += 1;
                        queue.claims_under_way += command.claims;
                        drop(queue);
                        // The receiver is gone because control is shutting down.
                        let _ = submitted.send(command);
                    }
                }
            }
        }
    }

    /// Waits until a command with this many claims may be submitted, or until control stops. A command with
    /// one claim never waits.
    fn wait_for_room(&self, claims: usize) {
        let mut queue = self.queue.lock();
        while claims > 1
            && queue.claims_under_way > 0
            && queue.claims_under_way + claims > CLAIMS_UNDER_WAY_MAX
            && !queue.is_stopping
        {
            self.wake.wait(&mut queue);
        }
    }

    /// Waits for work, and takes some of it out of the queue; `None` when control stops.
    fn take_work(&self) -> Option<VecDeque<PlanningWork>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if !queue.work.is_empty() && queue.commands_under_way < COMMANDS_UNDER_WAY_MAX {
                let count = queue.work.len().min(WORK_AT_ONCE);
                return Some(queue.work.drain(..count).collect());
            }
            self.wake.wait(&mut queue);
        }
    }

    /// Marks instances and moves as no longer busy. The next sweep queues those that still wait.
    fn mark_not_busy(&self, ids: &[Uuid]) {
        let mut queue = self.queue.lock();
        for id in ids {
            queue.busy.remove(id);
        }
    }

    /// Queues a placement that needs another search.
    fn requeue(&self, ongoing: Box<OngoingPlacement>) {
        self.queue
            .lock()
            .work
            .push_back(PlanningWork::Ongoing(ongoing));
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
    let answered =
        |command: Submitted| async move { (command.answer.await, command.handler, command.claims) };
    loop {
        tokio::select! {
            command = submitted.recv() => match command {
                Some(command) => under_way.push(answered(command)),
                None => return,
            },
            Some((answer, handler, claims)) = under_way.next(), if !under_way.is_empty() => {
                let follow_up = shared.handle_answer(answer, handler);
                let mut queue = shared.queue.lock();
                queue.claims_under_way = queue.claims_under_way.saturating_sub(claims);
                match follow_up {
                    Some(command) => {
                        queue.claims_under_way += command.claims;
                        under_way.push(answered(command));
                    }
                    None => queue.commands_under_way -= 1,
                }
                shared.wake.notify_one();
            }
        }
    }
}
