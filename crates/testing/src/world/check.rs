//! Checks of the invariants of the world: those that hold at every moment, and those that hold at rest.

use std::collections::BTreeSet;

use placewright_conductor::cell_conductor::state::Continuation;
use placewright_conductor::cell_conductor::{JobKind, Stage, VmState};
use placewright_conductor::super_conductor::{BuildStage, MoveStage};
use placewright_conductor::{CellId, HostId, InstanceId};
use placewright_placement::ConsumerUuid;

use super::World;

impl World {
    /// Whether a consumer holds an allocation of a host.
    fn holds(&self, consumer: ConsumerUuid, host: HostId) -> bool {
        let state = &self.control.placement;
        let consumer = state.consumer(consumer);
        consumer.is_some_and(|consumer| {
            consumer.allocations.iter().any(|allocation| {
                let provider = state.provider(allocation.provider);
                provider.is_some_and(|provider| provider.uuid == host.0)
            })
        })
    }

    /// Whether no effect is pending, no guest has to be destroyed, and every job waits for its move to be confirmed or
    /// reverted.
    pub fn is_at_rest(&self) -> bool {
        self.under_way().is_empty()
    }

    /// The effects, guests and jobs for which [`Self::is_at_rest`] waits, one line each.
    pub fn under_way(&self) -> Vec<String> {
        let effects = self.control.conductor.effects();
        let mut lines: Vec<String> = effects.iter().map(|effect| format!("{effect:?}")).collect();
        for (cell, state) in &self.cells {
            let jobs = state.jobs().iter();
            let jobs = jobs.filter(|(_, job)| !matches!(job.stage, Stage::Verify));
            lines.extend(jobs.map(|(instance, job)| {
                let row = state.instances().get(instance);
                let host = job.target.as_ref().map(|target| target.candidate.host);
                let host_row = host.and_then(|host| state.hosts().get(&host));
                let agent = host.and_then(|host| self.agents.get(&host));
                format!("{cell}: {instance}: {job:?} of {row:?} on {host_row:?} with {agent:?}")
            }));
            let doomed = state.doomed().iter();
            lines.extend(doomed.map(|guest| format!("{cell}: to destroy: {guest:?}")));
        }
        lines
    }

    /// Checks that an instance is built and runs only in the cell of its mapping. Another cell that has the instance
    /// has no guest of it, and is about to forget it. An instance that is being deleted does not wait for a host.
    fn check_cells(&self) {
        let conductor = &self.control.conductor;
        for (instance, build) in conductor.builds() {
            let is_deleting =
                (conductor.mappings().get(instance)).is_none_or(|row| row.is_deleting);
            let is_waiting = build.stage == BuildStage::Waiting;
            assert!(!(is_waiting && is_deleting), "{instance} is placed");
        }
        for (cell, state) in &self.cells {
            for (instance, row) in state.instances() {
                let mapping = self.control.conductor.mappings().get(instance);
                if mapping.is_some_and(|mapping| mapping.cell == Some(*cell)) {
                    continue;
                }
                let job = state.jobs().get(instance);
                let is_giving_up = job.is_some_and(|job| {
                    job.kind == JobKind::Delete
                        || job.stage == Stage::AwaitClaim(Continuation::Release)
                });
                assert!(
                    is_giving_up && row.guest.is_none(),
                    "{instance} is in {cell} too: {row:?} {job:?} {mapping:?}"
                );
            }
        }
    }

    /// Invariants that hold at every moment.
    pub fn check(&self) {
        self.check_cells();
        let conductor = &self.control.conductor;
        let (listing, all_projects, from_the_start) = (conductor.listing(), None, None);
        let ascending = listing.after(all_projects, from_the_start, false);
        let mut listed: Vec<_> = ascending.collect();
        let mappings = conductor.mappings().iter();
        let mut mapped: Vec<_> = mappings.map(|(id, row)| (row.created_at, *id)).collect();
        mapped.sort_unstable();
        assert_eq!(listed, mapped, "lists show what there is");
        listed.reverse();
        let descending = listing.after(all_projects, from_the_start, true);
        assert_eq!(listed, descending.collect::<Vec<_>>());
        for (id, state) in &self.cells {
            for (instance, row) in state.instances() {
                let is_active = matches!(row.vm_state, VmState::Active | VmState::Resized);
                let job = state.jobs().get(instance);
                let is_leaving =
                    job.is_some_and(|job| matches!(job.kind, JobKind::Delete | JobKind::Shelve));
                let Some(guest) = row.guest.filter(|_| is_active && !is_leaving) else {
                    continue;
                };
                let mapping = conductor.mappings().get(instance);
                let migrations = mapping.iter().flat_map(|mapping| &mapping.migrations);
                let consumers = migrations.map(|migration| migration.consumer());
                let mut consumers = consumers.chain([instance.consumer()]);
                assert!(
                    consumers.any(|consumer| self.holds(consumer, guest.host)),
                    "{instance} in {id} is active and holds nothing: {row:?} {job:?} {mapping:?}"
                );
            }
        }
        let mut expected_consumers = BTreeSet::new();
        for (instance, mapping) in conductor.mappings() {
            expected_consumers.insert(instance.consumer());
            expected_consumers.extend(
                mapping
                    .migrations
                    .iter()
                    .map(|migration| migration.consumer()),
            );
        }
        for (_, consumer) in self.control.placement.all_consumers() {
            assert!(
                expected_consumers.contains(&consumer.uuid),
                "orphan {consumer:?}"
            );
        }
        for (_, provider) in self.control.placement.all_providers() {
            for inventory in &provider.inventories {
                assert!(inventory.used <= inventory.capacity, "{provider:?}");
            }
        }
    }

