//! The soft state that a host reports to its cell: its load and its instances.
//!
//! Changes are merged until they can be sent: [`Host::take_updates`] returns the newest state and no
//! intermediate ones.

use std::collections::{BTreeMap, BTreeSet};

use placewright_conductor::InstanceId;
use placewright_types::host_state::{HostUpdate, InstanceReport, Load, NumberedUpdate};

use super::{Host, Outcome};
use crate::description::HostDescription;
use crate::driver::Operation;
use crate::guest_log::GuestKey;

/// The soft state that was reported to the cell, and the changes since.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedState {
    /// The load now; a report is due while it differs from `reported_load`.
    load: Load,
    /// The load that was reported last.
    reported_load: Load,
    /// The instances that were reported to be on the host.
    reported_instances: BTreeSet<InstanceId>,
    /// The instances that may have come or gone since they were reported.
    changed_instances: BTreeSet<InstanceId>,
    /// Those of `changed_instances` that got another image.
    changed_images: BTreeSet<InstanceId>,
    /// Whether a full report is due.
    is_full_report_due: bool,
    /// The version of the compute service that is reported. It is 0 until the host is written to placement, because
    /// whoever sees the version relies on what it brings, such as
    /// [`OWNER_TRAIT`](placewright_types::host_state::OWNER_TRAIT) on the providers of the host.
    service_version: u32,
    /// Whether a report of the facts (names, platform, version of the compute service) is due.
    are_facts_due: bool,
    /// The number of the last update of this session.
    sequence: u64,
}

impl ReportedState {
    /// Begins a session with a full report.
    pub(super) fn begin_session(&mut self) {
        self.sequence = 0;
        self.is_full_report_due = true;
    }

    /// Records that the instance of a guest may have come or gone.
    pub(super) fn note_instance_change(&mut self, (instance, _): GuestKey) {
        self.changed_instances.insert(instance);
    }

    /// Records that an instance got another image. It has to be reported again, because its report contains the
    /// properties of the image.
    pub(super) fn note_image_change(&mut self, key: GuestKey) {
        self.note_instance_change(key);
        self.changed_images.insert(key.0);
    }

    /// Adds work that begins to the load.
    pub(super) fn count_work_start(&mut self, operations: &[Operation]) {
        let kind = LoadKind::new(operations);
        let load = &mut self.load;
        if kind != LoadKind::Removal {
            load.io_ops = load.io_ops.saturating_add(1);
        }
        if kind == LoadKind::Build {
            load.running_builds = load.running_builds.saturating_add(1);
        }
    }

    /// Subtracts work that has ended from the load, and counts the builds that failed since the last successful one.
    pub(super) fn count_work_end(&mut self, operations: &[Operation], outcome: &Outcome) {
        let kind = LoadKind::new(operations);
        let load = &mut self.load;
        if kind != LoadKind::Removal {
            load.io_ops = load.io_ops.saturating_sub(1);
        }
        if kind == LoadKind::Build {
            load.running_builds = load.running_builds.saturating_sub(1);
            match outcome {
                Outcome::Done => load.failed_builds = 0,
                Outcome::Failed { .. } => load.failed_builds = load.failed_builds.saturating_add(1),
                Outcome::Cancelled => {}
            }
        }
    }

    /// Counts a build that was refused for lack of capacity as a failed one.
    pub(super) fn count_refused_build(&mut self) {
        self.load.failed_builds = self.load.failed_builds.saturating_add(1);
    }
}

/// How a piece of work is counted in the load of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadKind {
    /// Both an I/O operation and a build.
    Build,
    /// An I/O operation that is not a build.
    IoOperation,
    /// The removal of a guest, which is not part of the load.
    Removal,
}

impl LoadKind {
    /// The kind of a piece of work with these operations.
    fn new(operations: &[Operation]) -> Self {
        match operations {
            [Operation::Destroy] => Self::Removal,
            operations if operations.contains(&Operation::Spawn) => Self::Build,
            _ => Self::IoOperation,
        }
    }
}

