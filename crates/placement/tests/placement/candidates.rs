//! Properties of the search for candidates, tested with random fleets and queries.
//!
//! `PROPTEST_CASES` sets the number of cases of each test (default 256; the full run has 10,000).

use std::collections::BTreeSet;

use placewright_placement::candidates::{HostSearch, find_candidates_as_trees};
use placewright_placement::{
    CandidateQuery, CandidateSearch, Candidates, Command, ProviderId, QueryRefusal, State,
    Strategy as Order, Timestamp, decide, find_candidates, find_providers,
};
use placewright_testing::fleet::{
    TRAITS, aggregate, build, device_query, device_tree, fleet as any_fleet, provider_query,
    query as any_query, uuid_at,
};
use placewright_testing::model::{Model, ModelCandidate, QueryResult};
use proptest::prelude::*;
use uuid::Uuid;

/// A candidate in the model's representation.
fn model_candidate(state: &State, candidates: &Candidates, index: usize) -> ModelCandidate {
    let candidate = candidates.get(index).expect("within the candidates");
    let amounts = candidate.allocations().iter().map(|allocation| {
        let class = state.class_name(allocation.class).to_owned();
        (
            (allocation.provider.index(), class),
            i64::from(allocation.amount),
        )
    });
    let mappings = candidate.mappings().map(|serving| {
        assert!(serving.is_sorted_by(|earlier, later| earlier < later));
        serving.iter().map(|id| id.index()).collect()
    });
    (amounts.collect(), mappings.collect())
}

/// All candidates in the model's representation; a duplicate fails the test.
fn model_candidates(state: &State, candidates: &Candidates) -> BTreeSet<ModelCandidate> {
    let all: BTreeSet<ModelCandidate> = (0..candidates.len())
        .map(|index| model_candidate(state, candidates, index))
        .collect();
    assert_eq!(all.len(), candidates.len(), "each candidate is listed once");
    assert!(candidates.is_complete());
    all
}

/// The indexes of the providers with a summary.
fn summarised(candidates: &Candidates) -> BTreeSet<usize> {
    assert!(
        candidates
            .summaries()
            .is_sorted_by(|earlier, later| earlier < later)
    );
    candidates.summaries().iter().map(|id| id.index()).collect()
}

fn query_result(state: &State, answer: Result<Candidates, QueryRefusal>) -> QueryResult {
    match answer {
        Ok(candidates) => QueryResult::Found(
            model_candidates(state, &candidates),
            summarised(&candidates),
        ),
        Err(QueryRefusal::UnknownClass { name }) => QueryResult::UnknownClass(name),
        Err(QueryRefusal::UnknownTrait { name }) => QueryResult::UnknownTrait(name),
    }
}

/// A change of a provider between two searches.
#[derive(Clone, Debug)]
enum Event {
    Traits(BTreeSet<usize>),
    Aggregates(BTreeSet<usize>),
    Child(u128),
    Delete,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop::collection::btree_set(0..TRAITS.len(), 0..3).prop_map(Event::Traits),
        3 => prop::collection::btree_set(0usize..5, 0..3).prop_map(Event::Aggregates),
        2 => (0u128..4).prop_map(Event::Child),
        1 => Just(Event::Delete),
    ]
}

/// Applies the change, unless placement refuses it.
fn apply_event(state: &mut State, provider: Uuid, event: &Event) {
    let at = Timestamp::from_seconds(9);
    let generation = state
        .provider_by_uuid(provider)
        .map(|provider| provider.generation);
    let command = match event {
        Event::Traits(traits) => Command::SetTraits {
            provider,
            generation,
            traits: traits
                .iter()
                .map(|number| TRAITS[*number].to_owned())
                .collect(),
            at,
        },
        Event::Aggregates(numbers) => Command::SetAggregates {
            provider,
            generation,
            aggregates: numbers.iter().map(|number| aggregate(*number)).collect(),
            at,
        },
        Event::Child(number) => Command::CreateProvider {
            uuid: Uuid::from_u128(0xc41d_0000 + number),
            name: format!("child{number}"),
            parent: Some(provider),
            at,
        },
        Event::Delete => Command::DeleteProvider { uuid: provider },
    };
    let mut changes = Vec::new();
    if decide(state, &command, &mut changes).is_ok() {
        changes.iter().for_each(|change| drop(state.apply(change)));
    }
}

