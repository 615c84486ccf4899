//! A field can be added to each kind of row: an older release reads the rows of a newer one, and the
//! other way round. These tests simulate the newer release.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::*;
use crate::change::{Change, NewAllocation};
use crate::group::{Relation, RuleScope};

type Added = Option<String>;

fn added() -> Added {
    Some("of a later release".to_owned())
}

const HOST: Uuid = Uuid::from_u128(1);
const GROUP: Uuid = Uuid::from_u128(4);
const AT: Timestamp = Timestamp(1_700_000_000_000_000);

fn provider(uuid: Uuid, name: &str) -> Change {
    Change::ProviderCreated {
        uuid,
        name: name.to_owned(),
        parent: None,
        at: AT,
    }
}

/// Changes that create providers with classes, traits, inventories and aggregates.
fn providers() -> Vec<Change> {
    let inventory = Inventory {
        total: 64,
        reserved: 0,
        min_unit: 1,
        max_unit: 64,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    vec![
        Change::ClassCreated {
            id: ClassId(1000),
            name: "CUSTOM_A".into(),
            at: AT,
        },
        Change::TraitCreated {
            id: TraitId(4000),
            name: "CUSTOM_T".into(),
            at: AT,
        },
        provider(HOST, "host"),
        provider(Uuid::from_u128(2), "other"),
        Change::InventorySet {
            provider: HOST,
            class: ClassId(1000),
            inventory,
            at: AT,
        },
        Change::TraitsSet {
            provider: HOST,
            traits: vec![TraitId(4000)],
        },
        Change::AggregatesSet {
            provider: HOST,
            aggregates: vec!["agg".into()],
        },
    ]
}

/// Changes that create levels, distances, a group and a consumer.
fn topology_and_consumers() -> Vec<Change> {
    let rule = Rule {
        scope: RuleScope::Level("rack".into()),
        relation: Relation::Spread(2),
    };
    let level = Level {
        name: "rack".into(),
        aggregates: vec!["agg".into()],
        names: [("agg".to_owned(), "north/r1".to_owned())].into(),
    };
    let distance = Distance {
        from: "agg".into(),
        to: "other".into(),
        distance: 300,
    };
    let consumer = ConsumerUuid::from_uuid(Uuid::from_u128(3));
    vec![
        Change::LevelsSet {
            levels: vec![level],
        },
        Change::DistancesSet {
            distances: vec![distance],
        },
        Change::GroupSet {
            group: GROUP,
            rules: vec![rule],
        },
        Change::ConsumerSet {
            consumer,
            generation: 1,
            project: "p".into(),
            user: "u".into(),
            consumer_type: Some("INSTANCE".into()),
            at: AT,
            allocations: vec![NewAllocation {
                provider: HOST,
                class: ClassId(1000),
                amount: 3,
            }],
        },
        Change::ConsumerPlaced {
            consumer,
            host: Some(HOST),
            group: Some(GROUP),
        },
    ]
}

/// A state with at least one row of each kind.
fn state() -> State {
    let mut state = State::default();
    for change in [providers(), topology_and_consumers()].concat() {
        drop(state.apply(&change));
    }
    state
}

fn saved(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.save(&mut bytes).unwrap();
    bytes
}

#[test]
fn an_older_release_ignores_added_fields_of_rows() {
    let state = state();
    let bytes = saved(&state);
    let mut remaining = &bytes[..];
    let (mut longer, mut count) = (Vec::new(), 0);
    while let Some((length, rest)) = remaining.split_first_chunk() {
        let (row, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        remaining = rest;
        let row = [row, &postcard::to_stdvec(&added()).unwrap()].concat();
        longer.extend(u32::try_from(row.len()).unwrap().to_le_bytes());
        longer.extend(row);
        count += 1;
    }
    // The header, and at least one row of each table.
    assert!(count > 12, "{count} rows");
    let read = State::load(&mut longer.as_slice()).unwrap();
    assert_eq!(read.digest(), state.digest());
    assert_eq!(saved(&read), bytes);
}

/// Asserts for one row that both releases read what the other one wrote.
fn assert_grows<T>(kinds: &mut BTreeSet<&str>, name: &'static str, row: &T)
where
    T: Serialize + serde::de::DeserializeOwned + Debug,
{
    let (mut without_field, mut with_field, mut with_default) =
        (Vec::new(), Vec::new(), Vec::new());
    RowWriter::new(&mut without_field).write(row).unwrap();
    RowWriter::new(&mut with_field)
        .write_with(row, &added())
        .unwrap();
    RowWriter::new(&mut with_default)
        .write_with(row, &Added::default())
        .unwrap();
    // Added fields with default values are not written.
    assert_eq!(with_default, without_field, "{name}");
    let mut input = &without_field[..];
    let (_, none): (T, Added) = RowReader::new(&mut input).read_with().unwrap();
    assert_eq!(none, None, "{name}: a newer release reads an older row");
    let mut input = &with_field[..];
    let (read, some): (T, Added) = RowReader::new(&mut input).read_with().unwrap();
    assert_eq!(some, added(), "{name}: a newer release reads its own");
    let mut again = Vec::new();
    RowWriter::new(&mut again).write(&read).unwrap();
    assert_eq!(again, without_field, "{name}");
    let mut input = &with_field[..];
    let read: T = RowReader::new(&mut input).read().unwrap();
    let mut again = Vec::new();
    RowWriter::new(&mut again).write(&read).unwrap();
    assert_eq!(
        again, without_field,
        "{name}: an older release reads a newer row"
    );
    kinds.insert(name);
}

#[test]
fn a_field_can_be_added_to_every_kind_of_row() {
    let bytes = saved(&state());
    let mut input = &bytes[..];
    let mut rows = RowReader::new(&mut input);
    let mut kinds = BTreeSet::new();
    let header: Header = rows.read().unwrap();
    for _ in 0..header.classes + header.traits {
        let row: NamedRow = rows.read().unwrap();
        assert_grows(&mut kinds, "NamedRow", &row);
    }
    for _ in 0..header.aggregates + header.projects + header.users + header.types {
        let name: String = rows.read().unwrap();
        assert_grows(&mut kinds, "String", &name);
    }
    for _ in 0..header.providers {
        let row: ProviderRow = rows.read().unwrap();
        assert_grows(&mut kinds, "ProviderRow", &row);
    }
    for _ in 0..header.levels {
        let row: Level = rows.read().unwrap();
        assert_grows(&mut kinds, "Level", &row);
    }
    for _ in 0..header.groups {
        let row: GroupRow = rows.read().unwrap();
        assert_grows(&mut kinds, "GroupRow", &row);
    }
    for _ in 0..header.consumers {
        let row: ConsumerRow = rows.read().unwrap();
        assert_grows(&mut kinds, "ConsumerRow", &row);
    }
    let distances: u32 = rows.read().unwrap();
    assert_grows(&mut kinds, "u32", &distances);
    for _ in 0..distances {
        let row: Distance = rows.read().unwrap();
        assert_grows(&mut kinds, "Distance", &row);
    }
    assert_grows(&mut kinds, "Header", &header);
    // All rows that are structs of `snapshot.rs` were tested.
    let source = include_str!("../snapshot.rs").split("struct ").skip(1);
    let declared: BTreeSet<&str> = source
        .filter_map(|text| text.split([' ', '<']).next())
        .filter(|name| name.ends_with("Row") || *name == "Header")
        .collect();
    let missing: Vec<_> = declared.difference(&kinds).collect();
    assert!(missing.is_empty(), "not tested: {missing:?}");
    // Beside them `String`, `Level`, `u32` and `Distance` are rows.
    assert!(kinds.len() >= declared.len() + 4, "{kinds:?}");
}
