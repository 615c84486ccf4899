//! Numbers in the metadata of aggregates that override options of the scheduler.

use std::collections::BTreeMap;

use placewright_placement::{Command, Inventory, State, Timestamp, decide};
use placewright_scheduler::aggregate::Aggregate;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::policy::Policy;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use uuid::Uuid;

const AT: Timestamp = Timestamp(1_000_000);
const AGGREGATE: Uuid = Uuid::from_u128(0xa);
const HOSTS: u32 = 3;

fn host(number: u32) -> Uuid {
    Uuid::from_u128(0x100 + u128::from(number))
}

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).unwrap();
    changes.iter().for_each(|change| drop(state.apply(change)));
}

/// Hosts with 1, 2 and 3 GiB, of which the second is in an aggregate.
fn fleet() -> State {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: AT });
    for number in 0..HOSTS {
        let provider = host(number);
        let create = Command::CreateProvider {
            uuid: provider,
            name: format!("host{number}"),
            parent: None,
            at: AT,
        };
        execute(&mut state, &create);
        let memory = i32::try_from(number + 1).unwrap() * 1024;
        let inventories = [("MEMORY_MB", memory), ("VCPU", 8)];
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
    }
    let set_aggregates = Command::SetAggregates {
        provider: host(1),
        generation: None,
        aggregates: vec![AGGREGATE.to_string()],
        at: AT,
    };
    execute(&mut state, &set_aggregates);
    state
}

/// The hosts in the order of the ranking with their scores, and the texts of the warnings. `multiplier` is the text by
/// which the aggregate overrides the multiplier for free memory; with `None` it does not override it.
fn ranked(state: &State, multiplier: Option<&str>) -> (Vec<(u32, f64)>, Vec<String>) {
    let config = SchedulerConfig::default();
    let mut scheduler = Scheduler::new(config.clone(), PrepareOptions::default()).unwrap();
    let metadata = multiplier.map(|text| ("ram_weight_multiplier".to_owned(), text.to_owned()));
    let aggregate = Aggregate {
        name: "big".to_owned(),
        metadata: metadata.into_iter().collect::<BTreeMap<_, _>>(),
    };
    let aggregates = scheduler.hosts_mut().aggregates_mut();
    aggregates.put([(AGGREGATE, aggregate)]);
    for number in 0..HOSTS {
        let mut report = HostReport::default();
        report.facts.names.node = format!("host{number}");
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host(number), AT, &full);
    }
    scheduler.observe(state, AT);
    let request = RequestSpec::new(Flavor {
        vcpus: 1,
        memory_mb: 128,
        ..Flavor::default()
    });
    let prepared = scheduler.prepare(state, &request).unwrap();
    let scope = Scope {
        instance: Uuid::from_u128(1),
        count: 10,
        ..Scope::default()
    };
    let ranked = scheduler.rank(state, &request, &prepared, &scope).unwrap();
    let all = scheduler
        .rank_all(state, &request, &prepared, &scope)
        .unwrap();
    assert_eq!(ranked, all);
    let policy = Policy::new(config).unwrap();
    let warnings = policy.warnings(scheduler.hosts()).into_iter();
    let ranked = ranked.iter().map(|host| (host.slot, host.score));
    (
        ranked.collect(),
        warnings.map(|warning| warning.text).collect(),
    )
}

#[test]
fn a_multiplier_that_is_no_finite_number_does_not_count() {
    let state = fleet();
    let (configured, warnings) = ranked(&state, None);
    assert_eq!(configured.len(), 3);
    assert_eq!(warnings, Vec::<String>::new());
    for text in ["inf", "-inf", "nan", "Infinity", "1e999", "ten", ""] {
        let (overridden, warnings) = ranked(&state, Some(text));
        assert_eq!(overridden, configured, "{text:?}");
        assert_eq!(warnings.len(), 1, "{text:?}: {warnings:?}");
        assert!(
            warnings[0].contains("the configured value counts"),
            "{warnings:?}"
        );
    }
    let (overridden, warnings) = ranked(&state, Some("3.5"));
    assert_ne!(overridden, configured);
    assert_eq!(warnings, Vec::<String>::new());
}