proptest! {
    #[test]
    fn the_search_agrees_with_the_model(mut fleet in any_fleet(), query in any_query()) {
        let state = build(&mut fleet);
        let expected = Model::new(&fleet).candidates(&query);
        prop_assert_eq!(query_result(&state, find_candidates(&state, &query)), expected);
    }

    #[test]
    fn the_search_agrees_with_the_model_for_trees_of_devices(
        mut fleet in device_tree(),
        query in device_query(),
        seed in any::<u64>(),
    ) {
        let state = build(&mut fleet);
        let expected = Model::new(&fleet).candidates(&query);
        prop_assert_eq!(query_result(&state, find_candidates(&state, &query)), expected);
        let mut shuffled = query.clone();
        shuffled.options.seed = Some(seed);
        let shuffled = query_result(&state, find_candidates(&state, &shuffled));
        prop_assert_eq!(shuffled, query_result(&state, find_candidates(&state, &query)));
    }

    #[test]
    fn columns_and_trees_give_equal_candidates(
        mut fleet in any_fleet(),
        query in any_query(),
        limit in prop::option::of(1usize..6),
    ) {
        let state = build(&mut fleet);
        let query = CandidateQuery { limit, ..query };
        prop_assert_eq!(
            find_candidates(&state, &query),
            find_candidates_as_trees(&state, &query)
        );
    }

    #[test]
    fn searching_host_by_host_finds_the_same_candidates(mut fleet in any_fleet(), query in any_query()) {
        let state = build(&mut fleet);
        let Ok(all) = find_candidates(&state, &query) else { return Ok(()) };
        let mut by_host = BTreeSet::new();
        if let Some(search) = HostSearch::new(&state, &query).unwrap() {
            let roots = || state.roots().iter().map(ProviderId);
            let first: Vec<bool> = roots().map(|root| search.fits(root)).collect();
            // After many trees the search computes once for all trees which are possible at all. The
            // results must remain the same.
            for _ in 0..100 {
                prop_assert_eq!(&roots().map(|root| search.fits(root)).collect::<Vec<_>>(), &first);
            }
            for root in roots() {
                let candidates = search.candidates_of(root, usize::MAX);
                prop_assert_eq!(search.fits(root), !candidates.is_empty());
                let indexes = 0..candidates.len();
                by_host.extend(indexes.map(|index| model_candidate(&state, &candidates, index)));
            }
        }
        prop_assert_eq!(by_host, model_candidates(&state, &all));
    }

    #[test]
    fn a_resumed_search_finds_the_candidates_of_a_new_one(
        mut fleet in any_fleet(),
        query in any_query(),
        events in prop::collection::vec((0usize..9, event()), 1..6),
    ) {
        let mut state = build(&mut fleet);
        let Ok(Some(search)) = HostSearch::new(&state, &query) else { return Ok(()) };
        let Some(suspended) = search.to_prepared_query() else { return Ok(()) };
        for (number, event) in &events {
            apply_event(&mut state, uuid_at(*number), event);
            let Some(resumed) = suspended.resume(&state) else { continue };
            let fresh = HostSearch::new(&state, &query).unwrap();
            for root in state.roots().iter().map(ProviderId) {
                let candidates_of = |search: &HostSearch<'_>| {
                    let candidates = search.candidates_of(root, usize::MAX);
                    let indexes = 0..candidates.len();
                    let found = indexes.map(|index| model_candidate(&state, &candidates, index));
                    found.collect::<BTreeSet<_>>()
                };
                let expected = fresh.as_ref().map(candidates_of).unwrap_or_default();
                prop_assert_eq!(candidates_of(&resumed), expected);
            }
        }
    }

    #[test]
    fn limits_orders_and_seeds_choose_from_the_same_candidates(
        mut fleet in any_fleet(),
        query in any_query(),
        limit in 1usize..6,
        seed in any::<u64>(),
    ) {
        let state = build(&mut fleet);
        let Ok(all) = find_candidates(&state, &query) else { return Ok(()) };
        let expected = model_candidates(&state, &all);
        for (order, seed) in [
            (Order::DepthFirst, None),
            (Order::BreadthFirst, None),
            (Order::DepthFirst, Some(seed)),
        ] {
            let mut query = query.clone();
            query.options.strategy = order;
            query.options.seed = seed;
            let unlimited = find_candidates(&state, &query).unwrap();
            prop_assert_eq!(&model_candidates(&state, &unlimited), &expected);
            query.limit = Some(limit);
            let limited = find_candidates(&state, &query).unwrap();
            prop_assert_eq!(&limited, &find_candidates(&state, &query).unwrap());
            prop_assert_eq!(limited.len(), limit.min(expected.len()));
            let limited_candidates = model_candidates(&state, &limited);
            prop_assert!(limited_candidates.is_subset(&expected));
            let expected_summaries =
                Model::new(&fleet).providers_in_summaries(&query, &limited_candidates);
            prop_assert_eq!(summarised(&limited), expected_summaries);
            if seed.is_none() {
                let indexes = 0..limited.len();
                let first = indexes.map(|index| model_candidate(&state, &unlimited, index));
                prop_assert_eq!(first.collect::<BTreeSet<_>>(), limited_candidates);
            }
            query.limit = None;
            query.options.max_candidates = Some(limit);
            let bounded = find_candidates(&state, &query).unwrap();
            prop_assert_eq!(bounded.len(), limited.len());
            prop_assert_eq!(bounded.summaries(), limited.summaries());
            for index in 0..bounded.len() {
                prop_assert_eq!(
                    model_candidate(&state, &bounded, index),
                    model_candidate(&state, &limited, index)
                );
            }
        }
    }

    #[test]
    fn the_list_of_providers_agrees_with_the_model(
        mut fleet in any_fleet(),
        query in provider_query(),
    ) {
        let state = build(&mut fleet);
        let answer = find_providers(&state, &query)
            .map(|ids| ids.into_iter().map(|id| id.index()).collect::<Vec<_>>())
            .map_err(|refusal| match refusal {
                QueryRefusal::UnknownClass { name } | QueryRefusal::UnknownTrait { name } => name,
            });
        prop_assert_eq!(answer, Model::new(&fleet).providers(&query));
    }
}

