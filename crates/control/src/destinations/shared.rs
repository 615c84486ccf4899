//! The data that all requests for destinations share, and the steps that claims have in common.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use placewright_placement::{Command, ConsumerUuid, Outcome, Refusal, State};
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use super::error::DestinationsError;
use super::offered::{CandidateStore, CommonClaimData, KeepOptions};
use crate::machine::ControlMachine;
use crate::other_replicas::OtherReplicas;
use crate::placement::{CommitError, Placement};
use crate::scheduler::SchedulerHandle;

/// The data that all requests for destinations share.
pub(super) struct Shared {
    pub(super) placement: Placement,
    pub(super) scheduler: SchedulerHandle,
    /// How many of the offered candidates are kept for later claims, and for how long.
    pub(super) keep_options: KeepOptions,
    /// The candidates that were offered. This lock and that of the scheduler are never held
    /// together.
    pub(super) offered: Mutex<CandidateStore>,
    /// The other replicas, if this process is one of several.
    pub(super) others: OnceLock<Arc<dyn OtherReplicas>>,
}

impl Shared {
    /// Computes a value from the scheduler and the state; see [`SchedulerHandle::with_state`].
    pub(super) fn with_scheduler<T>(&self, compute: impl FnOnce(&mut Scheduler, &State) -> T) -> T {
        self.scheduler
            .with_state(|scheduler, control| compute(scheduler, &control.placement))
    }

    /// Submits a command of placement, and waits until its outcome is durable.
    pub(super) async fn submit(
        &self,
        command: Command,
    ) -> Result<Result<Outcome, Refusal>, CommitError> {
        self.placement.submit(command).await
    }

    /// Creates a request's server group in placement, which enforces its rules from then on.
    pub(super) async fn ensure_group(
        &self,
        claim_data: &CommonClaimData,
    ) -> Result<(), DestinationsError> {
        let Some((group, rules)) = &claim_data.group else {
            return Ok(());
        };
        let is_known = |machine: &ControlMachine| machine.placement().group(*group).is_some();
        if self.placement.engine().read_now(is_known) {
            return Ok(());
        }
        let command = Command::SetGroup {
            group: *group,
            rules: rules.clone(),
        };
        let created = self.submit(command).await?;
        created
            .map(drop)
            .map_err(|refusal| DestinationsError::Group(Box::new(refusal)))
    }

    /// Refuses a request if one of these consumers has allocations. Another replica may have released the allocations
    /// already, so in that case this process first catches up with the journal.
    pub(super) async fn check_no_allocations(
        &self,
        consumers: &[Uuid],
    ) -> Result<(), DestinationsError> {
        let checked = self.check_no_allocations_now(consumers);
        match self.placement.confirm() {
            Some(confirming) if checked.is_err() => {
                confirming.await.map_err(|error| CommitError::of(&error))?;
                self.check_no_allocations_now(consumers)
            }
            _ => checked,
        }
    }

    fn check_no_allocations_now(&self, consumers: &[Uuid]) -> Result<(), DestinationsError> {
        let engine = self.placement.engine();
        let holding =
            engine.read_now(|machine| first_with_allocations(machine.placement(), consumers));
        holding.map_or(Ok(()), |consumer| Err(DestinationsError::Holds(consumer)))
    }
}

/// The first of these consumers that has allocations.
pub(super) fn first_with_allocations(state: &State, consumers: &[Uuid]) -> Option<Uuid> {
    let mut consumers = consumers.iter().copied();
    consumers.find(|uuid| state.consumer(ConsumerUuid::from_uuid(*uuid)).is_some())
}
