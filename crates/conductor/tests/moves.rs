//! Builds and moves, one after the other: what they do, that doing every step twice changes
//! nothing, and that being killed after any step changes nothing.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

use placewright_conductor::cell_conductor::{Event, VmState};
use placewright_conductor::super_conductor::{Command, MigrationStatus};
use placewright_conductor::{CellId, MoveDecision, MoveKind};
use placewright_testing::world::{World, cell, host, instance, migration, spec};

/// How messages are delivered.
#[derive(Clone, Copy)]
enum How {
    /// Each once, in order.
    InOrder,
    /// Each twice in succession.
    Twice,
    /// All roles are killed after this many deliveries.
    Killed(usize),
}

struct Play {
    world: World,
    how: How,
    delivered: usize,
}

impl Play {
    fn rest(&mut self) {
        loop {
            if self.world.network.is_empty() {
                self.world.happen(cell(0), &Event::Tick);
                self.world.send_all();
                if self.world.network.is_empty() {
                    return;
                }
            }
            let packet = self.world.network.remove(0);
            if matches!(self.how, How::Twice) {
                self.world.deliver(packet.clone());
            }
            self.world.deliver(packet);
            self.delivered += 1;
            if matches!(self.how, How::Killed(at) if at == self.delivered) {
                self.world.crash();
            }
            self.world.check();
        }
    }

    fn start(&mut self, number: usize, kind: MoveKind) {
        let at = self.world.at;
        let resized = (kind == MoveKind::Resize).then(|| spec(at));
        self.world.conduct(Command::StartMove {
            migration: migration(number),
            instance: instance(1),
            kind,
            spec: resized.map(Box::new),
        });
        self.rest();
    }

    fn conclude(&mut self, number: usize, decision: MoveDecision) {
        let migration = migration(number);
        self.world.conduct(Command::Conclude {
            migration,
            decision,
        });
        self.rest();
    }

    fn is(&self, state: VmState, at: Option<u32>) {
        let row = &self.world.cells[&cell(0)].instances()[&instance(1)];
        let place = row.guest.map(|place| place.host);
        assert_eq!((row.vm_state, place), (state, at.map(|at| host(0, at))));
        self.world.check_at_rest();
    }

    fn ended(&self, number: usize, status: MigrationStatus) {
        let row = &self.world.control.conductor.migrations()[&migration(number)];
        assert_eq!(row.status, status);
    }
}

/// The life of an instance: built on an alternate, moved in every way, deleted. Returns the
/// digests along the way.
fn life(how: How) -> (Vec<(u128, u128)>, usize) {
    let mut play = Play {
        world: World::new(1, 4, 8),
        how,
        delivered: 0,
    };
    let mut digests = Vec::new();
    let mut note = |play: &Play| {
        let cell = placewright_records::cell::digest(&play.world.cells[&cell(0)]);
        digests.push((
            placewright_records::control::digest(&play.world.control),
            cell,
        ));
    };
    play.world.failing = vec![host(0, 0)];
    play.world.create(&[1]);
    play.rest();
    play.is(VmState::Active, Some(1));
    note(&play);
    play.world.failing = vec![host(0, 2)];
    play.start(1, MoveKind::ColdMigrate);
    play.is(VmState::Resized, Some(0));
    play.conclude(1, MoveDecision::Confirm);
    play.is(VmState::Active, Some(0));
    play.ended(1, MigrationStatus::Confirmed);
    note(&play);
    play.start(2, MoveKind::Resize);
    play.is(VmState::Resized, Some(0));
    play.conclude(2, MoveDecision::Revert);
    play.is(VmState::Active, Some(0));
    play.ended(2, MigrationStatus::Reverted);
    note(&play);
    play.start(3, MoveKind::Resize);
    play.conclude(3, MoveDecision::Confirm);
    play.is(VmState::Active, Some(0));
    note(&play);
    play.world.failing = vec![host(0, 1), host(0, 2)];
    play.start(4, MoveKind::LiveMigrate);
    play.is(VmState::Active, Some(3));
    note(&play);
    play.world.failing = (0..3).map(|n| host(0, n)).collect();
    play.start(5, MoveKind::LiveMigrate);
    play.is(VmState::Active, Some(3));
    play.ended(5, MigrationStatus::Error);
    note(&play);
    play.world.failing = vec![host(0, 3)];
    play.start(6, MoveKind::ColdMigrate);
    play.is(VmState::Active, Some(3));
    play.ended(6, MigrationStatus::Error);
    note(&play);
    play.world.failing.clear();
    shelve_and_evacuate(&mut play, &mut note);
    let command = Command::Delete {
        instance: instance(1),
    };
    play.world.conduct(command);
    play.rest();
    play.world.check_nothing_left(instance(1));
    note(&play);
    (digests, play.delivered)
}

