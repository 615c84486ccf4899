//! Decides the reports of agents, and what follows when a host is down or removed.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::unit_of_work::UnitOfWork;
use super::{DecisionContext, Refusal};
use crate::cell_conductor::event::Failure;
use crate::cell_conductor::state::{Change, GuestRef, Host, Stage, VmState};
use crate::fault::Fault;
use crate::ids::{HostId, InstanceId, NUMBER_END};

/// The key of a guest in the cell's tables: host, instance, number of the guest.
type GuestKey = (HostId, InstanceId, u32);

impl DecisionContext<'_> {
    /// Reconciles the guests that a host has with those that it should have.
    pub(super) fn handle_agent_started(
        self,
        host: HostId,
        session: u64,
        guests: &[(InstanceId, u32)],
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        // A recorded session at the end of the number range counts as none. Otherwise no later session
        // could be accepted, and the host would be lost.
        let latest = self.state.hosts.get(&host).map(|row| row.session);
        let latest = latest.filter(|latest| *latest < NUMBER_END);
        if session >= NUMBER_END || latest.is_some_and(|latest| latest >= session) {
            return Err(Refusal::OldSession(host));
        }
        let reported = guests.iter().map(|(id, number)| (host, *id, *number));
        let reported: BTreeSet<GuestKey> = reported.collect();
        for key in self.state.doomed_on(host) {
            if !reported.contains(&key) {
                changes.push(Change::Doomed(key, None));
            }
        }
        for key in &reported {
            let is_known = self.state.guests.contains_key(key);
            if !is_known && !self.state.doomed.contains_key(key) {
                changes.push(Change::Doomed(*key, Some(Box::new(self.at))));
            }
        }
        let row = Host {
            session,
            is_up: true,
        };
        changes.push(Change::Host(host, Some(Box::new(row))));
        self.continue_waiting_jobs(host, &|key| !reported.contains(key), changes);
        for key in self.guests_on(host).filter(|key| !reported.contains(key)) {
            self.handle_missing_guest(key, changes);
        }
        Ok(())
    }

    fn guests_on(&self, host: HostId) -> impl Iterator<Item = GuestKey> + '_ {
        let range = (host, InstanceId(Uuid::nil()), 0)..;
        let rows = self.state.guests.range(range).map(|(key, _)| *key);
        rows.take_while(move |(host_of_guest, _, _)| *host_of_guest == host)
    }

    /// Handles a guest that the host should have and does not report. An instance with a job is left
    /// as it is: a step under way is ordered again in the new session, and its result decides.
    fn handle_missing_guest(self, (host, instance, number): GuestKey, changes: &mut Vec<Change>) {
        let Some(mut work) = UnitOfWork::load(self, instance) else {
            return;
        };
        let is_current = work.row.guest == Some(GuestRef { host, number });
        if !is_current || work.job.is_some() || work.row.vm_state != VmState::Active {
            return;
        }
        work.lose_guest();
        work.store(changes);
    }

    /// Continues the jobs that wait for guests of a host to be destroyed, as far as these guests are
    /// gone.
    fn continue_waiting_jobs(
        self,
        host: HostId,
        is_gone: &dyn Fn(&GuestKey) -> bool,
        changes: &mut Vec<Change>,
    ) {
        for instance in self.state.instances_on(host) {
            let Some(job) = self.state.jobs.get(&instance) else {
                continue;
            };
            let need_not_wait_for = |guest: &GuestRef| {
                guest.host == host && is_gone(&(guest.host, instance, guest.number))
            };
            if !matches!(job.stage, Stage::AwaitDestroyed(_))
                || !job.awaited_destructions.iter().any(need_not_wait_for)
            {
                continue;
            }
            if let Some(mut work) = UnitOfWork::load(self, instance) {
                if let Some(job) = &mut work.job {
                    job.awaited_destructions
                        .retain(|guest| !need_not_wait_for(guest));
                }
                work.check_destroyed();
                work.store(changes);
            }
        }
    }

    pub(super) fn handle_host_down(
        self,
        host: HostId,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let Some(row) = self.state.hosts.get(&host) else {
            return Err(Refusal::OldSession(host));
        };
        if !row.is_up {
            return Ok(());
        }
        let row = Host {
            is_up: false,
            session: row.session,
        };
        changes.push(Change::Host(host, Some(Box::new(row))));
        // No job waits for the guests of a host that is down: they count as gone.
        let counts_as_gone = |_: &GuestKey| true;
        self.continue_waiting_jobs(host, &counts_as_gone, changes);
        for instance in self.state.instances_on(host) {
            let Some(job) = self.state.jobs.get(&instance) else {
                continue;
            };
            let Stage::Step(step) = job.stage else {
                continue;
            };
            if job.guest_of(step).is_some_and(|guest| guest.host == host)
                && let Some(mut work) = UnitOfWork::load(self, instance)
            {
                work.handle_host_failed("The host is down.");
                work.store(changes);
            }
        }
        Ok(())
    }

    pub(super) fn handle_host_removed(
        self,
        host: HostId,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        if self.guests_on(host).next().is_some() {
            return Err(Refusal::HostInUse(host));
        }
        for key in self.state.doomed_on(host) {
            changes.push(Change::Doomed(key, None));
        }
        changes.push(Change::Host(host, None));
        let is_gone_with_host = |_: &GuestKey| true;
        self.continue_waiting_jobs(host, &is_gone_with_host, changes);
        Ok(())
    }

    pub(super) fn handle_step_ended(
        self,
        (host, instance): (HostId, InstanceId),
        (session, attempt): (u64, u32),
        failure: Option<&Failure>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let mut work = self.load(instance)?;
        let guest = work.job.as_ref().and_then(|job| match job.stage {
            Stage::Step(step) => job.guest_of(step),
            Stage::Reserved
            | Stage::Swap
            | Stage::Verify
            | Stage::AwaitDestroyed(_)
            | Stage::AwaitClaim(_) => None,
        });
        let guest = guest.filter(|guest| guest.host == host);
        let row = guest.and_then(|guest| self.state.hosts.get(&guest.host));
        let is_in_session = row.is_some_and(|row| row.session == session);
        if work.row.attempt != attempt || !is_in_session {
            return Err(Refusal::Stale {
                instance,
                given: attempt.into(),
            });
        }
        match failure {
            None => work.handle_step_done(),
            Some(failure) => work.handle_step_failed(&failure.message, failure.may_retry),
        }
        work.store(changes);
        Ok(())
    }

    pub(super) fn handle_destroyed(
        self,
        key: GuestKey,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let (host, instance, number) = key;
        if !self.state.doomed.contains_key(&key) {
            return Err(Refusal::Stale {
                instance,
                given: number.into(),
            });
        }
        changes.push(Change::Doomed(key, None));
        if let Some(mut work) = UnitOfWork::load(self, instance) {
            if let Some(job) = &mut work.job {
                job.awaited_destructions
                    .retain(|guest| *guest != GuestRef { host, number });
            }
            work.check_destroyed();
            work.store(changes);
        }
        Ok(())
    }
}

impl UnitOfWork<'_> {
    /// Records that the guest of the instance is lost.
    pub(super) fn lose_guest(&mut self) {
        self.row.vm_state = VmState::Error;
        self.row.fault = Some(Fault {
            code: 500,
            message: "The host does not have the instance any more.".into(),
            details: String::new(),
            at: self.context.at,
        });
    }
}
