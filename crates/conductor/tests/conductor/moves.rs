//! Builds and moves, one after the other. The results are the same if every message is delivered twice, and if all
//! roles are killed after any message.

use placewright_conductor::cell_conductor::{Event, VmState};
use placewright_conductor::super_conductor::{Command, MigrationStatus};
use placewright_conductor::{CellId, MoveDecision, MoveKind};
use placewright_testing::world::{World, cell, host, instance, migration, spec};

/// How messages are delivered.
#[derive(Clone, Copy)]
enum Delivery {
    /// Each message is delivered once, in order.
    InOrder,
    /// Each message is delivered twice in succession.
    Twice,
    /// All roles are killed after this many deliveries.
    KilledAfter(usize),
}

struct Scenario {
    world: World,
    delivery: Delivery,
    /// The number of messages that were delivered so far.
    delivered: usize,
}

impl Scenario {
    fn come_to_rest(&mut self) {
        loop {
            if self.world.network.is_empty() {
                self.world.decide_event(cell(0), &Event::Tick);
                self.world.send_all();
                if self.world.network.is_empty() {
                    return;
                }
            }
            let packet = self.world.network.remove(0);
            if matches!(self.delivery, Delivery::Twice) {
                self.world.deliver(packet.clone());
            }
            self.world.deliver(packet);
            self.delivered += 1;
            if matches!(self.delivery, Delivery::KilledAfter(count) if count == self.delivered) {
                self.world.crash();
            }
            self.world.check();
        }
    }

    /// Starts a move of the instance, with this number, and carries it out.
    fn start_move(&mut self, number: usize, kind: MoveKind) {
        let at = self.world.at;
        let resized = (kind == MoveKind::Resize).then(|| spec(at));
        self.world.conduct(Command::StartMove {
            migration: migration(number),
            instance: instance(1),
            kind,
            spec: resized.map(Box::new),
        });
        self.come_to_rest();
    }

    fn confirm_or_revert(&mut self, number: usize, decision: MoveDecision) {
        let migration = migration(number);
        self.world.conduct(Command::ConfirmOrRevert {
            migration,
            decision,
            request: None,
        });
        self.come_to_rest();
    }

    /// Checks the state of the instance, and the number of its host.
    fn check_state(&self, state: VmState, host_number: Option<u32>) {
        let row = &self.world.cells[&cell(0)].instances()[&instance(1)];
        let guest_host = row.guest.map(|guest| guest.host);
        assert_eq!(
            (row.vm_state, guest_host),
            (state, host_number.map(|number| host(0, number)))
        );
        self.world.check_at_rest();
    }

    fn check_status(&self, number: usize, status: MigrationStatus) {
        let row = &self.world.control.conductor.migrations()[&migration(number)];
        assert_eq!(row.status, status);
    }
}

/// The life of an instance: built on an alternate, moved in every way, deleted. Returns the digests of
/// control and of the cell after each of these, and the number of messages.
fn run_lifecycle(delivery: Delivery) -> (Vec<(u128, u128)>, usize) {
    let mut scenario = Scenario {
        // One cell with four hosts of eight CPUs each.
        world: World::new(1, 4, 8),
        delivery,
        delivered: 0,
    };
    let mut digests = Vec::new();
    let mut record = |scenario: &Scenario| {
        let cell = placewright_records::cell::digest(&scenario.world.cells[&cell(0)]);
        digests.push((
            placewright_records::control::digest(&scenario.world.control),
            cell,
        ));
    };
    scenario.world.failing = vec![host(0, 0)];
    scenario.world.create(&[1]);
    scenario.come_to_rest();
    scenario.check_state(VmState::Active, Some(1));
    record(&scenario);
    scenario.world.failing = vec![host(0, 2)];
    scenario.start_move(1, MoveKind::ColdMigrate);
    scenario.check_state(VmState::Resized, Some(0));
    scenario.confirm_or_revert(1, MoveDecision::Confirm);
    scenario.check_state(VmState::Active, Some(0));
    scenario.check_status(1, MigrationStatus::Confirmed);
    record(&scenario);
    scenario.start_move(2, MoveKind::Resize);
    scenario.check_state(VmState::Resized, Some(0));
    scenario.confirm_or_revert(2, MoveDecision::Revert);
    scenario.check_state(VmState::Active, Some(0));
    scenario.check_status(2, MigrationStatus::Reverted);
    record(&scenario);
    scenario.start_move(3, MoveKind::Resize);
    scenario.confirm_or_revert(3, MoveDecision::Confirm);
    scenario.check_state(VmState::Active, Some(0));
    record(&scenario);
    scenario.world.failing = vec![host(0, 1), host(0, 2)];
    scenario.start_move(4, MoveKind::LiveMigrate);
    scenario.check_state(VmState::Active, Some(3));
    record(&scenario);
    scenario.world.failing = (0..3).map(|n| host(0, n)).collect();
    scenario.start_move(5, MoveKind::LiveMigrate);
    scenario.check_state(VmState::Active, Some(3));
    scenario.check_status(5, MigrationStatus::Error);
    record(&scenario);
    scenario.world.failing = vec![host(0, 3)];
    scenario.start_move(6, MoveKind::ColdMigrate);
    scenario.check_state(VmState::Active, Some(3));
    scenario.check_status(6, MigrationStatus::Error);
    record(&scenario);
    scenario.world.failing.clear();
    shelve_and_evacuate(&mut scenario, &mut record);
    let command = Command::Delete {
        instance: instance(1),
    };
    scenario.world.conduct(command);
    scenario.come_to_rest();
    scenario.world.check_nothing_left(instance(1));
    record(&scenario);
    (digests, scenario.delivered)
}