fn shelve_and_evacuate(play: &mut Play, note: &mut dyn FnMut(&Play)) {
    let shelve = Event::Shelve {
        instance: instance(1),
    };
    play.world.happen(cell(0), &shelve).unwrap();
    play.rest();
    play.is(VmState::ShelvedOffloaded, None);
    note(play);
    play.start(7, MoveKind::Unshelve);
    play.is(VmState::Active, Some(0));
    note(play);
    let rebuild = Event::Rebuild {
        instance: instance(1),
        spec: spec(play.world.at),
    };
    play.world.happen(cell(0), &rebuild).unwrap();
    play.rest();
    play.is(VmState::Active, Some(0));
    play.world.agents.get_mut(&host(0, 0)).unwrap().is_up = false;
    let down = Event::HostDown { host: host(0, 0) };
    play.world.happen(cell(0), &down).unwrap();
    play.start(8, MoveKind::Evacuate);
    play.world.agents.get_mut(&host(0, 0)).unwrap().restart();
    play.rest();
    play.is(VmState::Active, Some(1));
    play.ended(8, MigrationStatus::Confirmed);
    note(play);
}

#[test]
fn every_step_done_twice_or_interrupted_gives_the_same_result() {
    let (digests, delivered) = life(How::InOrder);
    assert!(delivered > 100, "{delivered}");
    assert_eq!(life(How::Twice).0, digests);
    for at in 1..=delivered {
        assert_eq!(life(How::Killed(at)).0, digests, "killed after {at}");
    }
}

#[test]
fn what_found_no_host_is_kept_in_cell0_with_the_reason_until_it_is_deleted() {
    let mut world = World::new(1, 1, 3);
    world.create(&[1, 2]);
    world.settle();
    world.check_at_rest();
    let conductor = &world.control.conductor;
    assert_eq!(conductor.mappings()[&instance(2)].cell, Some(CellId::CELL0));
    let fault = &conductor.buried()[&instance(2)].fault;
    assert_eq!(fault.message, "No valid host was found.");
    world.conduct(Command::Delete {
        instance: instance(2),
    });
    world.settle();
    world.check_nothing_left(instance(2));
}

#[test]
fn a_build_that_fails_everywhere_keeps_its_history_and_holds_nothing() {
    let mut world = World::new(2, 4, 8);
    world.failing = (0..4).map(|n| host(0, n)).collect();
    world.create(&[1]);
    world.settle();
    world.check_at_rest();
    let state = &world.cells[&cell(0)];
    let row = &state.instances()[&instance(1)];
    assert_eq!((row.vm_state, row.guest), (VmState::Error, None));
    let action = &state.actions()[&(instance(1), 1)];
    let tried: Vec<_> = action.tries.iter().map(|one| one.host).collect();
    assert_eq!(tried, [host(0, 0), host(0, 1), host(0, 2)]);
    assert!(action.tries.iter().all(|one| one.failure.is_some()));
    assert_eq!(world.control.placement.consumer_count(), 0);
}

#[test]
fn disabled_and_down_cells_get_no_new_instances() {
    let mut world = World::new(2, 1, 8);
    let set = |disabled| Command::SetCell {
        cell: cell(0),
        name: "cell0".into(),
        disabled,
    };
    let down = |is_down| Command::SetCellDown {
        cell: cell(0),
        is_down,
    };
    for (number, command) in [
        (1, set(true)),
        (2, set(false)),
        (3, down(true)),
        (4, down(false)),
    ] {
        world.conduct(command);
        world.create(&[number]);
        world.settle();
        let expected = cell(u32::try_from(number % 2).unwrap());
        assert_eq!(world.cell_of(instance(number)), Some(expected));
    }
    world.check_at_rest();
}
