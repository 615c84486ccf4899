//! The worked example of `docs/ranking.md`: one decision over eight hosts, from request to claim.
//! Every figure on that page is asserted here.

use placewright_placement::group::{self, Relation, Rule};
use placewright_placement::{
    AllocationRequest, Command, ConsumerGeneration, ConsumerUuid, HostSearch, Intent,
    IntentCandidate, Inventory, ProviderId, State, Timestamp, decide,
};
use placewright_scheduler::amounts::Amounts;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate, InstanceReport};
use placewright_scheduler::policy::FilterKind;
use placewright_scheduler::prepare::{PrepareOptions, Prepared};
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::rules::hard_topology_rules;
use placewright_scheduler::select::{Scheduler, Scope};
use uuid::Uuid;

const AT: Timestamp = Timestamp(100_000_000);
const GROUP: Uuid = Uuid::from_u128(0xe1);
const INSTANCE: Uuid = Uuid::from_u128(0xc0);
/// The member of the server group that is already placed.
const SIBLING: Uuid = Uuid::from_u128(0xc1);

/// A host of the example: its inventories, their usage, and the report of its agent.
#[derive(Default)]
struct Host {
    /// The VCPUs of the host, or of each of its NUMA nodes.
    vcpus: i32,
    used_vcpus: i64,
    memory_mb: i32,
    used_memory_mb: i64,
    used_disk_gb: i64,
    has_avx2: bool,
    io_ops: u32,
    is_disabled: bool,
    has_sibling: bool,
    /// Whether the host is a tree: each of its two NUMA nodes has `vcpus` CPUs and half of the memory.
    is_tree: bool,
}

/// The eight hosts, by slot.
fn hosts() -> [Host; 8] {
    let host = |used_vcpus, used_memory_mb, used_disk_gb| Host {
        vcpus: 16,
        used_vcpus,
        memory_mb: 65_536,
        used_memory_mb,
        used_disk_gb,
        has_avx2: true,
        ..Host::default()
    };
    let mut hosts = [
        host(24, 40_960, 100),
        host(8, 16_384, 0),
        host(16, 32_768, 300),
        host(8, 61_440, 0),
        host(0, 0, 0),
        host(8, 16_384, 100),
        host(0, 0, 0),
        host(20, 49_152, 200),
    ];
    hosts[1].has_avx2 = false;
    hosts[2].io_ops = 2;
    hosts[4].is_disabled = true;
    hosts[5].has_sibling = true;
    (hosts[6].is_tree, hosts[6].vcpus) = (true, 3);
    hosts
}

fn host_uuid(slot: usize) -> Uuid {
    Uuid::from_u128(0x1000 + slot as u128)
}

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).unwrap();
    changes.iter().for_each(|change| drop(state.apply(change)));
}

fn inventory(total: i32, allocation_ratio: f64) -> Inventory {
    Inventory {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio,
    }
}

fn create(state: &mut State, uuid: Uuid, name: String, parent: Option<Uuid>) {
    let command = Command::CreateProvider {
        uuid,
        name,
        parent,
        at: AT,
    };
    execute(state, &command);
}

fn set_inventories(state: &mut State, provider: Uuid, inventories: Vec<(String, Inventory)>) {
    let command = Command::SetInventories {
        provider,
        generation: None,
        inventories,
        may_reserve_all: true,
        at: AT,
    };
    execute(state, &command);
}

/// Claims the first of these candidates that fits for a consumer.
fn claim(state: &mut State, consumer: Uuid, group: Option<Uuid>, candidates: Vec<IntentCandidate>) {
    let intent = Intent {
        consumer: ConsumerUuid::from_uuid(consumer),
        generation: ConsumerGeneration::Any,
        project: "project".into(),
        user: "user".into(),
        consumer_type: None,
        group,
        rules: Vec::new(),
        candidates,
        alongside: Vec::new(),
    };
    let command = Command::ClaimFirst {
        intents: vec![intent],
        least: 1,
        at: AT,
    };
    execute(state, &command);
}

fn candidate(slot: usize, resources: &[(&str, i64)]) -> IntentCandidate {
    let allocated = resources.iter().filter(|(_, amount)| *amount > 0);
    let allocation = AllocationRequest {
        provider: host_uuid(slot),
        resources: allocated
            .map(|(class, amount)| ((*class).to_owned(), *amount))
            .collect(),
    };
    IntentCandidate {
        host: host_uuid(slot),
        allocations: [allocation].into(),
    }
}

