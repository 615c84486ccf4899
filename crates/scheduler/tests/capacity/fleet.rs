//! Random fleets of flat hosts and trees with traits, zones and racks, and random requests.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::group::Level;
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, State, Timestamp, decide,
};
use placewright_scheduler::aggregate::Aggregate;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::group::{TopologyRelation, TopologyRule};
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::select::rules::hard_topology_rules;
use proptest::prelude::*;
use uuid::Uuid;

pub(crate) const AT: Timestamp = Timestamp(100_000_000);
/// More instances than fit into any fleet of these tests.
pub(crate) const LIMIT: usize = 10_000;
/// So few that each slice counts one block of hosts.
pub(crate) const STEPS_PER_SLICE: usize = 1;
pub(crate) const RACKS: u32 = 3;
const GROUP: Uuid = Uuid::from_u128(0xe1);
/// A trait that a NUMA node may have.
const NODE_TRAIT: &str = "HW_CPU_X86_SGX";

/// A host of a random fleet. Its amounts of memory are in steps of 512 MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) cpus: i32,
    pub(crate) memory_steps: i32,
    /// The number of NUMA nodes that hold the host's CPUs; 0 for a flat host.
    pub(crate) numa_nodes: u32,
    /// How many CPUs more each NUMA node has than the one before it.
    pub(crate) more_cpus: i32,
    /// The memory of each NUMA node, beside that of the host.
    pub(crate) node_memory_steps: i32,
    pub(crate) has_avx: bool,
    /// Whether the first NUMA node has a trait that the others and the host lack.
    pub(crate) has_first_node_trait: bool,
    pub(crate) is_disabled: bool,
    pub(crate) max_unit: Option<i32>,
    /// The step size of the host's memory, and the memory that other instances use: a number of such steps.
    pub(crate) step_size: i32,
    pub(crate) used_memory_steps: i32,
}

pub(crate) fn host() -> impl Strategy<Value = Host> {
    let is_disabled = prop::bool::weighted(0.1);
    let max_unit = prop::option::weighted(0.2, 1..4);
    let numa_nodes = prop::sample::select(vec![0u32, 0, 0, 1, 2, 2, 3]);
    let nodes = (numa_nodes, 0..4, prop::sample::select(vec![0, 0, 1, 2]));
    let traits = (any::<bool>(), prop::bool::weighted(0.3));
    let amounts = (1..7, 0..6, nodes);
    (amounts, traits, is_disabled, max_unit, 1..3, 0..3).prop_map(
        |((cpus, memory_steps, nodes), traits, is_disabled, max_unit, step_size, used)| Host {
            cpus,
            memory_steps,
            numa_nodes: nodes.0,
            more_cpus: nodes.1,
            node_memory_steps: nodes.2,
            has_avx: traits.0,
            has_first_node_trait: traits.1,
            is_disabled,
            max_unit,
            step_size,
            used_memory_steps: used,
        },
    )
}

pub(crate) fn request() -> impl Strategy<Value = RequestSpec> {
    let amounts = (1u32..4, 1u32..3, 0u32..2);
    let specs = (prop::bool::weighted(0.3), 0u8..9);
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
            3 => add(&format!("trait:{NODE_TRAIT}"), "required"),
            4 => {
                // Guest cells on different nodes, and a group that may be served by any of them.
                add("hw:cpu_policy", "dedicated");
                add("hw:numa_nodes", "2");
                add("resources_x:DISK_GB", "3");
                add("group_policy", "none");
                (flavor.vcpus, flavor.memory_mb) = (vcpus * 2, memory * 1024);
            }
            5 => {
                add("resources:VCPU", "0");
                add("resources1:VCPU", "1");
                add("resources1:MEMORY_MB", "512");
                add(&format!("trait1:{NODE_TRAIT}"), "required");
                add("resources2:VCPU", "1");
                add("group_policy", "none");
            }
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

pub(crate) fn execute(state: &mut State, command: &Command) -> bool {
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

pub(crate) fn fleet(hosts: &[Host]) -> State {
    let at = AT;
    let mut state = State::default();
    assert!(execute(&mut state, &Command::SyncStandardNames { at }));
    for (number, host) in (0u32..).zip(hosts) {
        add_host(&mut state, number, host);
    }
    let levels = vec![Level::unnamed(
        "rack",
        (0..RACKS).map(|number| rack(number).to_string()).collect(),
    )];
    let distances = Vec::new();
    assert!(execute(
        &mut state,
        &Command::SetLevels { levels, distances }
    ));
    state
}

fn set_traits(state: &mut State, provider: Uuid, name: Option<&str>) {
    let set_traits = Command::SetTraits {
        provider,
        generation: None,
        traits: name.map(str::to_owned).into_iter().collect(),
        at: AT,
    };
    assert!(execute(state, &set_traits));
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
        let child = Uuid::from_u128(0x90_0000 + u128::from(number * 64 + node));
        let name = format!("numa{number}-{node}");
        assert!(execute(state, &create(child, name, Some(uuid))));
        let mut cpus = cpus;
        cpus.total += host.more_cpus * i32::try_from(node).unwrap();
        let mut inventories = vec![("VCPU".to_owned(), cpus), ("PCPU".to_owned(), cpus)];
        if host.node_memory_steps > 0 {
            let memory = Inventory::new(host.node_memory_steps * 512, 1.0);
            inventories.push(("MEMORY_MB".to_owned(), memory));
        }
        assert!(execute(state, &set(child, inventories)));
        let is_special = host.has_first_node_trait && node == 0;
        set_traits(state, child, is_special.then_some(NODE_TRAIT));
    }
    if host.numa_nodes == 0 {
        inventories.extend(["VCPU", "PCPU"].map(|class| (class.to_owned(), cpus)));
    }
    assert!(execute(state, &set(uuid, inventories)));
    set_traits(state, uuid, host.has_avx.then_some("HW_CPU_X86_AVX"));
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

pub(crate) fn intent(
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

pub(crate) fn claim(intent: Intent) -> Command {
    Command::ClaimFirst {
        intents: vec![intent],
        least: 1,
        at: AT,
    }
}

pub(crate) fn scheduler_of(hosts: &[Host]) -> Scheduler {
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

pub(crate) fn plain_host() -> Host {
    Host {
        cpus: 4,
        memory_steps: 8,
        numa_nodes: 0,
        more_cpus: 0,
        node_memory_steps: 0,
        has_avx: false,
        has_first_node_trait: false,
        is_disabled: false,
        max_unit: None,
        step_size: 1,
        used_memory_steps: 0,
    }
}
