//! Bodies of specs that are rows: what any release wrote can be read for ever, as in `golden.rs`, and
//! older releases get JSON.

use crate::values;

use std::sync::Arc;

use crate::bodies::{body, spec, topology};
use crate::common::{assert_writes, golden};
use placewright_conductor::cell_conductor;
use placewright_conductor::super_conductor::{Change, GroupTopology, Rebuild};
use placewright_conductor::{ControlState, InstanceId, SharedRow, Spec, SpecBody, control};
use placewright_link::CellOperation;
use placewright_records::server::RawRequest;
use placewright_records::{
    Form, Layout, Reader, Writer, cell, control as control_records, message, server,
};
use placewright_types::server::{OwnFields, ServerBody};
use uuid::Uuid;
use values::{AT, INSTANCE, OTHER};

fn changes() -> Vec<control::Change> {
    let rebuild = Rebuild {
        spec: spec(),
        at: AT,
        view_updated_at: AT,
    };
    [
        Change::Spec(INSTANCE, Some(Box::new(spec()))),
        Change::Rebuild(INSTANCE, Some(Box::new(rebuild))),
        Change::GroupTopology(OTHER, Some(Box::new(topology()))),
    ]
    .map(control::Change::Conductor)
    .into()
}

/// The specs of a request for several servers.
fn reservation() -> Vec<control::Change> {
    let common = server::common(&body());
    let rules = values::spec().rules;
    let specs = (0..3u32).map(move |launch_index| {
        let own = server::own(&OwnFields {
            launch_index,
            hostname: format!("host-{launch_index}"),
        });
        let spec = Spec {
            body: SpecBody::Row(SharedRow::from_parts(Arc::clone(&common), own)),
            name: format!("vm-{launch_index}"),
            rules: rules.clone(),
            ..spec()
        };
        let instance = InstanceId(Uuid::from_u128(launch_index.into()));
        control::Change::Conductor(Change::Spec(instance, Some(Box::new(spec))))
    });
    specs.collect()
}

#[test]
fn a_body_reads_as_it_always_did() {
    let SpecBody::Row(row) = server::write(&body()) else {
        panic!("a body that is written is a row");
    };
    assert_writes("body_common", row.common());
    assert_writes("body_own", row.own());
    assert_writes(
        "body_json",
        server::json(&server::write(&body())).as_bytes(),
    );
    let row = SharedRow::from_parts(golden("body_common").into(), golden("body_own"));
    assert_eq!(server::read(&SpecBody::Row(row)).unwrap(), body());
    let json = String::from_utf8(golden("body_json")).unwrap();
    assert_eq!(server::read(&json.into()).unwrap(), body());
}

#[test]
fn records_with_typed_bodies_read_as_they_always_did() {
    for (name, changes) in [
        ("control_4_typed", changes()),
        ("control_4_typed_packed", reservation()),
    ] {
        let mut bytes = Vec::new();
        control_records::encode(&changes, &mut bytes);
        assert_writes(name, &bytes);
        assert_eq!(
            control_records::decode(&golden(name)).unwrap(),
            changes,
            "{name}"
        );
    }
    let row = cell_conductor::Change::Spec(INSTANCE, Some(Box::new(spec())));
    let mut bytes = Vec::new();
    cell::encode(std::slice::from_ref(&row), &mut bytes);
    assert_writes("cell_2_typed", &bytes);
    assert_eq!(cell::decode(&golden("cell_2_typed")).unwrap(), [row]);
}

#[test]
fn snapshots_with_typed_bodies_read_as_they_always_did() {
    let mut state = ControlState::default();
    for change in [reservation(), changes()].concat() {
        drop(state.apply(&change));
    }
    let mut bytes = Vec::new();
    control_records::save(&state, &mut bytes).unwrap();
    assert_writes("control_snapshot_3_typed", &bytes);
    let read = control_records::load(&mut golden("control_snapshot_3_typed").as_slice()).unwrap();
    assert_eq!(read.conductor, state.conductor);
    assert_eq!(
        control_records::digest(&read),
        control_records::digest(&state)
    );
    let specs = read.conductor.specs();
    let body_of = |number: u128| &specs[&InstanceId(Uuid::from_u128(number))].body;
    // Number 1 is `INSTANCE`, whose spec `changes` has replaced.
    assert!(body_of(0).shares_prefix(body_of(2)) && !body_of(0).shares_prefix(body_of(1)));
}

