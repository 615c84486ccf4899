//! Measures the time of a decision in process, on a fleet that is 80 % full.
//!
//! `cargo run --release -p placewright-scheduler --example decision_speed [HOSTS] [DECISIONS] [NAME]`
//!
//! With a name, only those kinds of requests are measured whose names contain it.
//!
//! Every host is considered. A decision observes the changes of placement since the last one, prepares the request, and
//! ranks the best three hosts. In one of eight decisions the parts are timed instead of the whole, because reading the
//! time takes as long as some of the parts. The claim that follows is decided and applied by placement. Then other
//! instances are deleted, so that the fleet stays as full as it is. The first row and the rows of repeated or grouped
//! requests start with a randomly filled fleet. The last row starts after unmeasured decisions, in which the scheduler
//! itself has placed nearly all instances: then all hosts have almost equal scores, and a search looks at more hosts.

#![expect(
    clippy::disallowed_methods,
    reason = "measures time, which the scheduler itself must not read"
)]

use std::collections::BTreeSet;
use std::time::Instant;

use placewright_placement::group::{Level, Relation, Rule, RuleScope};
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, State, Timestamp, decide,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::{PrepareOptions, Prepared};
use placewright_scheduler::request::group::{TopologyRelation, TopologyRule};
use placewright_scheduler::request::{Destination, GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::rules::hard_topology_rules;
use placewright_scheduler::select::{Scheduler, Scope};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A pseudo-random generator with a fixed seed.
struct RandomNumbers(u64);

impl RandomNumbers {
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

fn execute(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let accepted = decide(state, command, &mut changes).is_ok();
    if accepted {
        changes.iter().for_each(|change| drop(state.apply(change)));
    }
    accepted
}

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1_0000_0000 + u128::from(number))
}

const RACK_HOSTS: u32 = 40;

fn rack(number: u32) -> Uuid {
    Uuid::from_u128(0xacc_0000 + u128::from(number))
}

/// Groups below this number have anti-affinity, the others affinity.
const ANTI_AFFINITY_GROUPS: u32 = 50;

fn group_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0xe_0000_0000 + u128::from(number))
}

fn set_group(state: &mut State, number: u32, relation: Relation) {
    let rule = Rule {
        scope: RuleScope::Host,
        relation,
    };
    let command = Command::SetGroup {
        group: group_uuid(number),
        rules: vec![rule],
    };
    execute(state, &command);
}

fn in_group(mut request: RequestSpec, number: u32, policy: GroupPolicy) -> RequestSpec {
    request.instance_group = Some(ServerGroup {
        uuid: group_uuid(number),
        policy: Some(policy),
        max_server_per_host: None,
        members: BTreeSet::new(),
        hosts: BTreeSet::new(),
        topology_rules: Vec::new(),
    });
    request
}

fn zone(number: u64) -> Uuid {
    Uuid::from_u128(0xa000 + u128::from(number))
}

/// Creates hosts of three sizes. One in ten is a tree whose two NUMA nodes hold its CPUs. Each trait is on three
/// quarters of the hosts.
#[expect(clippy::too_many_lines, reason = "one fleet, described in a row")]
fn fleet(host_count: u32, numbers: &mut RandomNumbers) -> State {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: AT });
    let create = |uuid, name: String, parent| Command::CreateProvider {
        uuid,
        name,
        parent,
        at: AT,
    };
    let set_inventories = |provider, inventories| Command::SetInventories {
        provider,
        generation: None,
        inventories,
        may_reserve_all: true,
        at: AT,
    };
    for number in 0..host_count {
        let host = host_uuid(number);
        let size = [32, 64, 128][numbers.below(3) as usize];
        execute(&mut state, &create(host, format!("host{number}"), None));
        let mut inventories = vec![
            ("MEMORY_MB".to_owned(), Inventory::new(size * 4096, 1.0)),
            ("DISK_GB".to_owned(), Inventory::new(size * 40, 1.0)),
        ];
        if number % 10 == 0 {
            for node in 0..2u32 {
                let uuid = Uuid::from_u128(0x9_0000_0000 + u128::from(number * 2 + node));
                execute(
                    &mut state,
                    &create(uuid, format!("numa{number}-{node}"), Some(host)),
                );
                let cpus = vec![("VCPU".to_owned(), Inventory::new(size / 2, 4.0))];
                execute(&mut state, &set_inventories(uuid, cpus));
            }
        } else {
            inventories.push(("VCPU".to_owned(), Inventory::new(size, 4.0)));
        }
        execute(&mut state, &set_inventories(host, inventories));
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
        execute(
            &mut state,
            &Command::SetTraits {
                provider: host,
                generation: None,
                traits,
                at: AT,
            },
        );
        let aggregates = vec![
            zone(numbers.below(4)).to_string(),
            rack(number / RACK_HOSTS).to_string(),
        ];
        let command = Command::SetAggregates {
            provider: host,
            generation: None,
            aggregates,
            at: AT,
        };
        execute(&mut state, &command);
    }
    let racks = 0..host_count.div_ceil(RACK_HOSTS);
    let levels = vec![Level::unnamed(
        "rack",
        racks.map(|number| rack(number).to_string()).collect(),
    )];
    execute(
        &mut state,
        &Command::SetLevels {
            levels,
            distances: Vec::new(),
        },
    );
    for group in 0..ANTI_AFFINITY_GROUPS {
        set_group(&mut state, group, Relation::FewerThan(1));
    }
    state
}