/// The result of a search that is repeatedly suspended after a number of steps.
fn in_slices(
    state: &State,
    query: &CandidateQuery,
    steps: usize,
) -> Result<Candidates, QueryRefusal> {
    let mut search = CandidateSearch::new(query);
    while !search.run_slice(state, steps)? {}
    Ok(search.finish(state))
}

proptest! {
    #[test]
    fn a_search_in_slices_finds_the_same_candidates(
        mut fleet in any_fleet(),
        query in any_query(),
        steps in 1usize..60,
        is_breadth_first in any::<bool>(),
        seed in prop::option::of(0u64..4),
    ) {
        let state = build(&mut fleet);
        let mut query = query;
        query.options.seed = seed;
        if is_breadth_first {
            query.options.strategy = Order::BreadthFirst;
        }
        let whole = find_candidates(&state, &query);
        prop_assert_eq!(in_slices(&state, &query, steps), whole);
    }

    #[test]
    fn a_search_of_wide_trees_in_slices_finds_the_same_candidates(
        mut fleet in device_tree(),
        query in device_query(),
        steps in 1usize..60,
    ) {
        let state = build(&mut fleet);
        prop_assert_eq!(in_slices(&state, &query, steps), find_candidates(&state, &query));
    }

    #[test]
    fn a_search_in_slices_continues_after_providers_have_changed(
        mut fleet in any_fleet(),
        mut query in any_query(),
        seed in prop::option::of(0u64..4),
        is_breadth_first in any::<bool>(),
        steps in 1usize..12,
        events in prop::collection::vec((0usize..8, event()), 1..6),
    ) {
        query.options.seed = seed;
        if is_breadth_first {
            query.options.strategy = Order::BreadthFirst;
        }
        let mut state = build(&mut fleet);
        let before = find_candidates(&state, &query);
        let mut search = CandidateSearch::new(&query);
        let mut events = events.into_iter();
        let mut slices = 0;
        while let Ok(false) = search.run_slice(&state, steps) {
            if let Some((number, event)) = events.next() {
                apply_event(&mut state, uuid_at(number), &event);
            }
            slices += 1;
            prop_assert!(slices < 100_000);
        }
        search.record_uuids(&state);
        let (found, providers) = search.into_found();
        // Candidates of unchanged providers are found as before, and every provider in the answer
        // has a UUID.
        for candidate in found.iter() {
            for held in candidate.allocations() {
                prop_assert!(providers.uuid(held.provider).is_some());
            }
        }
        // The search ended in its first slice, before any change.
        if events.len() > 0 && slices == 0 && let Ok(before) = before {
            prop_assert_eq!(found.len(), before.len());
        }
    }
}
