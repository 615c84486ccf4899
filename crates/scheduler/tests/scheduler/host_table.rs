//! The host table applies the updates of agents, the changes of placement and the time. Its content
//! depends on the present state only, not on the sequence of updates that led to it.

use std::collections::BTreeMap;

use placewright_placement::{Command, Inventory, State, Timestamp, decide};
use placewright_scheduler::aggregate::Aggregate;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{
    HostFacts, HostReport, HostUpdate, InstanceReport, Load, Metric, NumberedUpdate, Receipt,
};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::hosts::column;
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: u32 = 4;

fn config() -> SchedulerConfig {
    let mut config = SchedulerConfig {
        image_props_weight_multiplier: 1.0,
        ..SchedulerConfig::default()
    };
    config.metrics.weight_setting = vec!["load=2".to_owned()];
    config
}

fn uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x100 + u128::from(number))
}

fn seconds(number: i64) -> Timestamp {
    Timestamp::from_seconds(number)
}

/// The facts of a host, whose cell, hypervisor version and service version all follow from one number.
fn facts(name: &str, platform_number: u8) -> HostFacts {
    let mut facts = HostFacts::default();
    facts.names.service_host = name.to_owned();
    facts.names.cell = Uuid::from_u128(u128::from(platform_number % 2));
    facts.platform.hypervisor_version = Some(i32::from(platform_number));
    facts.service_version = u32::from(platform_number);
    facts
}

fn full(name: &str) -> HostUpdate {
    HostUpdate::Full(Box::new(HostReport {
        facts: facts(name, 1),
        ..HostReport::default()
    }))
}

fn instance(number: u8) -> InstanceReport {
    let distribution = ["red", "blue"][usize::from(number % 2)];
    InstanceReport {
        uuid: Uuid::from_u128(u128::from(number)),
        group: (number.is_multiple_of(3)).then(|| Uuid::from_u128(0x900)),
        image_properties: BTreeMap::from([("os_distro".to_owned(), distribution.to_owned())]),
    }
}

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).expect("accepted");
    changes.iter().for_each(|change| drop(state.apply(change)));
}

fn create(state: &mut State, number: u32) {
    let command = Command::CreateProvider {
        uuid: uuid(number),
        name: format!("node{number}"),
        parent: None,
        at: seconds(1),
    };
    execute(state, &command);
}

#[test]
fn updates_are_applied_in_order_and_a_gap_requires_a_full_report() {
    let mut table = HostTable::new(&config());
    let mut send = |incarnation, sequence, update| {
        let numbered = NumberedUpdate {
            incarnation,
            sequence,
            update,
        };
        table.apply_numbered(uuid(0), seconds(1), &numbered)
    };
    let load_of = |io_ops| {
        HostUpdate::Load(Load {
            io_ops,
            ..Load::default()
        })
    };
    assert_eq!(send(1, 1, load_of(1)), Receipt::Gap, "the host is unknown");
    assert_eq!(send(1, 1, full("a")), Receipt::Applied);
    assert_eq!(send(1, 2, load_of(2)), Receipt::Applied);
    assert_eq!(send(1, 2, load_of(9)), Receipt::Stale);
    assert_eq!(send(1, 4, load_of(9)), Receipt::Gap);
    assert_eq!(send(1, 3, load_of(3)), Receipt::Applied);
    assert_eq!(
        send(2, 1, load_of(9)),
        Receipt::Gap,
        "an incarnation begins with a full report"
    );
    assert_eq!(send(2, 1, full("a")), Receipt::Applied);
    assert_eq!(
        send(1, 9, full("b")),
        Receipt::Stale,
        "an update of an earlier incarnation"
    );
    let state = table.state(uuid(0)).expect("known");
    assert_eq!(
        (state.names.service_host.as_str(), state.position),
        ("a", (2, 1))
    );
    assert!(table.slots().is_empty(), "the host has no provider yet");
}

