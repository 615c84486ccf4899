//! The journals' formats do not change: what an older release wrote is read by a newer one. If this
//! test fails, an existing variant or field was changed; add a new one instead.

use std::sync::Arc;

use placewright_conductor::cell_conductor::{
    self as cell, Host, Instance, Job, JobKind, Meta, Place, Stage, Step, Target, VmState,
};
use placewright_conductor::super_conductor::{
    Aggregate, BuildRequest, BuildStage, Buried, Cell, Change, Deletion, Flavor, GroupTopology,
    HostMapping, Keypair, Labels, Lock, Mapping, Migration, MigrationStatus, Move, MoveStage,
    Rebuild, ServerGroup, Service,
};
use placewright_conductor::{
    Action, Amounts, Answer, Body, Candidate, CellId, Control, Fault, HardRule, HostId, InstanceId,
    MigrationId, MoveKind, Spec, Try, Verdict, control, table,
};
use placewright_placement::group::{Relation, Rule, Scope};
use placewright_placement::{self as placement, Timestamp};
use uuid::Uuid;

const AT: Timestamp = Timestamp(1_700_000_000_000_000);
const INSTANCE: InstanceId = InstanceId(Uuid::from_u128(1));
const HOST: HostId = HostId(Uuid::from_u128(2));
const CELL: CellId = CellId(Uuid::from_u128(3));
const MIGRATION: MigrationId = MigrationId(Uuid::from_u128(4));
const OTHER: Uuid = Uuid::from_u128(5);

fn rule() -> Rule {
    Rule {
        scope: Scope::Host,
        relation: Relation::FewerThan(2),
    }
}

fn spec() -> Spec {
    Spec {
        name: "vm".into(),
        project: "p".into(),
        user: "u".into(),
        group: Some(OTHER),
        rules: vec![HardRule {
            rule: rule(),
            others: vec![OTHER],
        }]
        .into(),
        body: "{}".into(),
        created_at: AT,
    }
}

fn candidate() -> Candidate {
    Candidate {
        host: HOST,
        zone: Some("z".into()),
        amounts: amounts(),
    }
}

fn amounts() -> Vec<Amounts> {
    vec![Amounts {
        provider: HOST.0,
        resources: vec![("VCPU".into(), 300)],
    }]
}

fn fault() -> Fault {
    Fault {
        code: 500,
        message: "m".into(),
        details: "d".into(),
        at: AT,
    }
}

fn some<T>(row: T) -> Option<Box<T>> {
    Some(Box::new(row))
}

fn instances_of_control() -> Vec<Change> {
    let placed = BuildStage::Placed {
        selection: candidate(),
        alternates: vec![candidate()],
    };
    let request = BuildRequest {
        reservation: OTHER,
        stage: placed,
    };
    let mapping = Mapping {
        cell: Some(CELL),
        project: "p".into(),
        user: "u".into(),
        created_at: AT,
        is_deleting: true,
        claim: 300,
        answer: Some(Answer::Swapped { index: 1 }),
        turn: 2,
        migrations: vec![MIGRATION],
    };
    let under_way = Move {
        instance: INSTANCE,
        kind: MoveKind::Resize,
        stage: MoveStage::Placed {
            selection: candidate(),
            alternates: vec![],
            claim: 3,
        },
        spec: Some(spec()),
        turn: 2,
        held: amounts(),
        verdict: Some(Verdict::Revert),
    };
    let migration = Migration {
        instance: INSTANCE,
        kind: MoveKind::Evacuate,
        status: MigrationStatus::Error,
        cell: CELL,
        source: Some(HOST),
        target: None,
        created_at: AT,
        updated_at: AT,
        fault: Some(fault()),
    };
    vec![
        Change::Build(INSTANCE, some(request)),
        Change::Spec(INSTANCE, some(spec())),
        Change::Mapping(INSTANCE, some(mapping)),
        Change::Buried(INSTANCE, some(Buried { fault: fault() })),
        Change::Deletion(INSTANCE, some(Deletion { at: AT })),
        Change::Move(MIGRATION, some(under_way)),
        Change::Migration(MIGRATION, some(migration)),
    ]
}

