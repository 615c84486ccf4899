//! The rows that control records besides builds, the allocations of a move while it is under way,
//! and how a cell reconciles its state with that of its hosts.

use placewright_conductor::cell_conductor::{Change, Event, Failure, Refusal, VmState};
use placewright_conductor::super_conductor::{
    Aggregate, Command, Flavor, GroupTopology, Labels, MigrationStatus, NewBuild, Outcome,
    RankedCandidates, RebuildEvent, ServerGroup, Service,
};
use placewright_conductor::{
    Amounts, Candidate, ClaimChange, ClaimRequest, ClaimResponse, HardRule, HostId, MoveKind,
    MoveSide, RankingRecord, Spec, cell_conductor, super_conductor,
};
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_placement::{self as placement, Inventory, Timestamp};
use placewright_testing::world::{World, candidate, cell, host, instance, migration};
use uuid::Uuid;

use crate::alternates::with_first_build;

const STORAGE: HostId = HostId(Uuid::from_u128(0x570));
const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";
const DISABLED: &str = "COMPUTE_STATUS_DISABLED";

fn with_standard_names(cells: u32, hosts: u32) -> World {
    let mut world = World::new(cells, hosts, 8);
    let at = world.at;
    world.placement(placement::Command::SyncStandardNames { at });
    world
}

fn with_storage() -> World {
    let mut world = with_standard_names(1, 2);
    let at = world.at;
    world.placement(placement::Command::CreateProvider {
        uuid: STORAGE.0,
        name: "storage".into(),
        parent: None,
        at,
    });
    let inventory = Inventory::new(100, 1.0);
    world.placement(placement::Command::SetInventories {
        provider: STORAGE.0,
        generation: None,
        inventories: vec![("DISK_GB".into(), inventory)],
        may_reserve_all: true,
        at,
    });
    world.placement(placement::Command::SetTraits {
        provider: STORAGE.0,
        generation: None,
        traits: vec![SHARES.into()],
        at,
    });
    world
}

fn on_storage(host: HostId, disk_gb: i64) -> Candidate {
    let mut candidate = candidate(host, 2);
    candidate.amounts.push(Amounts {
        provider: STORAGE.0,
        resources: vec![("DISK_GB".into(), disk_gb)],
    });
    candidate
}

fn used(world: &World, provider: HostId) -> i64 {
    let state = &world.control.placement;
    state.provider_by_uuid(provider.0).unwrap().inventories[0].used
}

fn settle(world: &mut World, number: u64, keep: MoveSide) -> ClaimResponse {
    let outcome = world.try_conduct(Command::RequestClaim(ClaimRequest {
        instance: instance(1),
        number,
        change: ClaimChange::Settle {
            migration: migration(1),
            keep,
            fault: None,
        },
    }));
    match outcome {
        Ok(Outcome::ClaimAnswered(response)) => response,
        other => panic!("{other:?}"),
    }
}

/// An instance under way to another host, with a disk on shared storage. The claims of build and move are 1 and 2.
fn world_with_move(before_gb: i64, after_gb: i64) -> World {
    let mut world = with_storage();
    world.create(&[1]);
    world
        .try_place(
            vec![RankedCandidates::new(
                instance(1),
                vec![on_storage(host(0, 0), before_gb)],
                0,
            )],
            1,
        )
        .unwrap();
    let (instance, migration) = (instance(1), migration(1));
    world.accept_create(instance);
    world.conduct(Command::StartMove {
        migration,
        instance,
        kind: MoveKind::Resize,
        spec: None,
    });
    world.conduct(Command::MoveReserved { migration });
    world.conduct(Command::PlaceMove {
        migration,
        candidates: vec![on_storage(host(0, 1), after_gb)],
        alternate_count: 0,
        ranking: RankingRecord::default(),
    });
    world.conduct(Command::MoveAccepted { migration });
    world
}

