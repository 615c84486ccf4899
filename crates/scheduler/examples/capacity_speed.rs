//! Measures how long it takes to count how many more instances of a request fit, in process, on a fleet of random
//! hosts, all flat or one in ten a tree with two NUMA nodes. Ends with 1 if the median of any request is above 50 ms.
//!
//! `cargo run --release -p placewright-scheduler --example capacity_speed [HOSTS]`
//!
//! Beside each time stands the longest slice, during which nobody else can use the scheduler.

#![expect(
    clippy::disallowed_methods,
    reason = "measures time, which the scheduler itself must not read"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use placewright_placement::{Command, Inventory, State, Timestamp, decide};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::select::capacity::{CapacityCount, CountSlice};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const AT: Timestamp = Timestamp(1_000_000);
/// How often each request is counted.
const ROUNDS: usize = 9;
/// The steps of a slice, as `POST /v1/capacity` has them.
const STEPS_PER_SLICE: usize = 10_000;
/// The bar for the median times.
const TIME_MAX: Duration = Duration::from_millis(50);

/// A pseudo-random generator with a fixed seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: u64) -> i32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i32::try_from(self.0 % end).unwrap_or(0)
    }
}

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    if decide(state, command, &mut changes).is_ok() {
        for change in &changes {
            drop(state.apply(change));
        }
    }
}

/// Hosts of many sizes. One in `tree_every` is a tree; if `tree_every` is 0, none is.
fn fleet(host_count: u32, tree_every: u32, numbers: &mut RandomNumbers) -> State {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: AT });
    for number in 0..host_count {
        let host = host_uuid(number);
        let cpus = numbers.below(96) + 8;
        let cpus = |parts| ("VCPU".to_owned(), Inventory::new(cpus / parts, 4.0));
        create(&mut state, host, format!("host{number}"), None);
        let mut inventories = vec![
            (
                "MEMORY_MB".to_owned(),
                Inventory::new(numbers.below(500) * 1024 + 8192, 1.0),
            ),
            (
                "DISK_GB".to_owned(),
                Inventory::new(numbers.below(4000) + 100, 1.0),
            ),
        ];
        if tree_every > 0 && number % tree_every == 0 {
            for node in 0..2 {
                let uuid = Uuid::from_u128(0x9_0000_0000 + u128::from(number * 2 + node));
                create(&mut state, uuid, format!("numa{number}-{node}"), Some(host));
                let memory = Inventory::new(numbers.below(100) * 1024 + 4096, 1.0);
                let memory = ("MEMORY_MB".to_owned(), memory);
                set_inventories(&mut state, uuid, vec![cpus(2), memory]);
            }
        } else {
            inventories.push(cpus(1));
        }
        set_inventories(&mut state, host, inventories);
        if numbers.below(4) > 0 {
            let set_traits = Command::SetTraits {
                provider: host,
                generation: None,
                traits: vec!["HW_CPU_X86_AVX2".to_owned()],
                at: AT,
            };
            execute(&mut state, &set_traits);
        }
    }
    state
}

fn create(state: &mut State, uuid: Uuid, name: String, parent: Option<Uuid>) {
    let create = Command::CreateProvider {
        uuid,
        name,
        parent,
        at: AT,
    };
    execute(state, &create);
}

fn set_inventories(state: &mut State, provider: Uuid, inventories: Vec<(String, Inventory)>) {
    let set = Command::SetInventories {
        provider,
        generation: None,
        inventories,
        may_reserve_all: true,
        at: AT,
    };
    execute(state, &set);
}

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1_0000_0000 + u128::from(number))
}

fn scheduler(host_count: u32, state: &State) -> Option<Scheduler> {
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).ok()?;
    for number in 0..host_count {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{number}");
        report.facts.names.node = format!("host{number}");
        report.facts.names.cell = Uuid::from_u128(u128::from(number % 10) + 1);
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host_uuid(number), AT, &full);
    }
    scheduler.observe(state, AT);
    Some(scheduler)
}

/// What was measured of one request.
#[derive(Default)]
struct Measured {
    /// The times of all rounds.
    times: Vec<Duration>,
    longest_slice: Duration,
    count: u64,
}

impl Measured {
    fn median(&mut self) -> Duration {
        self.times.sort_unstable();
        let median = self.times.get(self.times.len() / 2).copied();
        median.unwrap_or(Duration::MAX)
    }
}

fn measure(scheduler: &mut Scheduler, state: &State, request: &RequestSpec) -> Measured {
    let mut measured = Measured::default();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let prepared = scheduler.prepare_cached(state, request);
        let Ok(prepared) = prepared else { continue };
        let mut count = CapacityCount::new(request.clone(), prepared, None);
        loop {
            let slice_start = Instant::now();
            scheduler.observe(state, AT);
            let slice = count.run_slice(scheduler, state, STEPS_PER_SLICE);
            measured.longest_slice = measured.longest_slice.max(slice_start.elapsed());
            match slice {
                Ok(CountSlice::Unfinished) => {}
                Ok(CountSlice::Complete(capacity)) => {
                    measured.times.push(start.elapsed());
                    measured.count = capacity.count;
                    break;
                }
                Ok(CountSlice::NeedsSimulation | CountSlice::GivenUp) | Err(_) => break,
            }
        }
    }
    measured
}

fn main() -> ExitCode {
    let host_count = std::env::args().nth(1);
    let host_count = host_count.and_then(|text| text.parse().ok());
    let host_count = host_count.unwrap_or(100_000);
    let plain = RequestSpec::new(Flavor {
        vcpus: 4,
        memory_mb: 8192,
        root_gb: 20,
        ..Flavor::default()
    });
    let mut with_trait = plain.clone();
    let specs = &mut with_trait.flavor.extra_specs;
    specs.insert("trait:HW_CPU_X86_AVX2".into(), "required".into());
    let mut two_nodes = plain.clone();
    for (key, value) in [
        ("resources:VCPU", "0"),
        ("resources:MEMORY_MB", "0"),
        ("resources1:VCPU", "2"),
        ("resources1:MEMORY_MB", "4096"),
        ("resources2:VCPU", "2"),
        ("resources2:MEMORY_MB", "4096"),
        ("group_policy", "isolate"),
    ] {
        let specs = &mut two_nodes.flavor.extra_specs;
        specs.insert(key.into(), value.into());
    }
    let mut longest = Duration::ZERO;
    for (fleet_name, tree_every) in [("flat", 0), ("one in ten a tree", 10)] {
        let state = fleet(host_count, tree_every, &mut RandomNumbers(0x5eed));
        let Some(mut scheduler) = scheduler(host_count, &state) else {
            return ExitCode::FAILURE;
        };
        let requests = [
            ("plain", &plain),
            ("with a trait", &with_trait),
            ("on two nodes", &two_nodes),
        ];
        for (name, request) in requests {
            let mut measured = measure(&mut scheduler, &state, request);
            let (time, count) = (measured.median(), measured.count);
            let slice = measured.longest_slice;
            println!(
                "{host_count} hosts, {fleet_name}, {name}: {count} fit, {time:.1?}, longest slice {slice:.1?}"
            );
            longest = longest.max(time);
        }
    }
    match longest <= TIME_MAX {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
