//! The hosts for which the concurrent schedulers of `bench races` compete: of three sizes, in racks, some of them
//! trees, nearly full.

use placewright_control::ControlMachine;
use placewright_engine::Engine;
use placewright_placement::group::{Level, Relation, Rule, RuleScope};
use placewright_placement::{Command, ConsumerGeneration, Inventory, Timestamp};
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use crate::bench::in_process::{
    self, allocation, apply_report, create_provider, report, submit_all,
};
use crate::bench::requests::RandomNumbers;

/// The time of all commands; the benchmark does not depend on the time of day.
pub(super) const FIXED_TIME: Timestamp = Timestamp(1_000_000_000_000);
/// The only level of the topology.
pub(super) const RACK: &str = "rack";
/// The number of server groups of each kind.
pub(super) const GROUPS: u64 = 100;
const HOSTS_PER_RACK: u32 = 20;
const MEMORY_MB_PER_CPU: i32 = 4096;
/// The part of each host's memory, in percent, that belongs to instances which the benchmark ends while it runs. All
/// other allocations stay.
const SHORT_LIVED_PERCENT: u32 = 15;
/// The memory of each instance that exists at the start, in MiB: about the average of those that the schedulers place.
const INSTANCE_MB: u32 = 6144;

/// The seeds of UUIDs, one for each kind of object.
const HOST_SEED: u64 = 1;
const HOST_GROUP_SEED: u64 = 2;
const RACK_GROUP_SEED: u64 = 3;
const RACK_SEED: u64 = 4;
const NUMA_NODE_SEED: u64 = 5;
const PERMANENT_CONSUMER_SEED: u64 = 6;
const INSTANCE_SEED: u64 = 7;
/// The number of NUMA nodes of a host that is a tree.
const NUMA_NODES: u32 = 2;
/// More instances than any host has at the start, so that each has a number of its own.
const INSTANCES_PER_HOST_MAX: u64 = 1000;

/// The UUID of a host.
pub(super) fn host_uuid(number: u32) -> Uuid {
    RandomNumbers::new(HOST_SEED, number.into()).uuid()
}

/// The UUID of a group whose members are on different hosts.
pub(super) fn host_group(number: u64) -> Uuid {
    RandomNumbers::new(HOST_GROUP_SEED, number % GROUPS).uuid()
}

/// The UUID of a group whose members are in different racks.
pub(super) fn rack_group(number: u64) -> Uuid {
    RandomNumbers::new(RACK_GROUP_SEED, number % GROUPS).uuid()
}

/// The UUID of the aggregate of a host's rack.
fn rack_of_host(host_number: u32) -> Uuid {
    RandomNumbers::new(RACK_SEED, (host_number / HOSTS_PER_RACK).into()).uuid()
}

/// Creates a fleet with `full` percent of its memory taken; returns the number of racks.
///
/// # Errors
///
/// The engine refuses a command, which would be a bug of the benchmark.
pub(super) fn build(
    engine: &Engine<ControlMachine>,
    hosts: u32,
    full: u32,
) -> anyhow::Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let submit = |commands: Vec<Command>| runtime.block_on(submit_all(engine, commands));
    let racks: Vec<String> = (0..hosts.div_ceil(HOSTS_PER_RACK))
        .map(|rack| rack_of_host(rack * HOSTS_PER_RACK).to_string())
        .collect();
    let rack_count = racks.len();
    submit(vec![Command::SyncStandardNames { at: FIXED_TIME }])?;
    // Each step needs the results of the step before, so the loop waits for the answers of each.
    for first in (0..hosts).step_by(1000) {
        let host_numbers = first..hosts.min(first + 1000);
        for step in [
            create_root,
            create_numa_nodes,
            set_root_inventories,
            set_numa_node_inventories,
            place_in_rack,
        ] {
            submit(host_numbers.clone().flat_map(step).collect())?;
        }
        let claims = host_numbers.flat_map(|number| claims(number, full));
        submit(claims.collect())?;
    }
    let level = Level::unnamed(RACK, racks);
    let mut commands = vec![Command::SetLevels {
        levels: vec![level],
        distances: Vec::new(),
    }];
    for number in 0..GROUPS {
        for (group, scope) in [
            (host_group(number), RuleScope::Host),
            (rack_group(number), RuleScope::Level(RACK.to_owned())),
        ] {
            let relation = Relation::FewerThan(1);
            let rules = vec![Rule { scope, relation }];
            commands.push(Command::SetGroup { group, rules });
        }
    }
    submit(commands)?;
    Ok(rack_count)
}