#[test]
fn an_agent_may_report_long_after_its_provider_was_created() {
    let mut state = State::default();
    create(&mut state, 7);
    let mut table = HostTable::new(&config());
    table.catch_up_with_placement(&state);
    table.apply(uuid(7), seconds(100), &full("a"));
    assert!(table.by_uuid(uuid(7)).is_none());
    table.catch_up_with_placement(&state);
    assert!(table.by_uuid(uuid(7)).is_some());
}

#[test]
fn a_silent_host_is_down_until_it_reports() {
    let mut table = HostTable::new(&config());
    for number in 0..2 {
        table.apply(uuid(number), seconds(100), &full("a"));
        table.bind_to_slot(uuid(number), number);
    }
    let usable = |table: &HostTable| table.usable().iter().collect::<Vec<_>>();
    table.advance(seconds(160));
    assert_eq!(usable(&table), [0, 1]);
    table.apply(uuid(1), seconds(150), &HostUpdate::Alive);
    table.advance(Timestamp(160_000_001));
    assert_eq!(usable(&table), [1]);
    assert!(table.drain_changes().any(|change| change.slot == 0));
    table.apply(uuid(0), seconds(200), &HostUpdate::Alive);
    table.advance(seconds(211));
    assert_eq!(usable(&table), [0]);
    table.apply(
        uuid(0),
        seconds(211),
        &HostUpdate::Disabled(Some("disk".to_owned())),
    );
    assert!(table.up().contains(0) && !table.enabled().contains(0));
    assert!(usable(&table).is_empty());
    table.apply(uuid(0), seconds(211), &HostUpdate::Disabled(None));
    table.apply(uuid(0), seconds(211), &HostUpdate::ForcedDown(true));
    assert!(usable(&table).is_empty());
    table.apply(uuid(0), seconds(212), &HostUpdate::ForcedDown(false));
    assert_eq!(usable(&table), [0]);
    table.advance(seconds(300));
    assert!(usable(&table).is_empty());
}

#[test]
fn an_instance_counts_once_from_its_claim_on() {
    let mut table = HostTable::new(&config());
    table.apply(uuid(0), seconds(1), &full("a"));
    table.bind_to_slot(uuid(0), 0);
    let counts = |table: &HostTable| {
        let value = |column: usize| table.columns()[column].get(0);
        (value(column::INSTANCES), value(column::IO_OPS))
    };
    let building = Load {
        io_ops: 1,
        ..Load::default()
    };
    table.add_pending_instance(0, &instance(3));
    table.add_pending_instance(0, &instance(4));
    assert_eq!(counts(&table), (2.0, 2.0));
    assert_eq!(table.hosts_of(instance(3).uuid), [0]);
    let came = HostUpdate::InstanceCame(Box::new(instance(3)), building);
    table.apply(uuid(0), seconds(2), &came);
    assert_eq!(
        counts(&table),
        (2.0, 2.0),
        "one is reported, one is pending"
    );
    table.add_pending_instance(0, &instance(3));
    assert_eq!(
        counts(&table),
        (2.0, 2.0),
        "the claim is observed after the report"
    );
    table.remove_pending_instance(0, instance(3).uuid);
    assert_eq!(
        counts(&table),
        (2.0, 2.0),
        "a reported instance counts without its claim"
    );
    table.apply(uuid(0), seconds(3), &full("a"));
    assert_eq!(
        counts(&table),
        (1.0, 1.0),
        "the pending instance is not in the report"
    );
    table.remove_pending_instance(0, instance(4).uuid);
    assert_eq!(counts(&table), (0.0, 0.0));
    assert!(table.hosts_of(instance(4).uuid).is_empty());
}

