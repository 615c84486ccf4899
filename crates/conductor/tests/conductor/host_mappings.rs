//! The mappings of hosts to cells: their names, and what goes with a host that is unmapped.

use placewright_conductor::super_conductor::{Aggregate, Command};
use placewright_testing::world::{World, cell, host, instance};
use uuid::Uuid;

#[test]
fn host_names_are_unique_over_all_cells() {
    let mut world = World::new(2, 1, 8);
    let map = |cell, host, name: &str| Command::MapHosts {
        cell,
        hosts: vec![(host, name.to_owned())],
    };
    assert!(
        world
            .try_conduct(map(cell(1), host(1, 5), "host-0-0"))
            .is_err()
    );
    assert!(
        world
            .try_conduct(map(cell(1), host(0, 0), "other"))
            .is_err()
    );
    world.conduct(map(cell(0), host(0, 0), "renamed"));
    world.conduct(map(cell(1), host(1, 5), "host-0-0"));
    world.create(&[1]);
    world.come_to_rest();
    let unmap = Command::UnmapHost { host: host(0, 0) };
    assert!(world.try_conduct(unmap.clone()).is_err(), "it is in use");
    let instance = instance(1);
    world.conduct(Command::Delete { instance });
    world.come_to_rest();
    world.conduct(unmap);
    assert!(!world.control.conductor.host_names().contains_key("renamed"));
}

#[test]
fn a_host_that_is_unmapped_leaves_its_aggregates() {
    let mut world = World::new(1, 2, 8);
    for (number, name) in [(7, "a"), (8, "b")] {
        let row = Aggregate {
            name: name.into(),
            hosts: vec![host(0, 0), host(0, 1)],
            ..Aggregate::default()
        };
        let aggregate = Uuid::from_u128(number);
        let row = Some(row);
        world.conduct(Command::SetAggregate { aggregate, row });
    }
    world.conduct(Command::UnmapHost { host: host(0, 0) });
    let control = &world.control;
    for row in control.conductor.aggregates().values() {
        assert_eq!(row.hosts, [host(0, 1)]);
    }
    let provider = control.placement.provider_by_uuid(host(0, 0).0).unwrap();
    assert!(provider.aggregates.is_empty());
    // The aggregate can still be changed.
    let aggregate = Uuid::from_u128(7);
    let mut row = Aggregate::clone(&control.conductor.aggregates()[&aggregate]);
    row.name = "renamed".into();
    let row = Some(row);
    world.conduct(Command::SetAggregate { aggregate, row });
}

#[test]
fn a_host_that_occurs_twice_in_one_command_is_refused() {
    let mut world = World::new(1, 1, 8);
    let hosts = vec![
        (host(0, 5), "old".to_owned()),
        (host(0, 5), "new".to_owned()),
    ];
    let cell = cell(0);
    assert!(
        world
            .try_conduct(Command::MapHosts { cell, hosts })
            .is_err()
    );
    assert!(!world.control.conductor.host_names().contains_key("old"));
}