#[test]
fn a_move_holds_both_hosts_but_one_disk_on_shared_storage() {
    for (before, after) in [(10, 10), (10, 30), (30, 10), (60, 60)] {
        for keep in [MoveSide::Source, MoveSide::Target] {
            let mut world = world_with_move(before, after);
            let both = [host(0, 0), host(0, 1)];
            assert_eq!(both.map(|host| used(&world, host)), [2, 2]);
            assert_eq!(used(&world, STORAGE), before.max(after));
            world.check();
            assert_eq!(settle(&mut world, 3, keep), ClaimResponse::Done);
            let (hosts, disk) = match keep {
                MoveSide::Source => ([2, 0], before),
                MoveSide::Target => ([0, 2], after),
            };
            assert_eq!(both.map(|host| used(&world, host)), hosts);
            assert_eq!(used(&world, STORAGE), disk);
            // A repeated claim request gets the same response; an earlier one is refused as stale.
            let digest = placewright_records::control::digest(&world.control);
            assert_eq!(settle(&mut world, 3, keep), ClaimResponse::Done);
            assert_eq!(settle(&mut world, 2, keep), ClaimResponse::Stale);
            assert_eq!(placewright_records::control::digest(&world.control), digest);
        }
    }
}

#[test]
fn an_instance_lives_on_when_control_has_no_record_of_its_move_any_more() {
    let mut world = world_with_move(10, 10);
    assert_eq!(settle(&mut world, 3, MoveSide::Target), ClaimResponse::Done);
    // The response was lost, and control has advanced the number of claims itself, so the cell asks with a later one.
    assert_eq!(settle(&mut world, 5, MoveSide::Target), ClaimResponse::Done);
    let instance = instance(1);
    world.conduct(Command::Delete { instance });
    assert_eq!(settle(&mut world, 6, MoveSide::Target), ClaimResponse::Gone);
}

#[test]
fn a_move_can_be_reverted_though_its_old_host_shrank() {
    let mut world = world_with_move(10, 10);
    let at = world.at;
    let provider = world.control.placement.provider_by_uuid(host(0, 0).0);
    let first = provider.unwrap().inventories[0];
    world.placement(placement::Command::UpdateInventory {
        provider: host(0, 0).0,
        generation: provider_generation(&world, host(0, 0)),
        class: "CUSTOM_CPU".into(),
        inventory: Inventory {
            total: 1,
            max_unit: 1,
            ..first.inventory
        },
        may_reserve_all: true,
        at,
    });
    assert_eq!(settle(&mut world, 3, MoveSide::Source), ClaimResponse::Done);
    assert_eq!(used(&world, host(0, 0)), 2);
    let record = &world.control.conductor.migrations()[&migration(1)];
    assert_eq!(record.status, MigrationStatus::Reverted);
}

fn provider_generation(world: &World, host: HostId) -> u64 {
    let provider = world.control.placement.provider_by_uuid(host.0);
    provider.unwrap().generation
}

#[test]
fn groups_aggregates_and_disabled_services_reach_placement_in_the_same_step() {
    let mut world = with_standard_names(1, 2);
    let group = Uuid::from_u128(0x6);
    let rule = Rule {
        scope: RuleScope::Host,
        relation: Relation::FewerThan(1),
    };
    let row = ServerGroup {
        name: "g".into(),
        project: "p".into(),
        user: "u".into(),
        policy: "anti-affinity".into(),
        max_server_per_host: None,
        rules: vec![rule],
        members: Vec::new(),
    };
    let set = Command::SetGroup {
        group,
        row: Some(row),
        topology: Some(GroupTopology { rules: Vec::new() }),
    };
    world.conduct(set.clone());
    assert!(world.control.placement.group(group).is_some());
    assert!(world.try_conduct(set).is_err());
    assert_eq!(world.control.conductor.group_topologies().len(), 1);
    world.conduct(Command::SetGroup {
        group,
        row: None,
        topology: None,
    });
    assert!(world.control.placement.group(group).is_none());
    assert!(world.control.conductor.group_topologies().is_empty());

    let aggregate = Uuid::from_u128(0x7);
    let aggregates_of = |world: &World, number| {
        let state = &world.control.placement;
        let provider = state.provider_by_uuid(host(0, number).0).unwrap();
        let ids = provider.aggregates.iter();
        ids.map(|id| state.aggregate_uuid(*id).to_owned()).collect()
    };
    for hosts in [vec![0, 1], vec![1], vec![]] {
        let row = Aggregate {
            name: "a".into(),
            hosts: hosts.iter().map(|number| host(0, *number)).collect(),
            ..Aggregate::default()
        };
        let row = Some(row);
        world.conduct(Command::SetAggregate { aggregate, row });
        for number in 0..2 {
            let aggregates: Vec<String> = aggregates_of(&world, number);
            assert_eq!(aggregates.len(), usize::from(hosts.contains(&number)));
        }
    }

    for disabled in [true, false] {
        let service = Service {
            disabled,
            ..Service::default()
        };
        let host = host(0, 0);
        world.conduct(Command::SetService { host, service });
        let state = &world.control.placement;
        let id = state.trait_id(DISABLED).unwrap();
        let provider = state.provider_by_uuid(host.0).unwrap();
        assert_eq!(provider.has_trait(id), disabled);
    }
}

