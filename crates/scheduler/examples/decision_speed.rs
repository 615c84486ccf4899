//! How long a decision takes in process, on a fleet that is 80 % full.
//!
//! `cargo run --release -p placewright-scheduler --example decision_speed [HOSTS] [DECISIONS]`
//!
//! Every host is considered. A decision is one `Scheduler::rank` for the best three hosts, with the
//! changes since the last one taken over; the claim that follows, and making a request ready
//! (which callers do once for equal requests), are timed on their own. After each claim some older
//! instance ends, so that the fleet stays as full as it is.

#![expect(
    clippy::disallowed_methods,
    reason = "it times what the scheduler itself must not"
)]

use std::time::Instant;

use placewright_placement::group::{Relation, Rule, Scope as Place};
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, State, Timestamp, decide,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::{PrepareOptions, Prepared};
use placewright_scheduler::request::{Destination, GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::{Scheduler, Scope};
use uuid::Uuid;

/// A small generator of numbers: the same ones in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const AT: Timestamp = Timestamp(1_000_000);

fn run(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let accepted = decide(state, command, &mut changes).is_ok();
    if accepted {
        changes.iter().for_each(|change| drop(state.apply(change)));
    }
    accepted
}

fn inventory(total: i32, allocation_ratio: f64) -> Inventory {
    Inventory {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: total,
        step_size: 1,
        allocation_ratio,
    }
}

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1_0000_0000 + u128::from(number))
}

fn zone(number: u64) -> Uuid {
    Uuid::from_u128(0xa000 + u128::from(number))
}

/// Hosts of three sizes; one in ten is a tree whose two NUMA nodes hold its CPUs.
#[expect(clippy::too_many_lines, reason = "one fleet, described in a row")]
fn fleet(hosts: u32, numbers: &mut Numbers) -> State {
    let mut state = State::default();
    run(&mut state, &Command::SyncStandardNames { at: AT });
    let create = |uuid, name: String, parent| Command::CreateProvider {
        uuid,
        name,
        parent,
        at: AT,
    };
    let set = |provider, inventories| Command::SetInventories {
        provider,
        generation: None,
        inventories,
        may_reserve_all: true,
        at: AT,
    };
    for number in 0..hosts {
        let host = host_uuid(number);
        let size = [32, 64, 128][numbers.below(3) as usize];
        run(&mut state, &create(host, format!("host{number}"), None));
        let mut own = vec![
            ("MEMORY_MB".to_owned(), inventory(size * 4096, 1.0)),
            ("DISK_GB".to_owned(), inventory(size * 40, 1.0)),
        ];
        if number % 10 == 0 {
            for node in 0..2u32 {
                let uuid = Uuid::from_u128(0x9_0000_0000 + u128::from(number * 2 + node));
                run(
                    &mut state,
                    &create(uuid, format!("numa{number}-{node}"), Some(host)),
                );
                let cpus = vec![("VCPU".to_owned(), inventory(size / 2, 4.0))];
                run(&mut state, &set(uuid, cpus));
            }
        } else {
            own.push(("VCPU".to_owned(), inventory(size, 4.0)));
        }
        run(&mut state, &set(host, own));
        let mut traits = vec!["COMPUTE_NODE".to_owned()];
        for (bit, name) in [
            "HW_CPU_X86_AVX2",
            "COMPUTE_VOLUME_ATTACH_WITH_TAG",
            "HW_CPU_X86_VMX",
        ]
        .iter()
        .enumerate()
        {
            if numbers.next() >> bit & 3 != 0 {
                traits.push((*name).to_owned());
            }
        }
        run(
            &mut state,
            &Command::SetTraits {
                provider: host,
                generation: None,
                traits,
                at: AT,
            },
        );
        let aggregates = vec![zone(numbers.below(4)).to_string()];
        let command = Command::SetAggregates {
            provider: host,
            generation: None,
            aggregates,
            at: AT,
        };
        run(&mut state, &command);
    }
    let rules = vec![Rule {
        scope: Place::Host,
        relation: Relation::FewerThan(1),
    }];
    for group in 0..50u128 {
        let group = Uuid::from_u128(0xe000 + group);
        run(
            &mut state,
            &Command::SetGroup {
                group,
                rules: rules.clone(),
            },
        );
    }
    state
}

