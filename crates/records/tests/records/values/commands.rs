//! At least one value of each command of control; `every_command_is_among_those_of_these_tests` checks that none is
//! missing.

use std::sync::Arc;

use placewright_conductor::super_conductor::{
    Change, Command, LimitCheck, NewBuild, RankedCandidates, RebuildEvent,
};
use placewright_conductor::{InstanceId, RankingRecord, SharedText, Spec};
use placewright_placement::group::{Distance, Level};
use placewright_placement::{
    self as placement, AllocationRequest, ConsumerClaim, ConsumerGeneration, Intent,
    IntentCandidate, IntentRule, Inventory, InventoryReplacement, ParentChange,
};
use placewright_records::offer::Offer;
use uuid::Uuid;

use super::{
    AT, CELL, HOST, INSTANCE, MIGRATION, MoveDecision, MoveKind, OTHER, accounts, candidate,
    claim_requests, fault, quotas, rule, spec, tables_of_control,
};

fn inventory() -> Inventory {
    Inventory {
        total: 64,
        reserved: 2,
        min_unit: 1,
        max_unit: 32,
        step_size: 1,
        allocation_ratio: 4.0,
    }
}

pub(crate) fn allocations() -> Vec<AllocationRequest> {
    vec![AllocationRequest {
        provider: HOST.0,
        resources: vec![("VCPU".into(), 300)],
    }]
}

pub(crate) fn claim() -> ConsumerClaim {
    ConsumerClaim {
        consumer: INSTANCE.consumer(),
        generation: ConsumerGeneration::Is(Some(3)),
        project: "p".into(),
        user: "u".into(),
        consumer_type: Some("INSTANCE".into()),
        allocations: allocations(),
    }
}

pub(crate) fn intent() -> Intent {
    Intent {
        consumer: INSTANCE.consumer(),
        generation: ConsumerGeneration::Any,
        project: "p".into(),
        user: "u".into(),
        consumer_type: None,
        group: Some(OTHER),
        rules: vec![IntentRule {
            rule: rule(),
            others: vec![INSTANCE.consumer()],
            includes_group: true,
        }],
        candidates: vec![IntentCandidate {
            host: HOST.0,
            allocations: allocations().into(),
        }],
        alongside: vec![claim()],
    }
}

pub(crate) fn offer() -> Offer {
    let intent = intent();
    Offer {
        project: intent.project,
        user: intent.user,
        group: Some((OTHER, vec![rule()])),
        image_properties: vec![("os_distro".into(), "debian".into())],
        rules: intent.rules,
        candidate: intent.candidates[0].clone(),
        mappings: vec![(String::new(), vec![HOST.0]), ("_GPU1".into(), vec![OTHER])],
    }
}

pub(crate) fn replacement() -> InventoryReplacement {
    InventoryReplacement {
        provider: HOST.0,
        generation: 7,
        inventories: vec![("VCPU".into(), inventory())],
    }
}

pub(crate) fn parent_changes() -> [ParentChange; 3] {
    [
        ParentChange::Keep,
        ParentChange::SetOnce(None),
        ParentChange::Move(Some(OTHER)),
    ]
}

fn commands_to_providers() -> Vec<placement::Command> {
    use placement::Command as Placement;
    let (uuid, provider, class, at) = (OTHER, HOST.0, || "VCPU".to_owned(), AT);
    let mut commands = vec![
        Placement::CreateProvider {
            uuid,
            name: "host".into(),
            parent: Some(provider),
            at,
        },
        Placement::DeleteProvider { uuid },
        Placement::AddInventory {
            provider,
            class: class(),
            inventory: inventory(),
            may_reserve_all: true,
            at,
        },
        Placement::UpdateInventory {
            provider,
            generation: 300,
            class: class(),
            inventory: inventory(),
            may_reserve_all: false,
            at,
        },
        Placement::SetInventories {
            provider,
            generation: None,
            inventories: vec![(class(), inventory())],
            may_reserve_all: true,
            at,
        },
        Placement::DeleteInventory {
            provider,
            class: class(),
            at,
        },
        Placement::SetTraits {
            provider,
            generation: Some(1),
            traits: vec!["CUSTOM_T".into()],
            at,
        },
        Placement::SetAggregates {
            provider,
            generation: Some(2),
            aggregates: vec!["agg".into()],
            at,
        },
    ];
    commands.extend(parent_changes().map(|parent| Placement::UpdateProvider {
        uuid,
        name: "host2".into(),
        parent,
        at,
    }));
    commands
}

