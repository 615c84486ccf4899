//! A world in which messages are lost, doubled and late, roles are killed, hosts go down, and one
//! build of ten fails. What must always hold is checked all the time; when the messages arrive at
//! last, nothing is stuck and nothing is left over.

use std::collections::BTreeSet;

use placewright_conductor::cell_conductor::Event;
use placewright_conductor::super_conductor::Command;
use placewright_conductor::{CellId, HostId, InstanceId, MoveDecision, MoveKind};
use placewright_placement::Timestamp;
use placewright_testing::world::{World, instance, migration, spec};

const STEPS: usize = 3000;
/// How long cells remember deletions, in microseconds: half an hour.
const REMEMBER_US: i64 = 1_800_000_000;

struct Simulation {
    world: World,
    /// How many instances were requested so far; they are numbered from 1.
    instances: usize,
    /// How many moves were requested so far; they are numbered from 1.
    migrations: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        // Three cells with four hosts of 12 CPUs each.
        let mut world = World::new(3, 4, 12);
        world.rng.0 = seed;
        world.shuffles = true;
        world.fails_one_in = 10;
        Self {
            world,
            instances: 0,
            migrations: 0,
        }
    }

    fn some_instance(&mut self) -> InstanceId {
        instance(1 + self.world.rng.below(self.instances.max(1)))
    }

    fn some_host(&mut self) -> HostId {
        let index = self.world.rng.below(self.world.agents.len());
        *self.world.agents.keys().nth(index).unwrap()
    }

    fn cell_of(&self, host: HostId) -> CellId {
        self.world.control.conductor.hosts()[&host].cell
    }

    fn step(&mut self) {
        match self.world.rng.below(100) {
            0..80 => self.deliver_one(),
            80..88 => self.send_user_request(),
            88..93 => {
                if self.world.network.len() < 200 {
                    self.world.send_all();
                }
            }
            93..97 => self.pass_time(),
            _ => self.inject_fault(),
        }
    }

    fn deliver_one(&mut self) {
        if self.world.network.is_empty() {
            return;
        }
        let index = self.world.rng.below(self.world.network.len());
        match self.world.rng.below(20) {
            // The message is lost.
            0 => drop(self.world.network.swap_remove(index)),
            // The message is delivered now, and once more later.
            1 => {
                let packet = self.world.network[index].clone();
                self.world.deliver(packet);
            }
            _ => {
                let packet = self.world.network.swap_remove(index);
                self.world.deliver(packet);
            }
        }
    }

    fn send_user_request(&mut self) {
        let id = self.some_instance();
        match self.world.rng.below(8) {
            0 | 1 => {
                let count = 1 + self.world.rng.below(3);
                let numbers: Vec<usize> = (1..=count).map(|n| self.instances + n).collect();
                self.instances += numbers.len();
                self.world.create(&numbers);
            }
            2 => drop(self.world.try_conduct(Command::Delete { instance: id })),
            3 | 4 => {
                const KINDS: [MoveKind; 5] = [
                    MoveKind::ColdMigrate,
                    MoveKind::Resize,
                    MoveKind::LiveMigrate,
                    MoveKind::Evacuate,
                    MoveKind::Unshelve,
                ];
                self.migrations += 1;
                let kind = KINDS[self.world.rng.below(KINDS.len())];
                let command = Command::StartMove {
                    migration: migration(self.migrations),
                    instance: id,
                    kind,
                    spec: (kind == MoveKind::Resize).then(|| Box::new(spec(self.world.at))),
                };
                drop(self.world.try_conduct(command));
            }
            5 => {
                let decision = if self.world.rng.one_in(2) {
                    MoveDecision::Confirm
                } else {
                    MoveDecision::Revert
                };
                let moves: Vec<_> = self
                    .world
                    .control
                    .conductor
                    .moves()
                    .keys()
                    .copied()
                    .collect();
                for migration in moves {
                    drop(self.world.try_conduct(Command::ConfirmOrRevert {
                        migration,
                        decision,
                        request: None,
                    }));
                }
            }
            _ => {
                let event = if self.world.rng.one_in(3) {
                    let spec = spec(self.world.at);
                    Event::Rebuild {
                        instance: id,
                        spec,
                        request: None,
                    }
                } else {
                    Event::Shelve {
                        instance: id,
                        request: None,
                    }
                };
                if let Some(cell) = self.world.cell_of(id) {
                    self.world.decide_event(cell, &event);
                }
            }
        }
    }

    fn pass_time(&mut self) {
        let seconds = 1 + self.world.rng.below(120);
        self.world.at = Timestamp(self.world.at.0 + i64::try_from(seconds).unwrap() * 1_000_000);
        let cells: Vec<CellId> = self.world.cells.keys().copied().collect();
        for cell in cells {
            self.world.decide_event(cell, &Event::Tick);
            if self.world.rng.one_in(10) {
                let before = Timestamp(self.world.at.0 - REMEMBER_US);
                self.world.decide_event(cell, &Event::Forget { before });
            }
        }
    }

    fn inject_fault(&mut self) {
        let host = self.some_host();
        let cell = self.cell_of(host);
        match self.world.rng.below(5) {
            0 => self.world.reload(),
            1 => self.world.agents.get_mut(&host).unwrap().restart(),
            // The host seems down to the cell; half of the time it continues to work.
            2 => {
                let is_up = self.world.rng.one_in(2);
                self.world.agents.get_mut(&host).unwrap().is_up = is_up;
                self.world.decide_event(cell, &Event::HostDown { host });
            }
            _ => self.restart_lost_agents(),
        }
    }

    /// Agents that are down, or considered so, begin a new session.
    fn restart_lost_agents(&mut self) {
        let hosts: Vec<HostId> = self.world.agents.keys().copied().collect();
        for host in hosts {
            let cell = self.cell_of(host);
            let is_lost = self.world.cells[&cell].is_down(host);
            let agent = self.world.agents.get_mut(&host).unwrap();
            if is_lost || !agent.is_up {
                agent.restart();
            }
        }
    }

    fn check_end(&mut self) {
        self.restart_lost_agents();
        self.world.come_to_rest();
        self.world.check_at_rest();
        for number in 1..=self.instances {
            let instance = instance(number);
            drop(self.world.try_conduct(Command::Delete { instance }));
        }
        self.world.come_to_rest();
        self.world.check_at_rest();
        assert!(self.world.control.conductor.mappings().is_empty());
        assert_eq!(self.world.control.placement.consumer_count(), 0);
    }
}

