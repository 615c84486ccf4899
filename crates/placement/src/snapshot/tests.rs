//! A field is added to each kind of row, written and read both ways: by an older release what a newer
//! one wrote, and the other way round. The newer release is played by these tests.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::*;
use crate::change::{AllocationFact, Change};
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

/// What says where things are and what they have.
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

/// What says how places lie to each other, and who is there.
fn topology_and_consumers() -> Vec<Change> {
    let rule = Rule {
        scope: RuleScope::Level("rack".into()),
        relation: Relation::Spread(2),
    };
    let level = Level {
        name: "rack".into(),
        aggregates: vec!["agg".into()],
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
            allocations: vec![AllocationFact {
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

/// A state with one of each row.
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
fn an_older_release_passes_over_fields_that_rows_gained() {
    let state = state();
    let bytes = saved(&state);
    let mut left = &bytes[..];
    let (mut longer, mut count) = (Vec::new(), 0);
    while let Some((length, rest)) = left.split_first_chunk() {
        let (row, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        left = rest;
        let row = [row, &postcard::to_stdvec(&added()).unwrap()].concat();
        longer.extend(u32::try_from(row.len()).unwrap().to_le_bytes());
        longer.extend(row);
        count += 1;
    }
    assert!(count > 12, "{count} rows");
    let read = State::load(&mut longer.as_slice()).unwrap();
    assert_eq!(read.digest(), state.digest());
    assert_eq!(saved(&read), bytes);
}

/// Both ways, for one row.
fn assert_grows<T>(kinds: &mut BTreeSet<&str>, name: &'static str, row: &T)
where
    T: Serialize + serde::de::DeserializeOwned + Debug,
{
    let (mut of_today, mut of_tomorrow, mut with_nothing_new) =
        (Vec::new(), Vec::new(), Vec::new());
    Rows::new(&mut of_today).write(row).unwrap();
    Rows::new(&mut of_tomorrow)
        .write_with(row, &added())
        .unwrap();
    Rows::new(&mut with_nothing_new)
        .write_with(row, &Added::default())
        .unwrap();
    assert_eq!(with_nothing_new, of_today, "{name}");
    let mut input = &of_today[..];
    let (_, none): (T, Added) = Input::new(&mut input).read_with().unwrap();
    assert_eq!(none, None, "{name}: a newer release reads an older row");
    let mut input = &of_tomorrow[..];
    let (read, some): (T, Added) = Input::new(&mut input).read_with().unwrap();
    assert_eq!(some, added(), "{name}: a newer release reads its own");
    let mut again = Vec::new();
    Rows::new(&mut again).write(&read).unwrap();
    assert_eq!(again, of_today, "{name}");
    let mut input = &of_tomorrow[..];
    let read: T = Input::new(&mut input).read().unwrap();
    let mut again = Vec::new();
    Rows::new(&mut again).write(&read).unwrap();
    assert_eq!(
        again, of_today,
        "{name}: an older release reads a newer row"
    );
    kinds.insert(name);
}

#[test]
fn every_kind_of_row_grows() {
    let bytes = saved(&state());
    let mut input = &bytes[..];
    let mut rows = Input::new(&mut input);
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
    // Rows that are structs of `snapshot.rs`: none is forgotten.
    let source = include_str!("../snapshot.rs").split("struct ").skip(1);
    let declared: BTreeSet<&str> = source
        .filter_map(|text| text.split([' ', '<']).next())
        .filter(|name| name.ends_with("Row") || *name == "Header")
        .collect();
    let missing: Vec<_> = declared.difference(&kinds).collect();
    assert!(missing.is_empty(), "does it grow? {missing:?}");
    assert!(kinds.len() >= declared.len() + 4, "{kinds:?}");
}
