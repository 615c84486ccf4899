//! What is kept of the decisions that gave an instance its hosts.

use placewright_conductor::decision::add_decision;
use placewright_conductor::super_conductor::{Command, Mapping, Outcome, RankedCandidates};
use placewright_conductor::{Decision, FallenHost, MoveKind, RankingRecord};
use placewright_placement::Timestamp;
use placewright_testing::world::{World, candidate, host, instance, migration};

fn ranking(byte: u8) -> RankingRecord {
    RankingRecord([byte; 3].into())
}

fn mapping(world: &World) -> &Mapping {
    &world.control.conductor.mappings()[&instance(1)]
}

/// A world with hosts of 8 CPUs, of which the first is full, and an instance that was placed on the second.
fn placed() -> World {
    let mut world = World::new(1, 8, 8);
    world.create(&[1, 2]);
    let ranked = |number, candidates| RankedCandidates {
        ranking: ranking(u8::try_from(number).unwrap()),
        ..RankedCandidates::new(instance(number), candidates, 2)
    };
    let filler = ranked(2, vec![candidate(host(0, 0), 8)]);
    let candidates = [0, 1, 2, 3].map(|number| candidate(host(0, number), 2));
    let least = 1;
    let outcome = world.try_place(vec![filler], least);
    assert_eq!(outcome, Ok(Outcome::Placed(vec![Some(0)])));
    let outcome = world.try_place(vec![ranked(1, candidates.into())], least);
    assert_eq!(outcome, Ok(Outcome::Placed(vec![Some(1)])));
    world
}

#[test]
fn hosts_that_others_took_are_kept_with_the_reason() {
    let world = placed();
    let [decision] = &mapping(&world).decisions[..] else {
        panic!("{:?}", mapping(&world));
    };
    let [
        FallenHost {
            host: fallen,
            reason,
        },
    ] = &decision.fallen[..]
    else {
        panic!("{decision:?}");
    };
    assert_eq!(*fallen, host(0, 0));
    assert!(reason.contains("CUSTOM_CPU"), "{reason}");
    let expected = Decision {
        host: host(0, 1),
        at: world.at,
        migration: None,
        ranking: ranking(1),
        fallen: decision.fallen.clone(),
        fallen_count: 1,
        alternate_count: 2,
    };
    assert_eq!(*decision, expected);
}

#[test]
fn a_host_that_another_instance_of_the_claim_took_needs_no_reason() {
    let mut world = World::new(1, 2, 8);
    world.create(&[1, 2]);
    let candidates = vec![candidate(host(0, 0), 8), candidate(host(0, 1), 8)];
    let ranked = |number| RankedCandidates::new(instance(number), candidates.clone(), 0);
    let least = 2;
    let outcome = world.try_place(vec![ranked(2), ranked(1)], least);
    assert_eq!(outcome, Ok(Outcome::Placed(vec![Some(0), Some(1)])));
    let fallen = FallenHost {
        host: host(0, 0),
        reason: String::new(),
    };
    assert_eq!(mapping(&world).decisions[0].fallen, [fallen]);
}

#[test]
fn the_build_and_the_latest_moves_are_kept_until_the_instance_goes() {
    let mut world = placed();
    let id = instance(1);
    world.accept_create(id);
    for number in 1..=5 {
        let migration = migration(number);
        world.conduct(Command::StartMove {
            migration,
            instance: id,
            kind: MoveKind::ColdMigrate,
            spec: None,
        });
        world.conduct(Command::MoveReserved { migration });
        let target = host(0, 1 + u32::try_from(number).unwrap());
        world.conduct(Command::PlaceMove {
            migration,
            candidates: vec![candidate(host(0, 0), 2), candidate(target, 2)],
            alternate_count: 0,
            ranking: ranking(9),
        });
        let decision = mapping(&world).decisions.last().unwrap();
        assert_eq!(
            (decision.host, decision.migration),
            (target, Some(migration))
        );
        assert_eq!((&decision.ranking, decision.fallen_count), (&ranking(9), 1));
        assert!(decision.fallen[0].reason.contains("CUSTOM_CPU"));
        // The cell refuses the move, so that the next one can begin.
        let fault = world.fault("refused");
        world.conduct(Command::MoveRefused { migration, fault });
    }
    let migrations = mapping(&world).decisions.iter();
    let migrations: Vec<_> = migrations.map(|decision| decision.migration).collect();
    let latest = [3, 4, 5].map(|number| Some(migration(number)));
    assert_eq!(migrations, [&[None][..], &latest].concat());
    world.conduct(Command::Delete { instance: id });
    assert_eq!(mapping(&world).decisions, []);
}

#[test]
fn moves_that_were_reverted_do_not_take_away_why_an_instance_is_where_it_is() {
    let decision = |move_number: Option<usize>, host| Decision {
        host,
        at: Timestamp(0),
        migration: move_number.map(migration),
        ranking: RankingRecord::default(),
        fallen: Vec::new(),
        fallen_count: 0,
        alternate_count: 0,
    };
    let kept = |first: Decision| {
        let mut decisions = vec![first];
        let present = host(0, 1);
        add_decision(&mut decisions, decision(Some(1), present), None);
        for number in 2..=6 {
            add_decision(
                &mut decisions,
                decision(Some(number), host(0, 2)),
                Some(present),
            );
        }
        let migrations = decisions.iter().map(|decision| decision.migration);
        migrations.collect::<Vec<_>>()
    };
    let of_moves = |numbers: [usize; 3]| numbers.map(|number| Some(migration(number)));
    let with_build = kept(decision(None, host(0, 0)));
    assert_eq!(with_build, [&[None][..], &of_moves([1, 5, 6])].concat());
    // An older release made the build, and did not keep why.
    let without_build = kept(decision(Some(7), host(0, 0)));
    assert_eq!(
        without_build,
        [&of_moves([1, 4, 5])[..], &[Some(migration(6))]].concat()
    );
}