/// Placement's state: inventories, traits, allocations and the server group.
fn placement() -> State {
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at: AT });
    let rule = Rule {
        scope: group::RuleScope::Host,
        relation: Relation::FewerThan(1),
    };
    let group = Command::SetGroup {
        group: GROUP,
        rules: vec![rule],
    };
    execute(&mut state, &group);
    for slot in 0..hosts().len() {
        create(&mut state, host_uuid(slot), format!("h{slot}"), None);
    }
    for (slot, host) in hosts().iter().enumerate() {
        let uuid = host_uuid(slot);
        let mut host_inventories = vec![("DISK_GB".to_owned(), inventory(500, 1.0))];
        let cpus_and_memory = vec![
            ("VCPU".to_owned(), inventory(host.vcpus, 2.0)),
            ("MEMORY_MB".to_owned(), inventory(host.memory_mb, 1.0)),
        ];
        if host.is_tree {
            for node in 0..2u32 {
                let child = Uuid::from_u128(0x2000 + u128::from(node));
                create(&mut state, child, format!("h{slot}-numa{node}"), Some(uuid));
                let node_inventories = vec![
                    ("VCPU".to_owned(), inventory(host.vcpus, 1.0)),
                    ("MEMORY_MB".to_owned(), inventory(host.memory_mb / 2, 1.0)),
                ];
                set_inventories(&mut state, child, node_inventories);
            }
        } else {
            host_inventories.extend(cpus_and_memory);
        }
        set_inventories(&mut state, uuid, host_inventories);
        if host.has_avx2 {
            let traits = Command::SetTraits {
                provider: uuid,
                generation: None,
                traits: vec!["HW_CPU_X86_AVX2".to_owned()],
                at: AT,
            };
            execute(&mut state, &traits);
        }
        let existing = candidate(
            slot,
            &[
                ("VCPU", host.used_vcpus),
                ("MEMORY_MB", host.used_memory_mb),
                ("DISK_GB", host.used_disk_gb),
            ],
        );
        let (consumer, group) = if host.has_sibling {
            (SIBLING, Some(GROUP))
        } else {
            (Uuid::from_u128(0xd0 + slot as u128), None)
        };
        if !existing.allocations[0].resources.is_empty() {
            claim(&mut state, consumer, group, vec![existing]);
        }
    }
    state
}

/// A scheduler that has the reports of the agents of all hosts.
fn scheduler(state: &State) -> Scheduler {
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    for (slot, host) in hosts().iter().enumerate() {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("h{slot}");
        report.facts.names.node = format!("h{slot}");
        report.load.io_ops = host.io_ops;
        report.disabled = host.is_disabled.then(|| "maintenance".to_owned());
        if host.has_sibling {
            report.instances.push(InstanceReport {
                uuid: SIBLING,
                group: Some(GROUP),
                ..InstanceReport::default()
            });
        }
        let update = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host_uuid(slot), AT, &update);
    }
    scheduler.observe(state, AT);
    scheduler
}

/// The request: 4 CPUs, 8 GiB of memory, 40 GB of disk, AVX2, and a server group with
/// anti-affinity.
fn request() -> RequestSpec {
    let mut flavor = Flavor {
        name: "example".into(),
        vcpus: 4,
        memory_mb: 8_192,
        root_gb: 40,
        ..Flavor::default()
    };
    let extra_specs = &mut flavor.extra_specs;
    extra_specs.insert("trait:HW_CPU_X86_AVX2".into(), "required".into());
    let mut request = RequestSpec::new(flavor);
    request.instance_group = Some(ServerGroup {
        uuid: GROUP,
        policy: Some(GroupPolicy::AntiAffinity),
        max_server_per_host: None,
        members: [SIBLING].into(),
        hosts: ["h5".to_owned()].into(),
        topology_rules: Vec::new(),
    });
    request
}

fn scope(count: usize) -> Scope {
    Scope {
        instance: INSTANCE,
        count,
        ..Scope::default()
    }
}

/// The slots of the hosts in a mask.
fn slots_of(mask: u64) -> Vec<u32> {
    (0..64).filter(|slot| mask >> slot & 1 == 1).collect()
}