/// A request for a random size, without traits and groups.
fn plain_request(numbers: &mut RandomNumbers) -> RequestSpec {
    let vcpus = 1 << numbers.below(4);
    RequestSpec::new(Flavor {
        vcpus,
        memory_mb: vcpus * (1024 << numbers.below(3))
            + 64 * u32::try_from(numbers.below(8)).unwrap_or(0),
        root_gb: 10 + u32::try_from(numbers.below(4)).unwrap_or(0) * 10,
        ..Flavor::default()
    })
}

/// A random request: 60 % plain, 20 % with traits and aggregates, 10 % with suffixed groups, 10 % in server groups.
fn mixed_request(numbers: &mut RandomNumbers) -> RequestSpec {
    let mut request = plain_request(numbers);
    let extra_specs = &mut request.flavor.extra_specs;
    match numbers.below(10) {
        0..6 => {}
        6 | 7 => {
            extra_specs.insert("trait:HW_CPU_X86_AVX2".into(), "required".into());
            if numbers.below(2) == 0 {
                extra_specs.insert("trait:HW_CPU_X86_VMX".into(), "forbidden".into());
            }
            request.requested_destination = Some(Destination {
                aggregates: vec![vec![zone(numbers.below(4))]],
                ..Destination::default()
            });
        }
        8 => {
            extra_specs.insert("resources:VCPU".into(), "0".into());
            extra_specs.insert("resources1:VCPU".into(), "1".into());
            extra_specs.insert("resources2:VCPU".into(), "1".into());
            extra_specs.insert("group_policy".into(), "isolate".into());
        }
        _ => {
            let group = u32::try_from(numbers.below(u64::from(ANTI_AFFINITY_GROUPS))).unwrap_or(0);
            return in_group(request, group, GroupPolicy::AntiAffinity);
        }
    }
    request
}

struct Bench {
    state: State,
    scheduler: Scheduler,
    numbers: RandomNumbers,
    /// Each instance with its memory, the memory of all, and the limit above which instances are deleted; in MiB.
    instances: Vec<(ConsumerUuid, u64)>,
    used_mb: u64,
    used_max_mb: u64,
    next_consumer: u128,
    /// Selects the kinds of requests to measure by a part of their names.
    name_filter: String,
}

/// The durations of the parts of decisions in nanoseconds.
#[derive(Default)]
struct Times {
    observe: Vec<u128>,
    prepare: Vec<u128>,
    rank: Vec<u128>,
    decision: Vec<u128>,
    claim: Vec<u128>,
}

impl Bench {
    fn new(host_count: u32) -> Self {
        let mut numbers = RandomNumbers(0x9e37_79b9_7f4a_7c15);
        let state = fleet(host_count, &mut numbers);
        let mut scheduler = Scheduler::new(SchedulerConfig::default(), PrepareOptions::default())
            .expect("the defaults are right");
        for number in 0..host_count {
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
            instances: Vec::new(),
            used_mb: 0,
            used_max_mb: u64::MAX,
            next_consumer: 1,
            name_filter: String::new(),
        }
    }

