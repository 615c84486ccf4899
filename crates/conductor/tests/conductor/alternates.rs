//! Builds that go on with one of their alternates.

use placewright_conductor::ClaimResponse;
use placewright_conductor::cell_conductor::{self, Effect, Event, Failure};
use placewright_testing::world::{World, cell, host, instance};

use crate::records::happen;

/// The state of the only cell once it builds the first instance.
pub(crate) fn with_first_build(world: &mut World) -> cell_conductor::State {
    world.create(&[1]);
    while world.cells[&cell(0)].jobs().is_empty() {
        let packet = world.network.remove(0);
        world.deliver(packet);
    }
    world.cells[&cell(0)].clone()
}

fn first_attempt_failed() -> Event {
    Event::StepEnded {
        host: host(0, 0),
        instance: instance(1),
        session: 1,
        attempt: 1,
        failure: Some(Failure {
            message: "no disk".into(),
            may_retry: true,
        }),
    }
}

#[test]
fn after_a_swap_only_the_candidates_behind_the_chosen_one_are_left() {
    let mut world = World::new(1, 4, 8);
    world.alternates = 3;
    let mut state = with_first_build(&mut world);
    let alternates: Vec<_> = state.jobs()[&instance(1)].alternates.to_vec();
    assert_eq!(alternates.len(), 3);
    happen(&mut state, &first_attempt_failed(), &world);
    let number = state.instances()[&instance(1)].claim_number;
    let swapped = |index| Event::ClaimAnswered {
        instance: instance(1),
        number,
        response: ClaimResponse::Swapped { index },
    };
    let mut out_of_range = state.clone();
    happen(&mut out_of_range, &swapped(u32::MAX), &world);
    assert_eq!(out_of_range.jobs()[&instance(1)].alternates[..], alternates);
    happen(&mut state, &swapped(1), &world);
    let job = &state.jobs()[&instance(1)];
    let target = job.target.as_ref().unwrap();
    assert_eq!(*target.candidate, alternates[1]);
    assert_eq!(job.alternates[..], alternates[2..]);
}

#[test]
fn changes_that_were_replaced_have_no_effects_any_more() {
    let mut world = World::new(1, 2, 8);
    let mut state = with_first_build(&mut world);
    let answered = |number, response| Event::ClaimAnswered {
        instance: instance(1),
        number,
        response,
    };
    let failure_changes = happen(&mut state, &first_attempt_failed(), &world);
    let number = state.instances()[&instance(1)].claim_number;
    let requested_numbers = |state: &cell_conductor::State, changes| {
        let effects = state.effects_of(changes);
        let requests = effects.into_iter().filter_map(|effect| match effect {
            Effect::RequestClaim(request) => Some(request.number),
            Effect::RequestStep { .. } | Effect::Destroy { .. } => None,
        });
        requests.collect::<Vec<u64>>()
    };
    assert_eq!(requested_numbers(&state, &failure_changes), [number]);
    // Control has advanced the number: the claim request is repeated with the next one, by these changes only.
    let stale_changes = happen(&mut state, &answered(number, ClaimResponse::Stale), &world);
    assert_eq!(requested_numbers(&state, &failure_changes), [0; 0]);
    assert_eq!(requested_numbers(&state, &stale_changes), [number + 1]);
    let swapped = answered(number + 1, ClaimResponse::Swapped { index: 0 });
    let swap_changes = happen(&mut state, &swapped, &world);
    assert_eq!(requested_numbers(&state, &stale_changes), [0; 0]);
    assert!(matches!(
        state.effects_of(&swap_changes).as_slice(),
        [Effect::RequestStep { host: on, .. }] if *on == host(0, 1)
    ));
}
