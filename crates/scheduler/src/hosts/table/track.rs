//! Applies updates to the states of hosts, and updates the columns, sets and indexes with them.

use std::cmp::Reverse;
use std::sync::Arc;

use placewright_placement::Timestamp;
use placewright_placement::slot_set::SlotSet;
use placewright_placement::tree_changes::ChangeKind;
use smallvec::SmallVec;
use uuid::Uuid;

use super::{DerivedConfig, HostChange, HostTable};
use crate::hosts::amounts::Amounts;
use crate::hosts::column;
use crate::hosts::state::{
    HostFacts, HostInstance, HostNames, HostReport, HostState, HostUpdate, InstanceReport,
};
use crate::image::ImageProperties;

/// The largest number of free PCI devices that the weigher tells from smaller ones; more count as this many.
const DEVICES_MAX: i64 = 99;

/// The source from which the table knows that an instance is on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownFrom {
    /// The host's agent reported the instance.
    Report,
    /// The instance was claimed for the host, and is pending until the agent reports it.
    Claim,
}

impl HostTable {
    /// Takes a host's state out of the table, with its slot if it has one.
    pub(super) fn take_state(&mut self, host: Uuid) -> Option<(Option<u32>, Box<HostState>)> {
        match self.slot_of.get(&host).copied() {
            Some(slot) => Some((Some(slot), self.hosts[slot as usize].take()?)),
            None => Some((None, self.unbound.remove(&host)?)),
        }
    }

    /// Puts a host's state back after a change of some kind, and updates everything derived from
    /// it.
    pub(super) fn put_back(&mut self, slot: Option<u32>, state: Box<HostState>, kind: ChangeKind) {
        if let Some(slot) = slot {
            self.hosts[slot as usize] = Some(state);
            self.refresh(slot, kind);
        } else {
            // The provider that gives the host a slot may be in placement already, so the next catch-up looks for it.
            self.unbound_to_look_up.push(state.uuid);
            self.unbound.insert(state.uuid, state);
        }
    }

    /// Applies an update to a state that was taken out of the table.
    pub(super) fn apply_update(
        &mut self,
        slot: Option<u32>,
        state: &mut HostState,
        update: &HostUpdate,
    ) {
        match update {
            HostUpdate::Full(report) => self.replace_state(slot, state, report),
            HostUpdate::Facts(facts) => self.replace_facts(slot, state, facts),
            HostUpdate::Load(load) => state.load = *load,
            HostUpdate::Metrics(metrics) => state.metrics.clone_from(metrics),
            HostUpdate::InstanceCame(instance, load) => {
                state.load = *load;
                self.put_instance(slot, state, instance, KnownFrom::Report);
            }
            HostUpdate::InstanceWent(uuid, load) => {
                state.load = *load;
                self.remove_instance(slot, state, *uuid);
            }
            HostUpdate::Disabled(reason) => state.disabled.clone_from(reason),
            HostUpdate::ForcedDown(is_down) => state.is_forced_down = *is_down,
            HostUpdate::Alive | HostUpdate::Gone => {}
        }
    }

    /// Applies a full report to a host's state.
    fn replace_state(&mut self, slot: Option<u32>, state: &mut HostState, report: &HostReport) {
        self.replace_facts(slot, state, &report.facts);
        state.load = report.load;
        state.metrics.clone_from(&report.metrics);
        state.disabled.clone_from(&report.disabled);
        state.is_forced_down = report.is_forced_down;
        // Pending instances are kept: those that are missing from the report are still being built.
        let reported_before =
            |(uuid, instance): (&Uuid, &HostInstance)| (!instance.is_pending).then_some(*uuid);
        let replaced: Vec<Uuid> = state.instances.iter().filter_map(reported_before).collect();
        for uuid in replaced {
            self.remove_instance(slot, state, uuid);
        }
        for instance in &report.instances {
            self.put_instance(slot, state, instance, KnownFrom::Report);
        }
    }

    fn replace_facts(&mut self, slot: Option<u32>, state: &mut HostState, facts: &HostFacts) {
        if *state.names != facts.names {
            if let Some(slot) = slot {
                self.remove_names(slot, &state.names);
                self.add_names(slot, &facts.names);
            }
            state.names = Arc::new(facts.names.clone());
        }
        if *state.platform != facts.platform {
            state.platform = self.platforms.shared(&facts.platform);
            if let Some(slot) = slot {
                self.platforms.set_host(slot, &state.platform);
            }
        }
        state.stats.clone_from(&facts.stats);
        state.service_version = facts.service_version;
    }

