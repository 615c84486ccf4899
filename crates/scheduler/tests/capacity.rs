//! The counted number of instances that still fit equals the number that can be booted one by one until one fails, for
//! random fleets of flat hosts and trees with traits, zones and racks, and for random requests.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::group::Level;
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, ProviderId, State, Timestamp,
    decide,
};
use placewright_scheduler::aggregate::Aggregate;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate, InstanceReport};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::group::{TopologyRelation, TopologyRule};
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::capacity::{Capacity, CapacityCount, LimitingFactor};
use placewright_scheduler::select::rules::{hard_group_rules, hard_topology_rules};
use placewright_scheduler::select::{Scheduler, Scope};
use proptest::prelude::*;
use uuid::Uuid;

const AT: Timestamp = Timestamp(100_000_000);
/// More instances than fit into any fleet of these tests.
const LIMIT: usize = 10_000;
const RACKS: u32 = 3;
const GROUP: Uuid = Uuid::from_u128(0xe1);

/// A host of a random fleet.
#[derive(Clone, Debug)]
struct Host {
    cpus: i32,
    memory_steps: i32,
    /// The number of NUMA nodes that hold the host's CPUs; 0 for a flat host.
    numa_nodes: u32,
    has_avx: bool,
    is_disabled: bool,
    max_unit: Option<i32>,
    step_size: i32,
    used_memory_steps: i32,
}

fn host() -> impl Strategy<Value = Host> {
    let is_disabled = prop::bool::weighted(0.1);
    let max_unit = prop::option::weighted(0.2, 1..4);
    let amounts = (1..7, 0..6, prop::sample::select(vec![0u32, 0, 0, 1, 2]));
    (amounts, any::<bool>(), is_disabled, max_unit, 1..3, 0..3).prop_map(
        |((cpus, memory_steps, numa_nodes), has_avx, is_disabled, max_unit, step_size, used)| {
            Host {
                cpus,
                memory_steps,
                numa_nodes,
                has_avx,
                is_disabled,
                max_unit,
                step_size,
                used_memory_steps: used,
            }
        },
    )
}

fn request() -> impl Strategy<Value = RequestSpec> {
    let amounts = (1u32..4, 1u32..3, 0u32..2);
    let specs = (prop::bool::weighted(0.3), 0u8..5);
    let zone = prop::option::weighted(0.3, prop::sample::select(vec!["zone0", "zone1", "nova"]));
    (amounts, specs, zone, 0u8..8).prop_map(|((vcpus, memory, disk), (avx, kind), zone, rule)| {
        let mut flavor = Flavor {
            vcpus,
            memory_mb: memory * 512,
            root_gb: disk * 5,
            ..Flavor::default()
        };
        let mut add = |key: &str, value: &str| {
            flavor.extra_specs.insert(key.into(), value.into());
        };
        if avx {
            add("trait:HW_CPU_X86_AVX", "required");
        }
        match kind {
            0 | 1 => {
                add("resources:VCPU", "0");
                add("resources1:VCPU", "1");
                add("resources2:VCPU", "2");
                add("group_policy", if kind == 0 { "isolate" } else { "none" });
            }
            2 => add("capabilities:free_ram_mb", ">= 1200"),
            _ => {}
        }
        let mut request = RequestSpec::new(flavor);
        request.availability_zone = zone.map(str::to_owned);
        match rule {
            0 => {
                request.instance_group = Some(ServerGroup {
                    uuid: GROUP,
                    policy: Some(GroupPolicy::AntiAffinity),
                    max_server_per_host: Some(2),
                    members: BTreeSet::new(),
                    hosts: BTreeSet::new(),
                    topology_rules: Vec::new(),
                });
            }
            1 => {
                let rule = TopologyRule::hard("rack", TopologyRelation::Spread);
                request.topology_rules = vec![rule];
            }
            _ => {}
        }
        request
    })
}

fn execute(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let accepted = decide(state, command, &mut changes).is_ok();
    if accepted {
        changes.iter().for_each(|change| drop(state.apply(change)));
    }
    accepted
}

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(number))
}

fn rack(number: u32) -> Uuid {
    Uuid::from_u128(0xacc0 + u128::from(number))
}

fn zone(number: u32) -> Uuid {
    Uuid::from_u128(0xa0e0 + u128::from(number))
}

/// The rack and the zone of a host. Hosts 0, 3, 6, … are in the first rack, hosts 1, 4, 7, … in the second, and so on.
/// Of each five hosts two are in the first zone, two in the second, and one in none.
fn aggregates_of(number: u32) -> Vec<String> {
    let mut aggregates = vec![rack(number % RACKS).to_string()];
    if number % 5 < 4 {
        aggregates.push(zone(number % 2).to_string());
    }
    aggregates
}

fn fleet(hosts: &[Host]) -> State {
    let at = AT;
    let mut state = State::default();
    assert!(execute(&mut state, &Command::SyncStandardNames { at }));
    for (number, host) in (0u32..).zip(hosts) {
        add_host(&mut state, number, host);
    }
    let levels = vec![Level {
        name: "rack".into(),
        aggregates: (0..RACKS).map(|number| rack(number).to_string()).collect(),
    }];
    let distances = Vec::new();
    assert!(execute(
        &mut state,
        &Command::SetLevels { levels, distances }
    ));
    state
}

