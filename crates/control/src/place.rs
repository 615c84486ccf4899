//! Selects hosts for builds and moves: a thread ranks hosts and submits claims, and a task handles
//! the answers.
//!
//! The thread does not wait for an answer before it ranks hosts for the next instance. Claims that
//! are submitted but not decided count as taken meanwhile, and every claim is checked when it is
//! decided: if the first candidate is gone the next is used, and when none is left the instance is
//! ranked again.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indexmap::IndexMap;
use parking_lot::{Condvar, Mutex};
use placewright_conductor::super_conductor::{Command, Outcome, Refusal};
use placewright_conductor::{Candidate, Fault, InstanceId, MigrationId};
use placewright_tasks::Task;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::conductor::{Answer, Conductor, now};
use crate::plan::{Expected, Job, Plan, Planner, ROUNDS, Turn, What, Work, forget};
use crate::scheduler::{Moment, Ranker, cause_of_claim};

/// The most commands that wait for their answers.
const UNDER_WAY_MAX: usize = 128;
/// The most claims that wait for their answers, unless a single command has more: such commands are
/// decided one at a time, with others in between.
const CLAIMS_UNDER_WAY_MAX: usize = 512;
/// The most jobs that are ranked together.
const JOBS_AT_ONCE: usize = 16;

/// The queue of instances and moves that wait for a host, and the thread that ranks hosts for them.
#[derive(Clone)]
pub(crate) struct Places {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// The data that the thread and the handles share.
struct Shared {
    conductor: Conductor,
    ranker: Ranker,
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// Jobs that wait for a host, and the commands under way.
#[derive(Default)]
struct Queue {
    /// Instances that have just arrived, by reservation.
    coming: IndexMap<Uuid, Vec<InstanceId>>,
    jobs: VecDeque<Job>,
    /// The instances and moves that are queued or being placed.
    busy: HashSet<Uuid>,
    under_way: usize,
    /// The number of claims in those commands.
    claims_under_way: usize,
    is_stopping: bool,
}

/// A command that was submitted, with the future of its answer.
pub(crate) struct Submitted {
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
    then: Then,
    claims: usize,
}

/// How the answer to a command is handled.
enum Then {
    Place {
        instances: Vec<InstanceId>,
        candidates: Vec<Vec<Candidate>>,
        job: Job,
        expected: Vec<Expected>,
    },
    PlaceMove {
        candidates: Vec<Candidate>,
        job: Job,
        expected: Expected,
    },
    End(Vec<Uuid>),
}

impl Places {
    /// Starts the thread. The commands that it submits come out of the receiver, for [`hear`].
    pub(crate) fn start(
        conductor: Conductor,
        ranker: Ranker,
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
            queue.jobs.push_back(Job::new(What::Move(migration)));
        }
    }

