//! The hosts and the request that several experiments share.
//!
//! Each host has room for [`INSTANCES_PER_HOST`] instances of one size. A fleet is filled in one of three ways:
//!
//! - Empty. In the experiment with schedulers that share their state, this is the fleet of three hosts.
//! - Nearly full: one host in ten has one place left and the others have none, so that schedulers race for the same
//!   places. In that experiment, these are the larger fleets.
//! - Mostly full: one host in five has room, from one place to all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_control::{ControlMachine, now};
use placewright_engine::Engine;
use placewright_placement::{Command, ConsumerGeneration, ConsumerUuid, Inventory, Timestamp};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use serde::Deserialize;
use uuid::Uuid;

use crate::bench::in_process::{
    allocation, apply_report, claim, create_provider, new_scheduler, report, set_inventories,
    submit_all,
};
use crate::bench::requests::RandomNumbers;

/// The instances for which a host has room.
pub(super) const INSTANCES_PER_HOST: i32 = 11;
/// In the experiment with schedulers that share their state, a fleet of at most this many hosts is empty at the start;
/// a larger one is nearly full.
const EMPTY_HOSTS_MAX: u32 = 3;
/// Of a fleet that is nearly full, one host in this many has a place left.
const HOSTS_PER_PLACE: u32 = 10;
/// Of a fleet that is mostly full, one host in this many has room.
const HOSTS_PER_HOST_WITH_ROOM: u32 = 5;
/// The amounts that an instance requests.
const VCPUS: u32 = 1;
const MEMORY_MB: u32 = 2048;
const DISK_GB: u32 = 10;
/// Longer than any experiment, so that hosts never count as down although they report only once.
const SERVICE_DOWN_S: u32 = 86_400;
/// The commands that are under way together while a fleet is loaded.
const COMMANDS_AT_ONCE: usize = 2_000;

/// The seeds of the random numbers in UUIDs, one for each kind of object.
const HOST_SEED: u64 = 21;
const FILLING_SEED: u64 = 22;

/// How full the hosts are at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Filling {
    /// Nearly full; a fleet of at most [`EMPTY_HOSTS_MAX`] hosts is empty instead.
    #[serde(rename = "nearly full")]
    NearlyFull,
    #[serde(rename = "empty")]
    Empty,
}

impl Filling {
    /// How many places of a host are taken at the start.
    pub(super) fn instances_at_start(self, hosts: u32, number: u32) -> i32 {
        match self {
            Self::NearlyFull => instances_at_start(hosts, number),
            Self::Empty => 0,
        }
    }
}

/// The UUID of a host.
pub(super) fn host_uuid(number: u32) -> Uuid {
    RandomNumbers::new(HOST_SEED, number.into()).uuid()
}

/// How many places of a host are taken at the start of the experiment with schedulers that share their state.
pub(super) fn instances_at_start(hosts: u32, number: u32) -> i32 {
    if hosts <= EMPTY_HOSTS_MAX {
        0
    } else {
        INSTANCES_PER_HOST - i32::from(number.is_multiple_of(HOSTS_PER_PLACE))
    }
}

/// The request for one instance.
pub(super) fn request() -> Arc<RequestSpec> {
    let flavor = Flavor {
        vcpus: VCPUS,
        memory_mb: MEMORY_MB,
        root_gb: DISK_GB,
        ..Flavor::default()
    };
    Arc::new(RequestSpec::new(flavor))
}

/// A scheduler that knows the hosts by their reports.
///
/// # Errors
///
/// The configuration is not valid, which would be a bug.
pub(super) fn scheduler(hosts: u32, config: SchedulerConfig) -> anyhow::Result<Scheduler> {
    let config = SchedulerConfig {
        service_down_time_s: SERVICE_DOWN_S,
        ..config
    };
    let mut scheduler = new_scheduler(config)?;
    let (cell, at) = (Uuid::from_u128(1), now());
    for number in 0..hosts {
        let report = report(number.into(), cell);
        apply_report(&mut scheduler, host_uuid(number), report, at);
    }
    Ok(scheduler)
}

