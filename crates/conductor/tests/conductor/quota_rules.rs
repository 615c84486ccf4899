//! Which objects count for a quota, when they count, and which limit holds.

use placewright_conductor::cell_conductor::Event;
use placewright_conductor::control::Refusal as ControlRefusal;
use placewright_conductor::quota::{
    Limits, ProjectUsage, QuotaScope, Resource, Usage, UsageAmounts,
};
use placewright_conductor::super_conductor::{
    Command, Keypair, LimitCheck, NewBuild, Refusal, ServerGroup, State,
};
use placewright_conductor::{InstanceId, MoveDecision, MoveKind, Spec};
use placewright_placement::Timestamp;
use placewright_testing::world::{World, instance, migration, spec};
use uuid::Uuid;

fn gpu() -> Resource {
    Resource::Class("CUSTOM_GPU".into())
}

fn usage(cores: u32, ram_mb: u32, gpus: u32) -> Usage {
    Usage::new(UsageAmounts {
        cores,
        ram_mb,
        classes: vec![("CUSTOM_GPU".to_owned(), gpus)],
    })
}

fn spec_of(project: &str, usage: Usage, at: Timestamp) -> Spec {
    Spec {
        project: project.to_owned(),
        usage,
        ..spec(at)
    }
}

fn held(state: &State, project: &str) -> ProjectUsage {
    let held = state.listing().usage(project);
    held.cloned().unwrap_or_default()
}

fn is_over_quota<T>(answer: &Result<T, ControlRefusal>) -> bool {
    matches!(
        answer,
        Err(ControlRefusal::Conductor(Refusal::OverQuota(_)))
    )
}

/// A world in which the project `p` has these limits.
fn world_with(limits: &[(Resource, i64)]) -> World {
    // One cell with two hosts of 64 CPUs each.
    let mut world = World::new(1, 2, 64);
    world.conduct(Command::SetQuota {
        scope: QuotaScope::Project("p".to_owned()),
        limits: limits.iter().cloned().collect(),
        force: false,
    });
    world
}

