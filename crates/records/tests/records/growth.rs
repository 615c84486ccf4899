//! Releases with and without an added field read each other's records, snapshots and messages. Here one
//! row of each kind is tested; `kinds.rs` tests every declared row.
//!
//! The newer release is simulated by [`WithAddedField`]: a present row with one more field.

use crate::bodies;
use crate::next;
use crate::values;

use next::{WithAddedField, assert_grows, encode};
use placewright_conductor::cell_conductor::{self as cell_conductor, Instance};
use placewright_conductor::message::Envelope;
use placewright_conductor::super_conductor::{self, Mapping};
use placewright_conductor::{InstanceId, Spec, control};
use placewright_link::CellEvent;
use placewright_placement::change::NewAllocation;
use placewright_placement::{self as placement, ClassId};
use placewright_records::guests::{Entry, GuestRow, GuestStateName};
use placewright_records::message::{self, Versions};
use placewright_records::{Form, Layout, Writer, cell, control as control_records, guests};
use values::{CELL, HOST, INSTANCE, amounts};

/// The numbers of variants, as the declarations have them.
const MAPPING_CHANGE: u64 = 5;
const CONSUMER_REMOVED: u64 = 14;
const INSTANCE_CHANGE: u64 = 2;
const PUT_ENTRY: u64 = 0;

fn mapping() -> Mapping {
    values::reschedule::mapping()
}

fn instance() -> Instance {
    values::mappings::instance()
}

fn guest() -> GuestRow {
    GuestRow {
        state: GuestStateName::Running,
        amounts: amounts(),
        group: None,
        image_properties: Vec::new(),
    }
}

