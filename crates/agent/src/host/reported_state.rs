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
    load: Load,
    told: Load,
    /// The instances that were reported.
    there: BTreeSet<InstanceId>,
    /// The instances that may have come or gone since they were reported.
    changed: BTreeSet<InstanceId>,
    /// Whether a full report is due.
    is_all_wanted: bool,
    sequence: u64,
}

impl ReportedState {
    /// Begins a session with a full report.
    pub(super) fn begin(&mut self) {
        self.sequence = 0;
        self.is_all_wanted = true;
    }

    pub(super) fn changed(&mut self, instance: InstanceId) {
        self.changed.insert(instance);
    }

    pub(super) fn work_began(&mut self, verbs: &[Operation]) {
        if let Some(is_build) = counts(verbs) {
            self.load.io_ops = self.load.io_ops.saturating_add(1);
            self.load.running_builds = self.load.running_builds.saturating_add(u32::from(is_build));
        }
    }

    pub(super) fn work_ended(&mut self, verbs: &[Operation], outcome: &Outcome) {
        let Some(is_build) = counts(verbs) else {
            return;
        };
        let load = &mut self.load;
        load.io_ops = load.io_ops.saturating_sub(1);
        if is_build {
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

/// Whether work is a build; none for a removal, which is not part of the load.
fn counts(verbs: &[Operation]) -> Option<bool> {
    match verbs {
        [Operation::Destroy] => None,
        verbs => Some(verbs.contains(&Operation::Spawn)),
    }
}

impl Host {
    /// Makes the next update a full report.
    pub fn request_full_report(&mut self) {
        self.soft.is_all_wanted = true;
    }

    /// Whether an update is due.
    #[must_use]
    pub fn has_updates(&self) -> bool {
        let soft = &self.soft;
        soft.is_all_wanted || soft.load != soft.told || !soft.changed.is_empty()
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
        if self.soft.is_all_wanted {
            self.soft.is_all_wanted = false;
            self.soft.changed.clear();
            let report = self.report(description, service_host);
            updates.push(HostUpdate::Full(Box::new(report)));
        }
        let load = self.soft.load;
        for instance in std::mem::take(&mut self.soft.changed) {
            let report = self.instance(instance);
            match (report, self.soft.there.contains(&instance)) {
                (Some(report), false) => {
                    self.soft.there.insert(instance);
                    updates.push(HostUpdate::InstanceCame(Box::new(report), load));
                }
                (None, true) => {
                    self.soft.there.remove(&instance);
                    updates.push(HostUpdate::InstanceWent(instance.0, load));
                }
                _ => {}
            }
        }
        if updates.is_empty() && load != self.soft.told {
            updates.push(HostUpdate::Load(load));
        }
        self.soft.told = load;
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
        self.soft.there = self.guests.keys().map(|key| key.0).collect();
        let instances = self.soft.there.iter();
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
