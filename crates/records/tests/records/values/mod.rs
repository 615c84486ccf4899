//! Values of rows, changes and messages. These values are in the golden files, and so never change; a
//! field that is added gets its default here.

pub(crate) mod accounts;
pub(crate) mod commands;
pub(crate) mod decisions;
pub(crate) mod hosts;
pub(crate) mod images;
pub(crate) mod mappings;
pub(crate) mod quotas;
pub(crate) mod requests;
pub(crate) mod reschedule;

use std::sync::Arc;

use placewright_conductor::cell_conductor::{
    self as cell, GuestRef, Host, Instance, Job, JobKind, Meta, Stage, Step, Target, VmState,
};
use placewright_conductor::message::{Create, Envelope, Message, MoveOrder};
use placewright_conductor::super_conductor::{
    Aggregate, BuildRequest, BuildStage, Buried, Cell, Change, Deletion, Flavor, GroupTopology,
    HostMapping, Keypair, Labels, Lock, Mapping, Migration, MigrationStatus, Move, MoveStage,
    Rebuild, ServerGroup, Service,
};
use placewright_conductor::{
    Action, Amounts, Attempt, Candidate, CellId, ClaimChange, ClaimRequest, ClaimResponse, Fault,
    HardRule, HostId, InstanceId, MigrationId, MoveDecision, MoveKind, MoveSide, Reply, SharedText,
    Spec, Usage, control,
};
use placewright_link::{CellEvent, CellOperation, HostView, InstanceView, JobView};
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_placement::{self as placement, Timestamp};
use placewright_types::host_state::NumberedUpdate;
use uuid::Uuid;

pub(crate) const AT: Timestamp = Timestamp(1_700_000_000_000_000);
pub(crate) const INSTANCE: InstanceId = InstanceId(Uuid::from_u128(1));
pub(crate) const HOST: HostId = HostId(Uuid::from_u128(2));
pub(crate) const CELL: CellId = CellId(Uuid::from_u128(3));
pub(crate) const MIGRATION: MigrationId = MigrationId(Uuid::from_u128(4));
pub(crate) const OTHER: Uuid = Uuid::from_u128(5);

pub(crate) fn rule() -> Rule {
    Rule {
        scope: RuleScope::Host,
        relation: Relation::FewerThan(2),
    }
}

pub(crate) fn spec() -> Spec {
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
        usage: Usage::default(),
        build_secrets: SharedText::default(),
        secrets: SharedText::default(),
    }
}

pub(crate) fn candidate() -> Candidate {
    Candidate {
        host: HOST,
        zone: Some("z".into()),
        amounts: amounts(),
        mappings: vec![],
    }
}

pub(crate) fn amounts() -> Vec<Amounts> {
    vec![Amounts {
        provider: HOST.0,
        resources: vec![("VCPU".into(), 300)],
    }]
}

pub(crate) fn fault() -> Fault {
    Fault {
        code: 500,
        message: "m".into(),
        details: "d".into(),
        at: AT,
    }
}

/// The content of a row that exists, as changes have it.
fn some<T>(row: T) -> Option<Box<T>> {
    Some(Box::new(row))
}

pub(crate) fn instances_of_control() -> Vec<Change> {
    let placed = BuildStage::Placed {
        selection: candidate().into(),
        alternates: vec![candidate()].into(),
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
        claim_number: 300,
        claim_response: Some(ClaimResponse::Swapped { index: 1 }),
        move_number: 2,
        migrations: vec![MIGRATION],
        decisions: vec![],
        reschedule: Default::default(),
    };
    let move_row = Move {
        instance: INSTANCE,
        kind: MoveKind::Resize,
        stage: MoveStage::Placed {
            selection: candidate().into(),
            alternates: Arc::default(),
            claim_number: 3,
        },
        spec: Some(spec()),
        move_number: 2,
        held: amounts(),
        decision: Some(MoveDecision::Revert),
        added_usage: Usage::default(),
        decision_request: None,
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
        Change::Move(MIGRATION, some(move_row)),
        Change::Migration(MIGRATION, some(migration)),
    ]
}

#[expect(clippy::too_many_lines, reason = "one row of each table")]
pub(crate) fn tables_of_control() -> Vec<Change> {
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
        view_updated_at: AT,
    };
    let topology = GroupTopology { rules: vec![] };
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

fn action() -> Action {
    Action {
        name: "create".into(),
        started_at: AT,
        finished_at: Some(AT),
        attempts: vec![Attempt {
            host: HOST,
            attempt: 1,
            started_at: AT,
            finished_at: AT,
            failure: Some("f".into()),
        }],
        fault: None,
        request: None,
    }
}

pub(crate) fn cell_changes() -> Vec<cell::Change> {
    use cell::Change;
    let guest_ref = GuestRef {
        host: HOST,
        number: 7,
    };
    let instance = Instance {
        vm_state: VmState::Resized,
        guest: Some(guest_ref),
        zone: Some("z".into()),
        claim_number: 3,
        attempt: 9,
        move_number: 1,
        action_count: 2,
        fault: Some(fault()),
        created_at: AT,
        updated_at: AT,
        mappings: vec![],
    };
    let job = Job {
        kind: JobKind::Move(MoveKind::LiveMigrate),
        migration: Some(MIGRATION),
        stage: Stage::Step(Step::Return),
        since: AT,
        deadline: Some(AT),
        target: Some(Target {
            candidate: candidate().into(),
            number: 7,
        }),
        alternates: vec![candidate()].into(),
        origin: Some(guest_ref),
        spec: Some(spec()),
        state_before: VmState::Active,
        is_broken: true,
        fault: Some(fault()),
        awaited_destructions: vec![guest_ref],
        origin_mappings: vec![],
        may_go_elsewhere: false,
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
        Change::Action((INSTANCE, 1), some(action())),
        Change::Tombstone(INSTANCE, some(AT)),
        Change::Job(INSTANCE, None),
    ]
}

