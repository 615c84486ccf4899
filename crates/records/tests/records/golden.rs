//! Golden files: what any release wrote can be read for ever. There is a file for each version of each
//! form, and a file for what this release writes. If a test fails, a form was changed that exists on disks:
//! add a field or a variant instead, or a version.
//!
//! A test that finds no file writes it and fails; commit the file then. Files are never overwritten.

use crate::values;

use std::fmt::Debug;
use std::sync::Arc;

use crate::common::{assert_writes, golden};
use placewright_conductor::{
    ClaimRequest, ControlState, SharedText, SpecBody, cell_conductor, control, super_conductor,
};
use placewright_link::CellEvent;
use placewright_placement as placement;
use placewright_records::control as control_records;
use placewright_records::message::{self, Versions};
use placewright_records::{Form, cell, ranking};
use super_conductor::Change;
use values::accounts::account_changes;
use values::decisions::decision_changes;
use values::images::image_changes;
use values::quotas::quota_changes;
use values::{INSTANCE, cell_changes, control_changes, reservation_changes};

#[test]
fn records_of_control_read_as_they_always_did() {
    let mut bytes = Vec::new();
    control_records::encode(&control_changes(), &mut bytes);
    assert_writes("control_4_rules", &bytes);
    assert!(control_records::may_concern_conductor(&bytes));
    let packed = [control_changes(), reservation_changes(3)].concat();
    let mut bytes = Vec::new();
    control_records::encode(&packed, &mut bytes);
    assert_writes("control_4_packed_rules", &bytes);
    assert!(control_records::may_concern_conductor(&bytes));
    for (name, changes) in [
        ("control_2", control_changes()),
        ("control_3", packed.clone()),
        ("control_4", control_changes()),
        ("control_4_packed", packed.clone()),
        // Written by releases that write the rules of groups as rows instead of as a text.
        ("control_4_rules", control_changes()),
        ("control_4_packed_rules", packed),
    ] {
        let bytes = golden(name);
        assert!(control_records::may_concern_conductor(&bytes), "{name}");
        assert_eq!(control_records::decode(&bytes).unwrap(), changes, "{name}");
        for end in 0..bytes.len() {
            // A record that was cut between two rows is read without an error. The journal's checksums detect
            // such damage.
            let truncated = control_records::decode(&bytes[..end]);
            assert!(
                truncated.is_err() || truncated.unwrap().len() < changes.len(),
                "{name}"
            );
        }
    }
    let mut bytes = Vec::new();
    control_records::encode(&quota_changes(), &mut bytes);
    assert_writes("control_4_quotas", &bytes);
    assert_eq!(
        control_records::decode(&golden("control_4_quotas")).unwrap(),
        quota_changes()
    );
    let mut bytes = Vec::new();
    control_records::encode(&decision_changes(), &mut bytes);
    assert_writes("control_4_decisions", &bytes);
    assert_eq!(
        control_records::decode(&golden("control_4_decisions")).unwrap(),
        decision_changes()
    );
    let mut bytes = Vec::new();
    control_records::encode(&account_changes(), &mut bytes);
    assert_writes("control_4_accounts", &bytes);
    assert_eq!(
        control_records::decode(&golden("control_4_accounts")).unwrap(),
        account_changes()
    );
    let mut bytes = Vec::new();
    control_records::encode(&image_changes(), &mut bytes);
    assert_writes("control_4_images", &bytes);
    assert_eq!(
        control_records::decode(&golden("control_4_images")).unwrap(),
        image_changes()
    );
    // A record of version 3 with one element, a spec (2) of template 7, which is missing.
    let without_template = [
        3, 2, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0,
    ];
    assert!(control_records::decode(&without_template).is_err());
}

#[test]
fn records_of_a_cell_read_as_they_always_did() {
    let mut bytes = Vec::new();
    cell::encode(&cell_changes(), &mut bytes);
    assert_writes("cell_2", &bytes);
    for name in ["cell_1", "cell_2"] {
        assert_eq!(
            cell::decode(&golden(name)).unwrap(),
            cell_changes(),
            "{name}"
        );
    }
}

fn conductor_state_of(changes: &[control::Change]) -> ControlState {
    let mut state = ControlState::default();
    for change in changes {
        if matches!(change, control::Change::Conductor(_)) {
            drop(state.apply(change));
        }
    }
    state
}

#[test]
fn snapshots_of_control_read_as_they_always_did() {
    let single = conductor_state_of(&control_changes());
    let packed = conductor_state_of(&[control_changes(), reservation_changes(3)].concat());
    for (name, state) in [
        ("control_snapshot_3_rules", &single),
        ("control_snapshot_3_packed_rules", &packed),
    ] {
        let mut bytes = Vec::new();
        control_records::save(state, &mut bytes).unwrap();
        assert_writes(name, &bytes);
    }
    for (name, state) in [
        ("control_snapshot_1", &single),
        ("control_snapshot_2", &packed),
        ("control_snapshot_3", &single),
        ("control_snapshot_3_packed", &packed),
        ("control_snapshot_3_rules", &single),
        ("control_snapshot_3_packed_rules", &packed),
    ] {
        let read = control_records::load(&mut golden(name).as_slice()).unwrap();
        assert_eq!(read.conductor, state.conductor, "{name}");
        assert_eq!(
            control_records::digest(&read),
            control_records::digest(state),
            "{name}"
        );
    }
}