#[expect(clippy::too_many_lines, reason = "one row of each table")]
fn tables_of_control() -> Vec<Change> {
    let flavor = Flavor {
        name: "f".into(),
        vcpus: 1,
        memory_mb: 512,
        root_gb: 1,
        ephemeral_gb: 2,
        swap_mb: 3,
        is_public: true,
        projects: vec!["p".into()],
        description: None,
        extra_specs: [("a".to_owned(), "b".to_owned())].into(),
    };
    let keypair = Keypair {
        kind: "ssh".into(),
        public_key: "k".into(),
        fingerprint: "f".into(),
        created_at: AT,
    };
    let group = ServerGroup {
        name: "g".into(),
        project: "p".into(),
        user: "u".into(),
        policy: "anti-affinity".into(),
        max_server_per_host: Some(2),
        rules: vec![rule()],
        members: vec![INSTANCE],
    };
    let aggregate = Aggregate {
        name: "a".into(),
        hosts: vec![HOST],
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        created_at: AT,
        updated_at: Some(AT),
    };
    let service = Service {
        disabled: true,
        disabled_reason: Some("r".into()),
        forced_down: true,
        updated_at: AT,
    };
    let labels = Labels {
        name: "n".into(),
        description: Some("d".into()),
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        tags: vec!["t".into()],
        hostname: "h".into(),
        lock: Some(Lock {
            by_owner: true,
            reason: Some("r".into()),
        }),
        updated_at: AT,
    };
    let rebuild = Rebuild {
        spec: spec(),
        at: AT,
        seen: AT,
    };
    let topology = GroupTopology { rules: "[]".into() };
    let row = Cell {
        name: "c".into(),
        disabled: true,
        down_since: Some(AT),
    };
    let host = HostMapping {
        cell: CELL,
        name: "h".into(),
    };
    vec![
        Change::Cell(CELL, some(row)),
        Change::Host(HOST, some(host)),
        Change::HostName("h".into(), some(HOST)),
        Change::Flavor("1".into(), some(flavor)),
        Change::Keypair(("u".into(), "k".into()), some(keypair)),
        Change::Group(OTHER, some(group)),
        Change::Aggregate(OTHER, some(aggregate)),
        Change::Service(HOST, some(service)),
        Change::Service(HOST, None),
        Change::Labels(INSTANCE, some(labels)),
        Change::GroupTopology(OTHER, some(topology)),
        Change::Rebuild(INSTANCE, some(rebuild)),
    ]
}

