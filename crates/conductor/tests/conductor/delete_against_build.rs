//! A model test: a delete at every point of every order in which a build's messages may arrive.
//! Whatever the order, nothing of the instance is left.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher as _};

use placewright_conductor::cell_conductor::Event;
use placewright_conductor::super_conductor::Command;
use placewright_placement::Timestamp;
use placewright_testing::random::Rng;
use placewright_testing::world::{World, host, instance};

/// A time after which each step that is under way has timed out, in microseconds.
const STEP_TIME_OUT_US: i64 = 601_000_000;
/// How many random orders are tried of a build in two cells.
const WALKS: u64 = 5000;

/// How many disturbances of each kind may still be injected: deletes, messages that arrive twice,
/// messages that are lost, and time-outs.
#[derive(Clone, Copy, Debug)]
struct Budget {
    deletes: u32,
    doubled: u32,
    lost: u32,
    late: u32,
}

/// Lets every cell look at the time.
fn tick(world: &mut World) {
    let cells: Vec<_> = world.cells.keys().copied().collect();
    for id in cells {
        world.decide_event(id, &Event::Tick);
    }
}

struct Explorer {
    /// The fingerprints of all states that were reached.
    seen: BTreeSet<u64>,
    final_states: usize,
}

fn fingerprint(world: &World, budget: Budget) -> u64 {
    let mut hasher = DefaultHasher::new();
    let packets = world.network.iter().map(|packet| format!("{packet:?}"));
    let mut packets: Vec<String> = packets.collect();
    packets.sort();
    let consumers: Vec<_> = world.control.placement.all_consumers().collect();
    let cells = world.cells.values();
    let cells: Vec<u128> = cells.map(placewright_records::cell::digest).collect();
    let conductor = placewright_records::control::digest_of_conductor(&world.control);
    let text = format!(
        "{conductor}{cells:?}{:?}{packets:?}{consumers:?}{budget:?}",
        world.agents,
    );
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl Explorer {
    fn explore(&mut self, world: World, budget: Budget) {
        let mut unexplored = vec![(world, budget)];
        while let Some((world, budget)) = unexplored.pop() {
            if !self.seen.insert(fingerprint(&world, budget)) {
                continue;
            }
            world.check();
            if budget.deletes > 0 {
                let mut world = world.clone();
                let command = Command::Delete {
                    instance: instance(1),
                };
                world.conduct(command);
                let deletes = budget.deletes - 1;
                unexplored.push((world, Budget { deletes, ..budget }));
            }
            if budget.late > 0 {
                let mut world = world.clone();
                world.at = Timestamp(world.at.0 + STEP_TIME_OUT_US);
                tick(&mut world);
                let late = budget.late - 1;
                unexplored.push((world, Budget { late, ..budget }));
            }
            Self::deliver_each(&world, budget, &mut unexplored);
            if world.network.is_empty() {
                self.final_states += 1;
                let mut world = world;
                world.come_to_rest();
                world.check_at_rest();
                if budget.deletes == 0 {
                    world.check_nothing_left(instance(1));
                }
            }
        }
    }

    fn deliver_each(world: &World, budget: Budget, unexplored: &mut Vec<(World, Budget)>) {
        for index in 0..world.network.len() {
            let mut after = world.clone();
            let packet = after.network.remove(index);
            if budget.lost > 0 {
                let lost = budget.lost - 1;
                unexplored.push((after.clone(), Budget { lost, ..budget }));
            }
            after.deliver(packet.clone());
            if budget.doubled > 0 {
                let mut again = after.clone();
                again.network.push(packet);
                let doubled = budget.doubled - 1;
                unexplored.push((again, Budget { doubled, ..budget }));
            }
            unexplored.push((after, budget));
        }
    }
}

/// Explores all orders of the messages of one build; the build fails on the hosts with the given numbers. Returns how
/// many states were reached, and in how many of them no message was left to deliver.
fn explore(failing_hosts: &[u32], budget: Budget) -> (usize, usize) {
    // One cell with two hosts of four CPUs each.
    let mut world = World::new(1, 2, 4);
    world.alternates = 1;
    let failing = failing_hosts.iter().map(|number| host(0, *number));
    world.failing = failing.collect();
    explore_build(world, budget)
}

/// Two cells with a host each; a build that fails in the first one goes on in the second one.
fn two_cells(failing_cells: &[u32]) -> World {
    let mut world = World::new(2, 1, 4);
    world.alternates = 0;
    world.may_reschedule = true;
    let failing = failing_cells.iter().map(|number| host(*number, 0));
    world.failing = failing.collect();
    world
}

fn explore_build(mut world: World, budget: Budget) -> (usize, usize) {
    world.create(&[1]);
    let mut explorer = Explorer {
        seen: BTreeSet::new(),
        final_states: 0,
    };
    explorer.explore(world, budget);
    (explorer.seen.len(), explorer.final_states)
}

#[test]
fn a_delete_at_any_point_of_a_build_leaves_nothing() {
    let one_delete = Budget {
        deletes: 1,
        doubled: 0,
        lost: 0,
        late: 0,
    };
    for failing_hosts in [&[][..], &[0], &[0, 1]] {
        let (states, final_states) = explore(failing_hosts, one_delete);
        assert!(
            states > 20 && final_states > 0,
            "{states} states, {final_states} final_states"
        );
    }
}

#[test]
fn a_delete_leaves_nothing_if_a_message_is_doubled_lost_or_late() {
    let one_delete = Budget {
        deletes: 1,
        doubled: 0,
        lost: 0,
        late: 0,
    };
    for budget in [
        Budget {
            doubled: 1,
            ..one_delete
        },
        Budget {
            lost: 1,
            ..one_delete
        },
        Budget {
            late: 1,
            ..one_delete
        },
    ] {
        let (states, final_states) = explore(&[0], budget);
        assert!(
            states > 100 && final_states > 0,
            "{states} states, {final_states} final_states"
        );
    }
}

#[test]
fn a_delete_at_any_point_of_a_build_in_two_cells_leaves_nothing() {
    let one_delete = Budget {
        deletes: 1,
        doubled: 0,
        lost: 0,
        late: 0,
    };
    let (states, final_states) = explore_build(two_cells(&[0]), one_delete);
    assert!(
        states > 1000 && final_states > 0,
        "{states} states, {final_states} final states"
    );
}

/// One random order of the messages of a build in two cells: messages are doubled, lost and late, and the instance is
/// deleted at some point. Returns where it was by then.
fn walk_two_cells(seed: u64) -> Whereabouts {
    let mut rng = Rng(seed);
    let failing_cells: &[u32] = if rng.one_in(3) { &[0, 1] } else { &[0] };
    let mut world = two_cells(failing_cells);
    world.create(&[1]);
    let mut steps_to_delete = rng.below(40);
    while !world.network.is_empty() && steps_to_delete > 0 {
        steps_to_delete -= 1;
        step_at_random(&mut world, &mut rng);
    }
    let mapping = &world.control.conductor.mappings()[&instance(1)];
    let whereabouts = match (mapping.left_cell(), mapping.cell) {
        (None, _) => Whereabouts::FirstCell,
        (Some(_), None) => Whereabouts::Between,
        (Some(_), Some(_)) => Whereabouts::SecondCell,
    };
    world.conduct(Command::Delete {
        instance: instance(1),
    });
    for _ in 0..30 {
        step_at_random(&mut world, &mut rng);
    }
    world.come_to_rest();
    world.check_at_rest();
    world.check_nothing_left(instance(1));
    whereabouts
}

/// Delivers one of the messages at random, once, twice or never, now and then after a time-out.
fn step_at_random(world: &mut World, rng: &mut Rng) {
    world.check();
    if rng.one_in(20) {
        world.at = Timestamp(world.at.0 + STEP_TIME_OUT_US);
        tick(world);
    }
    if rng.one_in(20) {
        world.send_all();
    }
    if world.network.is_empty() {
        return;
    }
    let packet = world.network.remove(rng.below(world.network.len()));
    if rng.one_in(10) {
        world.network.push(packet.clone());
    }
    if !rng.one_in(10) {
        world.deliver(packet);
    }
}

/// Where an instance was when it was deleted.
#[derive(Clone, Copy, PartialEq)]
enum Whereabouts {
    FirstCell,
    /// It has left the first cell, and waits for a host in another one.
    Between,
    SecondCell,
}

#[test]
fn a_delete_leaves_nothing_in_two_cells_if_messages_are_doubled_lost_or_late() {
    let walks: Vec<Whereabouts> = (0..WALKS)
        .map(|seed| {
            std::panic::catch_unwind(|| walk_two_cells(seed))
                .unwrap_or_else(|_| panic!("seed {seed}"))
        })
        .collect();
    for wanted in [
        Whereabouts::FirstCell,
        Whereabouts::Between,
        Whereabouts::SecondCell,
    ] {
        let count = walks.iter().filter(|walk| **walk == wanted).count();
        assert!(count > 50, "{count}");
    }
}