    /// Adds a host to the indexes by service host and cell.
    fn add_names(&mut self, slot: u32, names: &HostNames) {
        let name: Box<str> = names.service_host.to_lowercase().into();
        let nodes = self.by_service_host.entry(name).or_default();
        nodes.push(slot);
        nodes.sort_unstable();
        self.by_cell.entry(names.cell).or_default().insert(slot);
    }

    /// Removes a host from the indexes by service host and cell.
    fn remove_names(&mut self, slot: u32, names: &HostNames) {
        let name = names.service_host.to_lowercase();
        if let Some(nodes) = self.by_service_host.get_mut(name.as_str()) {
            nodes.retain(|node| *node != slot);
            if nodes.is_empty() {
                self.by_service_host.remove(name.as_str());
            }
        }
        if let Some(hosts) = self.by_cell.get_mut(&names.cell) {
            hosts.remove(slot);
            if hosts.is_empty() {
                self.by_cell.remove(&names.cell);
            }
        }
    }

    /// Adds an instance to a host's state, or replaces it.
    pub(super) fn put_instance(
        &mut self,
        slot: Option<u32>,
        state: &mut HostState,
        report: &InstanceReport,
        known_from: KnownFrom,
    ) {
        let is_pending = known_from == KnownFrom::Claim;
        self.remove_instance(slot, state, report.uuid);
        let properties = if self.derived_config.counts_image_properties {
            let canonical = ImageProperties::new(report.image_properties.clone());
            // If one property is invalid, none of the instance's properties is counted.
            self.property_counts
                .add_instance(&canonical.unwrap_or_default())
        } else {
            Box::default()
        };
        let instance = HostInstance {
            group: report.group,
            is_pending,
            properties,
        };
        if let Some(slot) = slot {
            self.index_instance(slot, report.uuid, &instance);
        }
        state.pending_count += u32::from(is_pending);
        state.instances.insert(report.uuid, instance);
    }

    /// Removes an instance from a host's state.
    pub(super) fn remove_instance(&mut self, slot: Option<u32>, state: &mut HostState, uuid: Uuid) {
        let Some(instance) = state.instances.remove(&uuid) else {
            return;
        };
        if let Some(slot) = slot {
            self.unindex_instance(slot, uuid, &instance);
        }
        state.pending_count -= u32::from(instance.is_pending);
        self.property_counts.remove_instance(&instance.properties);
    }

    /// Adds an instance of a host to the indexes by instance, server group and image property.
    fn index_instance(&mut self, slot: u32, uuid: Uuid, instance: &HostInstance) {
        self.by_instance.entry(uuid).or_default().push(slot);
        if let Some(group) = instance.group {
            self.by_group.entry(group).or_default().insert(uuid);
        }
        self.property_counts.add_to_host(slot, &instance.properties);
    }

    /// Removes an instance of a host from these indexes. It stays in its group's index while another host has it.
    fn unindex_instance(&mut self, slot: u32, uuid: Uuid, instance: &HostInstance) {
        if let Some(hosts) = self.by_instance.get_mut(&uuid) {
            hosts.retain(|host| *host != slot);
            if hosts.is_empty() {
                self.by_instance.remove(&uuid);
            }
        }
        if let Some(group) = instance.group
            && self.hosts_of(uuid).is_empty()
            && let Some(members) = self.by_group.get_mut(&group)
        {
            members.remove(&uuid);
            if members.is_empty() {
                self.by_group.remove(&group);
            }
        }
        self.property_counts
            .remove_from_host(slot, &instance.properties);
    }

    /// Binds a host to a slot.
    pub(super) fn bind(&mut self, slot: u32, state: Box<HostState>) {
        let index = slot as usize;
        if index >= self.hosts.len() {
            self.hosts.resize_with(index + 1, || None);
        }
        self.add_names(slot, &state.names);
        self.platforms.set_host(slot, &state.platform);
        for (uuid, instance) in &state.instances {
            self.index_instance(slot, *uuid, instance);
        }
        self.slot_of.insert(state.uuid, slot);
        self.slots.insert(slot);
        // A liveness check that is still in the heap belongs to the host that had this slot before. The new host gets
        // another check.
        self.with_liveness_check.remove(slot);
        self.aggregates.set_membership(slot, std::iter::empty());
        self.hosts[index] = Some(state);
        self.set_amounts(slot, Amounts::default());
        self.refresh(slot, ChangeKind::Anything);
    }