fn add_host(state: &mut State, number: u32, host: &Host) {
    let (at, uuid) = (AT, host_uuid(number));
    let create = |uuid, name: String, parent| Command::CreateProvider {
        uuid,
        name,
        parent,
        at,
    };
    let set = |provider, inventories| Command::SetInventories {
        provider,
        generation: None,
        inventories,
        may_reserve_all: true,
        at,
    };
    assert!(execute(state, &create(uuid, format!("host{number}"), None)));
    let mut cpus = Inventory::new(host.cpus, 2.0);
    cpus.max_unit = host.max_unit.unwrap_or(host.cpus);
    let mut memory = Inventory::new(host.memory_steps * 512 + 1, 1.0);
    memory.step_size = host.step_size * 512;
    let mut inventories = vec![
        ("MEMORY_MB".to_owned(), memory),
        ("DISK_GB".to_owned(), Inventory::new(40, 1.0)),
    ];
    for node in 0..host.numa_nodes {
        let child = Uuid::from_u128(0x9000 + u128::from(number * 2 + node));
        let name = format!("numa{number}-{node}");
        assert!(execute(state, &create(child, name, Some(uuid))));
        let inventories = vec![("VCPU".to_owned(), cpus)];
        assert!(execute(state, &set(child, inventories)));
    }
    if host.numa_nodes == 0 {
        inventories.push(("VCPU".to_owned(), cpus));
    }
    assert!(execute(state, &set(uuid, inventories)));
    let traits = host.has_avx.then(|| "HW_CPU_X86_AVX".to_owned());
    let set_traits = Command::SetTraits {
        provider: uuid,
        generation: None,
        traits: traits.into_iter().collect(),
        at,
    };
    assert!(execute(state, &set_traits));
    let set_aggregates = Command::SetAggregates {
        provider: uuid,
        generation: None,
        aggregates: aggregates_of(number),
        at,
    };
    assert!(execute(state, &set_aggregates));
    // The memory that other instances use. A claim that does not fit is refused, and the host stays empty.
    let amount = i64::from(host.used_memory_steps * host.step_size * 512);
    if amount > 0 {
        let candidate = placewright_placement::IntentCandidate {
            host: uuid,
            allocations: vec![placewright_placement::AllocationRequest {
                provider: uuid,
                resources: vec![("MEMORY_MB".to_owned(), amount)],
            }]
            .into(),
        };
        let consumer = Uuid::from_u128(0xc0_0000 + u128::from(number));
        let intent = intent(consumer, vec![candidate], &RequestSpec::default());
        execute(state, &claim(intent));
    }
}

fn intent(
    consumer: Uuid,
    candidates: Vec<placewright_placement::IntentCandidate>,
    request: &RequestSpec,
) -> Intent {
    Intent {
        consumer: ConsumerUuid::from_uuid(consumer),
        generation: ConsumerGeneration::Is(None),
        project: "p".into(),
        user: "u".into(),
        consumer_type: None,
        group: request.instance_group.as_ref().map(|group| group.uuid),
        rules: hard_topology_rules(request).collect(),
        candidates,
        alongside: Vec::new(),
    }
}

fn claim(intent: Intent) -> Command {
    Command::ClaimFirst {
        intents: vec![intent],
        least: 1,
        at: AT,
    }
}

fn scheduler_of(hosts: &[Host]) -> Scheduler {
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    for (number, host) in (0u32..).zip(hosts) {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{number}");
        report.facts.names.node = format!("host{number}");
        report.facts.names.cell = Uuid::from_u128(u128::from(number % 2) + 1);
        let full = HostUpdate::Full(Box::new(report));
        let uuid = host_uuid(number);
        scheduler.hosts_mut().apply(uuid, AT, &full);
        if host.is_disabled {
            let disabled = HostUpdate::Disabled(Some("broken".to_owned()));
            scheduler.hosts_mut().apply(uuid, AT, &disabled);
        }
    }
    let zones = (0..2).map(|number| {
        let name = format!("zone{number}");
        let metadata = BTreeMap::from([("availability_zone".to_owned(), name.clone())]);
        (zone(number), Aggregate { name, metadata })
    });
    let racks = (0..RACKS).map(|number| {
        let aggregate = Aggregate {
            name: format!("r{number}"),
            metadata: BTreeMap::new(),
        };
        (rack(number), aggregate)
    });
    scheduler
        .hosts_mut()
        .aggregates_mut()
        .put(zones.chain(racks));
    scheduler
}

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
    match scheduler
        .begin_capacity(state, request, &prepared, None, LIMIT)
        .unwrap()
    {
        CapacityCount::Complete(capacity) => capacity,
        CapacityCount::Unfinished(rest) => rest.finish(LIMIT, AT).unwrap(),
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

fn plain_host() -> Host {
    Host {
        cpus: 4,
        memory_steps: 8,
        numa_nodes: 0,
        has_avx: false,
        is_disabled: false,
        max_unit: None,
        step_size: 1,
        used_memory_steps: 0,
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

#[test]
fn flat_hosts_are_counted_without_a_copy_of_the_state() {
    let hosts = [plain_host(), plain_host()];
    let state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    scheduler.observe(&state, AT);
    let request = RequestSpec::new(Flavor {
        vcpus: 2,
        memory_mb: 512,
        ..Flavor::default()
    });
    let prepared = scheduler.prepare_cached(&state, &request).unwrap();
    let count = scheduler.begin_capacity(&state, &request, &prepared, None, LIMIT);
    let CapacityCount::Complete(capacity) = count.unwrap() else {
        panic!("nothing about the request can have an effect on other hosts");
    };
    assert_eq!((capacity.count, capacity.host_count), (8, 2));
}
