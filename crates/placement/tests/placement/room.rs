//! How many consumers a host can serve one after another, with random fleets and queries: as many as can be claimed in a
//! copy of the state until no candidate is left.
//!
//! `PROPTEST_CASES` sets the number of cases of each test (default 256).

use placewright_placement::explain::{FirstFailed, first_failed};
use placewright_placement::{
    AllocationRequest, CandidateQuery, CandidateView, Command, ConsumerGeneration, ConsumerUuid,
    HostRoom, HostSearch, Intent, IntentCandidate, ProviderId, RoomLimits, State, Taken, Timestamp,
    decide,
};
use placewright_testing::fleet::{
    build, device_query, device_tree, fleet as any_fleet, query as any_query,
};
use proptest::prelude::*;
use uuid::Uuid;

/// The most claims that are made; more fit only into inventories that are large for this test.
const CLAIMS_MAX: u64 = 2_000;
/// The most candidates among which one is chosen.
const TRIED_MAX: usize = 8;

/// An arbitrary rule for candidates. It depends only on the slots of their providers, so that claims do not change its
/// result. With strictness 0 every candidate is admitted.
fn admits(strictness: u32, candidate: CandidateView<'_>) -> bool {
    let allocations = candidate.allocations();
    let sum: u32 = allocations
        .iter()
        .map(|allocation| allocation.provider.0)
        .sum();
    strictness == 0 || sum % 3 != strictness % 3
}

/// Claims the first candidate of a host that is admitted; false if there is none.
fn claim(
    state: &mut State,
    query: &CandidateQuery,
    root: ProviderId,
    strictness: u32,
    number: u64,
) -> bool {
    let candidates = match HostSearch::new(state, query) {
        Ok(Some(search)) => search.candidates_of(root, TRIED_MAX),
        _ => return false,
    };
    let mut candidates = candidates.iter();
    let Some(candidate) = candidates.find(|candidate| admits(strictness, *candidate)) else {
        return false;
    };
    let uuid = |id| state.provider(id).map(|provider| provider.uuid);
    let allocations = candidate.allocations().iter().map(|allocation| {
        let class = state.class_name(allocation.class).to_owned();
        AllocationRequest {
            provider: uuid(allocation.provider).unwrap_or_default(),
            resources: vec![(class, i64::from(allocation.amount))],
        }
    });
    let candidate = IntentCandidate {
        host: uuid(root).unwrap_or_default(),
        allocations: allocations.collect(),
    };
    let intent = Intent {
        consumer: ConsumerUuid::from_uuid(Uuid::from_u128(0xc0_0000 + u128::from(number))),
        generation: ConsumerGeneration::Is(None),
        project: "p".into(),
        user: "u".into(),
        consumer_type: None,
        group: None,
        rules: Vec::new(),
        candidates: vec![candidate],
        alongside: Vec::new(),
    };
    let command = Command::ClaimFirst {
        intents: vec![intent],
        least: 1,
        at: Timestamp::from_seconds(1),
    };
    let mut changes = Vec::new();
    let is_claimed = decide(state, &command, &mut changes).is_ok();
    for change in &changes {
        drop(state.apply(change));
    }
    is_claimed
}

/// The room of a host, with a limit that ends each part of the count after one search.
fn room_in_parts(
    search: &HostSearch<'_>,
    root: ProviderId,
    taken: &mut Taken,
    strictness: u32,
) -> HostRoom {
    let limits = RoomLimits {
        candidates: TRIED_MAX,
        steps: 1,
    };
    let mut sum = HostRoom::default();
    while !sum.is_complete {
        let part = search.room(root, limits, taken, |candidate| {
            admits(strictness, candidate)
        });
        sum = HostRoom {
            count: sum.count + part.count,
            steps: sum.steps + part.steps,
            is_complete: part.is_complete,
            is_exhausted: part.is_exhausted,
        };
    }
    sum
}

fn check(state: &State, query: &CandidateQuery, strictness: u32) -> Result<(), TestCaseError> {
    let requests_nothing = query.groups.iter().all(|group| group.resources.is_empty());
    let Ok(Some(search)) = HostSearch::new(state, query) else {
        return Ok(());
    };
    let Ok(mut first_failed_search) = FirstFailed::new(state, query) else {
        return Ok(());
    };
    if requests_nothing {
        return Ok(());
    }
    for root in state.roots().iter().map(ProviderId) {
        let mut taken = Taken::default();
        let room = room_in_parts(&search, root, &mut taken, strictness);
        let mut copy = state.clone();
        let mut claimed = 0;
        while claimed < CLAIMS_MAX && claim(&mut copy, query, root, strictness, claimed) {
            claimed += 1;
        }
        if claimed == CLAIMS_MAX {
            prop_assert!(room.count >= CLAIMS_MAX);
            continue;
        }
        prop_assert_eq!(room.count, claimed);
        let failed = first_failed_search.of(root, &taken).cloned();
        let after_claims = first_failed(&copy, query, root).expect("known names");
        prop_assert_eq!(&failed, &after_claims);
        if room.is_exhausted {
            prop_assert!(failed.is_some());
            let of_infeasible = first_failed_search.of_infeasible(root, &taken);
            prop_assert_eq!(of_infeasible, after_claims.as_ref());
        }
        if strictness > 0 {
            continue;
        }
        if let Some(independent) = search.independent_room(root) {
            prop_assert_eq!(independent.count, claimed);
            let lacking = state.class_name(independent.lacking);
            let named = failed.map(|constraint| constraint.to_string());
            let named = named.unwrap_or_default();
            prop_assert!(
                named.starts_with(&format!("resources={lacking}:")),
                "{named}"
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn mixed_fleets_have_room_for_what_can_be_claimed(
        mut fleet in any_fleet(),
        query in any_query(),
        strictness in 0u32..4,
    ) {
        check(&build(&mut fleet), &query, strictness)?;
    }

    #[test]
    fn device_trees_have_room_for_what_can_be_claimed(
        mut fleet in device_tree(),
        query in device_query(),
        strictness in 0u32..4,
    ) {
        check(&build(&mut fleet), &query, strictness)?;
    }
}
