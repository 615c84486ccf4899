//! The rows of one instance during a decision: loaded, modified, and written back if they differ.

use std::sync::Arc;

use placewright_placement::Timestamp;
use uuid::Uuid;

use super::DecisionContext;
use crate::cell_conductor::state::{Change, GuestRef, Instance, Job, JobKind, Stage, State, Step};
use crate::fault::{Action, Attempt, Fault};
use crate::ids::InstanceId;
use crate::spec::Spec;

/// The working copy of an instance's rows (unit of work).
pub(super) struct UnitOfWork<'a> {
    pub(super) context: DecisionContext<'a>,
    pub(super) id: InstanceId,
    pub(super) row: Instance,
    pub(super) job: Option<Job>,
    pub(super) spec: Option<Spec>,
    /// The latest action, loaded when it is first changed.
    action: Option<Action>,
    /// Changes of guests and of closed actions, which precede those of the other rows.
    early_changes: Vec<Change>,
    /// The guests that this decision has marked for destruction.
    doomed: Vec<GuestRef>,
    /// Whether [`Self::store`] removes the rows of the instance instead of writing them.
    is_removed: bool,
}

impl<'a> UnitOfWork<'a> {
    /// Copies the rows of an instance from the state; `None` if the cell does not have the instance.
    pub(super) fn load(context: DecisionContext<'a>, id: InstanceId) -> Option<Self> {
        let row = context.state.instances.get(&id)?.clone();
        let job = context.state.jobs.get(&id).cloned();
        let mut work = Self::new(context, id, row);
        work.job = job;
        work.spec = context.state.specs.get(&id).cloned();
        Some(work)
    }

    /// The rows of an instance that has neither a job nor a specification yet.
    pub(super) fn new(context: DecisionContext<'a>, id: InstanceId, row: Instance) -> Self {
        Self {
            context,
            id,
            row,
            job: None,
            spec: None,
            action: None,
            early_changes: Vec::new(),
            doomed: Vec::new(),
            is_removed: false,
        }
    }

    /// Begins an action of this name in the history of the instance. `request` is the UUID of the API request, if
    /// it is known.
    pub(super) fn begin_action(&mut self, name: &str, request: Option<Uuid>) {
        self.close_action();
        self.row.action_count = self.row.action_count.saturating_add(1);
        self.action = Some(Action {
            name: name.to_owned(),
            started_at: self.context.at,
            finished_at: None,
            attempts: Vec::new(),
            fault: None,
            request,
        });
    }

    /// Begins a job that starts from the guest that the instance has now, and an action in the instance's history. The
    /// tuple has the action's name, and the UUID of the API request if it is known.
    pub(super) fn begin_job(
        &mut self,
        (name, request): (&str, Option<Uuid>),
        kind: JobKind,
        stage: Stage,
    ) -> &mut Job {
        self.begin_action(name, request);
        self.job.insert(Job {
            kind,
            migration: None,
            stage,
            since: self.context.at,
            deadline: None,
            target: None,
            alternates: Arc::default(),
            origin: self.row.guest,
            spec: None,
            state_before: self.row.vm_state,
            is_broken: false,
            fault: None,
            awaited_destructions: Vec::new(),
            origin_mappings: self.row.mappings.clone(),
            may_go_elsewhere: false,
        })
    }

    /// Records an action that was refused before anything was done. The instance is unchanged.
    pub(super) fn record_refusal(&mut self, name: &str, request: Option<Uuid>, fault: &Fault) {
        self.begin_action(name, request);
        let at = self.context.at;
        if let Some(action) = &mut self.action {
            action.finished_at = Some(at);
            action.fault = Some(fault.clone());
        }
    }

    /// Ends the latest action without a fault, although its job goes on.
    pub(super) fn end_action(&mut self) {
        let at = self.context.at;
        if let Some(action) = self.action() {
            action.finished_at = Some(at);
        }
    }

    /// The latest action, loaded on demand.
    fn action(&mut self) -> Option<&mut Action> {
        if self.action.is_none() {
            let key = (self.id, self.row.action_count);
            self.action = self.context.state.actions.get(&key).cloned();
        }
        self.action.as_mut()
    }

    /// Ends the latest action if it is still under way. Only a delete finds one: it interrupts a job, whereas other
    /// actions begin when the one before has ended.
    fn close_action(&mut self) {
        let at = self.context.at;
        if let Some(action) = self.action()
            && action.finished_at.is_none()
        {
            action.finished_at = Some(at);
            let closed = action.clone();
            let key = (self.id, self.row.action_count);
            self.early_changes
                .push(Change::Action(key, Some(Box::new(closed))));
        }
    }

