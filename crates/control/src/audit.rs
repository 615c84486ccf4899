//! Searches for inconsistencies between allocations, records, cells and hosts.
//!
//! Everything about one instance is read at one moment, but the reports of cells and hosts are
//! delayed. One search therefore yields suspicions only; those that a second search confirms a
//! little later are findings.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use placewright_conductor::cell_conductor::{Stage, VmState};
use placewright_conductor::claims::{self, INSTANCE, MIGRATION};
use placewright_conductor::super_conductor::{Mapping, MoveStage};
use placewright_conductor::{CellId, ControlState, HostId, InstanceId, MigrationId};
use placewright_link::InstanceView;
use placewright_placement::{Consumer, ConsumerId, Timestamp};
use uuid::Uuid;

use crate::finding::{Finding, FindingKind, Repair};
use crate::handle::ControlHandle;
use crate::scheduler::SchedulerHandle;
use crate::views::Views;

/// The most rows that are searched under one lock of the state, except for the instances of `wanted_guests`, which are
/// all read under one.
const ROWS_AT_ONCE: usize = 2000;

/// Suspicions by kind and UUID.
pub(crate) type Suspicions = BTreeMap<(FindingKind, Uuid), Finding>;

/// How long something may make no progress before it counts as stuck, and the time of the search.
#[derive(Clone, Copy)]
struct StuckThreshold {
    now: Timestamp,
    threshold_us: i64,
}

impl StuckThreshold {
    /// Whether something that has made no progress since this time is stuck.
    fn is_exceeded(self, since: Timestamp) -> bool {
        self.now.0.saturating_sub(since.0) > self.threshold_us
    }
}

/// Searches everything once, and returns the suspicions.
pub(crate) fn search(control: &ControlHandle, scheduler: &SchedulerHandle) -> Suspicions {
    let mut search = AuditSearch {
        control,
        stuck: StuckThreshold {
            now: control.now(),
            threshold_us: i64::try_from(control.options().stuck_after.as_micros())
                .unwrap_or(i64::MAX),
        },
        found: Suspicions::new(),
    };
    search.check_mappings();
    search.check_consumers();
    search.check_cells();
    search.check_guests(scheduler);
    search.found
}

/// A search for inconsistencies, with the suspicions so far.
struct AuditSearch<'a> {
    control: &'a ControlHandle,
    stuck: StuckThreshold,
    found: Suspicions,
}

/// Whether a cell is up and its initial listing is complete.
fn is_fully_listed(views: &Views, cell: CellId) -> bool {
    let view = views.cells.get(&cell);
    view.is_some_and(|view| view.is_up && view.is_complete)
}

