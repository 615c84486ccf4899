//! The soft state that a host reports to its cell: its load and its instances.
//!
//! Changes are collected until they can be sent: [`Host::updates`] returns the newest state, and
//! not each step on the way to it.

use std::collections::{BTreeMap, BTreeSet};

use placewright_conductor::InstanceId;
use placewright_types::host_state::{HostUpdate, InstanceReport, Load, NumberedUpdate};

use super::{Host, Outcome};
use crate::description::HostDescription;
use crate::driver::Operation;

/// The soft state that was reported to the cell, and the changes since.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedState {
    /// The present load.
    load: Load,
    /// The load that was reported last.
    reported_load: Load,
    /// The instances that were reported to be on the host.
    reported_instances: BTreeSet<InstanceId>,
    /// The instances that may have come or gone since they were reported.
    changed: BTreeSet<InstanceId>,
    /// Whether a full report is due.
    is_full_report_due: bool,
    /// The number of the last update of this session.
    sequence: u64,
}

impl ReportedState {
    /// Begins a session with a full report.
    pub(super) fn begin(&mut self) {
        self.sequence = 0;
        self.is_full_report_due = true;
    }

    pub(super) fn changed(&mut self, instance: InstanceId) {
        self.changed.insert(instance);
    }

    pub(super) fn work_began(&mut self, operations: &[Operation]) {
        let work = Work::of(operations);
        let load = &mut self.load;
        if work != Work::Removal {
            load.io_ops = load.io_ops.saturating_add(1);
        }
        if work == Work::Build {
            load.running_builds = load.running_builds.saturating_add(1);
        }
    }

    pub(super) fn work_ended(&mut self, operations: &[Operation], outcome: &Outcome) {
        let work = Work::of(operations);
        let load = &mut self.load;
        if work != Work::Removal {
            load.io_ops = load.io_ops.saturating_sub(1);
        }
        if work == Work::Build {
            load.running_builds = load.running_builds.saturating_sub(1);
            match outcome {
                Outcome::Done => load.failed_builds = 0,
                Outcome::Failed { .. } => load.failed_builds = load.failed_builds.saturating_add(1),
                Outcome::Cancelled => {}
            }
        }
    }

    pub(super) fn build_refused(&mut self) {
        self.load.failed_builds = self.load.failed_builds.saturating_add(1);
    }
}

/// What work counts as in the load of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// An operation and a build.
    Build,
    /// An operation.
    Other,
    /// The removal of a guest, which is not part of the load.
    Removal,
}

impl Work {
    /// What the operations of a step count as together.
    fn of(operations: &[Operation]) -> Self {
        match operations {
            [Operation::Destroy] => Self::Removal,
            operations if operations.contains(&Operation::Spawn) => Self::Build,
            _ => Self::Other,
        }
    }
}

impl Host {
    /// Makes the next update a full report.
    pub fn request_full_report(&mut self) {
        self.soft.is_full_report_due = true;
    }

    /// Whether an update is due.
    #[must_use]
    pub fn has_updates(&self) -> bool {
        let soft = &self.soft;
        soft.is_full_report_due || soft.load != soft.reported_load || !soft.changed.is_empty()
    }

    /// The number of operations and builds under way, and of failed builds.
    #[must_use]
    pub fn load(&self) -> Load {
        self.soft.load
    }

    /// Takes the updates that are due, with their numbers.
    pub fn updates(
        &mut self,
        description: &HostDescription,
        service_host: &str,
    ) -> Vec<NumberedUpdate> {
        if self.session == 0 {
            return Vec::new();
        }
        let mut updates = Vec::new();
        if self.soft.is_full_report_due {
            self.soft.is_full_report_due = false;
            self.soft.changed.clear();
            let report = self.report(description, service_host);
            updates.push(HostUpdate::Full(Box::new(report)));
        }
        let load = self.soft.load;
        for instance in std::mem::take(&mut self.soft.changed) {
            let report = self.instance(instance);
            match (report, self.soft.reported_instances.contains(&instance)) {
                (Some(report), false) => {
                    self.soft.reported_instances.insert(instance);
                    updates.push(HostUpdate::InstanceCame(Box::new(report), load));
                }
                (None, true) => {
                    self.soft.reported_instances.remove(&instance);
                    updates.push(HostUpdate::InstanceWent(instance.0, load));
                }
                _ => {}
            }
        }
        if updates.is_empty() && load != self.soft.reported_load {
            updates.push(HostUpdate::Load(load));
        }
        self.soft.reported_load = load;
        updates.into_iter().map(|one| self.numbered(one)).collect()
    }

    /// Numbers an update that was made elsewhere.
    pub fn numbered(&mut self, update: HostUpdate) -> NumberedUpdate {
        self.soft.sequence += 1;
        NumberedUpdate {
            incarnation: self.session,
            sequence: self.soft.sequence,
            update,
        }
    }

    fn report(
        &mut self,
        description: &HostDescription,
        service_host: &str,
    ) -> placewright_types::host_state::HostReport {
        self.soft.reported_instances = self.guests.keys().map(|key| key.0).collect();
        let instances = self.soft.reported_instances.iter();
        let instances = instances.filter_map(|instance| self.instance(*instance));
        placewright_types::host_state::HostReport {
            facts: description.facts(service_host),
            load: self.soft.load,
            metrics: description.metrics.clone(),
            instances: instances.collect(),
            disabled: description.disabled.clone(),
            is_forced_down: false,
        }
    }

    /// The report of an instance, whichever of its guests is on the host.
    fn instance(&self, instance: InstanceId) -> Option<InstanceReport> {
        let mut guests = self.guests.range((instance, 0)..=(instance, u32::MAX));
        let (_, guest) = guests.next()?;
        let properties = guest.image_properties.iter().cloned();
        Some(InstanceReport {
            uuid: instance.0,
            group: guest.group,
            image_properties: properties.collect::<BTreeMap<_, _>>(),
        })
    }
}