fn of_cell() -> Vec<cell::Change> {
    use cell::Change;
    let place = Place {
        host: HOST,
        number: 7,
    };
    let instance = Instance {
        vm_state: VmState::Resized,
        guest: Some(place),
        zone: Some("z".into()),
        claim: 3,
        attempt: 9,
        turn: 1,
        actions: 2,
        fault: Some(fault()),
        created_at: AT,
        updated_at: AT,
    };
    let job = Job {
        kind: JobKind::Move(MoveKind::LiveMigrate),
        migration: Some(MIGRATION),
        stage: Stage::Step(Step::Return),
        since: AT,
        deadline: Some(AT),
        target: Some(Target {
            candidate: candidate(),
            number: 7,
        }),
        alternates: vec![candidate()],
        origin: Some(place),
        spec: Some(spec()),
        state_before: VmState::Active,
        is_broken: true,
        fault: Some(fault()),
        clearing: vec![place],
    };
    let action = Action {
        name: "create".into(),
        started_at: AT,
        finished_at: Some(AT),
        tries: vec![Try {
            host: HOST,
            attempt: 1,
            started_at: AT,
            finished_at: AT,
            failure: Some("f".into()),
        }],
        fault: None,
    };
    let host = Host {
        session: 4,
        is_up: true,
    };
    let meta = Meta {
        forgotten_before: AT,
    };
    vec![
        Change::Meta(0, some(meta)),
        Change::Host(HOST, some(host)),
        Change::Instance(INSTANCE, some(instance)),
        Change::Spec(INSTANCE, some(spec())),
        Change::Job(INSTANCE, some(job)),
        Change::Guest((HOST, INSTANCE, 7), some(AT)),
        Change::Doomed((HOST, INSTANCE, 7), some(AT)),
        Change::Action((INSTANCE, 1), some(action)),
        Change::Tombstone(INSTANCE, some(AT)),
        Change::Job(INSTANCE, None),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_control() -> Vec<control::Change> {
    let removed = placement::Change::ConsumerRemoved {
        consumer: INSTANCE.consumer(),
    };
    let own = instances_of_control()
        .into_iter()
        .chain(tables_of_control());
    std::iter::once(control::Change::Placement(removed))
        .chain(own.map(control::Change::Conductor))
        .collect()
}

#[test]
fn a_record_of_control_reads_as_it_always_did() {
    let mut bytes = Vec::new();
    Control::encode(&of_control(), &mut bytes);
    assert_eq!(hex(&bytes), include_str!("golden/control_2.hex").trim());
    assert_eq!(Control::decode(&bytes).unwrap(), of_control());
}

#[test]
fn a_record_of_a_cell_reads_as_it_always_did() {
    let mut bytes = Vec::new();
    table::encode(&of_cell(), &mut bytes);
    assert_eq!(hex(&bytes), include_str!("golden/cell_1.hex").trim());
    assert_eq!(table::decode::<cell::Change>(&bytes).unwrap(), of_cell());
}

/// The changes of a request for several instances, which share what they have in common.
fn of_a_reservation(count: u128) -> Vec<control::Change> {
    let common: Arc<str> = r#"{"request":{},"server":{"user_data":"x"#.into();
    let first = spec();
    let changes = (1..=count).map(|number| {
        let spec = Spec {
            name: format!("vm-{number}"),
            body: Body::parted(
                Arc::clone(&common),
                format!(r#"","launch_index":{number}}}}}"#),
            ),
            ..first.clone()
        };
        let instance = InstanceId(Uuid::from_u128(number));
        control::Change::Conductor(Change::Spec(instance, some(spec)))
    });
    changes.collect()
}

#[test]
fn a_record_of_specs_with_something_in_common_reads_as_it_always_did() {
    let changes = [of_control(), of_a_reservation(3)].concat();
    let mut bytes = Vec::new();
    Control::encode(&changes, &mut bytes);
    assert_eq!(hex(&bytes), include_str!("golden/control_3.hex").trim());
    assert!(Control::may_concern_conductor(&bytes));
    assert_eq!(Control::decode(&bytes).unwrap(), changes);
    assert!(Control::decode(&bytes[..bytes.len() - 1]).is_err());
    // A spec of a template that is not there.
    assert!(
        Control::decode(&[
            3, 2, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0
        ])
        .is_err()
    );
}

#[test]
fn what_specs_have_in_common_is_written_once() {
    let text: Arc<str> = "x".repeat(1 << 17).into();
    let changes: Vec<control::Change> = of_a_reservation(20)
        .into_iter()
        .map(|change| match change {
            control::Change::Conductor(Change::Spec(instance, Some(mut spec))) => {
                spec.body = Body::parted(Arc::clone(&text), spec.body.own());
                control::Change::Conductor(Change::Spec(instance, Some(spec)))
            }
            other => other,
        })
        .collect();
    let mut record = Vec::new();
    Control::encode(&changes, &mut record);
    assert!(record.len() < 2 << 17, "{} bytes", record.len());
    let state_of = |changes: &[control::Change]| {
        let mut state = Control::default();
        changes.iter().for_each(|change| drop(state.apply(change)));
        state
    };
    let written = state_of(&changes);
    let read = state_of(&Control::decode(&record).unwrap());
    let mut snapshot = Vec::new();
    read.save(&mut snapshot).unwrap();
    assert!(snapshot.len() < 2 << 17, "{} bytes", snapshot.len());
    let loaded = Control::load(&mut snapshot.as_slice()).unwrap();
    assert_eq!(loaded.conductor, written.conductor);
    assert_eq!(loaded.digest(), written.digest());
    let bodies: Vec<&Body> = loaded
        .conductor
        .specs()
        .values()
        .map(|spec| &spec.body)
        .collect();
    assert!(
        bodies
            .windows(2)
            .all(|pair| pair[0].is_of_one_making(pair[1]))
    );
    // Copies that share nothing are the same state.
    let apart: Vec<control::Change> = changes
        .iter()
        .take(2)
        .map(|change| {
            let mut alone = Vec::new();
            Control::encode(std::slice::from_ref(change), &mut alone);
            Control::decode(&alone).unwrap().remove(0)
        })
        .collect();
    assert_eq!(state_of(&apart).digest(), state_of(&changes[..2]).digest());
}

#[test]
fn what_placement_wrote_alone_is_read_as_control_s() {
    let removed = placement::Change::ConsumerRemoved {
        consumer: INSTANCE.consumer(),
    };
    let mut alone = Vec::new();
    placement::record::encode(std::slice::from_ref(&removed), &mut alone);
    let mut joint = Vec::new();
    let change = control::Change::Placement(removed);
    Control::encode(std::slice::from_ref(&change), &mut joint);
    assert_eq!(alone, joint);
    assert_eq!(Control::decode(&alone).unwrap(), [change]);
    let mut snapshot = Vec::new();
    placement::State::default().save(&mut snapshot).unwrap();
    let read = Control::load(&mut snapshot.as_slice()).unwrap();
    assert_eq!(read.digest(), Control::default().digest());
}

#[test]
fn a_newer_or_damaged_record_or_snapshot_is_refused() {
    let mut bytes = Vec::new();
    Control::encode(&of_control(), &mut bytes);
    bytes[0] = 99;
    let error = Control::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    assert!(Control::decode(&[]).is_err());
    assert!(Control::decode(&[2, 3, 250]).is_err());
    assert!(table::decode::<cell::Change>(&[9, 0]).is_err());
    assert!(table::decode::<cell::Change>(&[]).is_err());
    assert!(cell::State::load(&mut [9].as_slice()).is_err());
    assert!(cell::State::load(&mut [1, 5, 0, 0, 0, 1].as_slice()).is_err());
}