    /// Begins with the instances that have arrived.
    pub(crate) fn go(&self) {
        let mut queue = self.shared.queue.lock();
        let coming = std::mem::take(&mut queue.coming);
        let jobs = coming.into_values();
        queue
            .jobs
            .extend(jobs.map(|instances| Job::new(What::Builds(instances))));
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

impl Drop for Places {
    fn drop(&mut self) {
        // The thread holds only what is shared, not this handle.
        if Arc::strong_count(&self.thread) == 1 {
            self.shared.queue.lock().is_stopping = true;
            self.shared.wake.notify_one();
        }
    }
}

impl Job {
    fn new(what: What) -> Self {
        Self {
            what,
            round: 0,
            without: Vec::new(),
            cause: String::new(),
        }
    }
}

impl Shared {
    fn run(&self, submitted: &mpsc::UnboundedSender<Submitted>) {
        let mut planner = Planner::new(self.conductor.options().clone());
        while let Some(jobs) = self.take() {
            placewright_tasks::pass(Task::ControlPlaces);
            planner.unheard = self.conductor.shared.views.read().unheard();
            let mut works: VecDeque<Work> = jobs.into_iter().map(Work::Job).collect();
            while !works.is_empty() && !self.queue.lock().is_stopping {
                let plans = self.ranker.decide(|scheduler, control| {
                    let mut plans = Vec::new();
                    let turn = Turn::begin();
                    while let Some(work) = works.pop_front() {
                        let rest = planner.plan(scheduler, control, work, &turn, &mut plans);
                        // The rest continues after the other jobs, so that a small job does not
                        // wait for a large one.
                        works.extend(rest);
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

    /// Waits until so many claims may be submitted, or until the end.
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

    /// Waits for jobs; none at the end.
    fn take(&self) -> Option<Vec<Job>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if !queue.jobs.is_empty() && queue.under_way < UNDER_WAY_MAX {
                let count = queue.jobs.len().min(JOBS_AT_ONCE);
                return Some(queue.jobs.drain(..count).collect());
            }
            self.wake.wait(&mut queue);
        }
    }

    fn submit(&self, plan: Plan, since: Moment) -> Option<Submitted> {
        let (command, then) = match plan {
            Plan::Nothing { ids } => {
                self.end(&ids);
                return None;
            }
            Plan::Place {
                wishes,
                least,
                job,
                expected,
            } => {
                let instances = wishes.iter().map(|wish| wish.instance).collect();
                let candidates = wishes.iter().map(|wish| wish.candidates.clone()).collect();
                let then = Then::Place {
                    instances,
                    candidates,
                    job,
                    expected,
                };
                (Command::Place { wishes, least }, then)
            }
            Plan::PlaceMove {
                migration,
                candidates,
                job,
                expected,
            } => {
                let then = Then::PlaceMove {
                    candidates: candidates.clone(),
                    job,
                    expected,
                };
                let command = Command::PlaceMove {
                    migration,
                    candidates,
                    alternates: self.conductor.options().alternates,
                };
                (command, then)
            }
            Plan::Bury { instances, fault } => {
                let fault = fault.explained(&self.ranker, since);
                return Some(self.bury(instances, fault));
            }
            Plan::FailMove { migration, fault } => {
                let fault = fault.explained(&self.ranker, since);
                let then = Then::End(vec![migration.0]);
                (Command::FailMove { migration, fault }, then)
            }
        };
        Some(self.submitted(command, then))
    }

    fn bury(&self, instances: Vec<InstanceId>, fault: Fault) -> Submitted {
        let then = Then::End(instances.iter().map(|instance| instance.0).collect());
        self.submitted(Command::Bury { instances, fault }, then)
    }

    fn submitted(&self, command: Command, then: Then) -> Submitted {
        let claims = match &command {
            Command::Place { wishes, .. } => wishes.len(),
            _ => 1,
        };
        Submitted {
            answer: Box::pin(self.conductor.submit(command)),
            then,
            claims,
        }
    }

    /// Marks instances as no longer busy. Those that still wait are found by the next sweep.
    fn end(&self, ids: &[Uuid]) {
        let mut queue = self.queue.lock();
        for id in ids {
            queue.busy.remove(id);
        }
    }

    fn again(&self, job: Job) {
        self.queue.lock().jobs.push_back(job);
        self.wake.notify_one();
    }

    fn heard(&self, answer: Answer, then: Then) -> Option<Submitted> {
        match then {
            Then::End(ids) => {
                self.end(&ids);
                None
            }
            Then::Place {
                instances,
                candidates,
                job,
                expected,
            } => self.placed(answer, &instances, &candidates, job, &expected),
            Then::PlaceMove {
                candidates,
                job,
                expected,
            } => self.moved(answer, &candidates, job, &expected),
        }
    }

    fn placed(
        &self,
        answer: Answer,
        instances: &[InstanceId],
        candidates: &[Vec<Candidate>],
        job: Job,
        expected: &[Expected],
    ) -> Option<Submitted> {
        let ids: Vec<Uuid> = instances.iter().map(|instance| instance.0).collect();
        match answer {
            Ok(Ok(Outcome::Placed(chosen))) => {
                let mut left = Vec::new();
                let mut done = Vec::new();
                for (index, chosen) in chosen.iter().enumerate() {
                    let (Some(expected), Some(list)) = (expected.get(index), candidates.get(index))
                    else {
                        continue;
                    };
                    let host = chosen.and_then(|chosen| list.get(chosen as usize));
                    self.arrived(expected, host);
                    match host {
                        Some(_) => done.push(ids[index]),
                        None => left.push(index),
                    }
                }
                self.end(&done);
                self.retry(job, &left, instances, expected)
            }
            Ok(Err(Refusal::Placement(refusal))) => {
                let mut job = job;
                job.cause = cause_of_claim(&refusal);
                expected.iter().for_each(|one| self.arrived(one, None));
                let all: Vec<usize> = (0..instances.len()).collect();
                self.retry(job, &all, instances, expected)
            }
            // One of the instances was deleted meanwhile; the others are ranked again.
            Ok(Err(_)) => {
                expected.iter().for_each(|one| self.arrived(one, None));
                self.again(Job {
                    what: What::Builds(instances.to_vec()),
                    ..job
                });
                None
            }
            Ok(Ok(_)) | Err(_) => {
                expected.iter().for_each(|one| self.arrived(one, None));
                self.end(&ids);
                None
            }
        }
    }

    /// Queues instances without a host for another ranking, up to a number of rounds.
    fn retry(
        &self,
        job: Job,
        left: &[usize],
        instances: &[InstanceId],
        expected: &[Expected],
    ) -> Option<Submitted> {
        if left.is_empty() {
            return None;
        }
        let rest: Vec<InstanceId> = left.iter().map(|index| instances[*index]).collect();
        if job.round + 1 >= ROUNDS {
            return Some(self.bury(rest, others_were_faster(job.cause)));
        }
        // A single instance was refused by the hosts themselves. Of several, some took the hosts
        // from the others, so these hosts stay eligible.
        let mut without = job.without;
        if let ([_], [index]) = (instances, left) {
            without.extend(expected.get(*index).into_iter().flat_map(|one| &one.tried));
        }
        self.again(Job {
            what: What::Builds(rest),
            round: job.round + 1,
            without,
            cause: job.cause,
        });
        None
    }

    fn moved(
        &self,
        answer: Answer,
        candidates: &[Candidate],
        job: Job,
        expected: &Expected,
    ) -> Option<Submitted> {
        let What::Move(migration) = job.what else {
            return None;
        };
        match answer {
            Ok(Ok(Outcome::Placed(chosen))) => {
                let chosen = chosen.first().copied().flatten();
                let host = chosen.and_then(|chosen| candidates.get(chosen as usize));
                self.arrived(expected, host);
                self.end(&[migration.0]);
                None
            }
            Ok(Err(Refusal::Placement(refusal))) => {
                self.arrived(expected, None);
                if job.round + 1 < ROUNDS {
                    let mut job = job;
                    job.round += 1;
                    job.without.extend(&expected.tried);
                    self.again(job);
                    return None;
                }
                let fault = others_were_faster(cause_of_claim(&refusal));
                let command = Command::FailMove { migration, fault };
                Some(self.submitted(command, Then::End(vec![migration.0])))
            }
            Ok(_) | Err(_) => {
                self.arrived(expected, None);
                self.end(&[migration.0]);
                None
            }
        }
    }

    /// Moves what the scheduler expects of an instance to the host that it got, if that is another
    /// one; without a host, the expectation is withdrawn.
    fn arrived(&self, expected: &Expected, host: Option<&Candidate>) {
        let host = host.map(|candidate| candidate.host.0);
        if host == Some(expected.host) {
            return;
        }
        self.ranker.decide(|scheduler, control| {
            forget(scheduler, control, expected);
            let hosts = scheduler.hosts_mut();
            let slot = host
                .and_then(|uuid| hosts.by_uuid(uuid))
                .map(|(slot, _)| slot);
            if let Some(slot) = slot {
                hosts.add_pending_instance(slot, &expected.report);
            }
        });
    }
}

/// The fault when all rounds lost to concurrent claims. `cause` is why the last claim was refused,
/// as JSON, if that is known.
fn others_were_faster(cause: String) -> Fault {
    Fault {
        code: 500,
        message: "No valid host was found. Every host that would do was taken by others first."
            .to_owned(),
        details: cause,
        at: now(),
    }
}

/// Handles the answers to submitted commands, as long as the task lives.
pub(crate) async fn hear(places: Places, mut submitted: mpsc::UnboundedReceiver<Submitted>) {
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