fn shelve_and_evacuate(scenario: &mut Scenario, record: &mut dyn FnMut(&Scenario)) {
    let shelve = Event::Shelve {
        instance: instance(1),
        request: None,
    };
    scenario.world.decide_event(cell(0), &shelve).unwrap();
    scenario.come_to_rest();
    scenario.check_state(VmState::ShelvedOffloaded, None);
    record(scenario);
    scenario.start_move(7, MoveKind::Unshelve);
    scenario.check_state(VmState::Active, Some(0));
    record(scenario);
    let rebuild = Event::Rebuild {
        instance: instance(1),
        spec: spec(scenario.world.at),
        request: None,
    };
    scenario.world.decide_event(cell(0), &rebuild).unwrap();
    scenario.come_to_rest();
    scenario.check_state(VmState::Active, Some(0));
    scenario.world.agents.get_mut(&host(0, 0)).unwrap().is_up = false;
    let down = Event::HostDown { host: host(0, 0) };
    scenario.world.decide_event(cell(0), &down).unwrap();
    scenario.start_move(8, MoveKind::Evacuate);
    scenario
        .world
        .agents
        .get_mut(&host(0, 0))
        .unwrap()
        .restart();
    scenario.come_to_rest();
    scenario.check_state(VmState::Active, Some(1));
    scenario.check_status(8, MigrationStatus::Confirmed);
    record(scenario);
}

#[test]
fn every_step_done_twice_or_interrupted_gives_the_same_result() {
    let (digests, delivered) = run_lifecycle(Delivery::InOrder);
    assert!(delivered > 100, "{delivered}");
    let (digests_of_twice, _) = run_lifecycle(Delivery::Twice);
    assert_eq!(digests_of_twice, digests);
    for count in 1..=delivered {
        let (digests_after_kill, _) = run_lifecycle(Delivery::KilledAfter(count));
        assert_eq!(digests_after_kill, digests, "killed after {count}");
    }
}

#[test]
fn an_instance_without_a_host_is_kept_in_cell0_with_the_reason_until_it_is_deleted() {
    let mut world = World::new(1, 1, 3);
    world.create(&[1, 2]);
    world.come_to_rest();
    world.check_at_rest();
    let conductor = &world.control.conductor;
    assert_eq!(conductor.mappings()[&instance(2)].cell, Some(CellId::CELL0));
    let fault = &conductor.buried()[&instance(2)].fault;
    assert_eq!(fault.message, "No valid host was found.");
    world.conduct(Command::Delete {
        instance: instance(2),
    });
    world.come_to_rest();
    world.check_nothing_left(instance(2));
}

#[test]
fn a_build_that_fails_everywhere_keeps_its_history_and_holds_nothing() {
    let mut world = World::new(2, 4, 8);
    world.failing = (0..4).map(|n| host(0, n)).collect();
    world.create(&[1]);
    world.come_to_rest();
    world.check_at_rest();
    let state = &world.cells[&cell(0)];
    let row = &state.instances()[&instance(1)];
    assert_eq!((row.vm_state, row.guest), (VmState::Error, None));
    let action = &state.actions()[&(instance(1), 1)];
    let tried: Vec<_> = action.attempts.iter().map(|attempt| attempt.host).collect();
    assert_eq!(tried, [host(0, 0), host(0, 1), host(0, 2)]);
    assert!(
        action
            .attempts
            .iter()
            .all(|attempt| attempt.failure.is_some())
    );
    assert_eq!(world.control.placement.consumer_count(), 0);
}

#[test]
fn disabled_and_down_cells_get_no_new_instances() {
    let mut world = World::new(2, 1, 8);
    let set_disabled = |disabled| Command::SetCell {
        cell: cell(0),
        name: "cell0".into(),
        disabled,
    };
    let set_down = |is_down| Command::SetCellDown {
        cell: cell(0),
        is_down,
    };
    for (number, command) in [
        (1, set_disabled(true)),
        (2, set_disabled(false)),
        (3, set_down(true)),
        (4, set_down(false)),
    ] {
        world.conduct(command);
        world.create(&[number]);
        world.come_to_rest();
        // The cell with the number 0 takes the instances with even numbers, and no others.
        let expected = cell(u32::try_from(number % 2).unwrap());
        assert_eq!(world.cell_of(instance(number)), Some(expected));
    }
    world.check_at_rest();
}