#[test]
fn snapshots_of_a_cell_read_as_they_always_did() {
    let mut state = cell_conductor::State::default();
    for change in cell_changes() {
        drop(state.apply(&change));
    }
    let mut bytes = Vec::new();
    cell::save(&state, &mut bytes).unwrap();
    assert_writes("cell_snapshot_3", &bytes);
    for name in ["cell_snapshot_1", "cell_snapshot_3"] {
        let read = cell::load(&mut golden(name).as_slice()).unwrap();
        assert_eq!(read, state, "{name}");
        assert_eq!(cell::digest(&read), cell::digest(&state), "{name}");
    }
}

/// Asserts that a list is written as the golden file of each version has it, and that each of these files is read as
/// the list.
fn assert_message<T: Form + PartialEq + Debug>(name: &str, values: &[T]) {
    for version in Versions::SUPPORTED.oldest..=Versions::SUPPORTED.newest {
        let parts = message::encode_parts(version, values, usize::MAX).unwrap();
        let name = format!("{name}_{version}");
        assert_writes(&name, &parts[0].bytes);
        let read: Vec<T> = message::decode(version, &golden(&name)).unwrap();
        assert_eq!(read, values, "{name}");
    }
}

#[test]
fn messages_of_each_version_read_as_they_always_did() {
    // Some files have names that the types had earlier.
    assert_message("envelopes", &values::envelopes());
    assert_message("replies", &values::replies());
    assert_message("acts", &values::cell_operations());
    assert_message("asks", &values::claim_requests());
    assert_message("answers", &values::claim_responses());
    assert_message("actions", &values::requests::actions());
    assert_message("news", &values::cell_events());
}

/// What is recorded and said of instances that are built in another cell, and of the versions of compute services.
#[test]
fn fields_that_were_added_read_as_they_always_did() {
    let changes = values::reschedule::mapping_changes();
    let mut bytes = Vec::new();
    control_records::encode(&changes, &mut bytes);
    assert_writes("control_4_reschedule", &bytes);
    let read = control_records::decode(&golden("control_4_reschedule")).unwrap();
    assert_eq!(read, changes);
    let changes = values::reschedule::cell_changes();
    let mut bytes = Vec::new();
    cell::encode(&changes, &mut bytes);
    assert_writes("cell_2_reschedule", &bytes);
    let read = cell::decode(&golden("cell_2_reschedule")).unwrap();
    assert_eq!(read, changes);
    let version = 3;
    let requests = values::reschedule::claim_requests();
    let parts = message::encode_parts(version, &requests, usize::MAX).unwrap();
    assert_writes("asks_3_reschedule", &parts[0].bytes);
    let read: Vec<ClaimRequest> = message::decode(version, &golden("asks_3_reschedule")).unwrap();
    assert_eq!(read, requests);
    let events = values::hosts::cell_events_with_service_version();
    let parts = message::encode_parts(version, &events, usize::MAX).unwrap();
    assert_writes("news_3_service_version", &parts[0].bytes);
    let read: Vec<CellEvent> = message::decode(version, &golden("news_3_service_version")).unwrap();
    assert_eq!(read, events);
}

/// Control and cells of different releases compare these digests.
#[test]
fn the_digest_of_a_spec_is_what_it_always_was() {
    let digest = values::spec().digest().to_be_bytes();
    assert_writes("spec_digest", &digest);
}

#[test]
fn common_parts_of_specs_are_written_once() {
    let text: Arc<str> = "x".repeat(1 << 17).into();
    let changes: Vec<control::Change> = reservation_changes(20)
        .into_iter()
        .map(|change| match change {
            control::Change::Conductor(Change::Spec(instance, Some(mut spec))) => {
                let SpecBody::Json(body) = &spec.body else {
                    panic!("{:?}", spec.body);
                };
                spec.body = SharedText::from_parts(Arc::clone(&text), body.own()).into();
                control::Change::Conductor(Change::Spec(instance, Some(spec)))
            }
            change => change,
        })
        .collect();
    let mut record = Vec::new();
    control_records::encode(&changes, &mut record);
    assert!(record.len() < 2 << 17, "{} bytes", record.len());
    let state_of = |changes: &[control::Change]| {
        let mut state = ControlState::default();
        changes.iter().for_each(|change| drop(state.apply(change)));
        state
    };
    let written = state_of(&changes);
    let read = state_of(&control_records::decode(&record).unwrap());
    let mut snapshot = Vec::new();
    control_records::save(&read, &mut snapshot).unwrap();
    assert!(snapshot.len() < 2 << 17, "{} bytes", snapshot.len());
    let loaded = control_records::load(&mut snapshot.as_slice()).unwrap();
    assert_eq!(loaded.conductor, written.conductor);
    assert_eq!(
        control_records::digest(&loaded),
        control_records::digest(&written)
    );
    let bodies: Vec<&SpecBody> = loaded
        .conductor
        .specs()
        .values()
        .map(|spec| &spec.body)
        .collect();
    assert!(bodies.windows(2).all(|pair| pair[0].shares_prefix(pair[1])));
    // Copies that do not share parts have the same digest.
    let separate_copies: Vec<control::Change> = changes
        .iter()
        .take(2)
        .map(|change| {
            let mut single = Vec::new();
            control_records::encode(std::slice::from_ref(change), &mut single);
            control_records::decode(&single).unwrap().remove(0)
        })
        .collect();
    assert_eq!(
        control_records::digest(&state_of(&separate_copies)),
        control_records::digest(&state_of(&changes[..2]))
    );
}