#[test]
fn an_older_peer_gets_json() {
    let operation = CellOperation::Rebuild {
        instance: INSTANCE,
        spec: Box::new(spec()),
        request: None,
    };
    let bytes = message::encode(3, &operation).unwrap();
    assert_writes("rebuild_3_typed", &bytes);
    let read: CellOperation = message::decode(3, &golden("rebuild_3_typed")).unwrap();
    assert_eq!(read, operation);
    let bytes = message::encode(2, &operation).unwrap();
    assert_writes("rebuild_2_typed", &bytes);
    let read = message::decode(2, &golden("rebuild_2_typed")).unwrap();
    let CellOperation::Rebuild { spec: received, .. } = read else {
        panic!("{read:?}");
    };
    assert_eq!(received.body, SpecBody::from(&*server::json(&spec().body)));
    assert_eq!(server::read(&received.body).unwrap(), body());
    // The cell has the body as a text, and control as a row. Control accepts the digest of either.
    assert_ne!(received.digest(), spec().digest());
    assert!(server::has_digest(&spec(), received.digest()));
    assert!(server::has_digest(&spec(), spec().digest()));
    assert!(server::has_digest(&received, received.digest()));
    let other = Spec {
        name: "other".into(),
        ..spec()
    };
    assert!(!server::has_digest(&other, received.digest()));
    assert!(!server::has_digest(&other, spec().digest()));
}

#[test]
fn the_digest_of_a_typed_spec_is_what_it_always_was() {
    assert_writes("spec_digest_typed", &spec().digest().to_be_bytes());
}

/// A body as the compute API of a release before typed bodies wrote it.
const OLD_BODY: &str = r#"{"request":{"flavor":{"name":"small","vcpus":1,"memory_mb":512,"root_gb":0,
    "ephemeral_gb":0,"swap_mb":0,"extra_specs":{}},"image":{"id":"70ace000-0000-4000-8000-000000000001",
    "name":null,"disk_format":null,"properties":{}},"is_bfv":false,"project_id":"p","user_id":"u",
    "availability_zone":null,"num_instances":1,"ignore_hosts":[],"force_hosts":[],"force_nodes":[],
    "requested_destination":null,"scheduler_hints":{},"instance_group":null,"requested_resources":[],
    "request_level_params":{"root_required":[],"root_forbidden":[],"same_subtree":[]},"pci_requests":[],
    "requested_networks":[],"device_profiles":[],"topology_rules":[]},"min_count":2,
    "server":{"flavor_id":"1","image":"70ace000-0000-4000-8000-000000000001","reservation_id":"r-0",
    "metadata":{"a":"b"},"networks":[{"uuid":"n","port":null}],"block_device_mapping_v2":
    [{"boot_index":0,"uuid":"v","source_type":"volume","delete_on_termination":true,"x":null}],
    "disk_config":"AUTO","launch_index":3,"hostname":"vm"}}"#;

#[test]
fn a_body_of_an_older_release_is_read() {
    let read = server::read(&OLD_BODY.into()).unwrap();
    assert_eq!(read.request.flavor.memory_mb, 512);
    assert_eq!((read.min_count, read.own.launch_index), (Some(2), 3));
    assert_eq!(read.own.hostname, "vm");
    assert_eq!(read.server.metadata["a"], "b");
    assert_eq!(read.server.block_device_mapping_v2[0].len(), 5);
    // The row has the same content, and so has the JSON that is made from the row.
    let row = server::write(&read);
    assert_eq!(server::read(&row).unwrap(), read);
    assert_eq!(server::read(&(&*server::json(&row)).into()).unwrap(), read);
}

#[test]
fn a_body_in_two_parts_is_the_body() {
    let whole = body();
    for (launch_index, hostname) in [(0, "a-1"), (7, "\"}}"), (1, "")] {
        let own = OwnFields {
            launch_index,
            hostname: hostname.to_owned(),
        };
        let body = ServerBody {
            own: own.clone(),
            ..whole.clone()
        };
        let from_parts = SharedRow::from_parts(server::common(&whole), server::own(&own));
        assert_eq!(SpecBody::Row(from_parts), server::write(&body));
        assert_eq!(server::read(&server::write(&body)).unwrap(), body);
    }
}

#[test]
fn a_request_is_found_without_reading_it() {
    let typed = server::write(&body());
    let json = SpecBody::from(&*server::json(&typed));
    for spec_body in [&typed, &json] {
        let raw = RawRequest::find(spec_body).unwrap();
        assert_eq!(raw.min_count, Some(2));
        assert_eq!(raw.read().unwrap(), body().request);
    }
    let mut other = body();
    other.server.reservation_id = "r-2".into();
    let other = server::write(&other);
    let bytes = |body| RawRequest::find(body).unwrap().bytes().to_vec();
    assert_eq!(bytes(&typed), bytes(&other));
    assert!(RawRequest::find(&"{}".into()).is_err());
}

#[test]
fn rules_of_a_group_that_are_a_text_are_read() {
    let text = serde_json::to_string(&topology().rules).unwrap();
    for layout in [Layout::Positional, Layout::Growing] {
        let mut out = Writer::new(Vec::new(), layout);
        out.row(|out| text.write(out));
        let bytes = out.into_bytes();
        let read = GroupTopology::read(&mut Reader::new(&bytes, layout)).unwrap();
        assert_eq!(read, topology());
    }
}