/// The candidates of the ranked hosts, best first, for a claim.
fn candidates(
    scheduler: &mut Scheduler,
    state: &State,
    prepared: &Prepared,
) -> Vec<IntentCandidate> {
    let ranked = scheduler.rank(state, &request(), prepared, &scope(3));
    let slots = ranked.unwrap().into_iter().map(|host| host.slot);
    slots
        .flat_map(|slot| scheduler.candidates(state, prepared, slot, 1).unwrap())
        .collect()
}

/// The host on which a consumer has its claim; `None` if it has no claim.
fn host_of(state: &State, consumer: Uuid) -> Option<ProviderId> {
    let consumer = state.consumer(ConsumerUuid::from_uuid(consumer))?;
    Some(consumer.host_assignment?.host)
}

#[test]
fn the_request_becomes_one_query() {
    let state = placement();
    let prepared = scheduler(&state).prepare(&state, &request()).unwrap();
    let query = prepared.translation.request.to_query_string();
    let decoded = query
        .replace("%3A", ":")
        .replace("%2C", ",")
        .replace("%21", "!");
    let parameters = decoded.split('&');
    // The query string has Nova's limit, for comparisons; the search has none.
    let parameters: Vec<&str> = parameters
        .filter(|parameter| !parameter.starts_with("limit="))
        .collect();
    assert_eq!(
        parameters,
        [
            "required=HW_CPU_X86_AVX2",
            "resources=DISK_GB:40,MEMORY_MB:8192,VCPU:4",
            "root_required=!COMPUTE_STATUS_DISABLED",
        ]
    );
    assert!(prepared.fallback.is_none());
}

/// The page states free CPUs with the allocation ratio, free memory and disk without it.
#[test]
fn the_hosts_have_these_free_amounts() {
    let state = placement();
    let free = |slot| {
        let amounts = Amounts::read(&state, ProviderId(slot));
        let disk_gb = amounts.disk_free_mb / 1024;
        (amounts.cpus_free(), amounts.ram_free_mb, disk_gb)
    };
    let free_amounts: Vec<_> = (0..8).map(free).collect();
    let expected = [
        (8.0, 24_576, 400),
        (24.0, 49_152, 500),
        (16.0, 32_768, 200),
        (24.0, 4_096, 500),
        (32.0, 65_536, 500),
        (24.0, 49_152, 400),
        (6.0, 65_536, 500),
        (12.0, 16_384, 300),
    ];
    assert_eq!(free_amounts, expected);
}

#[test]
fn masks_and_one_exact_test_leave_three_hosts() {
    let state = placement();
    let mut scheduler = scheduler(&state);
    let request = request();
    let prepared = scheduler.prepare(&state, &request).unwrap();

    // Placement decides about amounts, traits and trees.
    let search = HostSearch::new(&state, &prepared.query).unwrap().unwrap();
    assert_eq!(search.word_count(), 1, "64 hosts hold the fleet");
    let word = search.word(0);
    assert_eq!(slots_of(word.feasible), [0, 2, 4, 5, 7]);
    assert_eq!(slots_of(word.undecided), [6]);
    assert_eq!(slots_of(search.eligible_word(0)), [0, 2, 3, 4, 5, 6, 7]);
    assert!(!search.fits(ProviderId(6)), "no NUMA node has 4 CPUs");

    let feasible = scheduler
        .rank_all(&state, &request, &prepared, &scope(8))
        .unwrap();
    let mut slots: Vec<u32> = feasible.iter().map(|host| host.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 2, 7]);

    // The filters that are once per request come first, then the others.
    let compiled = scheduler
        .policy()
        .compile(&request, scheduler.hosts(), INSTANCE)
        .unwrap();
    assert_eq!(
        slots_of(compiled.filters.word(0, FilterKind::ForClass)),
        [0, 1, 2, 3, 5, 6, 7]
    );
    assert_eq!(
        slots_of(compiled.filters.word(0, FilterKind::ForSingleRequest)),
        [0, 1, 2, 3, 4, 6, 7]
    );
    assert_eq!(compiled.filters.rejecting_filter(4), Some("ComputeFilter"));
    assert_eq!(
        compiled.filters.rejecting_filter(5),
        Some("ServerGroupAntiAffinityFilter")
    );
}

