//! Combines the reports of agents, cells and operators on whether a host may get instances, for the scheduler.

use std::collections::BTreeMap;

use placewright_conductor::super_conductor::Service;
use placewright_conductor::{CellId, HostId};
use placewright_placement::Timestamp;
use placewright_scheduler::host_state::{HostFacts, HostUpdate, NumberedUpdate, Receipt};
use placewright_scheduler::host_table::HostTable;

/// The availability of all hosts, as agents, cells and operators report it.
#[derive(Debug, Default)]
pub(crate) struct AvailabilityReports {
    by_host: BTreeMap<HostId, HostAvailability>,
}

/// The reports of one host's availability.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HostAvailability {
    /// The agent's reason for disabling the host, if any.
    disabled_by_agent: Option<String>,
    /// Whether the agent reports the host as down.
    forced_down_by_agent: bool,
    /// Whether the cell reports the agent as silent.
    is_silent: bool,
    /// The operator's reason for disabling the host, if any.
    disabled_by_operator: Option<String>,
    /// Whether an operator has forced the host down.
    forced_down_by_operator: bool,
}

impl HostAvailability {
    /// Why the host is disabled, if it is; the operator's reason comes first.
    fn disabled_reason(&self) -> Option<String> {
        let by_operator = self.disabled_by_operator.clone();
        by_operator.or_else(|| self.disabled_by_agent.clone())
    }

    fn is_down(&self) -> bool {
        self.forced_down_by_agent || self.is_silent || self.forced_down_by_operator
    }
}

impl AvailabilityReports {
    /// Applies the next update of a host's agent. Returns false if an earlier update is missing, so that this
    /// one was not applied.
    pub(crate) fn apply_update(
        &mut self,
        hosts: &mut HostTable,
        (cell, host): (CellId, HostId),
        at: Timestamp,
        update: &NumberedUpdate,
    ) -> bool {
        let mut host_availability = self.by_host.get(&host).cloned().unwrap_or_default();
        let with_cell = |facts: &HostFacts| {
            let mut facts = facts.clone();
            facts.names.cell = cell.0;
            facts
        };
        // An update of the agent says neither in which cell the host is, nor whether the cell or an operator has
        // reported the host down or disabled. These facts are added before the update is applied.
        let completed = match &update.update {
            HostUpdate::Full(report) => {
                host_availability
                    .disabled_by_agent
                    .clone_from(&report.disabled);
                host_availability.forced_down_by_agent = report.is_forced_down;
                let mut report = report.clone();
                report.facts = with_cell(&report.facts);
                report.disabled = host_availability.disabled_reason();
                report.is_forced_down = host_availability.is_down();
                Some(HostUpdate::Full(report))
            }
            HostUpdate::Facts(facts) => Some(HostUpdate::Facts(Box::new(with_cell(facts)))),
            HostUpdate::Disabled(reason) => {
                host_availability.disabled_by_agent.clone_from(reason);
                Some(HostUpdate::Disabled(host_availability.disabled_reason()))
            }
            HostUpdate::ForcedDown(is_down) => {
                host_availability.forced_down_by_agent = *is_down;
                Some(HostUpdate::ForcedDown(host_availability.is_down()))
            }
            _ => None,
        };
        let receipt = match completed {
            Some(completed) => {
                let update = NumberedUpdate {
                    update: completed,
                    ..*update
                };
                hosts.apply_numbered(host.0, at, &update)
            }
            None => hosts.apply_numbered(host.0, at, update),
        };
        match receipt {
            Receipt::Applied => drop(self.by_host.insert(host, host_availability)),
            // A stale update, too, shows that the agent is alive.
            Receipt::Stale => drop(hosts.apply(host.0, at, &HostUpdate::Alive)),
            Receipt::Gap => {}
        }
        receipt != Receipt::Gap
    }

    /// Records whether a host's agent is silent, as its cell reports it.
    pub(crate) fn set_silent(
        &mut self,
        hosts: &mut HostTable,
        host: HostId,
        is_silent: bool,
        at: Timestamp,
    ) {
        self.change(hosts, host, at, |host_availability| {
            host_availability.is_silent = is_silent;
        });
    }

    /// Records an operator's settings of a host's service; without a service, the operator has set nothing.
    pub(crate) fn set_service(
        &mut self,
        hosts: &mut HostTable,
        host: HostId,
        service: Option<&Service>,
        at: Timestamp,
    ) {
        self.change(hosts, host, at, |host_availability| {
            let disabled = service.filter(|service| service.disabled);
            host_availability.disabled_by_operator = disabled.map(|service| {
                let reason = service.disabled_reason.clone();
                reason.unwrap_or_else(|| "disabled by an operator".to_owned())
            });
            host_availability.forced_down_by_operator =
                service.is_some_and(|service| service.forced_down);
        });
    }

    /// Removes a host that its cell does not have any more.
    pub(crate) fn remove(&mut self, hosts: &mut HostTable, host: HostId, at: Timestamp) {
        self.by_host.remove(&host);
        hosts.apply(host.0, at, &HostUpdate::Gone);
    }

    /// Changes a host's availability, and applies the difference to the host table.
    fn change(
        &mut self,
        hosts: &mut HostTable,
        host: HostId,
        at: Timestamp,
        change: impl FnOnce(&mut HostAvailability),
    ) {
        let host_availability = self.by_host.entry(host).or_default();
        let before = host_availability.clone();
        change(host_availability);
        // The change does not come from the agent, so the time of its last report stays.
        let heard_at = hosts.state(host.0).map_or(at, |state| state.reported_at);
        if before.disabled_reason() != host_availability.disabled_reason() {
            let update = HostUpdate::Disabled(host_availability.disabled_reason());
            hosts.apply(host.0, heard_at, &update);
        }
        if before.is_down() != host_availability.is_down() {
            let update = HostUpdate::ForcedDown(host_availability.is_down());
            hosts.apply(host.0, heard_at, &update);
        }
    }
}