    /// Records the end of the present attempt in the history; `failure` is its reason if it failed.
    pub(super) fn record_attempt(&mut self, step: Step, failure: Option<&str>) {
        let Some(job) = &self.job else { return };
        let Some(guest) = job.guest_of(step) else {
            return;
        };
        let attempt = Attempt {
            host: guest.host,
            attempt: self.row.attempt,
            started_at: job.since,
            finished_at: self.context.at,
            failure: failure.map(str::to_owned),
        };
        if let Some(action) = self.action() {
            action.attempts.push(attempt);
        }
    }

    /// Ends the job and its action, and removes the secrets for its build.
    pub(super) fn finish_job(&mut self) {
        let at = self.context.at;
        if let Some(spec) = &mut self.spec {
            spec.forget_build_secrets();
        }
        let fault = self.job.take().and_then(|job| job.fault);
        if fault.is_some() {
            self.row.fault.clone_from(&fault);
        }
        if let Some(action) = self.action() {
            action.finished_at = Some(at);
            action.fault = fault;
        }
    }

    /// Replaces a specification by one with other sealed secrets, wherever the instance or its job has it.
    pub(super) fn reseal(&mut self, from: &Spec, to: &Spec) {
        let of_job = self.job.as_mut().and_then(|job| job.spec.as_mut());
        for spec in self.spec.as_mut().into_iter().chain(of_job) {
            if spec == from {
                spec.clone_from(to);
            }
        }
    }

    /// Records that a host should have a guest.
    pub(super) fn add_guest(&mut self, guest: GuestRef) {
        let key = (guest.host, self.id, guest.number);
        self.early_changes
            .push(Change::Guest(key, Some(Box::new(self.context.at))));
    }

    /// Records that a host has to destroy a guest, whether or not the host has the guest.
    pub(super) fn mark_for_destruction(&mut self, guest: GuestRef) {
        let key = (guest.host, self.id, guest.number);
        self.early_changes.push(Change::Guest(key, None));
        self.early_changes
            .push(Change::Doomed(key, Some(Box::new(self.context.at))));
        self.doomed.push(guest);
    }

    /// Whether a guest that was marked for destruction is destroyed, or counts as such because its host is down.
    pub(super) fn is_destroyed(&self, guest: GuestRef) -> bool {
        let state: &State = self.context.state;
        let key = (guest.host, self.id, guest.number);
        let is_doomed = state.doomed.contains_key(&key) || self.doomed.contains(&guest);
        !is_doomed || state.is_down(guest.host)
    }

    /// Marks the rows of the instance for removal. A tombstone takes their place.
    pub(super) fn mark_for_removal(&mut self) {
        self.is_removed = true;
    }

    /// Adds changes for all rows that differ from those of the state.
    pub(super) fn store(mut self, changes: &mut Vec<Change>) {
        let (state, id): (&State, _) = (self.context.state, self.id);
        changes.append(&mut self.early_changes);
        if self.is_removed {
            self.remove_rows(changes);
            return;
        }
        if let Some(action) = self.action.take() {
            let key = (id, self.row.action_count);
            if state.actions.get(&key) != Some(&action) {
                changes.push(Change::Action(key, Some(Box::new(action))));
            }
        }
        if state.specs.get(&id) != self.spec.as_ref() {
            changes.push(Change::Spec(id, self.spec.take().map(Box::new)));
        }
        if state.instances.get(&id) != Some(&self.row) {
            self.row.updated_at = self.context.at;
            changes.push(Change::Instance(id, Some(Box::new(self.row))));
        }
        if state.jobs.get(&id) != self.job.as_ref() {
            changes.push(Change::Job(id, self.job.map(Box::new)));
        }
    }

    fn remove_rows(self, changes: &mut Vec<Change>) {
        let (state, id): (&State, _) = (self.context.state, self.id);
        let actions = state.actions.range((id, 0)..=(id, u32::MAX));
        for (key, _) in actions {
            changes.push(Change::Action(*key, None));
        }
        changes.push(Change::Spec(id, None));
        changes.push(Change::Instance(id, None));
        changes.push(Change::Job(id, None));
        let at: Timestamp = self.context.at;
        changes.push(Change::Tombstone(id, Some(Box::new(at))));
    }
}