#[test]
fn hosts_and_free_amounts_are_those_of_placement() {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: seconds(1) });
    let mut table = HostTable::new(&config());
    table.apply(uuid(0), seconds(1), &full("a"));
    table.apply(uuid(1), seconds(1), &full("b"));
    table.catch_up_with_placement(&state);
    assert!(table.slots().is_empty());
    create(&mut state, 0);
    create(&mut state, 1);
    let memory = Inventory {
        total: 1000,
        reserved: 100,
        min_unit: 1,
        max_unit: 1000,
        step_size: 1,
        allocation_ratio: 2.0,
    };
    let set = Command::SetInventories {
        provider: uuid(1),
        generation: Some(0),
        may_reserve_all: false,
        inventories: vec![("MEMORY_MB".to_owned(), memory)],
        at: seconds(1),
    };
    execute(&mut state, &set);
    table.catch_up_with_placement(&state);
    let slot = |table: &HostTable, number| table.by_uuid(uuid(number)).map(|(slot, _)| slot);
    let (first, second) = (slot(&table, 0), slot(&table, 1).expect("bound"));
    assert!(first.is_some());
    assert_eq!(table.columns()[column::RAM_FREE_MB].get(second), 900.0);

    let zone = Uuid::from_u128(0xa9);
    let metadata = BTreeMap::from([("availability_zone".to_owned(), "north".to_owned())]);
    let name = "n".to_owned();
    table
        .aggregates_mut()
        .put([(zone, Aggregate { name, metadata })]);
    let generation = state.provider_by_uuid(uuid(1)).expect("there").generation;
    let join = Command::SetAggregates {
        provider: uuid(1),
        generation: Some(generation),
        aggregates: vec![zone.to_string()],
        at: seconds(1),
    };
    execute(&mut state, &join);
    table.catch_up_with_placement(&state);
    assert_eq!(table.aggregates().zone(second), Some("north"));

    // Another provider gets the slot of a deleted one. The host of the deleted provider is kept
    // without a slot.
    execute(&mut state, &Command::DeleteProvider { uuid: uuid(1) });
    create(&mut state, 2);
    table.catch_up_with_placement(&state);
    assert_eq!(slot(&table, 1), None);
    assert!(table.get(second).is_none() && table.state(uuid(1)).is_some());
    assert_eq!(table.aggregates().zone(second), None);
    create(&mut state, 1);
    table.catch_up_with_placement(&state);
    assert!(slot(&table, 1).is_some_and(|slot| slot != second));
}

#[derive(Clone, Debug)]
enum Step {
    Update(u32, HostUpdate),
    Bind(u32),
}

fn update() -> impl Strategy<Value = HostUpdate> {
    let load = (0u32..4, 0u32..3).prop_map(|(io_ops, failed_builds)| Load {
        io_ops,
        failed_builds,
        running_builds: 0,
    });
    let name = prop_oneof![Just("a"), Just("B"), Just("b")];
    let facts = (name, 0u8..3).prop_map(|(name, platform_number)| facts(name, platform_number));
    let instances = proptest::collection::btree_set(0u8..6, 0..4);
    let report = (facts.clone(), load.clone(), instances).prop_map(|(facts, load, instances)| {
        let instances = instances.into_iter().map(instance).collect();
        HostUpdate::Full(Box::new(HostReport {
            facts,
            load,
            instances,
            ..HostReport::default()
        }))
    });
    let metric = |value: u8| Metric {
        name: "load".to_owned(),
        value: f64::from(value),
    };
    let came = (0u8..6, load.clone());
    let went = (0u8..6, load.clone());
    prop_oneof![
        3 => report,
        1 => facts.prop_map(|facts| HostUpdate::Facts(Box::new(facts))),
        1 => load.prop_map(HostUpdate::Load),
        1 => proptest::option::of(0u8..3)
            .prop_map(move |value| HostUpdate::Metrics(value.map(metric).into_iter().collect())),
        2 => came.prop_map(|(number, load)| {
            HostUpdate::InstanceCame(Box::new(instance(number)), load)
        }),
        1 => went.prop_map(|(number, load)| HostUpdate::InstanceWent(instance(number).uuid, load)),
        1 => proptest::option::of(Just("why".to_owned())).prop_map(HostUpdate::Disabled),
        1 => any::<bool>().prop_map(HostUpdate::ForcedDown),
        1 => Just(HostUpdate::Gone),
    ]
}

