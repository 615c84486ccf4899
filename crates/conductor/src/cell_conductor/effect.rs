//! The effects of a cell, derived from its state.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use placewright_placement::Timestamp;

use super::state::{Change, Continuation, GuestRef, Instance, Job, JobKind, Stage, State, Step};
use crate::claim_request::{ClaimChange, ClaimRequest};
use crate::fault::{Attempt, kept_attempts};
use crate::ids::{HostId, InstanceId};
use crate::message::MoveKind;
use crate::spec::{Amounts, GroupMapping, Spec};

/// An external action that the state requires. It is required until an event removes its reason,
/// and must be idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Request a step from an agent.
    RequestStep {
        /// The host whose agent is addressed.
        host: HostId,
        /// The agent's session for which the request is valid.
        session: u64,
        /// The requested step with all its parameters.
        order: Box<Order>,
    },
    /// Request an agent to destroy a guest.
    Destroy {
        /// The host that has the guest.
        host: HostId,
        /// The agent's session for which the request is valid.
        session: u64,
        /// The instance that the guest belongs to.
        instance: InstanceId,
        /// The number of the guest; see [`GuestRef`].
        number: u32,
    },
    /// Send a claim request to placement.
    RequestClaim(ClaimRequest),
}

/// How far [`State::effects_from`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EffectPosition {
    /// Before the first effect.
    #[default]
    Start,
    /// After the job of this instance.
    Job(InstanceId),
    /// After all jobs, and after this doomed guest.
    Doomed((HostId, InstanceId, u32)),
}

/// The request for a step, as sent to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The instance that the step concerns.
    pub instance: InstanceId,
    /// The attempt, which the answer has to repeat.
    pub attempt: u32,
    /// The step that is requested.
    pub step: Step,
    /// The number of the guest on the host that carries out the step.
    pub guest_number: u32,
    /// Whether the guest runs while it is moved.
    pub is_live: bool,
    /// The specification to build: the new one if the job changes it.
    pub spec: Spec,
    /// The allocations of the instance on the target; empty without a target.
    pub amounts: Vec<Amounts>,
    /// The guest that the instance had when its job began, which a move starts from; `None` if it
    /// had none.
    pub origin: Option<GuestRef>,
    /// The guest that is built, or to which the instance is moved.
    pub target: Option<GuestRef>,
    /// Which providers serve which request group for the guest that the step concerns.
    pub mappings: Vec<GroupMapping>,
}

