//! The progress of a job: its steps, their compensation, and its end.

use placewright_placement::Timestamp;

use super::unit_of_work::UnitOfWork;
use crate::cell_conductor::state::{
    GuestRef, Instance, JobKind, Next, Stage, Step, Target, VmState,
};
use crate::claim_request::{ClaimResponse, MoveSide};
use crate::fault::Fault;
use crate::message::MoveKind;

impl UnitOfWork<'_> {
    fn kind(&self) -> Option<JobKind> {
        self.job.as_ref().map(|job| job.kind)
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(job) = &mut self.job {
            job.stage = stage;
            job.since = self.now.at;
            job.deadline = None;
        }
    }

    /// The first step on a target host, by kind of job.
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

    /// Requests a step from an agent, as a new attempt with a deadline.
    pub(super) fn start_step(&mut self, step: Step) {
        self.row.attempt = self.row.attempt.saturating_add(1);
        self.set_stage(Stage::Step(step));
        let attempt = self.row.attempt;
        let timeout_us = i64::from(self.now.options.step_timeout_ms) * 1000;
        let Some(job) = &mut self.job else { return };
        job.deadline = Some(Timestamp(self.now.at.0.saturating_add(timeout_us)));
        let mut wanted = None;
        if let Some(target) = &mut job.target
            && matches!(step, Step::Prepare | Step::Arrive)
            && target.number == 0
        {
            target.number = attempt;
            wanted = Some(target.place());
        }
        let host = job.host_of(step).map(|place| place.host);
        if let Some(place) = wanted {
            self.want(place);
        }
        if host.is_none_or(|host| self.now.state.is_down(host)) {
            self.step_failed("The host is down.", true);
        }
    }

    /// Handles the success of the requested step.
    pub(super) fn step_done(&mut self) {
        let Some(job) = &self.job else { return };
        let Stage::Step(step) = job.stage else { return };
        let (kind, origin) = (job.kind, job.origin);
        let target = job.target.clone();
        self.note_try(step, None);
        match step {
            Step::Prepare => self.start_step(Step::Leave),
            Step::Leave => self.start_step(Step::Arrive),
            Step::Arrive => self.arrived(kind, origin, target),
            Step::Return => {
                self.row.guest = origin;
                self.ask(Next::Settle(MoveSide::Source));
            }
            Step::Offload => self.clear(origin, Next::Release),
            Step::Rebuild => {
                self.take_spec();
                self.row.vm_state = VmState::Active;
                self.row.fault = None;
                self.finish();
            }
        }
    }

    fn arrived(&mut self, kind: JobKind, origin: Option<GuestRef>, target: Option<Target>) {
        if let Some(target) = target {
            self.row.guest = Some(target.place());
            self.row.zone.clone_from(&target.candidate.zone);
        }
        match kind {
            JobKind::Build | JobKind::Shelve | JobKind::Rebuild | JobKind::Delete => {
                self.row.vm_state = VmState::Active;
                self.finish();
            }
            JobKind::Move(MoveKind::ColdMigrate | MoveKind::Resize) => {
                self.row.vm_state = VmState::Resized;
                self.set_stage(Stage::Verify);
            }
            JobKind::Move(MoveKind::LiveMigrate) => {
                self.clear(origin, Next::Settle(MoveSide::Target));
            }
            JobKind::Move(MoveKind::Evacuate | MoveKind::Unshelve) => {
                // The old host is down. Its guest has to be destroyed before the host counts as up
                // again.
                if let Some(origin) = origin {
                    self.mark_for_destruction(origin);
                }
                self.ask(Next::Settle(MoveSide::Target));
            }
        }
    }

    fn take_spec(&mut self) {
        if let Some(job) = &mut self.job
            && let Some(spec) = job.spec.take()
        {
            self.spec = Some(spec);
        }
    }

    /// Handles the failure of the requested step, or an agent that cannot be reached.
    pub(super) fn step_failed(&mut self, message: &str, may_retry: bool) {
        let Some(job) = &self.job else { return };
        let Stage::Step(step) = job.stage else { return };
        let target = job.target.as_ref().map(Target::place);
        let is_first = step == Self::first_step(job.kind);
        let has_alternate = may_retry && !job.alternates.is_empty();
        self.note_try(step, Some(message));
        match step {
            Step::Prepare | Step::Arrive if is_first => {
                target
                    .into_iter()
                    .for_each(|place| self.mark_for_destruction(place));
                if has_alternate {
                    self.row.claim = self.row.claim.saturating_add(1);
                    self.set_stage(Stage::Swap);
                } else {
                    self.give_up(message);
                }
            }
            Step::Prepare | Step::Leave | Step::Arrive => {
                self.set_fault(message);
                self.clear(target, Next::Return);
            }
            Step::Return => {
                self.row.guest = self.job.as_ref().and_then(|job| job.origin);
                self.set_broken(message);
                self.ask(Next::Settle(MoveSide::Source));
            }
            Step::Offload | Step::Rebuild => {
                self.set_fault(message);
                self.row.vm_state = VmState::Error;
                self.finish();
            }
        }
    }

    fn set_fault(&mut self, message: &str) {
        let at = self.now.at;
        if let Some(job) = &mut self.job {
            job.fault = Some(Fault {
                code: 500,
                message: message.to_owned(),
                details: String::new(),
                at,
            });
        }
    }

    fn set_broken(&mut self, message: &str) {
        self.set_fault(message);
        if let Some(job) = &mut self.job {
            job.is_broken = true;
        }
    }

    /// Handles the failure of all candidates.
    fn give_up(&mut self, message: &str) {
        self.set_fault(message);
        match self.kind() {
            Some(JobKind::Move(_)) => self.ask(Next::Settle(MoveSide::Source)),
            Some(JobKind::Build | JobKind::Shelve | JobKind::Rebuild | JobKind::Delete) | None => {
                self.ask(Next::Release);
            }
        }
    }

    /// Dooms a guest, and continues with `next` when it is gone.
    pub(super) fn clear(&mut self, place: Option<GuestRef>, next: Next) {
        place
            .into_iter()
            .for_each(|place| self.mark_for_destruction(place));
        self.set_stage(Stage::AwaitDestroyed(next));
        if let Some(job) = &mut self.job {
            job.clearing = place.into_iter().collect();
        }
        self.check_destroyed();
    }

    /// Continues the job if all guests that it waits for are gone.
    pub(super) fn check_destroyed(&mut self) {
        let Some(job) = &self.job else { return };
        let Stage::AwaitDestroyed(next) = job.stage else {
            return;
        };
        if !job.clearing.iter().all(|place| self.is_destroyed(*place)) {
            return;
        }
        if let Some(job) = &mut self.job {
            job.clearing.clear();
        }
        match next {
            Next::Return => self.start_step(Step::Return),
            Next::Release | Next::Settle(_) => self.ask(next),
        }
    }

    /// Sends the next numbered claim request to placement.
    fn ask(&mut self, next: Next) {
        self.row.claim = self.row.claim.saturating_add(1);
        self.set_stage(Stage::AwaitClaim(next));
    }

    /// Handles the answer to the current claim request; false if none is under way.
    pub(super) fn answered(&mut self, answer: ClaimResponse) -> bool {
        let Some(job) = &self.job else { return false };
        let (kind, stage) = (job.kind, job.stage);
        if !matches!(stage, Stage::Swap | Stage::AwaitClaim(_)) {
            return false;
        }
        match (stage, answer) {
            // Control has advanced the number by itself, so the claim request is repeated with a
            // later one.
            (_, ClaimResponse::Stale) => self.row.claim = self.row.claim.saturating_add(1),
            (Stage::AwaitClaim(Next::Release), ClaimResponse::Gone) if kind == JobKind::Delete => {
                self.forget();
            }
            // Control has no record of the instance any more, so it is deleted here.
            (_, ClaimResponse::Gone) => self.delete(0),
            (Stage::Swap, ClaimResponse::Swapped { index }) => self.swapped(index),
            (Stage::Swap, ClaimResponse::NothingFits | ClaimResponse::Done) => {
                self.give_up("The build failed, and no alternate has room any more.");
            }
            (Stage::AwaitClaim(Next::Release), _) => self.released(kind),
            (Stage::AwaitClaim(Next::Settle(keep)), _) => self.settled(keep),
            (Stage::AwaitClaim(Next::Return), _)
            | (Stage::Reserved | Stage::Step(_) | Stage::Verify | Stage::AwaitDestroyed(_), _) => {}
        }
        true
    }

    fn swapped(&mut self, index: u32) {
        let Some(job) = &mut self.job else { return };
        let chosen = usize::try_from(index).unwrap_or(usize::MAX);
        if chosen >= job.alternates.len() {
            return;
        }
        let candidate = job.alternates.remove(chosen);
        job.alternates.drain(..chosen);
        job.target = Some(Target {
            candidate,
            number: 0,
        });
        let first = Self::first_step(job.kind);
        self.start_step(first);
    }

    fn released(&mut self, kind: JobKind) {
        match kind {
            JobKind::Delete => return self.forget(),
            JobKind::Shelve => {
                self.row.vm_state = VmState::ShelvedOffloaded;
                self.row.guest = None;
            }
            JobKind::Build | JobKind::Move(_) | JobKind::Rebuild => {
                self.row.vm_state = VmState::Error;
                self.row.guest = None;
            }
        }
        self.finish();
    }

    fn settled(&mut self, keep: MoveSide) {
        let Some(job) = &self.job else { return };
        let Instance { vm_state, .. } = &mut self.row;
        match keep {
            MoveSide::Target => {
                *vm_state = VmState::Active;
                self.row.fault = None;
                self.take_spec();
            }
            MoveSide::Source if job.is_broken => *vm_state = VmState::Error,
            MoveSide::Source => *vm_state = job.state_before,
        }
        self.finish();
    }

    /// Deletes the instance, interrupting any job.
    pub(super) fn delete(&mut self, claim: u64) {
        self.row.claim = self.row.claim.max(claim);
        if self.kind() == Some(JobKind::Delete) {
            return;
        }
        let job = self.job.take();
        let target = job.as_ref().and_then(|job| job.target.as_ref());
        let target = target.map(Target::place).filter(|place| place.number != 0);
        let origin = job.as_ref().and_then(|job| job.origin);
        let mut places: Vec<GuestRef> = [self.row.guest.take(), target, origin]
            .into_iter()
            .flatten()
            .collect();
        places.sort_unstable();
        places.dedup();
        self.begin(
            "delete",
            JobKind::Delete,
            Stage::AwaitDestroyed(Next::Release),
        );
        for place in &places {
            self.mark_for_destruction(*place);
        }
        if let Some(job) = &mut self.job {
            job.clearing = places;
        }
        self.check_destroyed();
    }
}