/// Everything that filters and weighers can read from the table, as text.
fn content(table: &HostTable) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for slot in table.slots().iter() {
        let state = table.get(slot).expect("known");
        let columns: Vec<f64> = table
            .columns()
            .iter()
            .map(|column| column.get(slot))
            .collect();
        let counts: Vec<u32> = ["red", "blue"]
            .map(|value| table.property_counts().pair_number("os_distro", value))
            .iter()
            .map(|number| number.map_or(0, |number| table.property_counts().count(slot, number)))
            .collect();
        let sets = [
            table.up(),
            table.enabled(),
            table.usable(),
            table.lacking_metrics(),
        ];
        let is_in_set = sets.map(|set| set.contains(slot));
        let group = table.platforms().of_host(slot).expect("has a platform");
        let instances: Vec<_> = state.instances.keys().collect();
        let is_in_cell = table
            .of_cell(state.names.cell)
            .is_some_and(|hosts| hosts.contains(slot));
        let _ = writeln!(
            text,
            "{slot} {:?} {columns:?} {counts:?} {is_in_set:?} {:?} {instances:?} {is_in_cell}",
            state.names, group.platform,
        );
    }
    for name in ["a", "b", "B"] {
        let _ = writeln!(text, "{:?}", table.nodes_of(name).collect::<Vec<_>>());
    }
    for number in 0..6 {
        let mut hosts = table.hosts_of(instance(number).uuid).to_vec();
        hosts.sort_unstable();
        let _ = writeln!(text, "{hosts:?}");
    }
    let versions = table.service_versions();
    let cells = versions.minima().map(|(cell, _)| cell);
    let minima = cells.filter_map(|cell| Some((cell, versions.present_minimum(cell)?)));
    let minima: Vec<_> = minima.collect();
    let _ = writeln!(text, "{minima:?}");
    let members: Vec<Uuid> = table.members_of(Uuid::from_u128(0x900)).collect();
    let _ = writeln!(text, "{members:?}");
    text
}

/// A new table with the same hosts, made of one full report of each.
fn rebuilt(table: &HostTable) -> HostTable {
    let mut rebuilt_table = HostTable::new(&config());
    for number in 0..HOSTS {
        let Some(state) = table.state(uuid(number)) else {
            continue;
        };
        let report = HostReport {
            facts: HostFacts {
                names: (*state.names).clone(),
                platform: (*state.platform).clone(),
                stats: state.stats.clone(),
                service_version: state.service_version,
            },
            load: state.load,
            metrics: state.metrics.clone(),
            instances: (0..6)
                .map(instance)
                .filter(|instance| state.instances.contains_key(&instance.uuid))
                .collect(),
            disabled: state.disabled.clone(),
            is_forced_down: state.is_forced_down,
        };
        rebuilt_table.apply(
            uuid(number),
            seconds(1),
            &HostUpdate::Full(Box::new(report)),
        );
        if table.by_uuid(uuid(number)).is_some() {
            rebuilt_table.bind_to_slot(uuid(number), number);
        }
    }
    rebuilt_table
}

proptest! {
    #[test]
    fn the_content_depends_on_the_present_state_only(steps in proptest::collection::vec(
        prop_oneof![
            8 => (0..HOSTS, update()).prop_map(|(host, update)| Step::Update(host, update)),
            1 => (0..HOSTS).prop_map(Step::Bind),
        ],
        0..60,
    )) {
        let mut table = HostTable::new(&config());
        for step in &steps {
            match step {
                Step::Update(host, update) => drop(table.apply(uuid(*host), seconds(1), update)),
                Step::Bind(host) => table.bind_to_slot(uuid(*host), *host),
            }
        }
        prop_assert_eq!(content(&table), content(&rebuilt(&table)));
    }
}