impl State {
    /// All effects of the state. To be carried out after a start, and periodically.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        let of_jobs = self.jobs.iter();
        let of_jobs = of_jobs.filter_map(|(instance, job)| self.job_effect(*instance, job));
        let of_doomed = self
            .doomed
            .keys()
            .filter_map(|key| self.destroy_effect(*key));
        of_jobs.chain(of_doomed).collect()
    }

    /// A slice of [`Self::effects`]: of at most `count` jobs and doomed guests after a position, the
    /// effects of those whose time satisfies `is_due`; and the position to continue from, or `None` at
    /// the end. The time of a job is the beginning of its stage; that of a doomed guest is the decision
    /// to destroy it.
    ///
    /// For callers that repeat effects in slices instead of all at once.
    #[must_use]
    pub fn effects_from(
        &self,
        from: EffectPosition,
        count: usize,
        is_due: impl Fn(Timestamp) -> bool,
    ) -> (Vec<Effect>, Option<EffectPosition>) {
        let mut effects = Vec::new();
        let mut left = count;
        let after_jobs = match from {
            EffectPosition::Start => Some(Unbounded),
            EffectPosition::Job(instance) => Some(Excluded(instance)),
            EffectPosition::Doomed(_) => None,
        };
        if let Some(after) = after_jobs {
            for (instance, job) in self.jobs.range((after, Unbounded)) {
                if is_due(job.since) {
                    effects.extend(self.job_effect(*instance, job));
                }
                left = left.saturating_sub(1);
                if left == 0 {
                    return (effects, Some(EffectPosition::Job(*instance)));
                }
            }
        }
        let after = match from {
            EffectPosition::Doomed(key) => Excluded(key),
            EffectPosition::Start | EffectPosition::Job(_) => Unbounded,
        };
        for (key, since) in self.doomed.range((after, Unbounded)) {
            if is_due(*since) {
                effects.extend(self.destroy_effect(*key));
            }
            left = left.saturating_sub(1);
            if left == 0 {
                return (effects, Some(EffectPosition::Doomed(*key)));
            }
        }
        (effects, None)
    }

    /// The effects caused by the changes of one event.
    ///
    /// Later changes may have been applied already. A row that a later change has replaced has no effect here: its
    /// effects come with that change. So a caller that waits until these changes are durable carries out no effect of a
    /// later change that is not durable yet. There is one exception: if one of these changes is that of a host, all
    /// effects on that host are among the results, even effects of later changes. Then the caller has to wait until the
    /// whole state is durable.
    #[must_use]
    pub fn effects_of(&self, changes: &[Change]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for change in changes {
            match change {
                Change::Job(instance, Some(job)) if self.is_latest(*instance, job, changes) => {
                    effects.extend(self.job_effect(*instance, job));
                }
                // A claim request that is repeated with a new number changes only the row of its
                // instance, not the job.
                Change::Instance(instance, Some(_)) => {
                    let changes_job =
                        |change: &Change| matches!(change, Change::Job(id, _) if id == instance);
                    if !changes.iter().any(changes_job)
                        && let Some(job) = self.jobs.get(instance)
                        && self.is_latest(*instance, job, changes)
                    {
                        effects.extend(self.job_effect(*instance, job));
                    }
                }
                Change::Doomed(key, Some(_)) if self.doomed.contains_key(key) => {
                    effects.extend(self.destroy_effect(*key));
                }
                // A new session of the agent: earlier requests have to be repeated.
                Change::Host(host, Some(_)) => effects.extend(self.effects_on(*host)),
                _ => {}
            }
        }
        effects
    }

    /// Whether a job, and its instance's row as these changes wrote it, are still current.
    fn is_latest(&self, instance: InstanceId, job: &Job, changes: &[Change]) -> bool {
        let row = changes.iter().rev().find_map(|change| match change {
            Change::Instance(id, row) if *id == instance => Some(row.as_deref()),
            _ => None,
        });
        self.jobs.get(&instance) == Some(job)
            && row.is_none_or(|row| row == self.instances.get(&instance))
    }

    /// The effects that the agent of a host carries out.
    fn effects_on(&self, host: HostId) -> Vec<Effect> {
        let mut effects = Vec::new();
        for instance in self.instances_on(host) {
            if let Some(job) = self.jobs.get(&instance)
                && let Stage::Step(step) = job.stage
                && job.guest_of(step).is_some_and(|guest| guest.host == host)
            {
                effects.extend(self.job_effect(instance, job));
            }
        }
        let doomed = self.doomed_on(host);
        effects.extend(doomed.filter_map(|key| self.destroy_effect(key)));
        effects
    }

    /// The instances that have guests on a host, or doomed ones, in rising order. If a job has requested a
    /// step from the host, or waits for the host to destroy a guest, its instance is among them.
    pub(crate) fn instances_on(&self, host: HostId) -> BTreeSet<InstanceId> {
        let range = (host, InstanceId(uuid::Uuid::nil()), 0)..;
        let expected = self.guests.range(range).map(|(key, _)| *key);
        let expected = expected.take_while(|(host_of_guest, _, _)| *host_of_guest == host);
        expected
            .chain(self.doomed_on(host))
            .map(|(_, instance, _)| instance)
            .collect()
    }

    /// The doomed guests of a host.
    pub(crate) fn doomed_on(
        &self,
        host: HostId,
    ) -> impl Iterator<Item = (HostId, InstanceId, u32)> + '_ {
        let range = (host, InstanceId(uuid::Uuid::nil()), 0)..;
        let rows = self.doomed.range(range).map(|(key, _)| *key);
        rows.take_while(move |(host_of_guest, _, _)| *host_of_guest == host)
    }

    fn destroy_effect(&self, key: (HostId, InstanceId, u32)) -> Option<Effect> {
        let (host, instance, number) = key;
        let session = self.session(host)?;
        Some(Effect::Destroy {
            host,
            session,
            instance,
            number,
        })
    }

    /// The present session of a host; `None` if it is down.
    fn session(&self, host: HostId) -> Option<u64> {
        let host = self.hosts.get(&host).filter(|host| host.is_up)?;
        Some(host.session)
    }

    /// The attempts of a build that failed here and may succeed in another cell; empty for any other job.
    fn failed_attempts(&self, id: InstanceId, row: &Instance, job: &Job) -> Vec<Attempt> {
        let action = self.actions.get(&(id, row.action_count));
        let action = action.filter(|_| job.may_go_elsewhere);
        action.map_or_else(Vec::new, |action| kept_attempts(&action.attempts))
    }

    /// The effect of a job; `None` if the job waits for control, for the instance's owner or for the
    /// destruction of guests, or if the host of its step is down.
    fn job_effect(&self, id: InstanceId, job: &Job) -> Option<Effect> {
        let row = self.instances.get(&id)?;
        let request_claim = |change| {
            Some(Effect::RequestClaim(ClaimRequest {
                instance: id,
                number: row.claim_number,
                change,
            }))
        };
        match job.stage {
            Stage::Reserved | Stage::Verify | Stage::AwaitDestroyed(_) => None,
            // This does not occur: a return begins as soon as the guests are destroyed, without a claim request.
            Stage::AwaitClaim(Continuation::Return) => None,
            Stage::Swap => request_claim(ClaimChange::Swap {
                candidates: job.alternates.to_vec(),
            }),
            Stage::AwaitClaim(Continuation::Release) => request_claim(ClaimChange::Release {
                is_deleted: job.kind == JobKind::Delete,
                failed_attempts: self.failed_attempts(id, row, job),
            }),
            Stage::AwaitClaim(Continuation::Settle(keep)) => request_claim(ClaimChange::Settle {
                migration: job.migration?,
                keep,
                fault: job.fault.clone(),
            }),
            Stage::Step(step) => {
                let guest = job.guest_of(step)?;
                let session = self.session(guest.host)?;
                let target = job.target.as_ref();
                let order = Order {
                    instance: id,
                    attempt: row.attempt,
                    step,
                    guest_number: guest.number,
                    is_live: job.kind == JobKind::Move(MoveKind::LiveMigrate),
                    spec: job.spec.as_ref().or(self.specs.get(&id))?.clone(),
                    amounts: target.map_or_else(Vec::new, |to| to.candidate.amounts.clone()),
                    origin: job.origin,
                    target: target.map(super::state::Target::guest),
                    mappings: job.mappings_of(step).to_vec(),
                };
                Some(Effect::RequestStep {
                    host: guest.host,
                    session,
                    order: Box::new(order),
                })
            }
        }
    }
}