/// Reports the hosts to a scheduler.
pub(super) fn report_hosts(scheduler: &mut Scheduler, hosts: u32) {
    for number in 0..hosts {
        let cell = Uuid::from_u128(u128::from(number % 4) + 1);
        let report = report(number.into(), cell);
        apply_report(scheduler, host_uuid(number), report, FIXED_TIME);
    }
}

/// The number of processors of a host.
fn cpus(number: u32) -> i32 {
    [32, 64, 128][number as usize % 3]
}

/// Whether a host is a tree with NUMA nodes.
fn is_tree(number: u32) -> bool {
    number.is_multiple_of(10)
}

fn numa_node_uuid(number: u32, node: u32) -> Uuid {
    let number = u64::from(number) * u64::from(NUMA_NODES) + u64::from(node);
    RandomNumbers::new(NUMA_NODE_SEED, number).uuid()
}

fn create_root(number: u32) -> Vec<Command> {
    let name = format!("host-{number}");
    vec![create_provider(host_uuid(number), name, None, FIXED_TIME)]
}

fn create_numa_nodes(number: u32) -> Vec<Command> {
    let nodes = (0..NUMA_NODES).filter(|_| is_tree(number));
    let create_node = |node| {
        let name = format!("host-{number}-numa-{node}");
        let uuid = numa_node_uuid(number, node);
        create_provider(uuid, name, Some(host_uuid(number)), FIXED_TIME)
    };
    nodes.map(create_node).collect()
}

fn set_root_inventories(number: u32) -> Vec<Command> {
    let cpus = cpus(number);
    let mut root_inventories = vec![
        ("MEMORY_MB", Inventory::new(cpus * MEMORY_MB_PER_CPU, 1.0)),
        ("DISK_GB", Inventory::new(cpus * 40, 1.0)),
    ];
    if !is_tree(number) {
        root_inventories.push(("VCPU", Inventory::new(cpus, 16.0)));
    }
    vec![set_inventories(host_uuid(number), &root_inventories)]
}

fn set_numa_node_inventories(number: u32) -> Vec<Command> {
    let nodes = (0..NUMA_NODES).filter(|_| is_tree(number));
    let cpus = [("VCPU", Inventory::new(cpus(number) / 2, 16.0))];
    nodes
        .map(|node| set_inventories(numa_node_uuid(number, node), &cpus))
        .collect()
}

fn place_in_rack(number: u32) -> Vec<Command> {
    vec![Command::SetAggregates {
        provider: host_uuid(number),
        generation: None,
        aggregates: vec![rack_of_host(number).to_string()],
        at: FIXED_TIME,
    }]
}

/// Claims on host `number`: one of a consumer that stays, and those of some instances that the benchmark ends while it
/// runs. Together they take about `full` percent of the host's memory.
fn claims(number: u32, full: u32) -> Vec<Command> {
    let memory_mb = u32::try_from(cpus(number) * MEMORY_MB_PER_CPU).unwrap_or(0);
    let short_lived_percent = SHORT_LIVED_PERCENT.min(full);
    // The allocated part differs between hosts by up to 2 % in either direction.
    let full_permille = full * 10 - 20 + number % 41;
    let count = (memory_mb / 100 * short_lived_percent / INSTANCE_MB).max(1);
    let permanent_mb = (memory_mb / 1000 * full_permille).saturating_sub(count * INSTANCE_MB);
    let mut claims = vec![claim(
        number,
        RandomNumbers::new(PERMANENT_CONSUMER_SEED, number.into()).uuid(),
        permanent_mb.min(memory_mb),
    )];
    for instance in 0..count {
        let instance_number = u64::from(number) * INSTANCES_PER_HOST_MAX + u64::from(instance);
        let consumer = RandomNumbers::new(INSTANCE_SEED, instance_number).uuid();
        claims.push(claim(number, consumer, INSTANCE_MB));
    }
    claims
}

/// Whether an amount of memory is that of an instance, and not of a consumer that stays. The instances that the
/// schedulers place have less than 10 GiB; a consumer that stays has far more.
pub(super) fn is_instance_size(memory_mb: u32) -> bool {
    memory_mb <= INSTANCE_MB * 2
}

fn claim(number: u32, consumer: Uuid, memory_mb: u32) -> Command {
    let memory = [("MEMORY_MB", i64::from(memory_mb.max(1)))];
    let allocations = vec![allocation(host_uuid(number), memory)];
    let consumer = (consumer, ConsumerGeneration::Is(None));
    in_process::claim(consumer, "races", allocations, FIXED_TIME)
}

fn set_inventories(provider: Uuid, inventories: &[(&str, Inventory)]) -> Command {
    in_process::set_inventories(provider, inventories.iter().copied(), FIXED_TIME)
}