fn commands_to_names_and_consumers() -> Vec<placement::Command> {
    use placement::Command as Placement;
    let (name, at, group) = (|| "CUSTOM_A".to_owned(), AT, OTHER);
    vec![
        Placement::SyncStandardNames { at },
        Placement::CreateClass {
            name: name(),
            exist_ok: true,
            at,
        },
        Placement::RenameClass {
            name: name(),
            new_name: "CUSTOM_B".into(),
            at,
        },
        Placement::DeleteClass { name: name() },
        Placement::EnsureTrait { name: name(), at },
        Placement::DeleteTrait { name: name() },
        Placement::Claim {
            consumers: vec![claim()],
            at,
        },
        Placement::ClaimFirst {
            intents: vec![intent()],
            least: 1,
            at,
        },
        Placement::SetGroup {
            group,
            rules: vec![rule()],
        },
        Placement::DeleteGroup { group },
        Placement::SetLevels {
            levels: vec![Level::unnamed("rack", vec!["agg".into()])],
            distances: vec![Distance {
                from: "agg".into(),
                to: "other".into(),
                distance: 300,
            }],
        },
        Placement::Release {
            consumer: INSTANCE.consumer(),
        },
        Placement::Reshape {
            inventories: vec![replacement()],
            consumers: vec![claim()],
            at,
        },
    ]
}

/// One of each command to placement.
pub(crate) fn placement_commands() -> Vec<placement::Command> {
    [commands_to_providers(), commands_to_names_and_consumers()].concat()
}

/// Builds of one request, whose specs share what they have in common.
pub(crate) fn builds(count: u128) -> Vec<NewBuild> {
    let first = spec();
    let (common, sealed) = (Arc::from("{\"common\": true"), Arc::from("c2VhbGVk"));
    let build = |number| NewBuild {
        instance: InstanceId(Uuid::from_u128(number)),
        spec: Spec {
            name: format!("vm{number}"),
            body: SharedText::from_parts(Arc::clone(&common), format!(", \"own\": {number}}}"))
                .into(),
            secrets: SharedText::from_parts(Arc::clone(&sealed), format!(".key.{number}")),
            ..first.clone()
        },
    };
    (1..=count).map(build).collect()
}

pub(crate) fn ranked_candidates() -> RankedCandidates {
    RankedCandidates::new(INSTANCE, vec![candidate()], 2)
}

fn commands_to_cells_and_builds() -> Vec<Command> {
    let (cell, instance, reservation) = (CELL, INSTANCE, OTHER);
    vec![
        Command::SetCell {
            cell,
            name: "one".into(),
            disabled: true,
        },
        Command::RemoveCell { cell },
        Command::SetCellDown {
            cell,
            is_down: true,
        },
        Command::MapHosts {
            cell,
            hosts: vec![(HOST, "h".into())],
        },
        Command::UnmapHost { host: HOST },
        Command::CreateBuilds {
            reservation,
            builds: builds(1),
        },
        Command::CreateBuilds {
            reservation,
            builds: builds(3),
        },
        Command::Place {
            ranked_candidates: vec![ranked_candidates()],
            least: 1,
            may_reschedule: false,
        },
        Command::Bury {
            instances: vec![instance],
            fault: fault(),
        },
        Command::CreateAccepted {
            instance,
            claim_number: 0,
            is_built: false,
        },
        Command::Reclaim {
            instance,
            host: HOST,
            candidates: vec![candidate()],
        },
        Command::Delete { instance },
    ]
}

fn commands_to_moves() -> Vec<Command> {
    let (migration, instance) = (MIGRATION, INSTANCE);
    let mut commands = vec![
        Command::StartMove {
            migration,
            instance,
            kind: MoveKind::Resize,
            spec: Some(Box::new(spec())),
        },
        Command::MoveReserved { migration },
        Command::MoveRefused {
            migration,
            fault: fault(),
        },
        Command::PlaceMove {
            migration,
            candidates: vec![candidate()],
            alternate_count: 3,
            ranking: RankingRecord::default(),
        },
        Command::FailMove {
            migration,
            fault: fault(),
        },
        Command::MoveAccepted { migration },
        Command::MoveCancelled { migration },
        Command::ConfirmOrRevert {
            migration,
            decision: MoveDecision::Revert,
            request: None,
        },
    ];
    commands.extend(claim_requests().into_iter().map(Command::RequestClaim));
    commands
}

