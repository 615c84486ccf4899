//! A model test: a delete at every point of every order in which a build's messages may arrive.
//! Whatever the order, nothing of the instance is left.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher as _};

use placewright_conductor::cell_conductor::Event;
use placewright_conductor::super_conductor::Command;
use placewright_placement::Timestamp;
use placewright_testing::world::{World, cell, host, instance};

/// How many disturbances of each kind may still be injected: deletes, messages that arrive twice,
/// messages that are lost, and time-outs.
#[derive(Clone, Copy, Debug)]
struct Budget {
    deletes: u32,
    doubled: u32,
    lost: u32,
    late: u32,
}

struct Explorer {
    seen: BTreeSet<u64>,
    ends: usize,
}

fn fingerprint(world: &World, budget: Budget) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut packets: Vec<String> = world.network.iter().map(|p| format!("{p:?}")).collect();
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
        let mut waiting = vec![(world, budget)];
        while let Some((world, budget)) = waiting.pop() {
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
                waiting.push((world, Budget { deletes, ..budget }));
            }
            if budget.late > 0 {
                let mut world = world.clone();
                world.at = Timestamp(world.at.0 + 601_000_000);
                world.happen(cell(0), &Event::Tick);
                let late = budget.late - 1;
                waiting.push((world, Budget { late, ..budget }));
            }
            Self::deliver_each(&world, budget, &mut waiting);
            if world.network.is_empty() {
                self.ends += 1;
                let mut world = world;
                world.settle();
                world.check_at_rest();
                if budget.deletes == 0 {
                    world.check_nothing_left(instance(1));
                }
            }
        }
    }

    fn deliver_each(world: &World, budget: Budget, waiting: &mut Vec<(World, Budget)>) {
        for place in 0..world.network.len() {
            let mut after = world.clone();
            let packet = after.network.remove(place);
            if budget.lost > 0 {
                let lost = budget.lost - 1;
                waiting.push((after.clone(), Budget { lost, ..budget }));
            }
            after.deliver(packet.clone());
            if budget.doubled > 0 {
                let mut again = after.clone();
                again.network.push(packet);
                let doubled = budget.doubled - 1;
                waiting.push((again, Budget { doubled, ..budget }));
            }
            waiting.push((after, budget));
        }
    }
}

fn explore(fails: &[u32], budget: Budget) -> (usize, usize) {
    let mut world = World::new(1, 2, 4);
    world.alternates = 1;
    world.failing = fails.iter().map(|number| host(0, *number)).collect();
    world.create(&[1]);
    let mut explorer = Explorer {
        seen: BTreeSet::new(),
        ends: 0,
    };
    explorer.explore(world, budget);
    (explorer.seen.len(), explorer.ends)
}

#[test]
fn a_delete_at_any_point_of_a_build_leaves_nothing() {
    let calm = Budget {
        deletes: 1,
        doubled: 0,
        lost: 0,
        late: 0,
    };
    for fails in [&[][..], &[0], &[0, 1]] {
        let (states, ends) = explore(fails, calm);
        assert!(states > 20 && ends > 0, "{states} states, {ends} ends");
    }
}

#[test]
fn nor_with_a_message_doubled_lost_or_late() {
    let calm = Budget {
        deletes: 1,
        doubled: 0,
        lost: 0,
        late: 0,
    };
    for budget in [
        Budget { doubled: 1, ..calm },
        Budget { lost: 1, ..calm },
        Budget { late: 1, ..calm },
    ] {
        let (states, ends) = explore(&[0], budget);
        assert!(states > 100 && ends > 0, "{states} states, {ends} ends");
    }
}