    /// Removes a host from its slot and returns its state; `None` if the slot has no host.
    pub(super) fn unbind(&mut self, slot: u32) -> Option<Box<HostState>> {
        let state = self.hosts.get_mut(slot as usize)?.take()?;
        self.remove_names(slot, &state.names);
        self.platforms.remove_host(slot);
        self.service_versions.set(slot, None);
        for (uuid, instance) in &state.instances {
            self.unindex_instance(slot, *uuid, instance);
        }
        self.slot_of.remove(&state.uuid);
        self.aggregates.remove_host(slot);
        self.places.remove_host(slot);
        if let Some(fragmentation_data) = &mut self.fragmentation_data {
            fragmentation_data.remove_host(slot);
        }
        let sets: [&mut SlotSet; 5] = [
            &mut self.slots,
            &mut self.enabled,
            &mut self.up,
            &mut self.usable,
            &mut self.lacking_metrics,
        ];
        for set in sets {
            set.remove(slot);
        }
        for column in &mut self.columns {
            column.set(slot, 0.0);
        }
        self.amounts[slot as usize] = Amounts::default();
        self.changes.push(HostChange::anything(slot));
        Some(state)
    }

    /// Removes a host whose state was taken out of the table.
    pub(super) fn remove_taken(&mut self, slot: Option<u32>, state: Box<HostState>) {
        let removed = match slot {
            Some(slot) => {
                // `unbind` finds the state in the slot.
                self.hosts[slot as usize] = Some(state);
                self.unbind(slot)
            }
            None => Some(state),
        };
        // The state is dropped, so its instances no longer hold the numbers of their pairs of property and value (see
        // `PropertyCounts`). `unbind` leaves them held, because a state that only loses its slot still uses them.
        for instance in removed.iter().flat_map(|state| state.instances.values()) {
            self.property_counts.remove_instance(&instance.properties);
        }
    }

    /// Sets the amounts of a host, and adds a change of kind `Anything`.
    pub fn set_amounts(&mut self, slot: u32, amounts: Amounts) {
        self.change_amounts(slot, amounts, ChangeKind::Anything);
    }

    /// Sets the amounts of a host from which capacity was taken, and adds a change of kind `CapacityLoss`,
    /// or of kind `CapacityChange` if one of the free amounts grows nevertheless.
    pub fn set_amounts_after_capacity_loss(&mut self, slot: u32, amounts: Amounts) {
        self.change_amounts(slot, amounts, ChangeKind::CapacityLoss);
    }

    /// Sets the amounts of a host after a change of some kind, and records the change.
    pub(super) fn change_amounts(&mut self, slot: u32, amounts: Amounts, kind: ChangeKind) {
        let index = slot as usize;
        if index >= self.amounts.len() {
            self.amounts.resize(index + 1, Amounts::default());
        }
        // Free amounts can grow although capacity was only taken from the host in placement: expected allocations are
        // subtracted beforehand, and a claim may take less than was expected.
        let gains = !amounts.is_reduction_of(&self.amounts[index]);
        let kind = if gains {
            kind.max(ChangeKind::CapacityChange)
        } else {
            kind
        };
        self.amounts[index] = amounts;
        let devices = amounts.devices_free.min(DEVICES_MAX);
        for (column, value) in [
            (column::RAM_FREE_MB, amounts.ram_free_mb as f64),
            (column::CPUS_FREE, amounts.cpus_free()),
            (column::DISK_FREE_MB, amounts.disk_free_mb as f64),
            (column::FEW_DEVICES, (DEVICES_MAX + 1 - devices) as f64),
        ] {
            self.columns[column].set(slot, value);
        }
        self.changes.push(HostChange { slot, kind });
    }