impl AuditSearch<'_> {
    /// Computes a value from control's state and the cells' reports as of one moment.
    fn read<T>(&self, compute: impl FnOnce(&ControlState, &Views) -> T) -> T {
        let shared = &self.control.shared;
        shared
            .engine
            .read_now(|machine| compute(&machine.state, &shared.views.read()))
    }

    fn add(&mut self, finding: Finding) {
        self.found.insert((finding.kind, finding.id), finding);
    }

    /// Checks every instance of control: whether it is where it should be, with its allocations.
    fn check_mappings(&mut self) {
        let mut after = Unbounded;
        loop {
            let (findings, last) = self.read(|control, views| {
                let mappings = control.conductor.mappings().range((after, Unbounded));
                let mut findings = Vec::new();
                let mut last = None;
                for (instance, mapping) in mappings.take(ROWS_AT_ONCE) {
                    let stuck = self.stuck;
                    let finding = finding_of_mapping(control, views, *instance, mapping, stuck);
                    findings.extend(finding);
                    last = Some(*instance);
                }
                (findings, last)
            });
            findings.into_iter().for_each(|finding| self.add(finding));
            match last {
                Some(last) => after = Excluded(last),
                None => return,
            }
        }
    }

    /// Checks every consumer that is an instance or a migration: whether control has the instance or move that needs
    /// it.
    fn check_consumers(&mut self) {
        let mut first_slot = 0;
        loop {
            let slot_count = self.read(|control, _| control.placement.consumer_slots());
            if first_slot >= slot_count {
                return;
            }
            let findings = self.read(|control, _| {
                let ids = (first_slot..(first_slot + ROWS_AT_ONCE).min(slot_count))
                    .filter_map(|slot| u32::try_from(slot).ok());
                let consumers =
                    ids.filter_map(|slot| control.placement.consumer_by_id(ConsumerId(slot)));
                let orphans =
                    consumers.filter_map(|consumer| finding_of_consumer(control, consumer));
                orphans.collect::<Vec<_>>()
            });
            findings.into_iter().for_each(|finding| self.add(finding));
            first_slot += ROWS_AT_ONCE;
        }
    }

    /// Checks every instance of the cells: whether control has it.
    fn check_cells(&mut self) {
        let cells: Vec<CellId> = self.read(|_, views| views.cells.keys().copied().collect());
        for cell in cells {
            if !self.read(|_, views| is_fully_listed(views, cell)) {
                continue;
            }
            let mut after = Unbounded;
            loop {
                let (findings, last) = self.read(|control, views| {
                    let mut findings = Vec::new();
                    let mut last = None;
                    let view = views.cells.get(&cell);
                    let instances = view.map(|view| view.instances.range((after, Unbounded)));
                    for (instance, view) in instances.into_iter().flatten().take(ROWS_AT_ONCE) {
                        let mapping = control.conductor.mappings().get(instance);
                        let of_control = (control, mapping);
                        let finding =
                            finding_of_view(cell, *instance, view, of_control, self.stuck);
                        findings.extend(finding);
                        last = Some(*instance);
                    }
                    (findings, last)
                });
                findings.into_iter().for_each(|finding| self.add(finding));
                match last {
                    Some(last) => after = Excluded(last),
                    None => break,
                }
            }
        }
    }

    /// Compares the guests that hosts report with the instances of their cells.
    fn check_guests(&mut self, scheduler: &SchedulerHandle) {
        // Each host with its cell, whether the host is up, and the guests that it has reported.
        let reported: Vec<(HostId, CellId, bool, BTreeSet<Uuid>)> = scheduler.read_hosts(|hosts| {
            let slots = hosts.slots().iter();
            let hosts = slots.filter_map(|slot| {
                let host = hosts.get(slot)?;
                let not_pending = host
                    .instances
                    .iter()
                    .filter(|(_, instance)| !instance.is_pending);
                let guests = not_pending.map(|(uuid, _)| *uuid).collect();
                let is_up = hosts.up().contains(slot);
                Some((HostId(host.uuid), CellId(host.names.cell), is_up, guests))
            });
            hosts.collect()
        });
        let mut wanted = self.wanted_guests();
        for (host, cell, is_up, guests) in &reported {
            let wanted_of_host = wanted.remove(host).unwrap_or_default();
            if !is_up || !self.read(|_, views| is_fully_listed(views, *cell)) {
                continue;
            }
            for (instance, must_exist) in &wanted_of_host {
                if *must_exist && !guests.contains(instance) {
                    let what = "The instance is active, and its host does not have it.";
                    // Reports of hosts are delayed, and an agent that reconnects may not have
                    // reported the guest yet: a new session of the agent shows whether the guest exists.
                    let repair_kind = Some(Repair::ReconcileGuest);
                    let finding =
                        Finding::new(FindingKind::MissingGuest, *instance, what, repair_kind);
                    self.add(finding.at(Some(*cell), Some(*host)));
                }
            }
            for instance in guests
                .iter()
                .filter(|guest| !wanted_of_host.contains_key(guest))
            {
                let what = "The host has a guest of an instance that is not there.";
                let repair_kind = Some(Repair::DestroyGuest);
                let finding = Finding::new(FindingKind::UnknownGuest, *instance, what, repair_kind);
                self.add(finding.at(Some(*cell), Some(*host)));
            }
        }
    }

    /// The instances that each host should or may have; true for those that it must have.
    fn wanted_guests(&self) -> BTreeMap<HostId, BTreeMap<Uuid, bool>> {
        self.read(|control, views| {
            let mut wanted: BTreeMap<HostId, BTreeMap<Uuid, bool>> = BTreeMap::new();
            let instances = views.cells.values().flat_map(|view| &view.instances);
            for (instance, view) in instances {
                let must_exist = view.job.is_none() && view.vm_state == VmState::Active;
                if let Some(guest) = view.guest {
                    let of_host = wanted.entry(guest.host).or_default();
                    of_host.insert(instance.0, must_exist);
                }
                let target = view.job.as_ref().and_then(|job| job.target);
                if let Some(target) = target {
                    let of_host = wanted.entry(target).or_default();
                    of_host.entry(instance.0).or_insert(false);
                }
            }
            // While an instance is moved, its source may still have a guest.
            for migration in control.conductor.moves().keys() {
                let row = control.conductor.migrations().get(migration);
                let source = row.and_then(|row| Some((row.source?, row.instance)));
                if let Some((source, instance)) = source {
                    let of_host = wanted.entry(source).or_default();
                    of_host.entry(instance.0).or_insert(false);
                }
            }
            wanted
        })
    }
}

