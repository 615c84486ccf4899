//! Counts instances on their hosts before their agents report them.
//!
//! An instance is counted, with its resources, on the host where it will most likely be, from the
//! moment that the host was selected: the next ranking sees it although its claim is still under
//! way. When the claim is decided, only the instances that got another host, or none, are corrected. Instances whose
//! claims are released later, here or at another replica, are removed by the host table as soon as it reads the release
//! in placement's state.

use placewright_placement::{IntentCandidate, ProviderId, State};
use placewright_scheduler::amounts::Amounts;
use placewright_scheduler::host_state::InstanceReport;
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use super::search::FeasibleHost;

/// An instance that is counted on its most likely host until its claim is decided.
#[derive(Clone, Debug)]
pub struct ExpectedPlacement {
    pub(super) host: Uuid,
    pub(super) slot: u32,
    /// The report of the instance as the host's agent will send it.
    pub(super) report: InstanceReport,
}

/// The outcome of a claim that differs from its [`ExpectedPlacement`].
#[derive(Clone, Debug)]
pub struct Correction {
    pub(super) expected: ExpectedPlacement,
    /// The host that the instance got instead; `None` if it got none.
    pub(super) host: Option<Uuid>,
}

impl ExpectedPlacement {
    /// Counts an instance and the resources of its candidate on the candidate's host.
    pub(super) fn begin_counting(
        hosts: &mut HostTable,
        host: &FeasibleHost,
        candidate: &IntentCandidate,
        report: InstanceReport,
    ) -> Self {
        let mut amounts = hosts.amounts(host.slot);
        let resources = candidate
            .allocations
            .iter()
            .flat_map(|request| &request.resources);
        for (class, amount) in resources {
            match class.as_str() {
                "VCPU" | "PCPU" => amounts.vcpus_used += amount,
                "MEMORY_MB" => amounts.ram_free_mb -= amount,
                "DISK_GB" => {
                    amounts.disk_free_mb -= amount * 1024;
                    amounts.disk_used_mb += amount * 1024;
                }
                _ => {}
            }
        }
        hosts.set_amounts_after_capacity_loss(host.slot, amounts);
        hosts.add_pending_instance(host.slot, &report);
        Self {
            host: host.provider,
            slot: host.slot,
            report,
        }
    }

    /// Reverses [`Self::begin_counting`]: the host gets the amounts that it has in placement. So other expected
    /// placements on the host are no longer subtracted from its amounts. This does no harm, because their claims are
    /// decided on placement's state.
    pub(super) fn stop_counting(&self, scheduler: &mut Scheduler, state: &State) {
        let amounts = Amounts::read(state, ProviderId(self.slot));
        let hosts = scheduler.hosts_mut();
        if hosts.get(self.slot).is_some() {
            hosts.set_amounts(self.slot, amounts);
            hosts.remove_pending_instance(self.slot, self.report.uuid);
        }
    }
}

/// Counts instances on the hosts that their claims chose, and no longer on those expected.
pub fn apply_corrections(scheduler: &mut Scheduler, state: &State, corrections: &[Correction]) {
    for correction in corrections {
        correction.expected.stop_counting(scheduler, state);
        // The resources on the chosen host are counted with the change of placement's state.
        if let Some(host) = correction.host {
            count_claimed(scheduler, state, host, &correction.expected.report);
        }
    }
}

/// Counts an instance with a decided claim on its host, if it still has its allocations there. The scheduler must have
/// observed `state`, by which it removed the instance from hosts where its claims were released.
pub fn count_claimed(
    scheduler: &mut Scheduler,
    state: &State,
    host: Uuid,
    report: &InstanceReport,
) {
    let hosts = scheduler.hosts_mut();
    if let Some((slot, _)) = hosts.by_uuid(host) {
        hosts.add_claimed_instance(state, slot, report);
    }
}

/// Removes a pending instance from all hosts but `except`.
pub(super) fn remove_pending_except(hosts: &mut HostTable, instance: Uuid, except: Uuid) {
    if hosts.hosts_of(instance).is_empty() {
        return;
    }
    for slot in hosts.hosts_of(instance).to_vec() {
        if hosts.get(slot).is_none_or(|host| host.uuid != except) {
            hosts.remove_pending_instance(slot, instance);
        }
    }
}