fn plain(numbers: &mut Numbers) -> RequestSpec {
    let vcpus = 1 << numbers.below(4);
    RequestSpec::new(Flavor {
        vcpus,
        memory_mb: vcpus * (1024 << numbers.below(3))
            + 64 * u32::try_from(numbers.below(8)).unwrap_or(0),
        root_gb: 10 + u32::try_from(numbers.below(4)).unwrap_or(0) * 10,
        ..Flavor::default()
    })
}

/// One of 60 % plain, 20 % with traits and aggregates, 10 % granular, 10 % in groups.
fn any(numbers: &mut Numbers) -> RequestSpec {
    let mut request = plain(numbers);
    let extra = &mut request.flavor.extra_specs;
    match numbers.below(10) {
        0..6 => {}
        6 | 7 => {
            extra.insert("trait:HW_CPU_X86_AVX2".into(), "required".into());
            if numbers.below(2) == 0 {
                extra.insert("trait:HW_CPU_X86_VMX".into(), "forbidden".into());
            }
            request.requested_destination = Some(Destination {
                aggregates: vec![vec![zone(numbers.below(4))]],
                ..Destination::default()
            });
        }
        8 => {
            extra.insert("resources:VCPU".into(), "0".into());
            extra.insert("resources1:VCPU".into(), "1".into());
            extra.insert("resources2:VCPU".into(), "1".into());
            extra.insert("group_policy".into(), "isolate".into());
        }
        _ => {
            request.instance_group = Some(ServerGroup {
                uuid: Uuid::from_u128(0xe000 + u128::from(numbers.below(50))),
                policy: GroupPolicy::AntiAffinity,
                max_server_per_host: None,
                members: std::collections::BTreeSet::new(),
                hosts: std::collections::BTreeSet::new(),
            });
        }
    }
    request
}

struct Bench {
    state: State,
    scheduler: Scheduler,
    numbers: Numbers,
    alive: Vec<ConsumerUuid>,
    next: u128,
}

impl Bench {
    fn new(hosts: u32) -> Self {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let state = fleet(hosts, &mut numbers);
        let mut scheduler = Scheduler::new(SchedulerConfig::default(), PrepareOptions::default())
            .expect("the defaults are right");
        for number in 0..hosts {
            let mut report = HostReport::default();
            report.facts.names.service_host = format!("host{number}");
            report.facts.names.node = format!("host{number}");
            report.facts.names.cell = Uuid::from_u128(u128::from(number % 3) + 1);
            let full = HostUpdate::Full(Box::new(report));
            scheduler.hosts_mut().apply(host_uuid(number), AT, &full);
        }
        scheduler.observe(&state, AT);
        Self {
            state,
            scheduler,
            numbers,
            alive: Vec::new(),
            next: 1,
        }
    }

    /// Fills hosts at random until 80 % of the memory is taken.
    fn fill(&mut self, hosts: u32) {
        for number in 0..hosts {
            let slot = self
                .state
                .provider_id(host_uuid(number))
                .map_or(0, |id| id.0);
            let share = 0.6 + self.numbers.below(400) as f64 / 1000.0;
            loop {
                let amounts = self.scheduler.hosts().amounts(slot);
                let used = amounts.ram_total_mb - amounts.ram_free_mb;
                if used as f64 >= share * amounts.ram_total_mb as f64 {
                    break;
                }
                let mut request = plain(&mut self.numbers);
                request.flavor.vcpus *= 4;
                request.flavor.memory_mb *= 4;
                let prepared = self
                    .scheduler
                    .prepare(&self.state, &request)
                    .expect("plain");
                if !self.claim(&request, &prepared, &[slot]) {
                    break;
                }
                self.scheduler.observe(&self.state, AT);
            }
        }
    }