/// The inconsistency of an instance of control, if there is one.
fn finding_of_mapping(
    control: &ControlState,
    views: &Views,
    instance: InstanceId,
    mapping: &Mapping,
    stuck: StuckThreshold,
) -> Option<Finding> {
    let state = &control.conductor;
    let finding = |kind, what: &str, repair_kind| {
        Finding::new(kind, instance.0, what, Some(repair_kind)).at(mapping.cell, None)
    };
    let build = state.builds().get(&instance);
    let cell = match mapping.cell {
        None if build.is_none() => {
            let what = "The instance has neither a cell nor a build request.";
            return Some(finding(FindingKind::LostRequest, what, Repair::Forget));
        }
        None => {
            let what = "The instance waits for a host, and control neither selects one nor fails the \
                        request.";
            let is_stuck = stuck.is_exceeded(mapping.waits_since());
            return is_stuck.then(|| finding(FindingKind::Stuck, what, Repair::Bury));
        }
        Some(CellId::CELL0) => {
            let what = "The instance found no host, and there is no record of why.";
            let is_buried = state.buried().contains_key(&instance);
            return (!is_buried).then(|| finding(FindingKind::LostRequest, what, Repair::Forget));
        }
        Some(cell) => cell,
    };
    if !is_fully_listed(views, cell) {
        return None;
    }
    if let Some(deletion) = state.deletions().get(&instance) {
        let what = "The instance is to be deleted, and its cell does not do it.";
        let is_stuck = stuck.is_exceeded(deletion.at);
        return is_stuck.then(|| finding(FindingKind::Stuck, what, Repair::Resend));
    }
    if build.is_some() {
        let what = "The instance has a host, and its cell does not accept it.";
        let is_stuck = stuck.is_exceeded(mapping.waits_since());
        return is_stuck.then(|| finding(FindingKind::Stuck, what, Repair::Resend));
    }
    let Some(view) = views.instance(cell, instance) else {
        let what = "The instance's cell does not have it.";
        let (kind, repair_kind) = (FindingKind::LostInstance, Repair::ForgetWithClaim);
        return Some(finding(kind, what, repair_kind));
    };
    let latest = mapping.migrations.last();
    if let Some((migration, row)) = latest.and_then(|id| Some((*id, state.moves().get(id)?))) {
        let record = state.migrations().get(&migration);
        let is_late = record.is_some_and(|record| stuck.is_exceeded(record.updated_at));
        let what = "A move of the instance makes no progress.";
        let repair_kind = match row.stage {
            MoveStage::InCell => return None,
            MoveStage::Reserved => Repair::FailMove(migration),
            MoveStage::Requested | MoveStage::Placed { .. } | MoveStage::Cancelling => {
                Repair::Resend
            }
        };
        return is_late.then(|| finding(FindingKind::Stuck, what, repair_kind));
    }
    let guest = view.guest.filter(|_| view.job.is_none())?;
    if claims::has_allocations_on(&control.placement, instance, guest.host) {
        return None;
    }
    let what = "The instance is on a host without allocations there.";
    let finding = finding(FindingKind::MissingAllocation, what, Repair::Reclaim);
    Some(finding.at(mapping.cell, Some(guest.host)))
}

