//! What is kept of the rankings for several instances of one request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::super_conductor::Command as ConductorCommand;
use placewright_control::placer::{
    Contention, Demand, Placing, SearchContext, SearchResults, TimeSlice,
};
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory, State,
    Timestamp, decide,
};
use placewright_records::ranking;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use placewright_types::ranking::Ranking;
use uuid::Uuid;

const AT: Timestamp = Timestamp(1_000_000);

fn host(number: u128) -> Uuid {
    Uuid::from_u128(0x100 + number)
}

fn instance(number: u128) -> Uuid {
    Uuid::from_u128(0x1_0000 + number)
}

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).unwrap();
    changes.iter().for_each(|change| drop(state.apply(change)));
}

/// A fleet with one host for each number of VCPUs. Only the memory of a host counts for its score. The first host has
/// the most memory, so it is the best one.
fn fleet(vcpus: &[i32]) -> (State, Scheduler) {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: AT });
    let config = SchedulerConfig {
        weight_classes: vec!["nova.scheduler.weights.ram.RAMWeigher".to_owned()],
        ..SchedulerConfig::default()
    };
    let mut scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
    for (number, vcpus) in (0..).zip(vcpus) {
        let provider = host(number);
        let create = Command::CreateProvider {
            uuid: provider,
            name: format!("host{number}"),
            parent: None,
            at: AT,
        };
        execute(&mut state, &create);
        let memory = 1_000_000 - i32::try_from(number).unwrap() * 50_000;
        let inventories = [("VCPU", *vcpus), ("MEMORY_MB", memory), ("DISK_GB", 1_000)];
        let set = Command::SetInventories {
            provider,
            generation: None,
            inventories: inventories
                .map(|(class, total)| (class.to_owned(), Inventory::new(total, 1.0)))
                .to_vec(),
            may_reserve_all: true,
            at: AT,
        };
        execute(&mut state, &set);
        let mut report = HostReport::default();
        report.facts.names.node = format!("host{number}");
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(provider, AT, &full);
    }
    scheduler.observe(&state, AT);
    (state, scheduler)
}

fn placing(instances: u128) -> Placing {
    let spec = r#"{"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}"#;
    let request: RequestSpec = serde_json::from_str(spec).unwrap();
    let instances = (0..instances).map(instance);
    let demand = Demand {
        alternate_count: 2,
        ..Demand::new(Arc::new(request), instances.collect())
    };
    Placing::new(demand)
}

fn search(
    placing: &mut Placing,
    scheduler: &mut Scheduler,
    state: &State,
    slice: &TimeSlice,
) -> SearchResults {
    let mut context = SearchContext {
        scheduler,
        state,
        contention: Contention::default(),
        scheduler_number: 0,
        excluded_cells: &[],
        avoided_cells: &[],
        ranking_record_sequence: Some(1),
    };
    placing.find_hosts(&mut context, slice).unwrap()
}

/// What is kept of the ranking for each instance.
fn rankings(placing: &mut Placing) -> BTreeMap<Uuid, Ranking> {
    let may_reschedule = false;
    let ConductorCommand::Place {
        ranked_candidates, ..
    } = placing.place_builds(may_reschedule)
    else {
        panic!("a command that places builds");
    };
    let decoded = ranked_candidates.iter().map(|ranked| {
        let ranking = ranking::decode(&ranked.ranking.0).unwrap();
        (ranked.instance.0, ranking)
    });
    decoded.collect()
}

#[test]
fn a_host_that_another_instance_fills_is_left_out_and_not_among_the_best() {
    let (state, mut scheduler) = fleet(&[1, 9, 9, 9, 9, 9, 9, 9]);
    let mut placing = placing(3);
    let slice = TimeSlice::endless();
    let found = search(&mut placing, &mut scheduler, &state, &slice);
    assert_eq!(found, SearchResults::Ready);
    let rankings = rankings(&mut placing);
    let of = |number| &rankings[&instance(number)];
    let best = |number| of(number).hosts[0].host;
    assert_eq!([best(0), best(1), best(2)], [host(0), host(1), host(1)]);
    for number in 0..3 {
        let ranking = of(number);
        let filled = u32::from(number > 0);
        assert_eq!(ranking.excluded, filled, "{number}");
        assert_eq!(ranking.hosts.len(), 5, "{number}");
        let has_first = ranking.hosts.iter().any(|kept| kept.host == host(0));
        assert_eq!(has_first, number == 0, "{number}");
        // Nothing is counted twice.
        let known = ranking.known_hosts;
        assert!(ranking.ranked + ranking.excluded <= known, "{ranking:?}");
        assert!(ranking.feasible.is_none_or(|count| count + filled <= known));
        assert!(ranking.named <= ranking.ranked, "{ranking:?}");
        assert_eq!(u128::from(ranking.siblings), number);
    }
}

#[test]
fn instances_whose_host_another_claim_took_between_two_slices_are_no_siblings() {
    let (mut state, mut scheduler) = fleet(&[1, 9, 9]);
    let mut placing = placing(3);
    let slice = TimeSlice::of(Duration::ZERO);
    let found = search(&mut placing, &mut scheduler, &state, &slice);
    assert_eq!(found, SearchResults::Unfinished);
    assert_eq!(placing.selected_count(), 1);
    // Another claim takes the host of the first instance.
    let claim = ConsumerClaim {
        consumer: ConsumerUuid::from_uuid(Uuid::from_u128(7)),
        generation: ConsumerGeneration::Any,
        project: "project".into(),
        user: "user".into(),
        consumer_type: None,
        allocations: vec![AllocationRequest {
            provider: host(0),
            resources: vec![("VCPU".to_owned(), 1)],
        }],
    };
    let command = Command::Claim {
        consumers: vec![claim],
        at: AT,
    };
    execute(&mut state, &command);
    scheduler.observe(&state, AT);
    let slice = TimeSlice::endless();
    let found = search(&mut placing, &mut scheduler, &state, &slice);
    assert_eq!(found, SearchResults::Ready);
    let rankings = rankings(&mut placing);
    let siblings = [1, 2, 0].map(|number| rankings[&instance(number)].siblings);
    assert_eq!(siblings, [0, 1, 2]);
}

#[test]
fn preparing_a_search_takes_none_of_its_time_slice() {
    let (state, mut scheduler) = fleet(&[9, 9, 9]);
    let mut placing = placing(3);
    let slice = TimeSlice::of(Duration::from_millis(200));
    while !slice.is_over() {
        std::hint::spin_loop();
    }
    let found = search(&mut placing, &mut scheduler, &state, &slice);
    assert_eq!(found, SearchResults::Ready);
}