    fn claim(&mut self, request: &RequestSpec, prepared: &Prepared, slots: &[u32]) -> bool {
        let consumer = ConsumerUuid::from_uuid(Uuid::from_u128(0xc_0000_0000 + self.next));
        self.next += 1;
        let candidates = slots
            .iter()
            .flat_map(|slot| {
                self.scheduler
                    .candidates(&self.state, prepared, *slot, 2)
                    .unwrap_or_default()
            })
            .collect();
        let intent = Intent {
            consumer,
            generation: ConsumerGeneration::Is(None),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            group: request.instance_group.as_ref().map(|group| group.uuid),
            rules: Vec::new(),
            candidates,
            alongside: Vec::new(),
        };
        let command = Command::ClaimFirst {
            intents: vec![intent],
            least: 1,
            at: AT,
        };
        let claimed = run(&mut self.state, &command);
        if claimed {
            self.alive.push(consumer);
        }
        claimed
    }

    fn end_one(&mut self) {
        let place = self.numbers.below(self.alive.len() as u64) as usize;
        let consumer = self.alive.swap_remove(place);
        run(&mut self.state, &Command::Release { consumer });
    }

    fn measure(&mut self, name: &str, requests: &[RequestSpec], decisions: usize, fresh: bool) {
        let ready: Vec<Prepared> = requests
            .iter()
            .map(|request| {
                self.scheduler
                    .prepare(&self.state, request)
                    .expect("a good request")
            })
            .collect();
        let (mut rank, mut claim, mut none) = (Vec::new(), Vec::new(), 0);
        for round in 0..decisions {
            let place = round % requests.len();
            let scope = Scope {
                count: 3,
                ..Scope::default()
            };
            let start = Instant::now();
            self.scheduler.observe(&self.state, AT);
            let found = self
                .scheduler
                .rank(&self.state, &requests[place], &ready[place], &scope)
                .expect("a good request");
            // The first rounds fill what is kept; a fresh request is never seen twice.
            if round >= requests.len() || fresh {
                rank.push(start.elapsed().as_nanos());
            }
            let slots: Vec<u32> = found.iter().map(|host| host.slot).collect();
            none += usize::from(slots.is_empty());
            let start = Instant::now();
            if self.claim(&requests[place], &ready[place], &slots) {
                claim.push(start.elapsed().as_nanos());
                self.end_one();
            }
        }
        println!(
            "  {name:<34} {}   claim {}   no host: {none}",
            spread(rank),
            spread(claim)
        );
    }
}

fn spread(mut times: Vec<u128>) -> String {
    if times.is_empty() {
        return "-".to_owned();
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    format!("p50 {:.1} us, p99 {:.1} us", at(0.5), at(0.99))
}

fn main() {
    let mut words = std::env::args().skip(1);
    let sizes: Vec<u32> = match words.next().map(|word| word.parse()) {
        Some(Ok(hosts)) => vec![hosts],
        _ => vec![10_000, 100_000],
    };
    let decisions = words
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(20_000);
    for hosts in sizes {
        let mut bench = Bench::new(hosts);
        bench.fill(hosts);
        println!("{hosts} hosts, {} instances", bench.alive.len());
        let mix: Vec<RequestSpec> = (0..200).map(|_| any(&mut bench.numbers)).collect();
        bench.measure("mix of 200", &mix, decisions, false);
        let same: Vec<RequestSpec> = (0..100).map(|_| plain(&mut bench.numbers)).collect();
        bench.measure("plain, 100 in turn", &same, decisions, false);
        bench.measure("plain, 1 repeated", &same[..1], decisions, false);
        let groups: Vec<RequestSpec> = mix
            .iter()
            .filter(|request| request.instance_group.is_some())
            .cloned()
            .collect();
        bench.measure("hard anti-affinity", &groups, decisions / 4, false);
        let start = Instant::now();
        for request in &mix {
            let _ = std::hint::black_box(bench.scheduler.prepare(&bench.state, request));
        }
        let each = start.elapsed().as_nanos() as f64 / mix.len() as f64 / 1000.0;
        println!("  making a request ready             {each:.1} us");
    }
}
