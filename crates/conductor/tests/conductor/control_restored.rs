//! Control is restored from a backup, while its cell keeps a newer state.

use placewright_conductor::super_conductor::Command;
use placewright_testing::world::{World, instance};

#[test]
fn an_instance_that_its_cell_deleted_after_the_backup_can_be_deleted_again() {
    // One cell with two hosts of four CPUs each.
    let mut world = World::new(1, 2, 4);
    world.create(&[1, 2]);
    world.come_to_rest();
    let backup = world.control.clone();
    let command = Command::Delete {
        instance: instance(1),
    };
    world.conduct(command.clone());
    world.come_to_rest();
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
    world.come_to_rest();
    assert!(!is_known(&world));
    world.check_nothing_left(instance(1));
    world.check_at_rest();
}