    /// Updates columns and sets from a host's state after a change of some kind.
    fn refresh(&mut self, slot: u32, kind: ChangeKind) {
        let Some(state) = self.hosts[slot as usize].as_deref() else {
            return;
        };
        let pending = state.pending_count();
        let (metrics, lacks_metric) = self.derived_config.weighted_metrics(state);
        let version = state.platform.hypervisor_version.unwrap_or(0);
        for (column, value) in [
            // A pending instance counts as busy.
            (
                column::IO_OPS,
                f64::from(state.load.io_ops) + f64::from(pending),
            ),
            (column::INSTANCES, state.instances.len() as f64),
            (column::FAILED_BUILDS, f64::from(state.load.failed_builds)),
            (column::HYPERVISOR_VERSION, f64::from(version)),
            (column::METRICS, metrics),
        ] {
            self.columns[column].set(slot, value);
        }
        let service = (state.names.cell, state.service_version);
        let service = (!state.is_forced_down).then_some(service);
        self.service_versions.set(slot, service);
        let is_enabled = state.disabled.is_none();
        self.enabled.set(slot, is_enabled);
        self.lacking_metrics.set(slot, lacks_metric);
        self.refresh_up(slot);
        self.changes.push(HostChange { slot, kind });
    }

    /// Updates whether a host is up, and schedules the next check if none is scheduled. A check is not moved
    /// by a later report: when it is due, it schedules the next one.
    pub(super) fn refresh_up(&mut self, slot: u32) {
        let Some(state) = self.hosts.get(slot as usize).and_then(Option::as_deref) else {
            return;
        };
        let due = Timestamp(
            state
                .reported_at
                .0
                .saturating_add(self.derived_config.down_after_us),
        );
        let was_up = self.up.contains(slot);
        let is_up = !state.is_forced_down && due >= self.now;
        self.up.set(slot, is_up);
        self.usable.set(slot, is_up && self.enabled.contains(slot));
        if is_up != was_up {
            self.changes.push(HostChange::anything(slot));
        }
        let has_check = self.with_liveness_check.contains(slot);
        if is_up && !has_check {
            self.with_liveness_check.insert(slot);
            self.liveness_checks.push(Reverse((due, slot)));
        }
    }
}

impl DerivedConfig {
    /// The sum of a host's metrics, each multiplied by its ratio, and whether one of them is
    /// missing.
    ///
    /// If a missing metric has a ratio other than 0, `metric_unavailable` replaces the sum.
    fn weighted_metrics(&self, state: &HostState) -> (f64, bool) {
        let (mut sum, mut lacks_metric, mut is_unavailable) = (0.0, false, false);
        for (name, ratio) in &self.metrics {
            if let Some(value) = state.metric(name) {
                sum += value * ratio;
            } else {
                lacks_metric = true;
                is_unavailable |= *ratio != 0.0;
            }
        }
        let value = if is_unavailable {
            self.metric_unavailable
        } else {
            sum
        };
        (value, lacks_metric)
    }
}

impl HostTable {
    /// The sum of the metrics that a host has, each multiplied by its ratio.
    pub(crate) fn sum_of_metrics(&self, slot: u32) -> f64 {
        let Some(state) = self.get(slot) else {
            return 0.0;
        };
        let metrics = self.derived_config.metrics.iter();
        let products = metrics.filter_map(|(name, ratio)| Some(state.metric(name)? * ratio));
        products.fold(0.0, |sum, product| sum + product)
    }
}

/// The kind of change that an update of a host's soft state is.
pub(super) fn kind_of(update: &HostUpdate) -> ChangeKind {
    match update {
        // These updates change nothing but the load, the instances and the time of the report. Filters that read load
        // or instances are evaluated in each search, so what is cached of who is feasible stays valid: `Anything` is
        // not needed. `CapacityLoss` would be too weak, because the load can fall, and the host's score rise.
        HostUpdate::Load(_)
        | HostUpdate::InstanceCame(..)
        | HostUpdate::InstanceWent(..)
        | HostUpdate::Alive => ChangeKind::CapacityChange,
        _ => ChangeKind::Anything,
    }
}

/// The initial state of a host that has not reported.
pub(super) fn initial_state(uuid: Uuid) -> Box<HostState> {
    Box::new(HostState {
        uuid,
        ..HostState::default()
    })
}

/// A short list of slots, usually with one entry.
pub(super) type SlotList = SmallVec<[u32; 1]>;
