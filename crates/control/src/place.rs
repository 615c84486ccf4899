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
use crate::plan::{Attempt, PlanContext, Planner, PlanningWork};

mod submit;

pub(crate) use submit::Submitted;

/// The most commands that wait for their answers.
const UNDER_WAY_MAX: usize = 128;
/// The most claims that wait for their answers, unless a single command has more: such commands are
/// decided one at a time, with others in between.
const CLAIMS_UNDER_WAY_MAX: usize = 512;
/// The most reservations and moves that are ranked together.
const WORKS_AT_ONCE: usize = 16;

/// The queue of instances and moves that wait for a host, and the thread that ranks hosts for them.
#[derive(Clone)]
pub(crate) struct PlacementQueue {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// The data that the thread and the handles share.
struct Shared {
    conductor: ControlHandle,
    ranker: SchedulerHandle,
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// Instances and moves that wait for a host, and the commands under way.
#[derive(Default)]
struct Queue {
    /// Instances that have just arrived, by reservation.
    coming: IndexMap<Uuid, Vec<InstanceId>>,
    works: VecDeque<PlanningWork>,
    /// The instances and moves that are queued or being placed.
    busy: HashSet<Uuid>,
    under_way: usize,
    /// The number of claims in those commands.
    claims_under_way: usize,
    is_stopping: bool,
}

impl PlacementQueue {
    /// Starts the thread. The commands that it submits come out of the receiver, for
    /// [`handle_answers`].
    pub(crate) fn start(
        conductor: ControlHandle,
        ranker: SchedulerHandle,
    ) -> (Self, mpsc::UnboundedReceiver<Submitted>) {
        let shared = Arc::new(Shared {
            conductor,
            ranker,
            queue: Mutex::default(),
            wake: Condvar::new(),
        });
        let (submitted, outcomes) = mpsc::unbounded_channel();
        let of_thread = Arc::clone(&shared);
        let run = move || of_thread.run(&submitted);
        let thread = placewright_tasks::spawn_thread(Task::ControlPlaces, run);
        if let Err(error) = &thread {
            tracing::error!(%error, "the system gives no thread: nothing is scheduled");
        }
        let places = Self {
            shared,
            thread: Arc::new(Mutex::new(thread.ok())),
        };
        (places, outcomes)
    }

    /// Queues an instance that waits for a host. Ranking begins with the next [`Self::go`], so that
    /// the instances of one reservation are ranked together.
    pub(crate) fn schedule(&self, reservation: Uuid, instance: InstanceId) {
        let mut queue = self.shared.queue.lock();
        if queue.busy.insert(instance.0) {
            queue.coming.entry(reservation).or_default().push(instance);
        }
    }

    /// Queues a move that waits for a host.
    pub(crate) fn schedule_move(&self, migration: MigrationId) {
        let mut queue = self.shared.queue.lock();
        if queue.busy.insert(migration.0) {
            queue.works.push_back(PlanningWork::Move(migration));
        }
    }

    /// Begins to rank the instances that were queued.
    pub(crate) fn go(&self) {
        let mut queue = self.shared.queue.lock();
        let coming = std::mem::take(&mut queue.coming);
        queue
            .works
            .extend(coming.into_values().map(PlanningWork::Builds));
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
        // The thread holds only what is shared, not this handle.
        if Arc::strong_count(&self.thread) == 1 {
            self.shared.queue.lock().is_stopping = true;
            self.shared.wake.notify_one();
        }
    }
}

impl Shared {
    fn run(&self, submitted: &mpsc::UnboundedSender<Submitted>) {
        let mut planner = Planner::new(self.conductor.options().clone());
        while let Some(mut works) = self.take() {
            placewright_tasks::injection_point(Task::ControlPlaces);
            planner.unheard = self.conductor.shared.views.read().unheard();
            while !works.is_empty() && !self.queue.lock().is_stopping {
                let contention = self.ranker.contention();
                let plans = self.ranker.decide(|scheduler, control| {
                    let mut plans = Vec::new();
                    let turn = TimeSlice::begin();
                    while let Some(work) = works.pop_front() {
                        let mut context = PlanContext {
                            scheduler: &mut *scheduler,
                            control,
                            contention,
                            turn: &turn,
                            plans: &mut plans,
                            // The rest continues after the other work, so that a small request does
                            // not wait for a large one.
                            rest: &mut works,
                        };
                        planner.plan(&mut context, work);
                        if turn.is_over() {
                            break;
                        }
                    }
                    plans
                });
                let since = self.ranker.moment();
                for plan in plans {
                    self.wait_for_room(plan.claims());
                    if let Some(one) = self.submit(plan, since) {
                        let mut queue = self.queue.lock();
                        queue.under_way += 1;
                        queue.claims_under_way += one.claims;
                        drop(queue);
                        // The receiver is gone because control is shutting down.
                        let _ = submitted.send(one);
                    }
                }
            }
        }
    }

    /// Waits until this many claims may be submitted, or until control stops.
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

    /// Waits for work; `None` when control stops.
    fn take(&self) -> Option<VecDeque<PlanningWork>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if !queue.works.is_empty() && queue.under_way < UNDER_WAY_MAX {
                let count = queue.works.len().min(WORKS_AT_ONCE);
                return Some(queue.works.drain(..count).collect());
            }
            self.wake.wait(&mut queue);
        }
    }

    /// Marks instances as no longer busy. Those that still wait are found by the next sweep.
    fn end(&self, ids: &[Uuid]) {
        let mut queue = self.queue.lock();
        for id in ids {
            queue.busy.remove(id);
        }
    }

    fn again(&self, attempt: Box<Attempt>) {
        self.queue
            .lock()
            .works
            .push_back(PlanningWork::Attempt(attempt));
        self.wake.notify_one();
    }
}

/// Handles the answers to submitted commands, as long as the task lives.
pub(crate) async fn handle_answers(
    places: PlacementQueue,
    mut submitted: mpsc::UnboundedReceiver<Submitted>,
) {
    let shared = &places.shared;
    let mut under_way = FuturesUnordered::new();
    let heard = |one: Submitted| async move { (one.answer.await, one.then, one.claims) };
    loop {
        tokio::select! {
            more = submitted.recv() => match more {
                Some(more) => under_way.push(heard(more)),
                None => return,
            },
            Some((answer, then, claims)) = under_way.next(), if !under_way.is_empty() => {
                let more = shared.heard(answer, then);
                let mut queue = shared.queue.lock();
                queue.claims_under_way = queue.claims_under_way.saturating_sub(claims);
                match more {
                    Some(more) => {
                        queue.claims_under_way += more.claims;
                        under_way.push(heard(more));
                    }
                    None => queue.under_way -= 1,
                }
                shared.wake.notify_one();
            }
        }
    }
}
