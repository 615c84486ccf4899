//! What each release wrote is read for ever: a file for each version of each form. What this
//! release writes has a file too. If one of these tests fails, a form was changed that exists on
//! somebody's disk: add a field or a variant instead, or a version.
//!
//! A file that does not exist is written by the test, which fails then: commit it. No file is ever
//! written anew.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod common;
mod values;

use std::fmt::Debug;
use std::sync::Arc;

use common::{assert_writes, golden};
use placewright_conductor::{
    ControlState, SharedText, SpecBody, cell_conductor, control, super_conductor,
};
use placewright_placement as placement;
use placewright_records::control as form;
use placewright_records::message::{self, Versions};
use placewright_records::{Form, cell};
use super_conductor::Change;
use values::quotas::of_quotas;
use values::{INSTANCE, of_a_reservation, of_cell, of_control};

#[test]
fn records_of_control_read_as_they_always_did() {
    let mut bytes = Vec::new();
    form::encode(&of_control(), &mut bytes);
    assert_writes("control_4_rules", &bytes);
    assert!(form::may_concern_conductor(&bytes));
    let packed = [of_control(), of_a_reservation(3)].concat();
    let mut bytes = Vec::new();
    form::encode(&packed, &mut bytes);
    assert_writes("control_4_packed_rules", &bytes);
    assert!(form::may_concern_conductor(&bytes));
    for (name, changes) in [
        ("control_2", of_control()),
        ("control_3", packed.clone()),
        ("control_4", of_control()),
        ("control_4_packed", packed.clone()),
        // Since the rules of groups are no text.
        ("control_4_rules", of_control()),
        ("control_4_packed_rules", packed),
    ] {
        let bytes = golden(name);
        assert!(form::may_concern_conductor(&bytes), "{name}");
        assert_eq!(form::decode(&bytes).unwrap(), changes, "{name}");
        for end in 0..bytes.len() {
            // An end between two rows of the growing layout is no error of the form: the journal
            // has checksums.
            let cut = form::decode(&bytes[..end]);
            assert!(cut.is_err() || cut.unwrap().len() < changes.len(), "{name}");
        }
    }
    let mut bytes = Vec::new();
    form::encode(&of_quotas(), &mut bytes);
    assert_writes("control_4_quotas", &bytes);
    assert_eq!(
        form::decode(&golden("control_4_quotas")).unwrap(),
        of_quotas()
    );
    // A spec of a template that is not there.
    let stray = [
        3, 2, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0,
    ];
    assert!(form::decode(&stray).is_err());
}

#[test]
fn records_of_a_cell_read_as_they_always_did() {
    let mut bytes = Vec::new();
    cell::encode(&of_cell(), &mut bytes);
    assert_writes("cell_2", &bytes);
    for name in ["cell_1", "cell_2"] {
        assert_eq!(cell::decode(&golden(name)).unwrap(), of_cell(), "{name}");
    }
}

fn control_of(changes: &[control::Change]) -> ControlState {
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
    let alone = control_of(&of_control());
    let packed = control_of(&[of_control(), of_a_reservation(3)].concat());
    for (name, state) in [
        ("control_snapshot_3_rules", &alone),
        ("control_snapshot_3_packed_rules", &packed),
    ] {
        let mut bytes = Vec::new();
        form::save(state, &mut bytes).unwrap();
        assert_writes(name, &bytes);
    }
    for (name, state) in [
        ("control_snapshot_1", &alone),
        ("control_snapshot_2", &packed),
        ("control_snapshot_3", &alone),
        ("control_snapshot_3_packed", &packed),
        ("control_snapshot_3_rules", &alone),
        ("control_snapshot_3_packed_rules", &packed),
    ] {
        let read = form::load(&mut golden(name).as_slice()).unwrap();
        assert_eq!(read.conductor, state.conductor, "{name}");
        assert_eq!(form::digest(&read), form::digest(state), "{name}");
    }
}

