//! Decides events: the result is changes and a reply, or a refusal.

mod agent;
mod control;
mod flow;
mod unit_of_work;

use placewright_placement::Timestamp;
use thiserror::Error;
use uuid::Uuid;

use super::event::Event;
use super::state::{Change, JobKind, META_KEY, Meta, Stage, State, Step, VmState};
use crate::claim_request::ClaimResponse;
use crate::ids::{HostId, InstanceId};
use crate::message::Reply;
use crate::spec::Spec;
use unit_of_work::UnitOfWork;

/// The settings of a cell's decisions that operators may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time that an agent has for each step, in milliseconds.
    pub step_timeout_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // Ten minutes are long enough to copy an image of tens of gigabytes.
            step_timeout_ms: 600_000,
        }
    }
}

/// A typed refusal. A refused event changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The cell has no instance with this UUID.
    #[error("no instance {0}")]
    NoInstance(InstanceId),
    /// Another job of the instance is under way.
    #[error("instance {0} is busy")]
    Busy(InstanceId),
    /// The instance is in a state that does not allow the operation.
    #[error("instance {0} is not in a state for it")]
    WrongState(InstanceId),
    /// The answer belongs to an attempt or claim request that is over, or to a guest that is not to be
    /// destroyed.
    #[error("attempt {given} of instance {instance} is over")]
    Stale {
        /// The instance that the answer names.
        instance: InstanceId,
        /// The number of the attempt, claim request or guest in the answer.
        given: u64,
    },
    /// The host is not known, or the session that it begins does not have a valid number greater than that of its
    /// latest session.
    #[error("host {0} is not in this session")]
    OldSession(HostId),
    /// The host has instances, or some are on their way to it.
    #[error("host {0} has instances")]
    HostInUse(HostId),
}

/// The input of a decision besides its event: a state, a time and options.
#[derive(Clone, Copy)]
struct DecisionContext<'a> {
    state: &'a State,
    at: Timestamp,
    options: &'a Options,
}

/// Decides an event. The changes are appended to `changes`: apply them in that order, make them
/// durable, then carry out their effects, [`State::effects_of`].
///
/// The reply is for the sender of a message; other events need none.
///
/// # Errors
///
/// A [`Refusal`]. Nothing has to be done about it, but a user who caused the event should see it.
pub fn decide(
    state: &State,
    event: &Event,
    at: Timestamp,
    options: &Options,
    changes: &mut Vec<Change>,
) -> Result<Reply, Refusal> {
    let context = DecisionContext { state, at, options };
    match event {
        Event::Message(envelope) => return Ok(context.decide_message(envelope, changes)),
        Event::Shelve { instance, request } => {
            let mut work = context.load_idle(*instance, &[VmState::Active])?;
            let action = ("shelve", *request);
            work.begin_job(action, JobKind::Shelve, Stage::Step(Step::Offload));
            work.start_step(Step::Offload);
            work.store(changes);
        }
        Event::Rebuild {
            instance,
            spec,
            request,
        } => {
            context.rebuild(*instance, spec, *request, changes)?;
        }
        Event::RebuildRefused {
            instance,
            fault,
            request,
        } => {
            let mut work = context.load_idle(*instance, &[VmState::Active, VmState::Error])?;
            work.record_refusal("rebuild", *request, fault);
            work.store(changes);
        }
        Event::AgentStarted {
            host,
            session,
            guests,
        } => context.handle_agent_started(*host, *session, guests, changes)?,
        Event::HostDown { host } => context.handle_host_down(*host, changes)?,
        Event::HostRemoved { host } => context.handle_host_removed(*host, changes)?,
        Event::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure,
        } => context.handle_step_ended(
            (*host, *instance),
            (*session, *attempt),
            failure.as_ref(),
            changes,
        )?,
        Event::Destroyed {
            host,
            instance,
            number,
        } => context.handle_destroyed((*host, *instance, *number), changes)?,
        Event::ClaimAnswered {
            instance,
            number,
            response,
        } => context.handle_claim_answered(*instance, (*number, *response), changes)?,
        Event::Reseal { instance, from, to } => context.reseal(*instance, (from, to), changes)?,
        Event::Tick => context.tick(changes),
        Event::Forget { before } => context.forget_deletions(*before, changes),
    }
    Ok(Reply::Accepted)
}

impl<'a> DecisionContext<'a> {
    fn load(self, instance: InstanceId) -> Result<UnitOfWork<'a>, Refusal> {
        UnitOfWork::load(self, instance).ok_or(Refusal::NoInstance(instance))
    }

    /// Handles placement's response to a numbered claim request.
    fn handle_claim_answered(
        self,
        instance: InstanceId,
        (number, response): (u64, ClaimResponse),
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut work = self.load(instance)?;
        if work.row.claim_number != number || !work.handle_claim_response(response) {
            return Err(Refusal::Stale {
                instance,
                given: number,
            });
        }
        work.store(changes);
        Ok(())
    }

    /// Replaces a specification by one that differs only in its sealed secrets.
    fn reseal(
        self,
        instance: InstanceId,
        (from, to): (&Spec, &Spec),
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut work = self.load(instance)?;
        work.reseal(from, to);
        work.store(changes);
        Ok(())
    }

    fn rebuild(
        self,
        instance: InstanceId,
        spec: &Spec,
        request: Option<Uuid>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut work = self.load_idle(instance, &[VmState::Active, VmState::Error])?;
        let (action, stage) = (("rebuild", request), Stage::Step(Step::Rebuild));
        let job = work.begin_job(action, JobKind::Rebuild, stage);
        job.spec = Some(spec.clone());
        work.start_step(Step::Rebuild);
        work.store(changes);
        Ok(())
    }

    /// Loads an instance that is on a host, in one of these states, and without a job.
    fn load_idle(
        self,
        instance: InstanceId,
        states: &[VmState],
    ) -> Result<UnitOfWork<'a>, Refusal> {
        let work = self.load(instance)?;
        if work.job.is_some() {
            return Err(Refusal::Busy(instance));
        }
        if work.row.guest.is_none() || !states.contains(&work.row.vm_state) {
            return Err(Refusal::WrongState(instance));
        }
        Ok(work)
    }

    /// Fails steps whose deadline has passed, and ends waits for guests that need not be waited for any more.
    fn tick(self, changes: &mut Vec<Change>) {
        for (instance, job) in &self.state.jobs {
            if job.deadline.is_some_and(|deadline| deadline <= self.at)
                && let Some(mut work) = UnitOfWork::load(self, *instance)
            {
                work.handle_host_failed("The host did not answer in time.");
                work.store(changes);
            }
            // The event that marked the host of an awaited guest down may be the one in which the job began to
            // wait. Then that event did not end the wait.
            if matches!(job.stage, Stage::AwaitDestroyed(_))
                && let Some(mut work) = UnitOfWork::load(self, *instance)
            {
                work.check_destroyed();
                work.store(changes);
            }
        }
    }

    /// Forgets the deletions before a time; see [`Event::Forget`].
    fn forget_deletions(self, before: Timestamp, changes: &mut Vec<Change>) {
        let meta = self.state.meta.get(&META_KEY);
        if meta.is_some_and(|meta| meta.forgotten_before >= before) {
            return;
        }
        let meta = Meta {
            forgotten_before: before,
        };
        changes.push(Change::Meta(META_KEY, Some(Box::new(meta))));
        for (instance, at) in &self.state.tombstones {
            if *at < before {
                changes.push(Change::Tombstone(*instance, None));
            }
        }
    }
}
