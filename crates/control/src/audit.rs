//! Looks for what does not add up between allocations, records, cells and hosts.
//!
//! What is said of one instance is read at one moment; what cells and hosts said lags behind it. So
//! a look only suspects, and what is still so a little later is a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use placewright_conductor::cell_conductor::{Stage, VmState};
use placewright_conductor::claims::{INSTANCE, MIGRATION};
use placewright_conductor::super_conductor::{Mapping, MoveStage};
use placewright_conductor::{CellId, Control, HostId, InstanceId, MigrationId};
use placewright_placement::{Consumer, ConsumerId, Timestamp};
use placewright_server::Ranker;
use serde::Serialize;
use uuid::Uuid;

use crate::conductor::{Conductor, now};
use crate::views::Views;

/// So many rows are looked at while nothing can change.
const ROWS_AT_ONCE: usize = 2000;
/// What makes no progress for so long is stuck: longer than any step may take.
const STUCK_AFTER_US: i64 = 15 * 60 * 1_000_000;

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Kind,
    /// The UUID of what it is about: a consumer, an instance, a move.
    pub id: Uuid,
    /// The cell where it is, if that matters.
    pub cell: Option<CellId>,
    /// The host where it is, if that matters.
    pub host: Option<HostId>,
    /// What is so, in a sentence.
    pub what: String,
    /// What repairing does; nothing if an operator has to decide.
    pub repair: Option<&'static str>,
}

/// What kind of thing does not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something is held for an instance or move that there is not.
    OrphanAllocation,
    /// An instance is on a host and nothing is held for it there.
    MissingAllocation,
    /// An instance is known here, and its cell does not have it.
    LostInstance,
    /// An instance is known here that nobody builds and no cell has.
    LostRequest,
    /// A cell has an instance that is not known here, or is another cell's.
    UnknownInstance,
    /// Something makes no progress although its cell is up.
    Stuck,
    /// A host has a guest of an instance that is not there.
    UnknownGuest,
    /// A host that is up does not have the guest of an active instance.
    MissingGuest,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::OrphanAllocation,
        Self::MissingAllocation,
        Self::LostInstance,
        Self::LostRequest,
        Self::UnknownInstance,
        Self::Stuck,
        Self::UnknownGuest,
        Self::MissingGuest,
    ];

    /// Its name in metrics and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OrphanAllocation => "orphan_allocation",
            Self::MissingAllocation => "missing_allocation",
            Self::LostInstance => "lost_instance",
            Self::LostRequest => "lost_request",
            Self::UnknownInstance => "unknown_instance",
            Self::Stuck => "stuck",
            Self::UnknownGuest => "unknown_guest",
            Self::MissingGuest => "missing_guest",
        }
    }
}

/// Suspicions by what they are about.
pub(crate) type Found = BTreeMap<(Kind, Uuid), Finding>;

/// Looks at everything once.
pub(crate) fn look(conductor: &Conductor, ranker: &Ranker) -> Found {
    let mut look = Look {
        conductor,
        at: now(),
        found: Found::new(),
    };
    look.mappings();
    look.consumers();
    look.cells();
    look.guests(ranker);
    look.found
}

struct Look<'a> {
    conductor: &'a Conductor,
    at: Timestamp,
    found: Found,
}

/// Whether all that a cell has is known, and it is there to be asked.
fn is_whole(views: &Views, cell: CellId) -> bool {
    let view = views.cells.get(&cell);
    view.is_some_and(|view| view.is_up && view.is_complete)
}