/// The commands that write the rows of the compute API's tables.
fn commands_to_tables() -> Vec<Command> {
    let command = |change| match change {
        Change::Flavor(id, row) => Some(Command::SetFlavor {
            id,
            flavor: row.map(|row| *row),
        }),
        Change::Keypair((user, name), row) => Some(Command::SetKeypair {
            user,
            name,
            keypair: row.map(|row| *row),
        }),
        Change::Group(group, row) => Some(Command::SetGroup {
            group,
            row: row.map(|row| *row),
            topology: None,
        }),
        Change::GroupTopology(group, row) => Some(Command::SetGroup {
            group,
            row: None,
            topology: row.map(|row| *row),
        }),
        Change::Aggregate(aggregate, row) => Some(Command::SetAggregate {
            aggregate,
            row: row.map(|row| *row),
        }),
        Change::Labels(instance, Some(row)) => Some(Command::SetLabels {
            instance,
            labels: *row,
        }),
        Change::Service(host, Some(row)) => Some(Command::SetService {
            host,
            service: *row,
        }),
        _ => None,
    };
    tables_of_control()
        .into_iter()
        .filter_map(command)
        .collect()
}

pub(crate) fn rebuild_events() -> [RebuildEvent; 3] {
    [
        RebuildEvent::Begun {
            spec: Box::new(spec()),
            view_updated_at: AT,
        },
        RebuildEvent::Refused { digest: u64::MAX },
        RebuildEvent::Done { digest: 1 },
    ]
}

pub(crate) fn limit_checks() -> [LimitCheck; 5] {
    let (project, user, max) = (|| "p".to_owned(), || "u".to_owned(), 300);
    [
        LimitCheck::Keypairs { user: user(), max },
        LimitCheck::Groups {
            project: project(),
            max,
        },
        LimitCheck::KeypairQuota {
            project: project(),
            user: user(),
        },
        LimitCheck::InstanceBytes {
            project: project(),
            added: 1 << 33,
            max: u64::MAX,
        },
        LimitCheck::Members {
            group: OTHER,
            added: 1,
            max,
        },
    ]
}

/// A [`Command::Limited`], which contains the command that it limits.
fn limited() -> Command {
    Command::Limited {
        checks: limit_checks().into(),
        command: Box::new(Command::CreateBuilds {
            reservation: OTHER,
            builds: builds(2),
        }),
    }
}

fn commands_to_specs_and_quotas() -> Vec<Command> {
    let instance = INSTANCE;
    let limits = || quotas::limits().limits;
    let mut commands = vec![
        Command::SetSpec {
            instance,
            spec: Box::new(spec()),
        },
        Command::Reseal {
            instance,
            from: Box::new(spec()),
            to: Box::new(quotas::spec_with_usage()),
        },
        Command::Guarded {
            expected: tables_of_control(),
            command: Box::new(limited()),
        },
        limited(),
        Command::SetQuota {
            scope: quotas::scopes()[1].clone(),
            limits: limits(),
            force: true,
        },
        Command::ReplaceQuotas {
            sets: quotas::scopes().map(|scope| (scope, Some(limits()))).into(),
        },
        Command::CountUsage {
            instances: vec![(instance, quotas::usage())],
            moves: vec![(MIGRATION, quotas::usage())],
        },
    ];
    commands.extend(rebuild_events().map(|event| Command::Rebuild { instance, event }));
    commands
}

/// One of each command to the conductor that version 1 has.
pub(crate) fn first_conductor_commands() -> Vec<Command> {
    [
        commands_to_cells_and_builds(),
        commands_to_moves(),
        commands_to_tables(),
        commands_to_specs_and_quotas(),
    ]
    .concat()
}

/// One of each command to the conductor that version 2 has.
pub(crate) fn conductor_commands() -> Vec<Command> {
    let accounts = accounts::account_commands();
    let accounts = accounts.into_iter().map(Command::Accounts);
    let first = first_conductor_commands().into_iter();
    first.chain(accounts).collect()
}
