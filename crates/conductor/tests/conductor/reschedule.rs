//! Instances whose build failed on every host of their cell that they may try, and goes on in another cell.

use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::quota::{Usage, UsageAmounts};
use placewright_conductor::super_conductor::{
    BuildStage, Command, Mapping, NewBuild, Outcome, Reschedule,
};
use placewright_conductor::{
    Attempt, CellId, ClaimChange, ClaimRequest, ClaimResponse, HostId, Spec,
};
use placewright_placement::Timestamp;
use placewright_testing::world::{Packet, World, candidate, cell, host, instance, spec};
use uuid::Uuid;

/// Two cells with two hosts each. All hosts of the first one fail.
fn failing() -> World {
    let mut world = World::new(2, 2, 8);
    world.alternates = 1;
    world.may_reschedule = true;
    world.failing = vec![host(0, 0), host(0, 1)];
    world
}

fn mapping(world: &World) -> &Mapping {
    &world.control.conductor.mappings()[&instance(1)]
}

fn spec_of(world: &World) -> &Spec {
    &world.control.conductor.specs()[&instance(1)]
}

/// Requests an instance that counts in quotas and has a secret for its build.
fn create(world: &mut World) {
    let spec = Spec {
        build_secrets: "sealed".into(),
        usage: Usage::new(UsageAmounts {
            cores: 2,
            ..UsageAmounts::default()
        }),
        ..spec(world.at)
    };
    world.conduct(Command::CreateBuilds {
        reservation: Uuid::from_u128(1),
        builds: vec![NewBuild {
            instance: instance(1),
            spec,
        }],
    });
}

/// Lets the world come to rest, and checks that the instance is then in this cell, in this state.
fn comes_to_rest(world: &mut World, expected: CellId, state: VmState) {
    world.come_to_rest();
    world.check_at_rest();
    let row = &world.cells[&expected].instances()[&instance(1)];
    assert_eq!((row.vm_state, mapping(world).cell), (state, Some(expected)));
}

#[test]
fn a_build_that_fails_on_all_hosts_of_its_cell_goes_on_in_another_one() {
    let mut world = failing();
    create(&mut world);
    comes_to_rest(&mut world, cell(1), VmState::Active);
    let left = mapping(&world).left_cell().unwrap();
    let tried: Vec<_> = left.attempts.iter().map(|attempt| attempt.host).collect();
    assert_eq!((left.cell, tried), (cell(0), vec![host(0, 0), host(0, 1)]));
    let decided: Vec<_> = mapping(&world)
        .decisions
        .iter()
        .map(|decision| decision.host)
        .collect();
    assert_eq!(decided, [host(0, 0), host(1, 0)], "both decisions are kept");
    assert!(
        spec_of(&world).build_secrets.is_empty(),
        "the second cell has them"
    );
    let usage = world.control.conductor.listing().usage("p").unwrap();
    assert_eq!(
        (usage.instances, usage.cores),
        (1, 2),
        "quotas count it once"
    );
}

#[test]
fn a_build_goes_to_another_cell_once() {
    let mut world = failing();
    world.failing.extend([host(1, 0), host(1, 1)]);
    create(&mut world);
    comes_to_rest(&mut world, cell(1), VmState::Error);
}

#[test]
fn a_build_stays_in_its_cell_unless_that_is_wanted_and_possible() {
    let mut unwanted = failing();
    unwanted.may_reschedule = false;
    let mut impossible = failing();
    impossible.conduct(Command::SetCell {
        cell: cell(1),
        name: "cell1".into(),
        disabled: true,
    });
    for mut world in [unwanted, impossible] {
        create(&mut world);
        comes_to_rest(&mut world, cell(0), VmState::Error);
    }
}

#[test]
fn without_room_elsewhere_the_fault_says_what_failed_before() {
    let mut world = failing();
    // Nothing else fits into the second cell.
    world.may_reschedule = false;
    world.failing.clear();
    world.conduct(Command::SetCell {
        cell: cell(0),
        name: "cell0".into(),
        disabled: true,
    });
    world.create(&(2..=9).collect::<Vec<_>>());
    world.come_to_rest();
    world.conduct(Command::SetCell {
        cell: cell(0),
        name: "cell0".into(),
        disabled: false,
    });
    world.may_reschedule = true;
    world.failing = vec![host(0, 0), host(0, 1)];
    create(&mut world);
    world.come_to_rest();
    world.check_at_rest();
    assert_eq!(mapping(&world).cell, Some(CellId::CELL0));
    let message = &world.control.conductor.buried()[&instance(1)].fault.message;
    assert!(
        message.starts_with("No valid host was found. Before, the build failed: "),
        "{message}"
    );
}