    /// Fills each host with random instances until 60 % to 100 % of its memory is in use: 80 % on average.
    fn fill(&mut self, host_count: u32) {
        for number in 0..host_count {
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
                let mut request = plain_request(&mut self.numbers);
                request.flavor.vcpus *= 4;
                request.flavor.memory_mb *= 4;
                let prepared = self
                    .scheduler
                    .prepare_cached(&self.state, &request)
                    .expect("plain");
                if !self.claim(&request, &prepared, &[slot]) {
                    break;
                }
                self.scheduler.observe(&self.state, AT);
            }
        }
        self.used_max_mb = self.used_mb;
    }

    fn claim(&mut self, request: &RequestSpec, prepared: &Prepared, slots: &[u32]) -> bool {
        let consumer = ConsumerUuid::from_uuid(Uuid::from_u128(0xc_0000_0000 + self.next_consumer));
        self.next_consumer += 1;
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
            rules: hard_topology_rules(request).collect(),
            candidates,
            alongside: Vec::new(),
        };
        let command = Command::ClaimFirst {
            intents: vec![intent],
            least: 1,
            at: AT,
        };
        let claimed = execute(&mut self.state, &command);
        if claimed {
            let memory = u64::from(request.flavor.memory_mb);
            self.used_mb += memory;
            self.instances.push((consumer, memory));
        }
        claimed
    }

    /// Deletes random instances until no more memory is in use than after the fleet was filled.
    fn delete_instances(&mut self) {
        while self.used_mb > self.used_max_mb {
            let index = self.numbers.below(self.instances.len() as u64) as usize;
            let (consumer, memory) = self.instances.swap_remove(index);
            self.used_mb -= memory;
            execute(&mut self.state, &Command::Release { consumer });
        }
    }

    /// A copy with the same fleet, and with a scheduler whose caches are empty.
    fn fork(&self) -> Self {
        let mut scheduler = self.scheduler.fork();
        scheduler.observe(&self.state, AT);
        Self {
            state: self.state.clone(),
            scheduler,
            numbers: RandomNumbers(self.numbers.0),
            instances: self.instances.clone(),
            name_filter: self.name_filter.clone(),
            ..*self
        }
    }

    fn measure(&self, name: &str, requests: &[RequestSpec], decisions: usize) {
        if name.contains(&self.name_filter) {
            self.fork().run(name, requests, decisions, requests.len());
        }
    }

    /// Measures decisions. If requests are repeated, the first `unmeasured` rounds only fill the caches.
    fn run(&mut self, name: &str, requests: &[RequestSpec], decisions: usize, unmeasured: usize) {
        let mut times = Times::default();
        let mut without_host = 0;
        for round in 0..decisions {
            let request = &requests[round % requests.len()];
            let scope = Scope {
                count: 3,
                ..Scope::default()
            };
            let start = Instant::now();
            self.scheduler.observe(&self.state, AT);
            let is_split = round % 8 == 7;
            let observed_at = if is_split { Instant::now() } else { start };
            let prepared = self.scheduler.prepare_cached(&self.state, request);
            let prepared = prepared.expect("a good request");
            let prepared_at = if is_split { Instant::now() } else { start };
            let ranked = self
                .scheduler
                .rank(&self.state, request, &prepared, &scope)
                .expect("a good request");
            let ranked_at = Instant::now();
            if round >= unmeasured || requests.len() == decisions {
                if is_split {
                    times.observe.push((observed_at - start).as_nanos());
                    times.prepare.push((prepared_at - observed_at).as_nanos());
                    times.rank.push((ranked_at - prepared_at).as_nanos());
                } else {
                    times.decision.push((ranked_at - start).as_nanos());
                }
            }
            let slots: Vec<u32> = ranked.iter().map(|host| host.slot).collect();
            without_host += usize::from(slots.is_empty());
            let start = Instant::now();
            if self.claim(request, &prepared, &slots) {
                times.claim.push(start.elapsed().as_nanos());
                self.delete_instances();
            }
        }
        times.print(name, without_host);
    }
}

