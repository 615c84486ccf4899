//! With the fragmentation weigher, requests get the host and the devices that increase fragmentation
//! least.

use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, State, Timestamp, decide,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::hosts::fragmentation::{FreeCapacity, WHOLE_DEVICE};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: u32 = 8;
const DEVICES: u32 = 4;
const CLASS: &str = "CUSTOM_GPU_MILLI";
const AT: Timestamp = Timestamp(1_000_000);

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(number))
}

fn device_uuid(host: u32, device: u32) -> Uuid {
    Uuid::from_u128(0x9000 + u128::from(host * DEVICES + device))
}

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).unwrap();
    changes.iter().for_each(|change| drop(state.apply(change)));
}

fn add_provider(state: &mut State, uuid: Uuid, parent: Option<Uuid>, amounts: &[(&str, i32)]) {
    let name = uuid.to_string();
    let create = Command::CreateProvider {
        uuid,
        name,
        parent,
        at: AT,
    };
    execute(state, &create);
    let inventories = amounts.iter().map(|(class, total)| {
        let inventory = Inventory::new(*total, 1.0);
        ((*class).to_owned(), inventory)
    });
    let set = Command::SetInventories {
        provider: uuid,
        generation: None,
        inventories: inventories.collect(),
        may_reserve_all: true,
        at: AT,
    };
    execute(state, &set);
}

fn state_of_hosts(cpus: &[u8]) -> State {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: AT });
    let name = CLASS.to_owned();
    execute(
        &mut state,
        &Command::CreateClass {
            name,
            exist_ok: true,
            at: AT,
        },
    );
    for (number, cpus) in (0u32..).zip(cpus) {
        let host = host_uuid(number);
        let inventories = [
            ("VCPU", i32::from(cpus % 30) + 2),
            ("MEMORY_MB", 100_000),
            ("DISK_GB", 1_000),
        ];
        add_provider(&mut state, host, None, &inventories);
        for device in 0..number % (DEVICES + 1) {
            let uuid = device_uuid(number, device);
            add_provider(&mut state, uuid, Some(host), &[(CLASS, 1000)]);
        }
    }
    state
}

fn request(cpus: u32, devices: u32, share: u32) -> RequestSpec {
    let mut flavor = Flavor {
        vcpus: cpus,
        memory_mb: 1_000,
        root_gb: 1,
        ..Flavor::default()
    };
    for device in 0..devices {
        let key = format!("resources_GPU{device}:{CLASS}");
        flavor.extra_specs.insert(key, share.to_string());
    }
    flavor
        .extra_specs
        .insert("group_policy".to_owned(), "isolate".to_owned());
    RequestSpec::new(flavor)
}

/// The free CPUs and memory of a host, and the free shares of each of its devices, computed from inventories.
fn free_capacity(state: &State, host: u32) -> (u64, u64, Vec<u32>) {
    let free = |uuid: Uuid, class: &str| {
        let class = state.class_id(class).unwrap();
        let provider = state.provider_by_uuid(uuid).unwrap();
        let mut rows = provider.inventories.iter();
        let row = rows.find(|row| row.class == class).unwrap();
        u64::try_from(row.inventory.capacity() - row.used).unwrap()
    };
    let devices = (0..host % (DEVICES + 1)).map(|device| {
        let free = free(device_uuid(host, device), CLASS);
        u32::try_from(free).unwrap().min(WHOLE_DEVICE)
    });
    let uuid = host_uuid(host);
    (
        free(uuid, "VCPU"),
        free(uuid, "MEMORY_MB"),
        devices.collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn a_request_gets_the_host_whose_fragmentation_grows_least(
        cpus in prop::collection::vec(any::<u8>(), HOSTS as usize),
        sizes in prop::collection::vec((1u32..9, 0u32..3, 1u32..11), 1..40),
    ) {
        let config = SchedulerConfig {
            weight_classes: vec!["FragmentationWeigher".to_owned()],
            fragmentation_weight_multiplier: 1.0,
            ..SchedulerConfig::default()
        };
        let mut state = state_of_hosts(&cpus);
        let mut scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
        for number in 0..HOSTS {
            let mut report = HostReport::default();
            report.facts.names.service_host = format!("host{number}");
            report.facts.names.node = format!("host{number}");
            let full = HostUpdate::Full(Box::new(report));
            scheduler.hosts_mut().apply(host_uuid(number), AT, &full);
        }
        for (number, (cpus, devices, tenths)) in (0u128..).zip(sizes) {
            let request = request(cpus, devices, tenths * WHOLE_DEVICE / 10);
            scheduler.observe(&state, AT);
            let prepared = scheduler.prepare_cached(&state, &request).unwrap();
            let instance = Uuid::from_u128(0xc000 + number);
            let scope = Scope { instance, count: 1, ..Scope::default() };
            let ranked = scheduler.rank(&state, &request, &prepared, &scope).unwrap();
            let data = scheduler.hosts().fragmentation_data().unwrap();
            let (forecast, demand) = (data.loss_cache().forecast(), data.demand(&request));
            let growths = (0..HOSTS).filter_map(|host| {
                let (cpu, memory, devices) = free_capacity(&state, host);
                let free = FreeCapacity { cpu, memory, devices: &devices };
                Some((forecast.choose_devices(&free, &demand)?.growth, host))
            });
            let growths: Vec<(f64, u32)> = growths.collect();
            let minimum = growths.iter().map(|(growth, _)| *growth).fold(f64::INFINITY, f64::min);
            let Some(best) = ranked.first() else {
                prop_assert!(growths.is_empty());
                continue;
            };
            let uuid = scheduler.hosts().get(best.slot).unwrap().uuid;
            let host = u32::try_from(uuid.as_u128() - 0x1000).unwrap();
            let (growth, _) = growths.iter().find(|(_, number)| *number == host).unwrap();
            prop_assert!((growth - minimum).abs() < 1e-6, "{growth} is not {minimum}");
            let (cpu, memory, devices) = free_capacity(&state, host);
            let before = forecast.fragmentation(&FreeCapacity { cpu, memory, devices: &devices });
            let forecast = forecast.clone();
            let candidates = scheduler.candidates(&state, &prepared, best.slot, 1).unwrap();
            let intent = Intent {
                consumer: ConsumerUuid::from_uuid(instance),
                generation: ConsumerGeneration::Is(None),
                project: "p".into(),
                user: "u".into(),
                consumer_type: None,
                group: None,
                rules: Vec::new(),
                candidates,
                alongside: Vec::new(),
            };
            execute(&mut state, &Command::ClaimFirst { intents: vec![intent], least: 1, at: AT });
            // The candidate that was claimed has the host's best devices, too.
            let (cpu, memory, devices) = free_capacity(&state, host);
            let after = forecast.fragmentation(&FreeCapacity { cpu, memory, devices: &devices });
            prop_assert!((after - before - *growth).abs() < 1e-6, "{after} {before} {growth}");
        }
    }
}
