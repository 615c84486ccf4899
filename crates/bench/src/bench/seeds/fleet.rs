//! The hosts and the request that the first experiments share.
//!
//! Each host has room for [`PLACES`] instances of one size. Three hosts are empty, as in the published experiment. Of a
//! larger fleet one host in ten has one place left and the others have none, so that schedulers race for the same places.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_control::{ControlMachine, now, submit_placement};
use placewright_engine::Engine;
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory,
    Timestamp,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use crate::bench::requests::RandomNumbers;

/// The instances for which a host has room.
pub(super) const PLACES: i32 = 11;
/// A fleet of this size is empty at the start; a larger one is nearly full.
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

/// The seeds of UUIDs, one for each kind of object.
const HOST_SEED: u64 = 21;
const FILLING_SEED: u64 = 22;

/// The UUID of a host.
pub(super) fn host(number: u32) -> Uuid {
    RandomNumbers::new(HOST_SEED, number.into()).uuid()
}

/// How many places of a host are taken at the start.
pub(super) fn places_taken(hosts: u32, number: u32) -> i32 {
    if hosts <= EMPTY_HOSTS_MAX {
        0
    } else {
        PLACES - i32::from(number.is_multiple_of(HOSTS_PER_PLACE))
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
    let mut scheduler = Scheduler::new(config, PrepareOptions::default())
        .map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
    let at = now();
    for number in 0..hosts {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host-{number}");
        report.facts.names.node = format!("node-{number}");
        report.facts.names.cell = Uuid::from_u128(1);
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host(number), at, &full);
    }
    Ok(scheduler)
}

/// The commands that create a host without the instances on it, in their order.
pub(super) fn creation(number: u32, at: Timestamp) -> [Command; 2] {
    let inventory = |per_instance: u32| {
        let per_instance = i32::try_from(per_instance).unwrap_or(i32::MAX);
        Inventory::new(per_instance.saturating_mul(PLACES), 1.0)
    };
    let create = Command::CreateProvider {
        uuid: host(number),
        name: format!("host-{number}"),
        parent: None,
        at,
    };
    let set = Command::SetInventories {
        provider: host(number),
        generation: None,
        inventories: vec![
            ("VCPU".to_owned(), inventory(VCPUS)),
            ("MEMORY_MB".to_owned(), inventory(MEMORY_MB)),
            ("DISK_GB".to_owned(), inventory(DISK_GB)),
        ],
        may_reserve_all: true,
        at,
    };
    [create, set]
}

/// The command after which exactly so many places of a host are taken, by one consumer that stands for all instances.
pub(super) fn take_places(number: u32, places: i32, at: Timestamp) -> Command {
    let consumer = RandomNumbers::new(FILLING_SEED, number.into()).uuid();
    let consumer = ConsumerUuid::from_uuid(consumer);
    if places <= 0 {
        return Command::Release { consumer };
    }
    let amount = |per_instance: u32| i64::from(per_instance) * i64::from(places);
    let allocation = AllocationRequest {
        provider: host(number),
        resources: vec![
            ("VCPU".to_owned(), amount(VCPUS)),
            ("MEMORY_MB".to_owned(), amount(MEMORY_MB)),
            ("DISK_GB".to_owned(), amount(DISK_GB)),
        ],
    };
    Command::Claim {
        consumers: vec![ConsumerClaim {
            consumer,
            generation: ConsumerGeneration::Any,
            project: "seeds".to_owned(),
            user: "seeds".to_owned(),
            consumer_type: None,
            allocations: vec![allocation],
        }],
        at,
    }
}

/// Loads the fleet into an engine.
///
/// # Errors
///
/// The engine refuses a command, which would be a bug of the benchmark, or its store fails.
pub(super) async fn load(engine: &Engine<ControlMachine>, hosts: u32) -> anyhow::Result<()> {
    load_with(engine, hosts, |number| places_taken(hosts, number)).await
}

/// The places of a host that are taken in a fleet in which four hosts of five are full, and the others each to another
/// degree.
pub(super) fn mostly_full(number: u32) -> i32 {
    if !number.is_multiple_of(HOSTS_PER_HOST_WITH_ROOM) {
        return PLACES;
    }
    let number = number / HOSTS_PER_HOST_WITH_ROOM % 1_000;
    // The factor has no divisor in common with the places, so neighbours differ.
    i32::try_from(number).unwrap_or(0) * 7 % PLACES
}

/// As [`load`], with another number of places taken of each host.
///
/// # Errors
///
/// As [`load`].
pub(super) async fn load_with(
    engine: &Engine<ControlMachine>,
    hosts: u32,
    places_taken: impl Fn(u32) -> i32,
) -> anyhow::Result<()> {
    let at = now();
    submit_all(engine, vec![Command::SyncStandardNames { at }]).await?;
    let numbers: Vec<u32> = (0..hosts).collect();
    for numbers in numbers.chunks(COMMANDS_AT_ONCE) {
        let creations: Vec<_> = numbers.iter().map(|number| creation(*number, at)).collect();
        let (mut creates, mut sets) = (Vec::new(), Vec::new());
        for [create, set] in creations {
            creates.push(create);
            sets.push(set);
        }
        submit_all(engine, creates).await?;
        submit_all(engine, sets).await?;
        let taken = numbers
            .iter()
            .map(|number| (*number, places_taken(*number)));
        let fillings = taken.filter(|(_, places)| *places > 0);
        let fillings = fillings.map(|(number, places)| take_places(number, places, at));
        submit_all(engine, fillings.collect()).await?;
    }
    Ok(())
}

/// Submits commands that do not depend on each other.
///
/// # Errors
///
/// As [`load`].
pub(super) async fn submit_all(
    engine: &Engine<ControlMachine>,
    commands: Vec<Command>,
) -> anyhow::Result<()> {
    let answers: Vec<_> = commands
        .into_iter()
        .map(|command| submit_placement(engine, command))
        .collect();
    for answer in answers {
        let decided = answer.await?;
        decided.map_err(|refusal| anyhow::anyhow!("refused: {refusal}"))?;
    }
    Ok(())
}

/// The numbers of the hosts by their UUIDs.
pub(super) fn numbers_by_uuid(hosts: u32) -> BTreeMap<Uuid, u32> {
    (0..hosts).map(|number| (host(number), number)).collect()
}
