//! The hints `same_host` and `different_host` name instances, and follow them from host to host.

use std::collections::BTreeMap;

use placewright_placement::{Command, Inventory, State, Timestamp, decide};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate, InstanceReport, Load};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use uuid::Uuid;

fn now() -> Timestamp {
    Timestamp::from_seconds(100)
}

fn host(number: u32) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(number))
}

/// Two hosts with 64 processors each.
fn fleet() -> State {
    let mut state = State::default();
    let mut execute = |command: &Command| {
        let mut changes = Vec::new();
        decide(&state, command, &mut changes).unwrap();
        changes.iter().for_each(|change| drop(state.apply(change)));
    };
    execute(&Command::SyncStandardNames { at: now() });
    for number in 0..2 {
        execute(&Command::CreateProvider {
            uuid: host(number),
            name: format!("host{number}"),
            parent: None,
            at: now(),
        });
        execute(&Command::SetInventories {
            provider: host(number),
            generation: None,
            inventories: vec![("VCPU".to_owned(), Inventory::new(64, 1.0))],
            may_reserve_all: true,
            at: now(),
        });
    }
    state
}

fn scheduler() -> Scheduler {
    let mut config = SchedulerConfig::default();
    let names = ["SameHostFilter", "DifferentHostFilter"];
    config.enabled_filters.extend(names.map(str::to_owned));
    let mut scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
    for number in 0..2 {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{number}");
        report.facts.names.node = format!("host{number}");
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host(number), now(), &full);
    }
    scheduler
}

/// The hosts for a request with a hint that names an instance.
fn hosts_for(scheduler: &mut Scheduler, state: &State, hint: &str, instance: Uuid) -> Vec<Uuid> {
    let mut request = RequestSpec::new(Flavor {
        vcpus: 1,
        ..Flavor::default()
    });
    request
        .scheduler_hints
        .insert(hint.to_owned(), vec![instance.to_string()]);
    scheduler.observe(state, now());
    let prepared = scheduler.prepare_cached(state, &request).unwrap();
    let scope = Scope {
        instance: Uuid::from_u128(9),
        count: 4,
        ..Scope::default()
    };
    let ranked = scheduler.rank(state, &request, &prepared, &scope).unwrap();
    let slots = ranked.iter().map(|host| host.slot);
    slots
        .map(|slot| scheduler.hosts().get(slot).unwrap().uuid)
        .collect()
}

#[test]
fn hints_follow_an_instance_that_moves() {
    let state = fleet();
    let mut scheduler = scheduler();
    let instance = Uuid::from_u128(7);
    let came = HostUpdate::InstanceCame(
        Box::new(InstanceReport {
            uuid: instance,
            group: None,
            image_properties: BTreeMap::new(),
        }),
        Load::default(),
    );
    let went = HostUpdate::InstanceWent(instance, Load::default());
    scheduler.hosts_mut().apply(host(0), now(), &came);
    // From the second request on, results are cached by class.
    for _ in 0..3 {
        assert_eq!(
            hosts_for(&mut scheduler, &state, "same_host", instance),
            [host(0)]
        );
        assert_eq!(
            hosts_for(&mut scheduler, &state, "different_host", instance),
            [host(1)]
        );
    }
    scheduler.hosts_mut().apply(host(0), now(), &went);
    scheduler.hosts_mut().apply(host(1), now(), &came);
    for _ in 0..3 {
        assert_eq!(
            hosts_for(&mut scheduler, &state, "same_host", instance),
            [host(1)]
        );
        assert_eq!(
            hosts_for(&mut scheduler, &state, "different_host", instance),
            [host(0)]
        );
    }
}
