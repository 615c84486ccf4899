//! The counted number of instances that still fit equals the number that can be booted one by one until one fails, for
//! random fleets of flat hosts and trees with traits, zones and racks, and for random requests.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod fleet;
mod slices;

use std::collections::BTreeMap;

use placewright_placement::{Command, ProviderId, State};
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::InstanceReport;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::capacity::{
    Capacity, CapacityCount, CountSlice, LimitingFactor,
};
use placewright_scheduler::select::rules::hard_group_rules;
use placewright_scheduler::select::{Scheduler, Scope};
use proptest::prelude::*;
use uuid::Uuid;

use fleet::{
    AT, Host, LIMIT, RACKS, STEPS_PER_SLICE, claim, execute, fleet, host, intent, plain_host,
    request, scheduler_of,
};

/// Boots instances until one finds no host; returns how many instances each host got. Every host is weighed, and all
/// candidates of each host are tried.
fn boot_until_it_fails(
    state: &mut State,
    scheduler: &mut Scheduler,
    request: &RequestSpec,
) -> BTreeMap<u32, u64> {
    let mut request = request.clone();
    if let Some(group) = &request.instance_group {
        let (group, rules) = (group.uuid, hard_group_rules(group));
        assert!(execute(state, &Command::SetGroup { group, rules }));
    }
    let mut booted = BTreeMap::new();
    for number in 0.. {
        let instance = Uuid::from_u128(0xb000_0000 + number);
        scheduler.observe(state, AT);
        let prepared = scheduler.prepare(state, &request).unwrap();
        let scope = Scope {
            instance,
            count: 100,
            ..Scope::default()
        };
        let ranked = scheduler
            .rank_all(state, &request, &prepared, &scope)
            .unwrap();
        let chosen = ranked.iter().find(|host| {
            let candidates = scheduler.candidates(state, &prepared, host.slot, 100);
            execute(
                state,
                &claim(intent(instance, candidates.unwrap(), &request)),
            )
        });
        let Some(host) = chosen else {
            return booted;
        };
        *booted.entry(host.slot).or_default() += 1;
        let report = InstanceReport {
            uuid: instance,
            group: request.instance_group.as_ref().map(|group| group.uuid),
            image_properties: BTreeMap::new(),
        };
        let slot = host.slot;
        scheduler.hosts_mut().add_pending_instance(slot, &report);
        if !request.topology_rules.is_empty() {
            request.siblings.insert(instance);
        }
    }
    booted
}

fn count(scheduler: &mut Scheduler, state: &State, request: &RequestSpec) -> Capacity {
    scheduler.observe(state, AT);
    let prepared = scheduler.prepare_cached(state, request).unwrap();
    let mut count = CapacityCount::new(request.clone(), prepared, None);
    loop {
        match count.run_slice(scheduler, state, STEPS_PER_SLICE).unwrap() {
            CountSlice::Unfinished => {}
            CountSlice::Complete(capacity) => return capacity,
            CountSlice::NeedsSimulation => {
                let simulation = count.simulation(scheduler, state, LIMIT);
                return simulation.run(AT).unwrap();
            }
            CountSlice::GivenUp => panic!("names and the topology stay"),
        }
    }
}