#[test]
fn secrets_of_a_build_are_kept_until_it_is_over() {
    let mut world = failing();
    world.failing.clear();
    create(&mut world);
    world.come_to_rest();
    assert_eq!(mapping(&world).reschedule, Reschedule::Allowed);
    assert!(!spec_of(&world).build_secrets.is_empty());
    world.conduct(Command::CreateAccepted {
        instance: instance(1),
        // The number matters only for an instance that has left a cell.
        claim_number: u64::MAX,
        is_built: true,
    });
    assert_eq!(mapping(&world).reschedule, Reschedule::Never);
    assert!(spec_of(&world).build_secrets.is_empty());
}

/// The claim request with which the first cell gives up after this many attempts.
fn give_up(attempts: u32) -> Command {
    let attempt = |number: u32| Attempt {
        host: HostId(Uuid::from_u128(1)),
        attempt: number,
        started_at: Timestamp(1),
        finished_at: Timestamp(2),
        failure: Some("x".repeat(1 << 16)),
    };
    Command::RequestClaim(ClaimRequest {
        instance: instance(1),
        // The claim for the build has the number 1.
        number: 2,
        change: ClaimChange::Release {
            is_deleted: false,
            failed_attempts: (0..attempts).map(attempt).collect(),
        },
    })
}

/// A world in which the instance has a host in the first cell, which has accepted the instance.
fn placed() -> World {
    let mut world = failing();
    create(&mut world);
    while mapping(&world).cell.is_none() {
        let packet = world.network.remove(0);
        world.deliver(packet);
    }
    world.accept_create(instance(1));
    world
}

#[test]
fn what_is_kept_of_attempts_is_bounded() {
    let mut world = placed();
    let outcome = world.try_conduct(give_up(2000));
    assert_eq!(outcome, Ok(Outcome::ClaimAnswered(ClaimResponse::Gone)));
    let kept = &mapping(&world).left_cell().unwrap().attempts;
    let bytes: usize = kept
        .iter()
        .filter_map(|attempt| attempt.failure.as_ref())
        .map(String::len)
        .sum();
    assert_eq!(kept.last().map(|attempt| attempt.attempt), Some(1999));
    assert!(kept.len() >= 4 && bytes < 10_000, "{bytes} bytes");
}

#[test]
fn a_cell_claims_nothing_for_an_instance_that_it_has_given_up() {
    let mut world = placed();
    assert!(world.try_conduct(give_up(1)).is_ok());
    let first_number = mapping(&world).left_cell().unwrap().first_number;
    let outcome = world.try_conduct(Command::RequestClaim(ClaimRequest {
        instance: instance(1),
        number: first_number + 1,
        change: ClaimChange::Swap {
            candidates: vec![candidate(host(0, 0), 1)],
        },
    }));
    assert_eq!(outcome, Ok(Outcome::ClaimAnswered(ClaimResponse::Gone)));
    let held = world.control.placement.consumer(instance(1).consumer());
    assert!(held.is_none());
}

#[test]
fn a_cell_tells_no_more_attempts_than_are_kept() {
    let mut world = World::new(2, 20, 8);
    world.alternates = 19;
    world.may_reschedule = true;
    world.failing = (0..20).map(|number| host(0, number)).collect();
    create(&mut world);
    let mut told = Vec::new();
    while !world.network.is_empty() {
        let packet = world.network.remove(0);
        if let Packet::ClaimRequest(_, request) = &packet
            && let ClaimChange::Release {
                failed_attempts, ..
            } = &request.change
        {
            told.push(failed_attempts.len());
        }
        world.deliver(packet);
    }
    assert_eq!(told.iter().max(), Some(&16), "{told:?}");
    assert_eq!(mapping(&world).cell, Some(cell(1)));
}

#[test]
fn a_late_report_that_the_first_build_is_over_does_not_end_the_second_one() {
    let mut world = placed();
    let number = mapping(&world).claim_number;
    assert!(world.try_conduct(give_up(1)).is_ok());
    while mapping(&world).cell.is_none() {
        let packet = world.network.pop().unwrap();
        world.deliver(packet);
    }
    world.conduct(Command::CreateAccepted {
        instance: instance(1),
        claim_number: number,
        is_built: true,
    });
    let build = &world.control.conductor.builds()[&instance(1)];
    assert!(matches!(build.stage, BuildStage::Placed { .. }));
    assert!(!spec_of(&world).build_secrets.is_empty());
}

#[test]
fn a_cell_that_does_not_say_what_it_tried_keeps_the_instance() {
    let mut world = placed();
    let outcome = world.try_conduct(give_up(0));
    assert_eq!(outcome, Ok(Outcome::ClaimAnswered(ClaimResponse::Done)));
    assert_eq!(mapping(&world).cell, Some(cell(0)));
}

#[test]
fn an_instance_that_is_deleted_stays_in_its_cell() {
    let mut world = placed();
    world.conduct(Command::Delete {
        instance: instance(1),
    });
    let outcome = world.try_conduct(give_up(1));
    assert_eq!(outcome, Ok(Outcome::ClaimAnswered(ClaimResponse::Done)));
    assert_eq!(mapping(&world).cell, Some(cell(0)));
}
