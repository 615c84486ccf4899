//! The progress of a job: its steps, their compensation, and its end.

use std::sync::Arc;

use placewright_placement::Timestamp;

use super::unit_of_work::UnitOfWork;
use crate::cell_conductor::state::{Continuation, GuestRef, JobKind, Stage, Step, Target, VmState};
use crate::claim_request::{ClaimResponse, MoveSide};
use crate::fault::Fault;
use crate::message::MoveKind;

impl UnitOfWork<'_> {
    fn job_kind(&self) -> Option<JobKind> {
        self.job.as_ref().map(|job| job.kind)
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(job) = &mut self.job {
            job.stage = stage;
            job.since = self.context.at;
            job.deadline = None;
        }
    }

    /// The first step of a job of this kind.
    pub(super) fn first_step(kind: JobKind) -> Step {
        match kind {
            JobKind::Move(MoveKind::ColdMigrate | MoveKind::Resize | MoveKind::LiveMigrate) => {
                Step::Prepare
            }
            JobKind::Build | JobKind::Move(MoveKind::Evacuate | MoveKind::Unshelve) => Step::Arrive,
            JobKind::Shelve | JobKind::Delete => Step::Offload,
            JobKind::Rebuild => Step::Rebuild,
        }
    }

    /// Requests a step from an agent, as a new attempt with a deadline. The first step on a target
    /// gives the new guest its number, which later steps there keep.
    pub(super) fn start_step(&mut self, step: Step) {
        self.row.attempt = self.row.attempt.saturating_add(1);
        self.set_stage(Stage::Step(step));
        let attempt = self.row.attempt;
        let timeout_us = i64::from(self.context.options.step_timeout_ms) * 1000;
        let Some(job) = &mut self.job else { return };
        job.deadline = Some(Timestamp(self.context.at.0.saturating_add(timeout_us)));
        let mut new_guest = None;
        if let Some(target) = &mut job.target
            && matches!(step, Step::Prepare | Step::Arrive)
            && target.number == 0
        {
            target.number = attempt;
            new_guest = Some(target.guest());
        }
        let host = job.guest_of(step).map(|guest| guest.host);
        if let Some(guest) = new_guest {
            self.add_guest(guest);
        }
        if host.is_none_or(|host| self.context.state.is_down(host)) {
            self.handle_host_failed("The host is down.");
        }
    }

    /// Handles the success of the requested step.
    pub(super) fn handle_step_done(&mut self) {
        let Some(job) = &self.job else { return };
        let Stage::Step(step) = job.stage else { return };
        let (kind, origin) = (job.kind, job.origin);
        let target = job.target.clone();
        self.record_attempt(step, None);
        match step {
            Step::Prepare => self.start_step(Step::Leave),
            Step::Leave => self.start_step(Step::Arrive),
            Step::Arrive => self.continue_after_arrival(kind, origin, target),
            Step::Return => {
                self.go_back_to_origin();
                self.await_claim(Continuation::Settle(MoveSide::Source));
            }
            Step::Offload => self.destroy_then(origin, Continuation::Release),
            Step::Rebuild => {
                self.apply_job_spec();
                self.row.vm_state = VmState::Active;
                self.row.fault = None;
                self.finish_job();
            }
        }
    }

    /// Continues after the guest has started on the target.
    fn continue_after_arrival(
        &mut self,
        kind: JobKind,
        origin: Option<GuestRef>,
        target: Option<Target>,
    ) {
        if let Some(target) = target {
            self.row.guest = Some(target.guest());
            self.row.zone.clone_from(&target.candidate.zone);
            self.row.mappings.clone_from(&target.candidate.mappings);
        }
        match kind {
            // Of these, only builds have the step `Arrive`.
            JobKind::Build | JobKind::Shelve | JobKind::Rebuild | JobKind::Delete => {
                self.row.vm_state = VmState::Active;
                self.finish_job();
            }
            JobKind::Move(MoveKind::ColdMigrate | MoveKind::Resize) => {
                self.row.vm_state = VmState::Resized;
                self.set_stage(Stage::Verify);
                // The decision about the move is an action of its own.
                self.end_action();
            }
            JobKind::Move(MoveKind::LiveMigrate) => {
                self.destroy_then(origin, Continuation::Settle(MoveSide::Target));
            }
            JobKind::Move(MoveKind::Evacuate | MoveKind::Unshelve) => {
                // The old host of an evacuated instance is down. Its guest is destroyed when the host's
                // agent has begun a new session.
                if let Some(origin) = origin {
                    self.mark_for_destruction(origin);
                }
                self.await_claim(Continuation::Settle(MoveSide::Target));
            }
        }
    }

    /// Gives the instance back the guest that it had when the job began.
    fn go_back_to_origin(&mut self) {
        if let Some(job) = &self.job {
            self.row.guest = job.origin;
            self.row.mappings.clone_from(&job.origin_mappings);
        }
    }

    /// If the job has a new specification, makes it the specification of the instance.
    fn apply_job_spec(&mut self) {
        if let Some(job) = &mut self.job
            && let Some(spec) = job.spec.take()
        {
            self.spec = Some(spec);
        }
    }

    /// Handles a host that cannot carry out the requested step. Another host may succeed.
    pub(super) fn handle_host_failed(&mut self, message: &str) {
        let may_retry = true;
        self.handle_step_failed(message, may_retry);
    }

    /// Handles the failure of the requested step. `may_retry` tells whether another host may succeed.
    pub(super) fn handle_step_failed(&mut self, message: &str, may_retry: bool) {
        let Some(job) = &self.job else { return };
        let Stage::Step(step) = job.stage else { return };
        let target = job.target.as_ref().map(Target::guest);
        let is_first = step == Self::first_step(job.kind);
        let has_alternate = may_retry && !job.alternates.is_empty();
        self.record_attempt(step, Some(message));
        match step {
            Step::Prepare | Step::Arrive if is_first => {
                target
                    .into_iter()
                    .for_each(|guest| self.mark_for_destruction(guest));
                if has_alternate {
                    self.row.claim_number = self.row.claim_number.saturating_add(1);
                    self.set_stage(Stage::Swap);
                } else {
                    self.offer_to_other_cells(may_retry);
                    self.fail_job(message);
                }
            }
            Step::Prepare | Step::Leave | Step::Arrive => {
                self.set_fault(message);
                self.destroy_then(target, Continuation::Return);
            }
            Step::Return => {
                self.go_back_to_origin();
                self.set_broken(message);
                self.await_claim(Continuation::Settle(MoveSide::Source));
            }
            Step::Offload | Step::Rebuild => {
                self.set_fault(message);
                self.row.vm_state = VmState::Error;
                self.finish_job();
            }
        }
    }

    /// Records in the job why it fails.
    fn set_fault(&mut self, message: &str) {
        let at = self.context.at;
        if let Some(job) = &mut self.job {
            job.fault = Some(Fault {
                code: 500,
                message: message.to_owned(),
                details: String::new(),
                at,
            });
        }
    }

    /// Records that the state before the job cannot be restored.
    fn set_broken(&mut self, message: &str) {
        self.set_fault(message);
        if let Some(job) = &mut self.job {
            job.is_broken = true;
        }
    }

    /// Records whether hosts of other cells may succeed with a build for which no host is left here.
    fn offer_to_other_cells(&mut self, may_succeed: bool) {
        if let Some(job) = &mut self.job {
            job.may_go_elsewhere = may_succeed && job.kind == JobKind::Build;
        }
    }

    /// Fails the job, because no other host is to be tried, and ends its claims.
    fn fail_job(&mut self, message: &str) {
        self.set_fault(message);
        match self.job_kind() {
            Some(JobKind::Move(_)) => self.await_claim(Continuation::Settle(MoveSide::Source)),
            Some(JobKind::Build | JobKind::Shelve | JobKind::Rebuild | JobKind::Delete) | None => {
                self.await_claim(Continuation::Release);
            }
        }
    }

    /// Marks a guest for destruction, if there is one, and continues with `next` when it is gone.
    pub(super) fn destroy_then(&mut self, guest: Option<GuestRef>, next: Continuation) {
        guest
            .into_iter()
            .for_each(|guest| self.mark_for_destruction(guest));
        self.set_stage(Stage::AwaitDestroyed(next));
        if let Some(job) = &mut self.job {
            job.awaited_destructions = guest.into_iter().collect();
        }
        self.check_destroyed();
    }

    /// Continues the job if all guests that it waits for are gone.
    pub(super) fn check_destroyed(&mut self) {
        let Some(job) = &self.job else { return };
        let Stage::AwaitDestroyed(next) = job.stage else {
            return;
        };
        if !job
            .awaited_destructions
            .iter()
            .all(|guest| self.is_destroyed(*guest))
        {
            return;
        }
        if let Some(job) = &mut self.job {
            job.awaited_destructions.clear();
        }
        match next {
            Continuation::Return => self.start_step(Step::Return),
            Continuation::Release | Continuation::Settle(_) => self.await_claim(next),
        }
    }

    /// Requests a change of claims under the next number, and waits for the response.
    fn await_claim(&mut self, next: Continuation) {
        self.row.claim_number = self.row.claim_number.saturating_add(1);
        self.set_stage(Stage::AwaitClaim(next));
    }

    /// Handles the response to the present claim request. Returns false if none is under way.
    pub(super) fn handle_claim_response(&mut self, response: ClaimResponse) -> bool {
        let Some(job) = &self.job else { return false };
        let (kind, stage) = (job.kind, job.stage);
        if !matches!(stage, Stage::Swap | Stage::AwaitClaim(_)) {
            return false;
        }
        match (stage, response) {
            // Control has advanced the number itself meanwhile, so the claim request is repeated with a later number.
            (_, ClaimResponse::Stale) => {
                self.row.claim_number = self.row.claim_number.saturating_add(1);
            }
            (Stage::AwaitClaim(Continuation::Release), ClaimResponse::Gone)
                if kind == JobKind::Delete =>
            {
                self.mark_for_removal();
            }
            // Control has no record of the instance or of its move, or has taken the instance from this cell. So the
            // instance is deleted here.
            (_, ClaimResponse::Gone) => self.delete(self.row.claim_number),
            (Stage::Swap, ClaimResponse::Swapped { index }) => self.try_alternate(index),
            (Stage::Swap, ClaimResponse::NothingFits | ClaimResponse::Done) => {
                let may_succeed = true;
                self.offer_to_other_cells(may_succeed);
                self.fail_job("The last host failed, and no alternate has room any more.");
            }
            (Stage::AwaitClaim(Continuation::Release), _) => self.end_after_release(kind),
            (Stage::AwaitClaim(Continuation::Settle(keep)), _) => self.end_after_settlement(keep),
            // These stages wait for no response.
            (Stage::AwaitClaim(Continuation::Return), _)
            | (Stage::Reserved | Stage::Step(_) | Stage::Verify | Stage::AwaitDestroyed(_), _) => {}
        }
        true
    }

    /// Tries the alternate at this index, which is claimed now.
    fn try_alternate(&mut self, index: u32) {
        let Some(job) = &mut self.job else { return };
        let chosen = usize::try_from(index).unwrap_or(usize::MAX);
        let Some([candidate, left @ ..]) = job.alternates.get(chosen..) else {
            return;
        };
        let (candidate, left) = (Arc::new(candidate.clone()), Arc::from(left));
        job.alternates = left;
        job.target = Some(Target {
            candidate,
            number: 0,
        });
        let first = Self::first_step(job.kind);
        self.start_step(first);
    }

    /// Ends the job after the allocations of the instance were released.
    fn end_after_release(&mut self, kind: JobKind) {
        match kind {
            JobKind::Delete => return self.mark_for_removal(),
            JobKind::Shelve => {
                self.row.vm_state = VmState::ShelvedOffloaded;
            }
            JobKind::Build | JobKind::Move(_) | JobKind::Rebuild => {
                self.row.vm_state = VmState::Error;
            }
        }
        self.row.guest = None;
        self.row.mappings = Vec::new();
        self.finish_job();
    }

    /// Ends a move after its claims were settled on one of its sides.
    fn end_after_settlement(&mut self, keep: MoveSide) {
        let Some(job) = &self.job else { return };
        let vm_state = &mut self.row.vm_state;
        match keep {
            MoveSide::Target => {
                *vm_state = VmState::Active;
                self.row.fault = None;
                self.apply_job_spec();
            }
            MoveSide::Source if job.is_broken => *vm_state = VmState::Error,
            MoveSide::Source => *vm_state = job.state_before,
        }
        self.finish_job();
    }

    /// Deletes the instance, interrupting any job. `claim_number` is the number of the last claim or claim request that
    /// control knows.
    pub(super) fn delete(&mut self, claim_number: u64) {
        self.row.claim_number = self.row.claim_number.max(claim_number);
        if self.job_kind() == Some(JobKind::Delete) {
            return;
        }
        let job = self.job.take();
        let target = job.as_ref().and_then(|job| job.target.as_ref());
        // A guest without a number was not requested yet.
        let target = target.map(Target::guest).filter(|guest| guest.number != 0);
        let origin = job.as_ref().and_then(|job| job.origin);
        let mut guests: Vec<GuestRef> = [self.row.guest.take(), target, origin]
            .into_iter()
            .flatten()
            .collect();
        guests.sort_unstable();
        guests.dedup();
        self.begin_job(
            ("delete", None),
            JobKind::Delete,
            Stage::AwaitDestroyed(Continuation::Release),
        );
        for guest in &guests {
            self.mark_for_destruction(*guest);
        }
        if let Some(job) = &mut self.job {
            job.awaited_destructions = guests;
        }
        self.check_destroyed();
    }
}
