//! Control is put back from a backup beside a cell that went on.

use placewright_conductor::super_conductor::Command;
use placewright_testing::world::{World, instance};

#[test]
fn a_deletion_that_control_has_forgotten_is_told_when_it_deletes_again() {
    let mut world = World::new(1, 2, 4);
    world.create(&[1, 2]);
    world.settle();
    let backup = world.control.clone();
    let command = Command::Delete {
        instance: instance(1),
    };
    world.conduct(command.clone());
    world.settle();
    world.check_nothing_left(instance(1));

    world.control = backup;
    let is_known = |world: &World| {
        world
            .control
            .conductor
            .mappings()
            .contains_key(&instance(1))
    };
    assert!(is_known(&world));
    world.conduct(command);
    world.settle();
    assert!(!is_known(&world));
    world.check_nothing_left(instance(1));
    world.check_at_rest();
}