/// The commands that create a host without the instances on it. The first has to be carried out before the second.
pub(super) fn creation(number: u32, at: Timestamp) -> [Command; 2] {
    let inventory = |per_instance: u32| {
        let per_instance = i32::try_from(per_instance).unwrap_or(i32::MAX);
        Inventory::new(per_instance.saturating_mul(INSTANCES_PER_HOST), 1.0)
    };
    let create = create_provider(host_uuid(number), format!("host-{number}"), None, at);
    let inventories = amounts().map(|(class, amount)| (class, inventory(amount)));
    let set = set_inventories(host_uuid(number), inventories, at);
    [create, set]
}

/// The command after which exactly `places` places of a host are taken. One consumer, which stands for all instances on
/// the host, takes them.
pub(super) fn take_places(number: u32, places: i32, at: Timestamp) -> Command {
    let consumer = RandomNumbers::new(FILLING_SEED, number.into()).uuid();
    if places <= 0 {
        let consumer = ConsumerUuid::from_uuid(consumer);
        return Command::Release { consumer };
    }
    let taken = amounts().map(|(class, amount)| (class, i64::from(amount) * i64::from(places)));
    let allocations = vec![allocation(host_uuid(number), taken)];
    claim(
        (consumer, ConsumerGeneration::Any),
        "seeds",
        allocations,
        at,
    )
}

/// The amounts that an instance requests, by resource class.
fn amounts() -> [(&'static str, u32); 3] {
    [
        ("VCPU", VCPUS),
        ("MEMORY_MB", MEMORY_MB),
        ("DISK_GB", DISK_GB),
    ]
}

/// How many places of a host are taken in a fleet that is mostly full: four hosts of five have no room, and the numbers
/// of free places differ among the others.
pub(super) fn mostly_full(number: u32) -> i32 {
    if !number.is_multiple_of(HOSTS_PER_HOST_WITH_ROOM) {
        return INSTANCES_PER_HOST;
    }
    // The remainder keeps the product below within an `i32`.
    let number = number / HOSTS_PER_HOST_WITH_ROOM % 1_000;
    // The factor and the number of places are coprime, so consecutive hosts with room have different numbers.
    i32::try_from(number).unwrap_or(0) * 7 % INSTANCES_PER_HOST
}

/// Loads a fleet into an engine, with this number of places taken of each host.
///
/// # Errors
///
/// The engine refuses a command, which would be a bug of the benchmark, or its store fails.
pub(super) async fn load_with(
    engine: &Engine<ControlMachine>,
    hosts: u32,
    instances_at_start: impl Fn(u32) -> i32,
) -> anyhow::Result<()> {
    let at = now();
    submit_all(engine, [Command::SyncStandardNames { at }]).await?;
    let numbers: Vec<u32> = (0..hosts).collect();
    for numbers in numbers.chunks(COMMANDS_AT_ONCE) {
        let creations: Vec<_> = numbers.iter().map(|number| creation(*number, at)).collect();
        let (mut create_commands, mut inventory_commands) = (Vec::new(), Vec::new());
        for [create, set] in creations {
            create_commands.push(create);
            inventory_commands.push(set);
        }
        submit_all(engine, create_commands).await?;
        submit_all(engine, inventory_commands).await?;
        let taken = numbers
            .iter()
            .map(|number| (*number, instances_at_start(*number)));
        let fillings = taken.filter(|(_, places)| *places > 0);
        let fillings = fillings.map(|(number, places)| take_places(number, places, at));
        submit_all(engine, fillings).await?;
    }
    Ok(())
}

/// The numbers of the hosts by their UUIDs.
pub(super) fn numbers_by_uuid(hosts: u32) -> BTreeMap<Uuid, u32> {
    (0..hosts)
        .map(|number| (host_uuid(number), number))
        .collect()
}