/// The inconsistency of a consumer, if it holds resources for an instance or a move that does not exist. A consumer of
/// another type belongs to another service, and is never reported.
fn finding_of_consumer(control: &ControlState, consumer: &Consumer) -> Option<Finding> {
    let state = &control.conductor;
    let kind = control
        .placement
        .consumer_type_name(consumer.consumer_type?);
    let uuid: Uuid = consumer.uuid.as_str().parse().ok()?;
    let is_known = match kind {
        INSTANCE => state.mappings().contains_key(&InstanceId(uuid)),
        MIGRATION => state.moves().contains_key(&MigrationId(uuid)),
        _ => true,
    };
    // Whether the consumer is a migration whose instance is being deleted, which releases the allocations in the end.
    let is_ending = state
        .migrations()
        .get(&MigrationId(uuid))
        .and_then(|row| state.mappings().get(&row.instance))
        .is_some_and(|mapping| mapping.is_deleting);
    let host = consumer
        .host_assignment
        .and_then(|assignment| control.placement.provider(assignment.host));
    let what = format!("Resources are held for {kind} {uuid}, which does not exist.");
    (!is_known && !is_ending).then(|| {
        Finding::new(
            FindingKind::OrphanAllocation,
            uuid,
            what,
            Some(Repair::Release),
        )
        .at(None, host.map(|host| HostId(host.uuid)))
    })
}

/// The inconsistency of an instance of a cell, if there is one. `mapping` is the instance's mapping, if control has
/// one.
fn finding_of_view(
    cell: CellId,
    instance: InstanceId,
    view: &InstanceView,
    (control, mapping): (&ControlState, Option<&Mapping>),
    stuck: StuckThreshold,
) -> Option<Finding> {
    let host = view.guest.map(|guest| guest.host);
    let finding = |kind, what: &str, repair_kind| {
        Finding::new(kind, instance.0, what, repair_kind).at(Some(cell), host)
    };
    let left_cell = mapping.and_then(Mapping::left_cell);
    if left_cell.is_some_and(|left| left.cell == cell) && !stuck.is_exceeded(view.updated_at) {
        // Control took the instance from this cell, which has time until the threshold to delete the instance.
        return None;
    }
    if mapping.and_then(|mapping| mapping.cell) != Some(cell) {
        let what = match mapping {
            None => "The cell has an instance that control does not know.",
            Some(_) => "The cell has an instance that belongs to another cell.",
        };
        return Some(finding(
            FindingKind::UnknownInstance,
            what,
            Some(Repair::DeleteInCell),
        ));
    }
    let job = view.job.as_ref()?;
    if job.stage == Stage::Verify || !stuck.is_exceeded(view.updated_at) {
        return None;
    }
    let repair_kind = match (job.stage, job.migration) {
        // Control is selecting a host, or has lost the move.
        (Stage::Reserved, Some(migration)) => {
            let is_under_way = control.conductor.moves().contains_key(&migration);
            (!is_under_way).then_some(Repair::CancelReservation(migration))
        }
        (Stage::Step(_) | Stage::AwaitDestroyed(_), _) => {
            let hosts: Vec<HostId> = host.into_iter().chain(job.target).collect();
            (!hosts.is_empty()).then_some(Repair::Reconcile(hosts))
        }
        // The cell repeats its claim requests by itself. The other stages were handled above.
        (Stage::Reserved | Stage::Swap | Stage::AwaitClaim(_) | Stage::Verify, _) => None,
    };
    let what = format!("{:?} of the instance makes no progress.", job.kind);
    Some(finding(FindingKind::Stuck, &what, repair_kind))
}