#[test]
fn four_weighers_make_the_scores() {
    let state = placement();
    let mut scheduler = scheduler(&state);
    let request = request();
    let prepared = scheduler.prepare(&state, &request).unwrap();
    let ranked = scheduler
        .rank_all(&state, &request, &prepared, &scope(3))
        .unwrap();
    let scores: Vec<(u32, f64)> = ranked.iter().map(|host| (host.slot, host.score)).collect();
    assert_eq!(scores, [(0, 2.25), (7, 2.0), (2, 1.5)]);

    let policy = scheduler.policy();
    let compiled = policy
        .compile(&request, scheduler.hosts(), INSTANCE)
        .unwrap();
    let scales = compiled.weighers.scales(&[0, 2, 7]);
    // By host and weigher: the raw value, the normalised value, and the share of the score.
    let expected = [
        (
            0,
            [
                ("RAMWeigher", 24_576.0, 0.75, 0.75),
                ("CPUWeigher", 8.0, 0.5, 0.5),
                ("DiskWeigher", 409_600.0, 1.0, 1.0),
                ("IoOpsWeigher", 0.0, 0.0, 0.0),
            ],
        ),
        (
            2,
            [
                ("RAMWeigher", 32_768.0, 1.0, 1.0),
                ("CPUWeigher", 16.0, 1.0, 1.0),
                ("DiskWeigher", 204_800.0, 0.5, 0.5),
                ("IoOpsWeigher", 2.0, 1.0, -1.0),
            ],
        ),
        (
            7,
            [
                ("RAMWeigher", 16_384.0, 0.5, 0.5),
                ("CPUWeigher", 12.0, 0.75, 0.75),
                ("DiskWeigher", 307_200.0, 0.75, 0.75),
                ("IoOpsWeigher", 0.0, 0.0, 0.0),
            ],
        ),
    ];
    for (slot, expected_shares) in expected {
        let mut sum = 0.0;
        for share in scales.shares(slot) {
            let expected_share = expected_shares
                .iter()
                .find(|(weigher, ..)| *weigher == share.weigher);
            match expected_share {
                Some((_, raw_value, normalised, weighted)) => {
                    assert_eq!(share.raw_value, *raw_value, "{share:?}");
                    assert_eq!(share.normalised, *normalised, "{share:?}");
                    assert_eq!(share.share, *weighted, "{share:?}");
                }
                // All other weighers have the same value for all hosts, which adds nothing.
                None => assert_eq!(share.share, 0.0, "{share:?}"),
            }
            sum += share.share;
        }
        assert!(scores.contains(&(slot, sum)), "{slot} {sum}");
    }
}

#[test]
fn the_index_gives_the_same_ranking() {
    let state = placement();
    let mut scheduler = scheduler(&state);
    let request = request();
    let linear = {
        let prepared = scheduler.prepare(&state, &request).unwrap();
        scheduler
            .rank_all(&state, &request, &prepared, &scope(3))
            .unwrap()
    };
    // The first request of the class is a one-off request. For the second, the index is cached.
    for _ in 0..2 {
        let prepared = scheduler.prepare_cached(&state, &request).unwrap();
        let indexed = scheduler
            .rank(&state, &request, &prepared, &scope(3))
            .unwrap();
        assert_eq!(indexed, linear);
    }
}

#[test]
fn the_claim_takes_the_first_host_that_still_fits() {
    let mut state = placement();
    let mut scheduler = scheduler(&state);
    let prepared = scheduler.prepare(&state, &request()).unwrap();
    assert_eq!(hard_topology_rules(&request()).count(), 0);
    let candidates = candidates(&mut scheduler, &state, &prepared);
    let mut undisturbed = state.clone();
    claim(&mut undisturbed, INSTANCE, Some(GROUP), candidates.clone());
    assert_eq!(host_of(&undisturbed, INSTANCE), Some(ProviderId(0)));

    // Another claim takes 5 of the 8 free CPUs of h0 between the ranking and the claim.
    let competing = candidate(0, &[("VCPU", 5)]);
    claim(&mut state, Uuid::from_u128(0xdd), None, vec![competing]);
    claim(&mut state, INSTANCE, Some(GROUP), candidates);
    assert_eq!(host_of(&state, INSTANCE), Some(ProviderId(7)));
}
