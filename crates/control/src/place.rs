//! Finds places: ranks on a thread of its own, submits, and goes on when it is answered.
//!
//! Nothing waits for an answer before the next instance is ranked. What was submitted and not
//! decided yet is counted as taken meanwhile, and a claim is checked when it is decided: who comes
//! too late gets the next candidate, and is ranked anew when none is left.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indexmap::IndexMap;
use parking_lot::{Condvar, Mutex};
use placewright_conductor::super_conductor::{Command, Outcome, Refusal};
use placewright_conductor::{Candidate, Fault, InstanceId, MigrationId};
use placewright_server::{Moment, Ranker, cause_of_claim};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::conductor::{Answer, Conductor, now};
use crate::plan::{Expected, Job, Plan, Planner, ROUNDS, Turn, What, Work, forget};

/// The most commands that wait for their answers.
const UNDER_WAY_MAX: usize = 128;
/// The most claims that wait for their answers, unless one command has more: large ones are decided
/// one at a time, so that others are decided in between.
const CLAIMS_UNDER_WAY_MAX: usize = 512;
/// The most jobs that are ranked together.
const JOBS_AT_ONCE: usize = 16;

/// What waits for a place, and what is being placed.
#[derive(Clone)]
pub(crate) struct Places {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

struct Shared {
    conductor: Conductor,
    ranker: Ranker,
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Instances that just came, by reservation.
    coming: IndexMap<Uuid, Vec<InstanceId>>,
    jobs: VecDeque<Job>,
    /// The instances and moves that wait here or are being placed.
    busy: HashSet<Uuid>,
    under_way: usize,
    /// The claims of those commands.
    claims_under_way: usize,
    is_stopping: bool,
}

/// A command that was submitted.
pub(crate) struct Submitted {
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
    then: Then,
    claims: usize,
}

/// What its answer is for.
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
    /// Starts the thread; what it submits comes out of the receiver, for [`hear`].
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
        let thread = thread::Builder::new().name("pw-places".to_owned());
        let thread = thread.spawn(move || of_thread.run(&submitted));
        if let Err(error) = &thread {
            tracing::error!(%error, "the system gives no thread: nothing is scheduled");
        }
        let places = Self {
            shared,
            thread: Arc::new(Mutex::new(thread.ok())),
        };
        (places, outcomes)
    }

    /// An instance waits for a place. It begins with the next [`Self::go`], so that the instances of
    /// a reservation come together.
    pub(crate) fn schedule(&self, reservation: Uuid, instance: InstanceId) {
        let mut queue = self.shared.queue.lock();
        if queue.busy.insert(instance.0) {
            queue.coming.entry(reservation).or_default().push(instance);
        }
    }

    /// A move waits for a place.
    pub(crate) fn schedule_move(&self, migration: MigrationId) {
        let mut queue = self.shared.queue.lock();
        if queue.busy.insert(migration.0) {
            queue.jobs.push_back(Job::new(What::Move(migration)));
        }
    }

    /// Begins with what came.
    pub(crate) fn go(&self) {
        let mut queue = self.shared.queue.lock();
        let coming = std::mem::take(&mut queue.coming);
        let jobs = coming.into_values();
        queue
            .jobs
            .extend(jobs.map(|instances| Job::new(What::Builds(instances))));
        self.shared.wake.notify_one();
    }

    /// Ends the thread. Blocks.
    pub(crate) fn stop(&self) {
        self.shared.queue.lock().is_stopping = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // The thread has its own handle on what is shared, not on this.
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
            planner.unheard = self.conductor.shared.views.read().unheard();
            let mut works: VecDeque<Work> = jobs.into_iter().map(Work::Job).collect();
            while !works.is_empty() && !self.queue.lock().is_stopping {
                let plans = self.ranker.decide(|scheduler, control| {
                    let mut plans = Vec::new();
                    let turn = Turn::begin();
                    while let Some(work) = works.pop_front() {
                        let rest = planner.plan(scheduler, control, work, &turn, &mut plans);
                        // The rest goes on after the others: a small job is not kept waiting.
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
                        // Nobody hears any more: control is being shut down.
                        let _ = submitted.send(one);
                    }
                }
            }
        }
    }

    /// Waits until so many claims may be submitted, or to the end.
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

    /// Waits for jobs. None: the end.
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

    /// These are not busy any more. If they still wait, the next look over all finds them.
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
            // One of them was deleted meanwhile: the others are looked at anew.
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

    /// Ranks those that got nothing anew, up to a number of rounds.
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
        // A lone instance is refused by its hosts; of several, some took them from the others.
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

    /// The host that an instance got is the one on which it was counted, or counts now.
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
                hosts.expect(slot, &expected.report);
            }
        });
    }
}

/// `cause` is why the last claim was refused, as JSON, where that is known.
fn others_were_faster(cause: String) -> Fault {
    Fault {
        code: 500,
        message: "No valid host was found. Every host that would do was taken by others first."
            .to_owned(),
        details: cause,
        at: now(),
    }
}

/// Hears what becomes of what was submitted, as long as the task lives.
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