fn create(world: &mut World, numbers: &[usize], usage: &Usage) -> Result<(), Refusal> {
    let builds = numbers.iter().map(|number| NewBuild {
        instance: instance(*number),
        spec: spec_of("p", usage.clone(), world.at),
    });
    let command = Command::CreateBuilds {
        reservation: Uuid::from_u128(numbers[0] as u128),
        builds: builds.collect(),
    };
    match world.try_conduct(command) {
        Ok(_) => Ok(()),
        Err(ControlRefusal::Conductor(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

fn resize(world: &mut World, id: InstanceId, number: usize, usage: Usage) -> Result<(), Refusal> {
    let spec = spec_of("p", usage, world.at);
    let command = Command::StartMove {
        migration: migration(number),
        instance: id,
        kind: MoveKind::Resize,
        spec: Some(Box::new(spec)),
    };
    match world.try_conduct(command) {
        Ok(_) => Ok(()),
        Err(ControlRefusal::Conductor(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_refusal_says_what_is_exceeded() {
    let mut world = world_with(&[(Resource::Instances, 2), (Resource::Cores, 8)]);
    create(&mut world, &[1, 2], &usage(2, 512, 0)).unwrap();
    let refusal = create(&mut world, &[3, 4, 5], &usage(2, 512, 0)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "Quota exceeded for instances, cores: Requested 3, 6, but already used 2, 4 of 2, 8 \
         instances, cores"
    );
}

#[test]
fn a_resize_counts_for_the_larger_flavor_until_it_ends() {
    let mut world = world_with(&[(Resource::Cores, 6)]);
    create(&mut world, &[1], &usage(2, 512, 0)).unwrap();
    world.come_to_rest();
    assert!(resize(&mut world, instance(1), 1, usage(7, 512, 0)).is_err());
    resize(&mut world, instance(1), 2, usage(5, 256, 0)).unwrap();
    world.come_to_rest();
    let counted = held(&world.control.conductor, "p");
    assert_eq!((counted.cores, counted.ram_mb), (5, 512));
    assert!(create(&mut world, &[2], &usage(2, 1, 0)).is_err());
    create(&mut world, &[3], &usage(1, 1, 0)).unwrap();
    let (revert, confirm) = (MoveDecision::Revert, MoveDecision::Confirm);
    world.conduct(Command::ConfirmOrRevert {
        migration: migration(2),
        decision: revert,
        request: None,
    });
    world.come_to_rest();
    assert_eq!(held(&world.control.conductor, "p").cores, 3);
    resize(&mut world, instance(1), 3, usage(1, 256, 0)).unwrap();
    world.come_to_rest();
    assert_eq!(held(&world.control.conductor, "p").cores, 3);
    world.conduct(Command::ConfirmOrRevert {
        migration: migration(3),
        decision: confirm,
        request: None,
    });
    world.come_to_rest();
    let counted = held(&world.control.conductor, "p");
    assert_eq!((counted.cores, counted.ram_mb), (2, 257));
}

#[test]
fn a_shelved_instance_counts_and_unshelving_adds_nothing() {
    let mut world = world_with(&[(Resource::Instances, 1), (Resource::Cores, 2)]);
    create(&mut world, &[1], &usage(2, 512, 0)).unwrap();
    world.come_to_rest();
    let cell = world.cell_of(instance(1)).unwrap();
    world.decide_event(
        cell,
        &Event::Shelve {
            instance: instance(1),
            request: None,
        },
    );
    world.come_to_rest();
    assert_eq!(held(&world.control.conductor, "p").cores, 2);
    assert!(create(&mut world, &[2], &usage(0, 0, 0)).is_err());
    let spec = world.control.conductor.specs()[&instance(1)].clone();
    world.conduct(Command::StartMove {
        migration: migration(1),
        instance: instance(1),
        kind: MoveKind::Unshelve,
        spec: Some(Box::new(spec)),
    });
    world.come_to_rest();
    assert_eq!(held(&world.control.conductor, "p").instances, 1);
}

#[test]
fn a_lowered_limit_takes_nothing_away_and_lets_nothing_be_added() {
    let mut world = world_with(&[]);
    create(&mut world, &[1, 2], &usage(2, 512, 1)).unwrap();
    let (force, do_not_force) = (true, false);
    let lower = |force| Command::SetQuota {
        scope: QuotaScope::Project("p".to_owned()),
        limits: Limits::from([(gpu(), 1)]),
        force,
    };
    let refused = world.try_conduct(lower(do_not_force)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the limit 1 of class:CUSTOM_GPU is less than what is in use, 2"
    );
    world.conduct(lower(force));
    assert_eq!(held(&world.control.conductor, "p").amount(&gpu()), 2);
    assert!(create(&mut world, &[3], &usage(1, 1, 1)).is_err());
    create(&mut world, &[4], &usage(1, 1, 0)).unwrap();
}

#[test]
fn limits_of_a_project_come_before_those_of_all() {
    let mut world = world_with(&[(Resource::Instances, 3)]);
    let set = |scope, limit| Command::SetQuota {
        scope,
        limits: Limits::from([(Resource::Instances, limit)]),
        force: false,
    };
    world.conduct(set(QuotaScope::Configured, 1));
    let limit = |world: &World, project| {
        let state = &world.control.conductor;
        state.quota_limit(Some(project), &Resource::Instances)
    };
    assert_eq!((limit(&world, "p"), limit(&world, "q")), (3, 1));
    world.conduct(set(QuotaScope::Class("default".to_owned()), 2));
    assert_eq!((limit(&world, "p"), limit(&world, "q")), (3, 2));
    // Keystone's limits replace all others.
    let unified = |limit| Some(Limits::from([(Resource::Instances, limit)]));
    world.conduct(Command::ReplaceQuotas {
        sets: vec![
            (QuotaScope::Registered, unified(5)),
            (QuotaScope::Unified("q".to_owned()), unified(6)),
        ],
    });
    assert_eq!((limit(&world, "p"), limit(&world, "q")), (5, 6));
    let both = [QuotaScope::Registered, QuotaScope::Unified("q".to_owned())];
    world.conduct(Command::ReplaceQuotas {
        sets: both.map(|scope| (scope, None)).to_vec(),
    });
    assert_eq!((limit(&world, "p"), limit(&world, "q")), (3, 2));
}

#[test]
fn groups_their_members_and_key_pairs_have_quotas() {
    let mut world = world_with(&[
        (Resource::ServerGroups, 1),
        (Resource::ServerGroupMembers, 2),
        (Resource::KeyPairs, 1),
    ]);
    let group = |number| Command::SetGroup {
        group: Uuid::from_u128(number),
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
    };
    world.conduct(group(1));
    let refused = world.try_conduct(group(2)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Quota exceeded for server_groups: Requested 1, but already used 1 of 1 server_groups"
    );
    let build = |number: usize, at| NewBuild {
        instance: instance(number),
        spec: Spec {
            group: Some(Uuid::from_u128(1)),
            ..spec(at)
        },
    };
    let at = world.at;
    let join = |numbers: &[usize]| Command::CreateBuilds {
        reservation: Uuid::from_u128(7),
        builds: numbers.iter().map(|number| build(*number, at)).collect(),
    };
    world.conduct(join(&[1]));
    let refused = world.try_conduct(join(&[2, 3])).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("Requested 2, but already used 1 of 2")
    );
    world.conduct(join(&[2]));
    let key = |name: &str| Command::Limited {
        checks: vec![LimitCheck::KeypairQuota {
            project: "p".into(),
            user: "u".into(),
        }],
        command: Box::new(Command::SetKeypair {
            user: "u".into(),
            name: name.into(),
            keypair: Some(Keypair {
                kind: "ssh".into(),
                public_key: "k".into(),
                fingerprint: "f".into(),
                created_at: at,
            }),
        }),
    };
    world.conduct(key("one"));
    assert!(is_over_quota(&world.try_conduct(key("two"))));
}