    /// Invariants that hold when nothing is under way and all hosts are up.
    pub fn check_at_rest(&self) {
        self.check();
        let conductor = &self.control.conductor;
        assert!(conductor.builds().is_empty(), "{:?}", conductor.builds());
        assert!(
            conductor.deletions().is_empty(),
            "{:?}",
            conductor.deletions()
        );
        for current_move in conductor.moves().values() {
            assert_eq!(current_move.stage, MoveStage::InCell);
        }
        let mut consumers = BTreeSet::new();
        let mut guests = BTreeSet::new();
        for (cell, state) in &self.cells {
            assert!(state.doomed().is_empty(), "{:?}", state.doomed());
            for (instance, row) in state.instances() {
                let mapping = &conductor.mappings()[instance];
                assert_eq!(mapping.cell, Some(*cell));
                assert!(!mapping.is_deleting);
                let job = state.jobs().get(instance);
                assert!(
                    job.is_none_or(|job| job.stage == Stage::Verify),
                    "stuck: {instance} {row:?} {job:?} {mapping:?}"
                );
                if let Some(guest) = row.guest {
                    consumers.insert(instance.consumer());
                    assert!(self.holds(instance.consumer(), guest.host), "{row:?}");
                    guests.insert((guest.host, *instance, guest.number));
                    let is_running = self.agents[&guest.host].guests[&(*instance, guest.number)];
                    assert!(is_running || row.vm_state == VmState::Error, "{row:?}");
                }
                if let Some(job) = job {
                    // The move waits to be confirmed or reverted: the old host's guest and claim still exist.
                    let migration = job.migration.unwrap();
                    consumers.insert(migration.consumer());
                    let origin = job.origin.unwrap();
                    assert!(self.holds(migration.consumer(), origin.host));
                    guests.insert((origin.host, *instance, origin.number));
                }
                assert_ne!(row.vm_state, VmState::Building);
            }
            let known_guests: BTreeSet<_> = state.guests().keys().copied().collect();
            let is_of_cell =
                |(host, ..): &&(HostId, InstanceId, u32)| conductor.hosts()[host].cell == *cell;
            let expected: BTreeSet<_> = guests.iter().filter(is_of_cell).copied().collect();
            assert_eq!(known_guests, expected);
        }
        let guests_on_hosts = self.agents.values().flat_map(|agent| {
            let guests = agent.guests.keys();
            guests.map(|(instance, number)| (agent.host, *instance, *number))
        });
        assert_eq!(guests_on_hosts.collect::<BTreeSet<_>>(), guests);
        for (instance, mapping) in conductor.mappings() {
            let cell = mapping.cell.unwrap();
            if cell == CellId::CELL0 {
                assert!(conductor.buried().contains_key(instance));
            } else {
                assert!(self.cells[&cell].instances().contains_key(instance));
            }
        }
        let all_consumers = self.control.placement.all_consumers();
        let holding: BTreeSet<_> = all_consumers.map(|(_, consumer)| consumer.uuid).collect();
        assert_eq!(holding, consumers);
    }

    /// Checks that nothing is left of a deleted instance.
    pub fn check_nothing_left(&self, instance: InstanceId) {
        let conductor = &self.control.conductor;
        assert!(!conductor.mappings().contains_key(&instance));
        assert!(!conductor.specs().contains_key(&instance));
        assert!(!conductor.buried().contains_key(&instance));
        for state in self.cells.values() {
            assert!(!state.instances().contains_key(&instance));
            assert!(!state.specs().contains_key(&instance));
        }
        self.check_at_rest();
    }
}