impl Look<'_> {
    fn read<T>(&self, compute: impl FnOnce(&Control, &Views) -> T) -> T {
        let shared = &self.conductor.shared;
        shared
            .engine
            .read_now(|machine| compute(&machine.0, &shared.views.read()))
    }

    fn find(&mut self, finding: Finding) {
        self.found.insert((finding.kind, finding.id), finding);
    }

    /// Every instance that is known here: is it where it should be, and is what it needs held?
    fn mappings(&mut self) {
        let mut after = Unbounded;
        loop {
            let (findings, last) = self.read(|control, views| {
                let mappings = control.conductor.mappings().range((after, Unbounded));
                let mut findings = Vec::new();
                let mut last = None;
                for (instance, mapping) in mappings.take(ROWS_AT_ONCE) {
                    findings.extend(of_mapping(control, views, *instance, mapping, self.at));
                    last = Some(*instance);
                }
                (findings, last)
            });
            findings.into_iter().for_each(|finding| self.find(finding));
            match last {
                Some(last) => after = Excluded(last),
                None => return,
            }
        }
    }

    /// Everything that is held: is there somebody who needs it?
    fn consumers(&mut self) {
        let mut from = 0;
        loop {
            let slots = self.read(|control, _| control.placement.consumer_slots());
            if from >= slots {
                return;
            }
            let findings = self.read(|control, _| {
                let ids = (from..(from + ROWS_AT_ONCE).min(slots))
                    .filter_map(|slot| u32::try_from(slot).ok());
                let consumers =
                    ids.filter_map(|slot| control.placement.consumer_by_id(ConsumerId(slot)));
                let orphans = consumers.filter_map(|consumer| orphan(control, consumer));
                orphans.collect::<Vec<_>>()
            });
            findings.into_iter().for_each(|finding| self.find(finding));
            from += ROWS_AT_ONCE;
        }
    }

    /// Everything that cells have: is it known here?
    fn cells(&mut self) {
        let cells: Vec<CellId> = self.read(|_, views| views.cells.keys().copied().collect());
        for cell in cells {
            let mut after = Unbounded;
            loop {
                let (findings, last) = self.read(|control, views| {
                    let mut findings = Vec::new();
                    let mut last = None;
                    let view = views.cells.get(&cell);
                    let instances = view.map(|view| view.instances.range((after, Unbounded)));
                    for (instance, view) in instances.into_iter().flatten().take(ROWS_AT_ONCE) {
                        let mapping = control.conductor.mappings().get(instance);
                        findings.extend(of_view(cell, *instance, view, mapping, self.at));
                        last = Some(*instance);
                    }
                    (findings, last)
                });
                findings.into_iter().for_each(|finding| self.find(finding));
                match last {
                    Some(last) => after = Excluded(last),
                    None => break,
                }
            }
        }
    }

    /// What hosts say that runs on them, against what their cells say.
    fn guests(&mut self, ranker: &Ranker) {
        let told: Vec<(HostId, CellId, bool, BTreeSet<Uuid>)> = ranker.with_hosts(|hosts| {
            let known = hosts.known().iter();
            let hosts = known.filter_map(|slot| {
                let host = hosts.get(slot)?;
                let spoken_of = host.instances.iter().filter(|(_, one)| !one.is_expected);
                let guests = spoken_of.map(|(uuid, _)| *uuid).collect();
                let is_up = hosts.up().contains(slot);
                Some((HostId(host.uuid), CellId(host.names.cell), is_up, guests))
            });
            hosts.collect()
        });
        let mut wanted = self.wanted_guests();
        for (host, cell, is_up, guests) in &told {
            let of_host = wanted.remove(host).unwrap_or_default();
            if !is_up || !self.read(|_, views| is_whole(views, *cell)) {
                continue;
            }
            for (instance, is_sure) in &of_host {
                if *is_sure && !guests.contains(instance) {
                    self.find(Finding {
                        kind: Kind::MissingGuest,
                        id: *instance,
                        cell: Some(*cell),
                        host: Some(*host),
                        what: "The instance is active, and its host does not have it.".to_owned(),
                        repair: None,
                    });
                }
            }
            for instance in guests.iter().filter(|guest| !of_host.contains_key(guest)) {
                self.find(Finding {
                    kind: Kind::UnknownGuest,
                    id: *instance,
                    cell: Some(*cell),
                    host: Some(*host),
                    what: "The host has a guest of an instance that is not there.".to_owned(),
                    repair: None,
                });
            }
        }
    }

    /// The instances that each host should or may have; of those that it surely should, true.
    fn wanted_guests(&self) -> BTreeMap<HostId, BTreeMap<Uuid, bool>> {
        self.read(|control, views| {
            let mut wanted: BTreeMap<HostId, BTreeMap<Uuid, bool>> = BTreeMap::new();
            let instances = views.cells.values().flat_map(|view| &view.instances);
            for (instance, view) in instances {
                let is_sure = view.job.is_none() && view.vm_state == VmState::Active;
                if let Some(guest) = view.guest {
                    let of_host = wanted.entry(guest.host).or_default();
                    of_host.insert(instance.0, is_sure);
                }
                let target = view.job.as_ref().and_then(|job| job.target);
                if let Some(target) = target {
                    let of_host = wanted.entry(target).or_default();
                    of_host.entry(instance.0).or_insert(false);
                }
            }
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

#[expect(
    clippy::too_many_lines,
    reason = "one question after the other about one instance"
)]
fn of_mapping(
    control: &Control,
    views: &Views,
    instance: InstanceId,
    mapping: &Mapping,
    at: Timestamp,
) -> Option<Finding> {
    let state = &control.conductor;
    let finding = |kind, what: &str, repair| Finding {
        kind,
        id: instance.0,
        cell: mapping.cell,
        host: None,
        what: what.to_owned(),
        repair,
    };
    let forget = Some("deletes the record");
    let is_late = |since: Timestamp| at.0.saturating_sub(since.0) > STUCK_AFTER_US;
    let build = state.builds().get(&instance);
    let cell = match mapping.cell {
        None if build.is_none() => {
            return Some(finding(
                Kind::LostRequest,
                "The instance has neither a cell nor a build request.",
                forget,
            ));
        }
        None => {
            let what = "The instance waits for a place, and nobody finds one or says that there is \
                        none.";
            let is_stuck = is_late(mapping.created_at);
            return is_stuck.then(|| finding(Kind::Stuck, what, None));
        }
        Some(CellId::CELL0) => {
            let what = "The instance found no host, and there is no record of why.";
            let is_buried = state.buried().contains_key(&instance);
            return (!is_buried).then(|| finding(Kind::LostRequest, what, forget));
        }
        Some(cell) => cell,
    };
    if !is_whole(views, cell) {
        return None;
    }
    if let Some(deletion) = state.deletions().get(&instance) {
        let what = "The instance is to be deleted, and its cell does not do it.";
        return is_late(deletion.at).then(|| finding(Kind::Stuck, what, None));
    }
    if build.is_some() {
        let what = "The instance has a place, and its cell does not take it.";
        return is_late(mapping.created_at).then(|| finding(Kind::Stuck, what, None));
    }
    let Some(view) = views.instance(cell, instance) else {
        return Some(finding(
            Kind::LostInstance,
            "The instance's cell does not have it.",
            Some("deletes the record and what is held for it"),
        ));
    };
    let under_way = mapping.migrations.last();
    if let Some(row) = under_way.and_then(|migration| state.moves().get(migration)) {
        let waits = row.stage == MoveStage::InCell;
        let record = under_way.and_then(|migration| state.migrations().get(migration));
        let is_stuck = !waits && record.is_some_and(|record| is_late(record.updated_at));
        let what = "A move of the instance does not go on.";
        return is_stuck.then(|| finding(Kind::Stuck, what, None));
    }
    let guest = view.guest.filter(|_| view.job.is_none())?;
    let consumer = control.placement.consumer(instance.consumer());
    let holds = consumer.is_some_and(|consumer| {
        let mut providers = consumer.allocations.iter().map(|held| held.provider);
        providers.any(|provider| {
            let root = control.placement.provider(provider).map(|found| found.root);
            let root = root.and_then(|root| control.placement.provider(root));
            root.is_some_and(|root| root.uuid == guest.host.0)
        })
    });
    (!holds).then(|| Finding {
        host: Some(guest.host),
        ..finding(
            Kind::MissingAllocation,
            "The instance is on a host, and nothing is held for it there.",
            None,
        )
    })
}

/// Only consumers of the conductor's own types: others are somebody else's.
fn orphan(control: &Control, consumer: &Consumer) -> Option<Finding> {
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
    // Its deletion is not over: the cell releases it.
    let is_ending = state
        .migrations()
        .get(&MigrationId(uuid))
        .and_then(|row| state.mappings().get(&row.instance))
        .is_some_and(|mapping| mapping.is_deleting);
    (!is_known && !is_ending).then(|| Finding {
        kind: Kind::OrphanAllocation,
        id: uuid,
        cell: None,
        host: consumer
            .placing
            .and_then(|placing| control.placement.provider(placing.host))
            .map(|host| HostId(host.uuid)),
        what: format!("Resources are held for {kind} {uuid}, which there is not."),
        repair: Some("releases what is held"),
    })
}

fn of_view(
    cell: CellId,
    instance: InstanceId,
    view: &placewright_link::InstanceView,
    mapping: Option<&Mapping>,
    at: Timestamp,
) -> Option<Finding> {
    let host = view.guest.map(|guest| guest.host);
    if mapping.and_then(|mapping| mapping.cell) != Some(cell) {
        let what = match mapping {
            None => "The cell has an instance that control does not know.",
            Some(_) => "The cell has an instance that belongs to another cell.",
        };
        return Some(Finding {
            kind: Kind::UnknownInstance,
            id: instance.0,
            cell: Some(cell),
            host,
            what: what.to_owned(),
            repair: Some("has the cell delete it"),
        });
    }
    let job = view.job.as_ref()?;
    let waits = job.stage == Stage::Verify;
    let is_late = at.0.saturating_sub(view.updated_at.0) > STUCK_AFTER_US;
    (is_late && !waits).then(|| Finding {
        kind: Kind::Stuck,
        id: instance.0,
        cell: Some(cell),
        host,
        what: format!("{:?} of the instance does not go on.", job.kind),
        repair: None,
    })
}