impl Host {
    /// Makes the next update a full report.
    pub fn request_full_report(&mut self) {
        self.reported.is_full_report_due = true;
    }

    /// Sets the version of the compute service, which is reported from now on.
    pub fn set_service_version(&mut self, version: u32) {
        self.reported.are_facts_due |= self.reported.service_version != version;
        self.reported.service_version = version;
    }

    /// Whether an update is due.
    #[must_use]
    pub fn has_updates(&self) -> bool {
        let reported = &self.reported;
        reported.is_full_report_due
            || reported.are_facts_due
            || reported.load != reported.reported_load
            || !reported.changed_instances.is_empty()
    }

    /// The numbers of operations and builds under way, and of the builds that failed since the last successful one.
    #[must_use]
    pub fn load(&self) -> Load {
        self.reported.load
    }

    /// Removes and returns the updates that are due, with their numbers. Before the first session there are none.
    pub fn take_updates(
        &mut self,
        description: &HostDescription,
        service_host: &str,
    ) -> Vec<NumberedUpdate> {
        if self.session == 0 {
            return Vec::new();
        }
        let mut updates = Vec::new();
        if self.reported.is_full_report_due {
            self.reported.is_full_report_due = false;
            self.reported.are_facts_due = false;
            self.reported.changed_instances.clear();
            self.reported.changed_images.clear();
            let report = self.full_report(description, service_host);
            updates.push(HostUpdate::Full(Box::new(report)));
        }
        if std::mem::take(&mut self.reported.are_facts_due) {
            let facts = description.facts(service_host, self.reported.service_version);
            updates.push(HostUpdate::Facts(Box::new(facts)));
        }
        let load = self.reported.load;
        for instance in std::mem::take(&mut self.reported.changed_instances) {
            let report = self.instance_report(instance);
            let has_other_image = self.reported.changed_images.remove(&instance);
            let is_reported = self.reported.reported_instances.contains(&instance);
            match (report, is_reported && !has_other_image) {
                (Some(report), false) => {
                    self.reported.reported_instances.insert(instance);
                    updates.push(HostUpdate::InstanceCame(Box::new(report), load));
                }
                (None, _) if self.reported.reported_instances.remove(&instance) => {
                    updates.push(HostUpdate::InstanceWent(instance.0, load));
                }
                _ => {}
            }
        }
        // Of the updates made above, only `HostUpdate::Facts` does not contain the load.
        let has_load = updates
            .iter()
            .any(|update| !matches!(update, HostUpdate::Facts(_)));
        if !has_load && load != self.reported.reported_load {
            updates.push(HostUpdate::Load(load));
        }
        self.reported.reported_load = load;
        updates
            .into_iter()
            .map(|update| self.assign_sequence(update))
            .collect()
    }

    /// Gives an update the next sequence number of the session.
    pub fn assign_sequence(&mut self, update: HostUpdate) -> NumberedUpdate {
        self.reported.sequence += 1;
        NumberedUpdate {
            incarnation: self.session,
            sequence: self.reported.sequence,
            update,
        }
    }

    fn full_report(
        &mut self,
        description: &HostDescription,
        service_host: &str,
    ) -> placewright_types::host_state::HostReport {
        self.reported.reported_instances =
            self.guests.keys().map(|(instance, _)| *instance).collect();
        let instances = self.reported.reported_instances.iter();
        let instances = instances.filter_map(|instance| self.instance_report(*instance));
        placewright_types::host_state::HostReport {
            facts: description.facts(service_host, self.reported.service_version),
            load: self.reported.load,
            metrics: description.metrics.clone(),
            instances: instances.collect(),
            disabled: description.disabled.clone(),
            // Only operators force a host down.
            is_forced_down: false,
        }
    }

    /// The report of an instance; `None` if no guest of it is on the host. An instance that is resized on its host has
    /// two guests there, but is reported once.
    fn instance_report(&self, instance: InstanceId) -> Option<InstanceReport> {
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