impl Times {
    fn print(mut self, name: &str, without_host: usize) {
        let mean =
            |times: &[u128]| times.iter().sum::<u128>() as f64 / times.len().max(1) as f64 / 1000.0;
        let decision_and_claim = mean(&self.decision) + mean(&self.claim);
        let mut percentile = |times: fn(&mut Self) -> &mut Vec<u128>, share: f64| {
            let times = times(&mut self);
            times.sort_unstable();
            let index = (times.len().saturating_sub(1)) as f64 * share;
            times
                .get(index as usize)
                .map_or(0.0, |time| *time as f64 / 1000.0)
        };
        println!(
            "  {name:<22} {:7.1} {:7.1} {:7.1}  {:5.1} {:5.1} {:5.1}  {:6.1} {:6.1}  {:9.0}  {without_host}",
            percentile(|times| &mut times.decision, 0.5),
            percentile(|times| &mut times.decision, 0.99),
            percentile(|times| &mut times.decision, 1.0),
            percentile(|times| &mut times.observe, 0.5),
            percentile(|times| &mut times.prepare, 0.5),
            percentile(|times| &mut times.rank, 0.5),
            percentile(|times| &mut times.claim, 0.5),
            percentile(|times| &mut times.claim, 0.99),
            1e6 / decision_and_claim,
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let sizes: Vec<u32> = match arguments.next().map(|word| word.parse()) {
        Some(Ok(host_count)) => vec![host_count],
        _ => vec![10_000, 100_000],
    };
    let decisions = arguments
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(20_000);
    let name_filter = arguments.next().unwrap_or_default();
    for host_count in sizes {
        let mut bench = Bench::new(host_count);
        bench.name_filter.clone_from(&name_filter);
        bench.fill(host_count);
        println!(
            "{host_count} hosts, {} instances; times in us",
            bench.instances.len()
        );
        println!("                              decision              parts, p50          claim");
        println!(
            "                             p50     p99     max   obs.  prep. rank     p50    p99   a second  no host"
        );
        let numbers = &mut bench.numbers;
        let mix: Vec<RequestSpec> = (0..200).map(|_| mixed_request(numbers)).collect();
        let repeated: Vec<RequestSpec> = (0..100).map(|_| plain_request(numbers)).collect();
        let mut variants = bench.fork();
        if "mix of 200".contains(&bench.name_filter) {
            bench.run("mix of 200", &mix, decisions, mix.len());
        }
        variants.measure("plain, 100 in turn", &repeated, decisions);
        variants.measure("plain, 1 repeated", &repeated[..1], decisions);
        let unrepeated: Vec<RequestSpec> = (0..decisions / 4)
            .map(|number| {
                let mut request = plain_request(&mut bench.numbers);
                request.flavor.memory_mb += u32::try_from(number).unwrap_or(0);
                request
            })
            .collect();
        variants.measure("plain, never seen", &unrepeated, decisions / 4);
        variants.groups(&repeated, decisions / 4);
        let name = "plain, 100, settled";
        if name.contains(&bench.name_filter) {
            bench.run(name, &repeated, decisions * 20, decisions * 19);
        }
    }
}

impl Bench {
    /// Measures plain requests that are in a server group, or that have a topology rule.
    fn groups(&mut self, plain: &[RequestSpec], decisions: usize) {
        let numbers = || 0..u32::try_from(decisions).unwrap_or(u32::MAX);
        let request = |number: u32| plain[number as usize % plain.len()].clone();
        let policy = GroupPolicy::AntiAffinity;
        let anti_affinity: Vec<RequestSpec> = numbers()
            .map(|number| in_group(request(number), number % ANTI_AFFINITY_GROUPS, policy))
            .collect();
        self.measure("hard anti-affinity", &anti_affinity, decisions);
        let affinity: Vec<RequestSpec> = numbers()
            .map(|number| {
                let group = ANTI_AFFINITY_GROUPS + number / 4;
                set_group(&mut self.state, group, Relation::Same);
                in_group(request(number), group, GroupPolicy::Affinity)
            })
            .collect();
        self.measure("hard affinity", &affinity, decisions);
        for (relation, name) in [
            (TopologyRelation::Different, "hard different racks"),
            (TopologyRelation::Spread, "hard spread over racks"),
        ] {
            let requests = numbers().map(|number| {
                let mut request = request(number);
                let start = number as usize * 8 % (self.instances.len() - 8);
                let compared = self.instances[start..start + 8].iter();
                let mut rule = TopologyRule::hard("rack", relation);
                rule.to = compared
                    .filter_map(|(consumer, _)| consumer.as_str().parse().ok())
                    .collect();
                request.topology_rules = vec![rule];
                request
            });
            let requests: Vec<RequestSpec> = requests.collect();
            self.measure(name, &requests, decisions);
        }
    }
}