#[test]
fn nothing_is_lost_stuck_or_left_over_whatever_fails() {
    for seed in 0..40 {
        let caught = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            for step in 0..STEPS {
                simulation.step();
                if step % 8 == 0 {
                    simulation.world.check();
                }
            }
            simulation.check_end();
        });
        assert!(caught.is_ok(), "seed {seed}");
    }
}

/// As the test before, but with so many failures that many builds go on in another cell.
#[test]
fn nothing_is_lost_stuck_or_left_over_when_builds_go_to_other_cells() {
    let mut rescheduled = 0;
    for seed in 0..40 {
        let caught = std::panic::catch_unwind(|| {
            let mut rescheduled = BTreeSet::new();
            let mut simulation = Simulation::new(1_000 + seed);
            simulation.world.may_reschedule = true;
            simulation.world.alternates = 1;
            simulation.world.fails_one_in = 3;
            for step in 0..STEPS {
                simulation.step();
                if step % 8 == 0 {
                    simulation.world.check();
                    let mappings = simulation.world.control.conductor.mappings().iter();
                    let left = mappings.filter(|(_, mapping)| mapping.left_cell().is_some());
                    rescheduled.extend(left.map(|(instance, _)| *instance));
                }
            }
            simulation.check_end();
            rescheduled.len()
        });
        rescheduled += caught.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(
        rescheduled > 100,
        "{rescheduled} instances went on in another cell"
    );
}

/// With 10 % of builds failing and 2 alternates, 1 of 1,000 builds fails three times.
#[test]
fn failing_builds_end_active_on_an_alternate() {
    let mut world = World::new(3, 20, 64);
    world.rng.0 = 7;
    world.shuffles = true;
    world.fails_one_in = 10;
    let numbers: Vec<usize> = (1..=1000).collect();
    for chunk in numbers.chunks(50) {
        world.create(chunk);
        world.come_to_rest();
    }
    world.check_at_rest();
    let rows = world
        .cells
        .values()
        .flat_map(|cell| cell.instances().values());
    let active = rows.filter(|row| row.guest.is_some()).count();
    assert!(active >= 998, "{active} of 1000");
}