#[test]
fn a_guarded_write_is_refused_if_the_row_changed_since_it_was_read() {
    let mut world = World::new(1, 1, 8);
    let flavor = |vcpus| Flavor {
        name: "f".into(),
        vcpus,
        memory_mb: 1,
        root_gb: 0,
        ephemeral_gb: 0,
        swap_mb: 0,
        is_public: true,
        projects: Vec::new(),
        description: None,
        extra_specs: std::collections::BTreeMap::new(),
    };
    let replace = |before: Option<u32>, after: u32| Command::Guarded {
        expected: vec![super_conductor::Change::Flavor(
            "1".into(),
            before.map(|vcpus| Box::new(flavor(vcpus))),
        )],
        command: Box::new(Command::SetFlavor {
            id: "1".into(),
            flavor: Some(flavor(after)),
        }),
    };
    world.conduct(replace(None, 1));
    world.conduct(replace(Some(1), 2));
    for stale in [None, Some(1)] {
        let refused = world.try_conduct(replace(stale, 3)).unwrap_err();
        assert_eq!(
            refused,
            placewright_conductor::control::Refusal::Conductor(super_conductor::Refusal::Changed)
        );
    }
    assert_eq!(world.control.conductor.flavors()["1"].vcpus, 2);
}

#[test]
fn labels_live_as_long_as_their_instance() {
    let mut world = World::new(1, 1, 8);
    let id = instance(1);
    let set = || Command::SetLabels {
        instance: id,
        labels: Labels::default(),
    };
    assert!(world.try_conduct(set()).is_err(), "no such instance");
    world.create(&[1]);
    world.conduct(set());
    world.come_to_rest();
    let conductor = &world.control.conductor;
    assert!(conductor.labels().contains_key(&id));
    let mut spec = conductor.specs()[&id].clone();
    spec.body = r#"{"new": 1}"#.into();
    world.conduct(Command::SetSpec {
        instance: id,
        spec: Box::new(spec.clone()),
    });
    assert_eq!(world.control.conductor.specs()[&id], spec);
    world.conduct(Command::Delete { instance: id });
    assert!(world.try_conduct(set()).is_err(), "it is being deleted");
    world.come_to_rest();
    assert!(world.control.conductor.labels().is_empty());
}

#[test]
fn a_rule_without_others_is_about_the_members_of_the_group() {
    let mut world = World::new(1, 2, 8);
    let group = Uuid::from_u128(0x6);
    world.conduct(Command::SetGroup {
        group,
        row: Some(ServerGroup {
            name: "g".into(),
            project: "p".into(),
            user: "u".into(),
            policy: "soft-affinity".into(),
            max_server_per_host: None,
            rules: Vec::new(),
            members: Vec::new(),
        }),
        topology: None,
    });
    let apart = HardRule {
        rule: Rule {
            scope: RuleScope::Host,
            relation: Relation::FewerThan(1),
        },
        others: Vec::new(),
    };
    let builds = [1, 2, 3].map(|number| NewBuild {
        instance: instance(number),
        spec: Spec {
            group: Some(group),
            rules: vec![apart.clone()].into(),
            ..placewright_testing::world::spec(world.at)
        },
    });
    world.conduct(Command::CreateBuilds {
        reservation: Uuid::from_u128(0x7),
        builds: builds.to_vec(),
    });
    // All three instances prefer the same host, in one command. Each instance excludes the later ones from its host.
    let candidates = vec![candidate(host(0, 0), 1), candidate(host(0, 1), 1)];
    let ranked = |number| RankedCandidates::new(instance(number), candidates.clone(), 0);
    let placed = world.try_place(vec![ranked(1), ranked(2), ranked(3)], 1);
    assert_eq!(placed, Ok(Outcome::Placed(vec![Some(0), Some(1), None])));
}