/// The numbers of booted instances by zone and by rack.
fn sums(state: &State, booted: &BTreeMap<u32, u64>) -> [BTreeMap<String, u64>; 2] {
    let mut sums = [BTreeMap::new(), BTreeMap::new()];
    for (slot, count) in booted {
        let uuid = state.provider(ProviderId(*slot)).unwrap().uuid;
        let number = u32::try_from(uuid.as_u128() - 0x1000).unwrap();
        let zone = match number % 5 {
            4 => "nova".to_owned(),
            _ => format!("zone{}", number % 2),
        };
        let rack = format!("r{}", number % RACKS);
        for (sums, key) in sums.iter_mut().zip([zone, rack]) {
            *sums.entry(key).or_default() += count;
        }
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn the_count_is_what_booting_until_it_fails_gives(
        hosts in prop::collection::vec(host(), 1..9),
        request in request(),
    ) {
        let mut state = fleet(&hosts);
        let mut scheduler = scheduler_of(&hosts);
        let capacity = count(&mut scheduler, &state, &request);
        let simulated = {
            let prepared = scheduler.prepare(&state, &request).unwrap();
            let fork = scheduler.fork();
            fork.capacity(state.clone(), &request, &prepared, LIMIT, AT).unwrap()
        };
        let booted = boot_until_it_fails(&mut state, &mut scheduler, &request);
        prop_assert_eq!(capacity.count, booted.values().sum::<u64>());
        prop_assert!(!capacity.has_more);
        // Each host has one first obstacle to the next instance.
        prop_assert_eq!(capacity.limiting_factors.values().sum::<usize>(), hosts.len());
        prop_assert_eq!(simulated.limiting_factors.values().sum::<usize>(), hosts.len());
        prop_assert_eq!(simulated.count, capacity.count);
        prop_assert_eq!(capacity.by_cell.values().sum::<u64>(), capacity.count);
        if !request.topology_rules.is_empty() {
            // Which hosts of a rack are used depends on the ranking, which may order equal hosts in any way.
            return Ok(());
        }
        prop_assert_eq!(capacity.host_count, booted.len());
        let [by_zone, by_rack] = sums(&state, &booted);
        prop_assert_eq!(&capacity.by_zone, &by_zone);
        let racks = capacity.by_level.first().unwrap();
        let racks: BTreeMap<String, u64> = racks.places.iter().map(|place| (place.name.clone(), place.count)).collect();
        prop_assert_eq!(racks, by_rack);
        prop_assert_eq!(&simulated.by_zone, &capacity.by_zone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn the_first_obstacles_on_trees_are_those_after_all_claims(
        hosts in prop::collection::vec(host(), 1..6),
        request in request(),
    ) {
        // If a flat host lacks several classes, the count and the simulation may name different ones of them.
        let hosts: Vec<Host> = hosts
            .into_iter()
            .map(|host| Host { numa_nodes: host.numa_nodes.max(1), ..host })
            .collect();
        let state = fleet(&hosts);
        let mut scheduler = scheduler_of(&hosts);
        let capacity = count(&mut scheduler, &state, &request);
        let prepared = scheduler.prepare(&state, &request).unwrap();
        let simulated = scheduler.fork().capacity(state, &request, &prepared, LIMIT, AT).unwrap();
        // Which hosts of a rack are used depends on the ranking, which may order equal hosts in any way.
        if request.topology_rules.is_empty() {
            prop_assert_eq!(&capacity, &simulated);
        }
    }
}

#[test]
fn what_stops_the_next_instance_is_named() {
    let disabled = Host {
        is_disabled: true,
        ..plain_host()
    };
    let tree = Host {
        cpus: 3,
        numa_nodes: 2,
        ..plain_host()
    };
    let full = Host {
        memory_steps: 0,
        ..plain_host()
    };
    let hosts = [plain_host(), disabled, tree, full];
    let state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    scheduler.observe(&state, AT);
    let mut request = RequestSpec::new(Flavor {
        vcpus: 2,
        memory_mb: 512,
        ..Flavor::default()
    });
    let capacity = count(&mut scheduler, &state, &request);
    // Each host has memory for 8 instances. The flat host has CPUs for 4, and each of the two nodes of the tree for 3.
    assert_eq!(capacity.count, 10);
    let class = |name: &str| LimitingFactor::ResourceClass(name.to_owned());
    let mut expected = BTreeMap::from([
        (LimitingFactor::Filter("ComputeFilter".to_owned()), 1),
        (class("MEMORY_MB"), 1),
        (class("VCPU"), 2),
    ]);
    assert_eq!(capacity.limiting_factors, expected);
    let specs = &mut request.flavor.extra_specs;
    specs.insert("trait:HW_CPU_X86_AVX".into(), "required".into());
    let capacity = count(&mut scheduler, &state, &request);
    assert_eq!(capacity.count, 0);
    expected.remove(&class("MEMORY_MB"));
    expected.remove(&class("VCPU"));
    let avx = LimitingFactor::Constraint("required=HW_CPU_X86_AVX".to_owned());
    expected.insert(avx, 3);
    assert_eq!(capacity.limiting_factors, expected);
}