#[test]
fn sealed_secrets_of_a_reservation_are_written_once() {
    let fields: Arc<str> = "c2VhbGVk".repeat(8000).into();
    let sealed =
        |number: usize| SharedText::from_parts(Arc::clone(&fields), format!(".key.{number}"));
    let changes: Vec<control::Change> = (0..)
        .zip(reservation_changes(20))
        .map(|(number, change)| match change {
            control::Change::Conductor(Change::Spec(instance, Some(mut spec))) => {
                spec.secrets = sealed(number);
                control::Change::Conductor(Change::Spec(instance, Some(spec)))
            }
            change => change,
        })
        .collect();
    let mut record = Vec::new();
    control_records::encode(&changes, &mut record);
    assert!(record.len() < 2 * fields.len(), "{} bytes", record.len());
    let read = control_records::decode(&record).unwrap();
    assert_eq!(read, changes);
    let mut texts = read.iter().filter_map(|change| match change {
        control::Change::Conductor(Change::Spec(_, Some(spec))) => Some(&spec.secrets),
        _ => None,
    });
    let first = texts.next().unwrap();
    assert!(texts.all(|text| text.shares_prefix(first)));
}

#[test]
fn sealed_secrets_read_as_they_always_did() {
    let spec = placewright_conductor::Spec {
        build_secrets: "YnVpbGQ.key.b25l".into(),
        secrets: "c2VydmVy.key.dHdv".into(),
        ..values::spec()
    };
    let change = control::Change::Conductor(Change::Spec(INSTANCE, Some(Box::new(spec))));
    let mut record = Vec::new();
    control_records::encode(std::slice::from_ref(&change), &mut record);
    assert_writes("control_4_secrets", &record);
    assert_eq!(
        control_records::decode(&golden("control_4_secrets")).unwrap(),
        [change]
    );
}

#[test]
fn records_and_snapshots_of_placement_alone_are_read() {
    let removed = placement::Change::ConsumerRemoved {
        consumer: INSTANCE.consumer(),
    };
    let single = golden("placement_1_removed");
    let change = control::Change::Placement(removed);
    assert_eq!(
        control_records::decode(&single).unwrap(),
        std::slice::from_ref(&change)
    );
    assert!(!control_records::may_concern_conductor(&single));
    let mut bytes = Vec::new();
    control_records::encode(std::slice::from_ref(&change), &mut bytes);
    assert!(!control_records::may_concern_conductor(&bytes));
    let mut snapshot = Vec::new();
    placement::State::default().save(&mut snapshot).unwrap();
    let read = control_records::load(&mut snapshot.as_slice()).unwrap();
    assert_eq!(
        control_records::digest(&read),
        control_records::digest(&ControlState::default())
    );
}

#[test]
fn a_newer_or_damaged_record_or_snapshot_is_refused() {
    let mut bytes = Vec::new();
    control_records::encode(&control_changes(), &mut bytes);
    bytes[0] = 99;
    let error = control_records::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    assert!(control_records::decode(&[]).is_err());
    assert!(control_records::decode(&[0]).is_err());
    assert!(control_records::decode(&[2, 3, 250]).is_err());
    // A flag that does not exist.
    assert!(control_records::decode(&[4, 128]).is_err());
    assert!(cell::decode(&[9, 0]).is_err());
    assert!(cell::decode(&[0]).is_err());
    assert!(cell::decode(&[]).is_err());
    assert!(cell::load(&mut [9].as_slice()).is_err());
    assert!(cell::load(&mut [1, 5, 0, 0, 0, 1].as_slice()).is_err());
}

#[test]
fn rankings_read_as_they_always_did() {
    assert_writes("ranking_1", &ranking::encode(&values::decisions::ranking()));
    let bytes = golden("ranking_1");
    assert_eq!(
        ranking::decode(&bytes).unwrap(),
        values::decisions::ranking()
    );
    for end in 0..bytes.len() {
        assert!(ranking::decode(&bytes[..end]).is_err());
    }
    let mut later = bytes;
    later[0] += 1;
    assert!(ranking::decode(&later).is_err());
}