#[test]
fn only_the_rebuild_that_its_cell_completed_takes_effect() {
    let mut world = World::new(1, 1, 8);
    let id = instance(1);
    world.create(&[1]);
    world.come_to_rest();
    let before = world.control.conductor.specs()[&id].clone();
    let spec = |body: &str| Spec {
        body: body.into(),
        ..before.clone()
    };
    let rebuild = |event| Command::Rebuild {
        instance: id,
        event,
    };
    let begin = |spec: &Spec| {
        rebuild(RebuildEvent::Begun {
            spec: Box::new(spec.clone()),
            view_updated_at: Timestamp(1),
        })
    };
    let end = |spec: &Spec| {
        rebuild(RebuildEvent::Done {
            digest: spec.digest(),
        })
    };
    let refuse = |spec: &Spec| {
        rebuild(RebuildEvent::Refused {
            digest: spec.digest(),
        })
    };
    let (first, second) = (spec("1"), spec("2"));
    world.conduct(begin(&first));
    world.conduct(begin(&second));
    world.conduct(end(&first));
    world.conduct(refuse(&first));
    assert_eq!(world.control.conductor.specs()[&id], before);
    assert_eq!(world.control.conductor.rebuilds()[&id].spec, second);
    world.conduct(end(&second));
    assert_eq!(world.control.conductor.specs()[&id], second);
    assert!(world.control.conductor.rebuilds().is_empty());
    world.conduct(begin(&first));
    world.conduct(refuse(&first));
    assert!(world.control.conductor.rebuilds().is_empty());
    world.conduct(begin(&first));
    world.conduct(Command::Delete { instance: id });
    assert!(
        world.try_conduct(begin(&first)).is_err(),
        "it is being deleted"
    );
    world.come_to_rest();
    assert!(world.control.conductor.rebuilds().is_empty());
}

#[test]
fn an_agent_that_starts_destroys_unknown_guests_and_reports_missing_ones() {
    let mut world = World::new(1, 2, 8);
    world.create(&[1]);
    world.come_to_rest();
    let agent = world.agents.get_mut(&host(0, 0)).unwrap();
    agent.restart();
    agent.guests.clear();
    let is_running = true;
    agent.guests.insert((instance(9), 1), is_running);
    world.come_to_rest();
    assert!(world.agents[&host(0, 0)].guests.is_empty());
    let row = &world.cells[&cell(0)].instances()[&instance(1)];
    assert_eq!(row.vm_state, VmState::Error);
    assert!(row.fault.is_some());
    let instance = instance(1);
    world.conduct(Command::Delete { instance });
    world.come_to_rest();
    world.check_nothing_left(instance);
}

#[test]
fn an_answer_of_an_old_attempt_or_session_is_refused() {
    let mut world = World::new(1, 2, 8);
    world.failing = vec![host(0, 0)];
    world.create(&[1]);
    world.come_to_rest();
    let state = &world.cells[&cell(0)];
    let ended = |number, session, attempt| Event::StepEnded {
        host: host(0, number),
        instance: instance(1),
        session,
        attempt,
        failure: Some(Failure {
            message: "late".into(),
            may_retry: true,
        }),
    };
    // Attempt 1 on host 0 has failed, and attempt 2 on host 1 has succeeded.
    let late = [(0, 1, 1), (1, 1, 2), (1, 0, 2), (1, 1, 3), (0, 1, 2)];
    for (number, session, attempt) in late {
        let event = ended(number, session, attempt);
        let mut changes = Vec::new();
        let options = cell_conductor::Options::default();
        let decided = cell_conductor::decide(state, &event, world.at, &options, &mut changes);
        assert!(matches!(decided, Err(Refusal::Stale { .. })));
        assert!(changes.is_empty());
    }
    world.check_at_rest();
}

/// Decides an event of a cell and applies its changes.
pub(crate) fn happen(
    state: &mut cell_conductor::State,
    event: &Event,
    world: &World,
) -> Vec<Change> {
    let mut changes = Vec::new();
    cell_conductor::decide(state, event, world.at, &world.options, &mut changes).unwrap();
    for change in &changes {
        state.apply(change);
    }
    changes
}

#[test]
fn a_step_is_ended_only_by_the_host_that_carries_it_out() {
    let mut world = World::new(1, 2, 8);
    let mut state = with_first_build(&mut world);
    let ended_on = |number| Event::StepEnded {
        host: host(0, number),
        instance: instance(1),
        session: 1,
        attempt: 1,
        failure: None,
    };
    let (at, options) = (world.at, world.options);
    let refused = cell_conductor::decide(&state, &ended_on(1), at, &options, &mut Vec::new());
    assert!(matches!(refused, Err(Refusal::Stale { .. })));
    happen(&mut state, &ended_on(0), &world);
    assert_eq!(state.instances()[&instance(1)].vm_state, VmState::Active);
}