/// A variant of a choice as a later release writes it.
fn variant(number: u64, write: impl Fn(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    out.variant(number, |out| write(out));
    out.into_bytes()
}

#[test]
fn a_row_of_each_kind_grows() {
    assert_grows(mapping());
    assert_grows(instance());
    assert_grows(bodies::spec_with_added_fields());
    for spec in [values::spec(), values::quotas::spec_with_usage()] {
        assert_grows(Spec {
            build_secrets: "build".into(),
            secrets: "kept".into(),
            ..spec
        });
    }
    assert_grows(guest());
    assert_grows(NewAllocation {
        provider: HOST.0,
        class: ClassId(3),
        amount: 4,
    });
    for envelope in values::requests::envelopes() {
        assert_grows(envelope);
    }
    for operation in values::requests::cell_operations() {
        assert_grows(operation);
    }
    for request in values::reschedule::claim_requests() {
        assert_grows(request);
    }
    for event in values::hosts::cell_events_with_service_version() {
        assert_grows(event);
    }
    for change in values::reschedule::cell_changes() {
        assert_grows(change);
    }
}

#[test]
fn a_spec_grows_after_fields_that_were_not_written() {
    // Four fields were added to specs earlier. The first spec is written without any of the four, whose defaults take 5
    // bytes, and the second one without the last two.
    for (spec, default_bytes) in [(values::spec(), 5), (values::quotas::spec_with_usage(), 2)] {
        let mut out = Writer::new(Vec::new(), Layout::Growing);
        out.row(|out| {
            out.raw(&next::fields(&spec));
            // The newer release writes these defaults, because its own field comes after them.
            out.raw(&[0; 5][..default_bytes]);
            "of a later release".to_owned().write(out);
        });
        assert_eq!(next::decode::<Spec>(&out.into_bytes()), spec);
    }
}

#[test]
fn a_record_of_control_with_a_field_that_was_added_is_read() {
    let mapping_change = variant(MAPPING_CHANGE, |out| {
        INSTANCE.write(out);
        Some(WithAddedField::new(mapping())).write(out);
    });
    let removal_change = variant(CONSUMER_REMOVED, |out| {
        INSTANCE.consumer().write(out);
        "why".to_owned().write(out);
    });
    let concerns_conductor = 1;
    let (of_placement, of_conductor) = (0, 1);
    let record = [
        &[
            control_records::RECORD_VERSION,
            concerns_conductor,
            of_placement,
        ][..],
        &removal_change,
        &[of_conductor],
        &mapping_change,
    ]
    .concat();
    let removed = placement::Change::ConsumerRemoved {
        consumer: INSTANCE.consumer(),
    };
    let mapped = super_conductor::Change::Mapping(INSTANCE, Some(Box::new(mapping())));
    let changes = [
        control::Change::Placement(removed),
        control::Change::Conductor(mapped),
    ];
    assert_eq!(control_records::decode(&record).unwrap(), changes);
}

#[test]
fn a_record_of_a_cell_with_a_field_that_was_added_is_read() {
    let instance_change = variant(INSTANCE_CHANGE, |out| {
        INSTANCE.write(out);
        Some(WithAddedField::new(instance())).write(out);
    });
    let record = [&[cell::RECORD_VERSION][..], &instance_change].concat();
    let changed = cell_conductor::Change::Instance(INSTANCE, Some(Box::new(instance())));
    assert_eq!(cell::decode(&record).unwrap(), [changed]);
}

#[test]
fn snapshots_with_a_field_that_was_added_are_read() {
    // A snapshot of version 3 with one element: its length, the kind 0 for a row of a table, and the change that makes
    // the row. A length of 0 ends the snapshot.
    let snapshot_with = |change: Vec<u8>| {
        let element = [&[0][..], &change].concat();
        let length = u32::try_from(element.len()).unwrap().to_le_bytes();
        [&[3][..], &length, &element, &[0; 4]].concat()
    };
    let cell_snapshot = snapshot_with(variant(INSTANCE_CHANGE, |out| {
        INSTANCE.write(out);
        Some(WithAddedField::new(instance())).write(out);
    }));
    let state = cell::load(&mut cell_snapshot.as_slice()).unwrap();
    assert_eq!(state.instances()[&INSTANCE], instance());
    let mut control_snapshot = Vec::new();
    placement::State::default()
        .save(&mut control_snapshot)
        .unwrap();
    control_snapshot.extend(snapshot_with(variant(MAPPING_CHANGE, |out| {
        INSTANCE.write(out);
        Some(WithAddedField::new(mapping())).write(out);
    })));
    let state = control_records::load(&mut control_snapshot.as_slice()).unwrap();
    assert_eq!(state.conductor.mappings()[&INSTANCE], mapping());
}

#[test]
fn an_entry_of_an_agent_with_a_field_that_was_added_is_read() {
    let key = (InstanceId(CELL.0), 7);
    let bytes = variant(PUT_ENTRY, |out| {
        HOST.write(out);
        key.write(out);
        WithAddedField::new(guest()).write(out);
    });
    let entry = guests::decode(guests::VERSION, &bytes).unwrap();
    assert_eq!(entry, Entry::Put(HOST, key, guest()));
}

#[test]
fn messages_with_a_field_that_was_added_are_read() {
    let envelopes = values::envelopes();
    let newer: Vec<WithAddedField<Envelope>> =
        envelopes.iter().cloned().map(WithAddedField::new).collect();
    let version = Versions::SUPPORTED.newest;
    let bytes = message::encode(version, &newer).unwrap();
    let read: Vec<Envelope> = message::decode(version, &bytes).unwrap();
    assert_eq!(read, envelopes);
    // Version 2, which an older peer reads, cannot have the field.
    let bytes = message::encode(2, &newer).unwrap();
    assert_eq!(bytes, message::encode(2, &envelopes).unwrap());
}

#[test]
fn a_variant_that_was_added_is_refused_by_its_number_or_skipped() {
    let unknown = variant(99, |out| out.raw(b"whatever"));
    let record = [&[cell::RECORD_VERSION][..], &unknown].concat();
    let error = cell::decode(&record).unwrap_err().to_string();
    assert!(
        error.contains("number 99 is not known to this release"),
        "{error}"
    );
    let version = Versions::SUPPORTED.newest;
    let known = encode(&values::cell_events()[0]);
    let list = [&[3][..], &known, &unknown, &known].concat();
    assert!(message::decode::<Vec<CellEvent>>(version, &list).is_err());
    let (cell_events, skipped): (Vec<CellEvent>, usize) =
        message::decode_known(version, &list).unwrap();
    assert_eq!(
        cell_events,
        [
            values::cell_events().remove(0),
            values::cell_events().remove(0)
        ]
    );
    assert_eq!(skipped, 1);
}
