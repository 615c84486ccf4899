//! Placement's changes: what any release wrote can be read for ever, as in `golden.rs`.

use crate::common::{assert_writes, golden};
use placewright_conductor::control;
use placewright_placement::change::NewAllocation;
use placewright_placement::group::{Distance, Level, Relation, Rule, RuleScope};
use placewright_placement::{Change, ClassId, ConsumerUuid, Inventory, Timestamp, TraitId};
use placewright_records::control as control_records;
use uuid::Uuid;

#[expect(clippy::too_many_lines, reason = "one entry a kind of change")]
fn one_of_each() -> Vec<Change> {
    let (provider, at) = (Uuid::from_u128(0x11), Timestamp(1_700_000_000_000_000));
    let consumer = ConsumerUuid::from_uuid(Uuid::from_u128(0x22));
    let inventory = Inventory {
        total: 64,
        reserved: 2,
        min_unit: 1,
        max_unit: 32,
        step_size: 1,
        allocation_ratio: 4.0,
    };
    vec![
        Change::ClassCreated {
            id: ClassId(1000),
            name: "CUSTOM_A".into(),
            at,
        },
        Change::ClassRenamed {
            id: ClassId(1000),
            name: "CUSTOM_B".into(),
            at,
        },
        Change::ClassRemoved { id: ClassId(1000) },
        Change::TraitCreated {
            id: TraitId(4000),
            name: "CUSTOM_T".into(),
            at,
        },
        Change::TraitRemoved { id: TraitId(4000) },
        Change::ProviderCreated {
            uuid: provider,
            name: "host".into(),
            parent: None,
            at,
        },
        Change::ProviderUpdated {
            uuid: provider,
            name: "host2".into(),
            parent: Some(Uuid::from_u128(0x33)),
            at,
        },
        Change::ProviderRemoved { uuid: provider },
        Change::GenerationSet {
            provider,
            generation: 7,
            at,
        },
        Change::InventorySet {
            provider,
            class: ClassId(0),
            inventory,
            at,
        },
        Change::InventoryRemoved {
            provider,
            class: ClassId(0),
        },
        Change::TraitsSet {
            provider,
            traits: vec![TraitId(1), TraitId(300)],
        },
        Change::AggregatesSet {
            provider,
            aggregates: vec!["agg".into()],
        },
        Change::ConsumerSet {
            consumer,
            generation: 1,
            project: "p".into(),
            user: "u".into(),
            consumer_type: Some("INSTANCE".into()),
            at,
            allocations: vec![NewAllocation {
                provider,
                class: ClassId(0),
                amount: 300,
            }],
        },
        Change::ConsumerRemoved { consumer },
        Change::GroupSet {
            group: Uuid::from_u128(0x44),
            rules: vec![
                Rule {
                    scope: RuleScope::Host,
                    relation: Relation::FewerThan(2),
                },
                Rule {
                    scope: RuleScope::Level("rack".into()),
                    relation: Relation::Same,
                },
            ],
        },
        Change::GroupRemoved {
            group: Uuid::from_u128(0x44),
        },
        Change::LevelsSet {
            levels: vec![Level::unnamed("rack", vec!["agg".into()])],
        },
        Change::ConsumerPlaced {
            consumer,
            host: Some(provider),
            group: None,
        },
    ]
}

/// Changes that were added later than the first golden record.
fn later_changes() -> Vec<Change> {
    vec![
        Change::GroupSet {
            group: Uuid::from_u128(0x44),
            rules: vec![Rule {
                scope: RuleScope::Level("rack".into()),
                relation: Relation::Spread(2),
            }],
        },
        Change::DistancesSet {
            distances: vec![Distance {
                from: "agg".into(),
                to: "other".into(),
                distance: 300,
            }],
        },
    ]
}

fn as_control_changes(changes: Vec<Change>) -> Vec<control::Change> {
    changes
        .into_iter()
        .map(control::Change::Placement)
        .collect()
}

#[test]
fn records_of_placement_read_as_they_always_did() {
    for (name, changes) in [
        ("placement_4", one_of_each()),
        ("placement_4_later", later_changes()),
    ] {
        let changes = as_control_changes(changes);
        let mut bytes = Vec::new();
        control_records::encode(&changes, &mut bytes);
        assert_writes(name, &bytes);
        assert!(!control_records::may_concern_conductor(&bytes), "{name}");
    }
    for (name, changes) in [
        ("placement_1", one_of_each()),
        ("placement_1_later", later_changes()),
        ("placement_4", one_of_each()),
        ("placement_4_later", later_changes()),
    ] {
        let bytes = golden(name);
        assert_eq!(
            control_records::decode(&bytes).unwrap(),
            as_control_changes(changes),
            "{name}"
        );
    }
}

#[test]
fn a_newer_or_damaged_record_is_refused_with_a_reason() {
    let mut bytes = golden("placement_1");
    bytes[0] = 99;
    let error = control_records::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    assert!(control_records::decode(&[]).is_err());
    // Three changes, of which the first has a number that does not exist.
    assert!(control_records::decode(&[1, 3, 250]).is_err());
}