#[test]
fn snapshots_of_a_cell_read_as_they_always_did() {
    let mut state = cell_conductor::State::default();
    for change in of_cell() {
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
    assert_message("envelopes", &values::envelopes());
    assert_message("replies", &values::replies());
    assert_message("acts", &values::acts());
    assert_message("asks", &values::asks());
    assert_message("answers", &values::answers());
    assert_message("actions", &values::actions());
    assert_message("news", &values::news());
}

/// Cells and control of two releases compare them.
#[test]
fn the_digest_of_a_spec_is_what_it_always_was() {
    let digest = values::spec().digest().to_be_bytes();
    assert_writes("spec_digest", &digest);
}

#[test]
fn what_specs_have_in_common_is_written_once() {
    let text: Arc<str> = "x".repeat(1 << 17).into();
    let changes: Vec<control::Change> = of_a_reservation(20)
        .into_iter()
        .map(|change| match change {
            control::Change::Conductor(Change::Spec(instance, Some(mut spec))) => {
                let SpecBody::Json(body) = &spec.body else {
                    panic!("{:?}", spec.body);
                };
                spec.body = SharedText::parted(Arc::clone(&text), body.own()).into();
                control::Change::Conductor(Change::Spec(instance, Some(spec)))
            }
            other => other,
        })
        .collect();
    let mut record = Vec::new();
    form::encode(&changes, &mut record);
    assert!(record.len() < 2 << 17, "{} bytes", record.len());
    let state_of = |changes: &[control::Change]| {
        let mut state = ControlState::default();
        changes.iter().for_each(|change| drop(state.apply(change)));
        state
    };
    let written = state_of(&changes);
    let read = state_of(&form::decode(&record).unwrap());
    let mut snapshot = Vec::new();
    form::save(&read, &mut snapshot).unwrap();
    assert!(snapshot.len() < 2 << 17, "{} bytes", snapshot.len());
    let loaded = form::load(&mut snapshot.as_slice()).unwrap();
    assert_eq!(loaded.conductor, written.conductor);
    assert_eq!(form::digest(&loaded), form::digest(&written));
    let bodies: Vec<&SpecBody> = loaded
        .conductor
        .specs()
        .values()
        .map(|spec| &spec.body)
        .collect();
    assert!(bodies.windows(2).all(|pair| pair[0].shares_prefix(pair[1])));
    // Copies that share nothing are the same state.
    let apart: Vec<control::Change> = changes
        .iter()
        .take(2)
        .map(|change| {
            let mut alone = Vec::new();
            form::encode(std::slice::from_ref(change), &mut alone);
            form::decode(&alone).unwrap().remove(0)
        })
        .collect();
    assert_eq!(
        form::digest(&state_of(&apart)),
        form::digest(&state_of(&changes[..2]))
    );
}

#[test]
fn sealed_secrets_of_a_reservation_are_written_once() {
    let fields: Arc<str> = "c2VhbGVk".repeat(8000).into();
    let sealed = |number: usize| SharedText::parted(Arc::clone(&fields), format!(".key.{number}"));
    let changes: Vec<control::Change> = (0..)
        .zip(of_a_reservation(20))
        .map(|(number, change)| match change {
            control::Change::Conductor(Change::Spec(instance, Some(mut spec))) => {
                spec.secrets = sealed(number);
                control::Change::Conductor(Change::Spec(instance, Some(spec)))
            }
            other => other,
        })
        .collect();
    let mut record = Vec::new();
    form::encode(&changes, &mut record);
    assert!(record.len() < 2 * fields.len(), "{} bytes", record.len());
    let read = form::decode(&record).unwrap();
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
    form::encode(std::slice::from_ref(&change), &mut record);
    assert_writes("control_4_secrets", &record);
    assert_eq!(
        form::decode(&golden("control_4_secrets")).unwrap(),
        [change]
    );
}

#[test]
fn what_placement_wrote_alone_is_read_as_control_s() {
    let removed = placement::Change::ConsumerRemoved {
        consumer: INSTANCE.consumer(),
    };
    let alone = golden("placement_1_removed");
    let change = control::Change::Placement(removed);
    assert_eq!(form::decode(&alone).unwrap(), std::slice::from_ref(&change));
    assert!(!form::may_concern_conductor(&alone));
    let mut bytes = Vec::new();
    form::encode(std::slice::from_ref(&change), &mut bytes);
    assert!(!form::may_concern_conductor(&bytes));
    let mut snapshot = Vec::new();
    placement::State::default().save(&mut snapshot).unwrap();
    let read = form::load(&mut snapshot.as_slice()).unwrap();
    assert_eq!(form::digest(&read), form::digest(&ControlState::default()));
}

#[test]
fn a_newer_or_damaged_record_or_snapshot_is_refused() {
    let mut bytes = Vec::new();
    form::encode(&of_control(), &mut bytes);
    bytes[0] = 99;
    let error = form::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    assert!(form::decode(&[]).is_err());
    assert!(form::decode(&[0]).is_err());
    assert!(form::decode(&[2, 3, 250]).is_err());
    assert!(form::decode(&[4, 128]).is_err());
    assert!(cell::decode(&[9, 0]).is_err());
    assert!(cell::decode(&[0]).is_err());
    assert!(cell::decode(&[]).is_err());
    assert!(cell::load(&mut [9].as_slice()).is_err());
    assert!(cell::load(&mut [1, 5, 0, 0, 0, 1].as_slice()).is_err());
}