pub(crate) fn control_changes() -> Vec<control::Change> {
    let removed = placement::Change::ConsumerRemoved {
        consumer: INSTANCE.consumer(),
    };
    let conductor_changes = instances_of_control()
        .into_iter()
        .chain(tables_of_control());
    std::iter::once(control::Change::Placement(removed))
        .chain(conductor_changes.map(control::Change::Conductor))
        .collect()
}

/// The changes of a request for several instances, whose specs share the common part of their bodies.
pub(crate) fn reservation_changes(count: u128) -> Vec<control::Change> {
    let common: Arc<str> = r#"{"request":{},"server":{"user_data":"x"#.into();
    let first = spec();
    let changes = (1..=count).map(|number| {
        let own = format!(r#"","launch_index":{number}}}}}"#);
        let spec = Spec {
            name: format!("vm-{number}"),
            body: SharedText::from_parts(Arc::clone(&common), own).into(),
            ..first.clone()
        };
        let instance = InstanceId(Uuid::from_u128(number));
        control::Change::Conductor(Change::Spec(instance, some(spec)))
    });
    changes.collect()
}

/// One of each message to a cell.
pub(crate) fn envelopes() -> Vec<Envelope> {
    let create = Create {
        instance: INSTANCE,
        spec: spec(),
        selection: candidate().into(),
        alternates: vec![candidate()].into(),
        claim_number: 300,
    };
    let order = MoveOrder {
        instance: INSTANCE,
        migration: MIGRATION,
        selection: candidate().into(),
        alternates: vec![candidate()].into(),
        spec: Some(spec()),
        claim_number: 4,
    };
    let messages = [
        Message::Create(Box::new(create)),
        Message::Delete {
            instance: INSTANCE,
            claim_number: 5,
        },
        Message::Reserve {
            instance: INSTANCE,
            migration: MIGRATION,
            kind: MoveKind::Unshelve,
            move_number: 6,
        },
        Message::Move(Box::new(order)),
        Message::Cancel {
            instance: INSTANCE,
            migration: MIGRATION,
        },
        Message::ConfirmOrRevert {
            instance: INSTANCE,
            migration: MIGRATION,
            decision: MoveDecision::Confirm,
            request: None,
        },
    ];
    let sent_at = AT;
    messages
        .into_iter()
        .map(|message| Envelope { sent_at, message })
        .collect()
}

/// One of each reply.
pub(crate) fn replies() -> Vec<Reply> {
    vec![Reply::Accepted, Reply::Refused("no".into())]
}

/// One of each cell operation.
pub(crate) fn cell_operations() -> Vec<CellOperation> {
    vec![
        CellOperation::Shelve {
            instance: INSTANCE,
            request: None,
        },
        CellOperation::Rebuild {
            instance: INSTANCE,
            spec: Box::new(spec()),
            request: None,
        },
        CellOperation::RemoveHost { host: HOST },
        CellOperation::Reconcile { host: HOST },
        CellOperation::RefuseRebuild {
            instance: INSTANCE,
            fault: Box::new(fault()),
            request: None,
        },
    ]
}

/// One of each claim request.
pub(crate) fn claim_requests() -> Vec<ClaimRequest> {
    let changes = [
        ClaimChange::Swap {
            candidates: vec![candidate()],
        },
        ClaimChange::Release {
            is_deleted: true,
            failed_attempts: vec![],
        },
        ClaimChange::Settle {
            migration: MIGRATION,
            keep: MoveSide::Target,
            fault: Some(fault()),
        },
    ];
    changes
        .into_iter()
        .map(|change| ClaimRequest {
            instance: INSTANCE,
            number: 7,
            change,
        })
        .collect()
}

/// One of each claim response.
pub(crate) fn claim_responses() -> Vec<ClaimResponse> {
    vec![
        ClaimResponse::Swapped { index: 1 },
        ClaimResponse::NothingFits,
        ClaimResponse::Done,
        ClaimResponse::Gone,
        ClaimResponse::Stale,
    ]
}

/// One of each cell event.
pub(crate) fn cell_events() -> Vec<CellEvent> {
    let view = InstanceView {
        vm_state: VmState::Active,
        job: Some(JobView {
            kind: JobKind::Move(MoveKind::Resize),
            migration: Some(MIGRATION),
            stage: Stage::AwaitDestroyed(cell::Continuation::Settle(MoveSide::Source)),
            target: Some(HOST),
        }),
        spec_digest: u64::MAX,
        guest: Some(GuestRef {
            host: HOST,
            number: 3,
        }),
        zone: Some("z".into()),
        fault: Some(fault()),
        created_at: AT,
        updated_at: AT,
    };
    let host = HostView {
        name: Some("h".into()),
        is_up: true,
        heard_at: AT,
    };
    let mut cell_events = vec![
        CellEvent::Instance {
            instance: INSTANCE,
            view: Some(Box::new(view)),
        },
        CellEvent::Host {
            host: HOST,
            view: Some(host),
        },
        CellEvent::Alive { hosts: vec![HOST] },
        CellEvent::Complete,
        CellEvent::Heartbeat,
    ];
    cell_events.extend(hosts::updates().into_iter().map(|update| CellEvent::State {
        host: HOST,
        update: Box::new(NumberedUpdate {
            incarnation: 300,
            sequence: 2,
            update,
        }),
    }));
    cell_events
}
