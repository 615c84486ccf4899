//! The indexed ranking returns the same hosts as the linear ranking, after any sequence of events.
//! They are the hosts that placement offers as candidates and that pass filters and rules.

use std::collections::BTreeSet;

use crate::rankings::{REQUESTED_SLOTS, assert_explained};
use placewright_placement::group::{Level, Relation, Rule, RuleScope};
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, ProviderId, State, Timestamp,
    decide, find_candidates,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::group::{Strength, TopologyRelation, TopologyRule};
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::rules::hard_topology_rules;
use placewright_scheduler::select::{Scheduler, Scope};
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: u32 = 150;

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(number))
}

fn rack(number: u32) -> String {
    Uuid::from_u128(0xacc0 + u128::from(number)).to_string()
}

fn execute(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let accepted = decide(state, command, &mut changes).is_ok();
    if accepted {
        changes.iter().for_each(|change| drop(state.apply(change)));
    }
    accepted
}

/// A fleet in which every third host is a tree with two NUMA nodes that hold its CPUs. A host with size n has
/// `n % 8 + 1` times 2 VCPU (in each NUMA node), 1,024 MB of memory and 10 GB of disk.
#[expect(
    clippy::too_many_lines,
    reason = "one fleet, described in one function"
)]
fn fleet(sizes: &[u8]) -> State {
    let at = Timestamp::from_seconds(1);
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at });
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
    for (number, size) in (0u32..).zip(sizes) {
        let (host, size) = (host_uuid(number), i32::from(*size % 8) + 1);
        execute(&mut state, &create(host, format!("host{number}"), None));
        let cpus = ("VCPU".to_owned(), Inventory::new(size * 2, 2.0));
        let mut inventories = vec![
            ("MEMORY_MB".to_owned(), Inventory::new(size * 1024, 1.0)),
            ("DISK_GB".to_owned(), Inventory::new(size * 10, 1.0)),
        ];
        if number % 3 == 0 {
            for node in 0..2u32 {
                let uuid = Uuid::from_u128(0x9000 + u128::from(number * 2 + node));
                execute(
                    &mut state,
                    &create(uuid, format!("numa{number}-{node}"), Some(host)),
                );
                execute(&mut state, &set(uuid, vec![cpus.clone()]));
            }
        } else {
            inventories.push(cpus);
        }
        execute(&mut state, &set(host, inventories));
        let traits = if number % 4 == 0 {
            vec!["HW_CPU_X86_AVX".to_owned()]
        } else {
            vec![]
        };
        execute(
            &mut state,
            &Command::SetTraits {
                provider: host,
                generation: None,
                traits,
                at,
            },
        );
        let aggregates = vec![rack(number % 7)];
        execute(
            &mut state,
            &Command::SetAggregates {
                provider: host,
                generation: None,
                aggregates,
                at,
            },
        );
    }
    let levels = vec![racks()];
    execute(
        &mut state,
        &Command::SetLevels {
            levels,
            distances: Vec::new(),
        },
    );
    let rules = vec![Rule {
        scope: RuleScope::Host,
        relation: Relation::FewerThan(1),
    }];
    execute(
        &mut state,
        &Command::SetGroup {
            group: Uuid::from_u128(0xe1),
            rules,
        },
    );
    state
}

/// Kinds of requests with two suffixed groups, with a hard rule between racks, and with soft rules. Other numbers mean
/// none of these.
const GRANULAR: u8 = 0;
const DIFFERENT_RACKS: u8 = 1;
const SPREAD_OVER_RACKS: u8 = 2;
const SOFT_RULES: u8 = 3;
const NAMED_RACKS: u8 = 4;
const KINDS: u8 = 12;

/// The level of the racks, with their names.
fn racks() -> Level {
    let aggregates: Vec<String> = (0..7).map(rack).collect();
    let names = aggregates.iter().enumerate();
    Level {
        name: "rack".into(),
        names: names
            .map(|(number, uuid)| (uuid.clone(), rack_name(number)))
            .collect(),
        aggregates,
    }
}

/// The name of a rack, whose end `r1` names it as well.
fn rack_name(number: usize) -> String {
    format!("north/r{number}")
}

/// The topology rules of a kind of requests.
fn topology_rules(kind: u8) -> Vec<TopologyRule> {
    let instances = |count: u128| {
        (0..count)
            .map(|number| Uuid::from_u128(0xc000 + number))
            .collect()
    };
    let mut rule = TopologyRule::hard("rack", TopologyRelation::Different);
    match kind {
        DIFFERENT_RACKS => {
            rule.to = instances(2);
            vec![rule]
        }
        SPREAD_OVER_RACKS => {
            rule.relation = TopologyRelation::Spread;
            rule.to = instances(12);
            vec![rule]
        }
        SOFT_RULES => {
            rule.strength = Strength::Soft;
            rule.to = instances(3);
            let mut near = rule.clone();
            (near.level, near.relation) = (None, TopologyRelation::Near);
            vec![rule, near]
        }
        NAMED_RACKS => {
            rule.strength = Strength::Soft;
            rule.place = [rack_name(2), "nowhere".to_owned()].into();
            let mut wanted = rule.clone();
            wanted.relation = TopologyRelation::Same;
            wanted.place = ["r1".to_owned(), rack_name(5)].into();
            vec![rule, wanted]
        }
        _ => Vec::new(),
    }
}

fn request() -> impl Strategy<Value = RequestSpec> {
    let group = prop_oneof![
        4 => Just(None),
        // Placement has the first of these two groups, and not the second.
        1 => Just(Some((0xe1, GroupPolicy::AntiAffinity))),
        1 => Just(Some((0xe2, GroupPolicy::Affinity))),
    ];
    // All parts have few values, so that requests of one class are repeated after claims.
    let conditions = prop::sample::select(vec![
        ("capabilities:free_ram_mb", "<= 2500"),
        ("capabilities:vcpus_used", ">= 3"),
        ("capabilities:free_disk_mb", "<= 30000"),
        ("capabilities:num_instances", "<= 1"),
    ]);
    let condition = prop::option::weighted(0.3, conditions);
    (
        1u32..5,
        0u32..3,
        0u32..4,
        any::<bool>(),
        group,
        0..KINDS,
        condition,
    )
        .prop_map(
            |(vcpus, memory_step, disk_step, needs_avx, group, kind, condition)| {
                let (vcpus, memory_step, disk_step, needs_avx) = match condition {
                    Some(_) => (1, memory_step % 2, 1, false),
                    None => (vcpus, memory_step, disk_step, needs_avx),
                };
                let mut flavor = Flavor {
                    vcpus,
                    memory_mb: 512 + memory_step * 1024,
                    root_gb: disk_step * 5,
                    ..Flavor::default()
                };
                let mut add_extra_spec = |key: &str, value: &str| {
                    flavor.extra_specs.insert(key.into(), value.into());
                };
                if needs_avx {
                    add_extra_spec("trait:HW_CPU_X86_AVX", "required");
                }
                if let Some((name, condition)) = condition {
                    add_extra_spec(name, condition);
                }
                if kind == GRANULAR {
                    // Two groups, each served by a NUMA node.
                    add_extra_spec("resources:VCPU", "0");
                    add_extra_spec("resources1:VCPU", "1");
                    add_extra_spec("resources2:VCPU", "1");
                    add_extra_spec("group_policy", "isolate");
                }
                let mut request = RequestSpec::new(flavor);
                request.instance_group = group.map(|(uuid, policy)| ServerGroup {
                    uuid: Uuid::from_u128(uuid),
                    policy: Some(policy),
                    max_server_per_host: None,
                    members: (0..6)
                        .map(|number| Uuid::from_u128(0xc000 + number))
                        .collect(),
                    hosts: BTreeSet::new(),
                    topology_rules: Vec::new(),
                });
                request.topology_rules = topology_rules(kind);
                request
            },
        )
}

/// Whether every usable host passes the filters and rules.
fn is_unconditional(request: &RequestSpec) -> bool {
    let mut specs = request.flavor.extra_specs.keys();
    let has_condition = specs.any(|key| key.starts_with("capabilities:"));
    request.instance_group.is_none() && request.topology_rules.is_empty() && !has_condition
}

/// An event between two requests.
#[derive(Clone, Debug)]
enum Event {
    Claim(Box<RequestSpec>, u8),
    Release(u8),
    Disable(u32, bool),
    Load(u32, u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (request(), 0u8..40).prop_map(|(request, number)| Event::Claim(Box::new(request), number)),
        2 => (0u8..40).prop_map(Event::Release),
        1 => (0..HOSTS, any::<bool>()).prop_map(|(host, is_disabled)| Event::Disable(host, is_disabled)),
        1 => (0..HOSTS, 0u32..4).prop_map(|(host, io_ops)| Event::Load(host, io_ops)),
    ]
}

fn instance(number: u8) -> Uuid {
    Uuid::from_u128(0xc000 + u128::from(number))
}

/// A scheduler that has the reports of all hosts of a fleet.
fn scheduler_of(host_count: u32, now: Timestamp) -> Scheduler {
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    for number in 0..host_count {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{number}");
        report.facts.names.node = format!("host{number}");
        report.facts.names.cell = Uuid::from_u128(u128::from(number % 2) + 1);
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host_uuid(number), now, &full);
    }
    scheduler
}

/// The slots that `rank` returns, and those that `rank_all` returns.
fn ranked_slots(scheduler: &mut Scheduler, state: &State, request: &RequestSpec) -> [Vec<u32>; 2] {
    scheduler.observe(state, Timestamp::from_seconds(100));
    let prepared = scheduler.prepare_cached(state, request).unwrap();
    let scope = Scope {
        instance: instance(9),
        count: 4,
        ..Scope::default()
    };
    let best = scheduler.rank(state, request, &prepared, &scope).unwrap();
    let all = scheduler
        .rank_all(state, request, &prepared, &scope)
        .unwrap();
    [best, all].map(|hosts| hosts.iter().map(|host| host.slot).collect())
}

/// A condition on a free amount can become true by a claim, although claims in general make no host
/// feasible.
#[test]
fn a_host_that_only_lost_capacity_can_become_feasible() {
    for (name, condition) in [
        ("free_ram_mb", "<= 3600"),
        ("vcpus_used", ">= 1"),
        ("disk_mb_used", ">= 5120"),
        ("free_disk_mb", "<= 36000"),
    ] {
        // Hosts with 4,096 MB of memory and 40 GB of disk: four times the amounts of the smallest.
        let mut state = fleet(&[3; 6]);
        let mut scheduler = scheduler_of(6, Timestamp::from_seconds(100));
        let mut request = RequestSpec::new(Flavor {
            vcpus: 1,
            memory_mb: 512,
            root_gb: 5,
            ..Flavor::default()
        });
        let unconditional = request.clone();
        let specs = &mut request.flavor.extra_specs;
        specs.insert(format!("capabilities:{name}"), condition.into());
        // From the second request on, results are cached by class.
        for _ in 0..3 {
            let no_hosts: [Vec<u32>; 2] = [vec![], vec![]];
            assert_eq!(
                ranked_slots(&mut scheduler, &state, &request),
                no_hosts,
                "{name}"
            );
        }
        let prepared = scheduler.prepare(&state, &unconditional).unwrap();
        let host = state.provider_id(host_uuid(1)).unwrap();
        let intent = Intent {
            consumer: ConsumerUuid::from_uuid(instance(0)),
            generation: ConsumerGeneration::Any,
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            group: None,
            rules: Vec::new(),
            candidates: scheduler.candidates(&state, &prepared, host.0, 1).unwrap(),
            alongside: Vec::new(),
        };
        let claim = Command::ClaimFirst {
            intents: vec![intent],
            least: 1,
            at: Timestamp::from_seconds(2),
        };
        assert!(execute(&mut state, &claim));
        for _ in 0..2 {
            let one_host = [vec![host.0], vec![host.0]];
            assert_eq!(
                ranked_slots(&mut scheduler, &state, &request),
                one_host,
                "{name}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_indexed_ranking_agrees_with_the_linear_ranking(
        sizes in prop::collection::vec(any::<u8>(), HOSTS as usize),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut state = fleet(&sizes);
        let now = Timestamp::from_seconds(100);
        let mut scheduler = scheduler_of(HOSTS, now);
        for event in &events {
            match event {
                Event::Claim(request, number) => {
                    scheduler.observe(&state, now);
                    let prepared = scheduler.prepare_cached(&state, request).unwrap();
                    let scope = Scope { instance: instance(*number), count: 4, ..Scope::default() };
                    let ranked = scheduler.rank(&state, request, &prepared, &scope).unwrap();
                    // Without a cache the result is the same.
                    let prepared_uncached = scheduler.prepare(&state, request).unwrap();
                    prop_assert_eq!(&prepared_uncached.query, &prepared.query);
                    let ranked_uncached = scheduler.rank(&state, request, &prepared_uncached, &scope).unwrap();
                    prop_assert_eq!(&ranked, &ranked_uncached);
                    let unlimited = Scope { count: 1_000, ..scope.clone() };
                    let ranked_linearly = scheduler.rank_all(&state, request, &prepared, &unlimited).unwrap();
                    prop_assert_eq!(ranked.len(), ranked_linearly.len().min(4));
                    let (ranked_with_weights, weights) = scheduler.rank_with_weights(&state, request, &prepared, &unlimited, REQUESTED_SLOTS.to_vec()).unwrap();
                    prop_assert_eq!(&ranked_with_weights, &ranked_linearly);
                    prop_assert_eq!((weights.compared, weights.of_best.len()), (ranked_with_weights.len(), ranked_with_weights.len()));
                    assert_explained(&mut scheduler, (&state, request, &prepared, &scope), &ranked, (&ranked_with_weights, &weights));
                    for (host, weights) in ranked_with_weights.iter().zip(&weights.of_best) {
                        let sum: f64 = weights.iter().map(|weight| weight.share).sum();
                        prop_assert!((sum - host.score).abs() < 1e-9, "{host:?} {weights:?}");
                    }
                    for (indexed, linear) in ranked.iter().zip(&ranked_linearly) {
                        let scores_agree = (indexed.score - linear.score).abs() < 1e-9;
                        prop_assert!(indexed.slot == linear.slot || scores_agree, "{indexed:?} {linear:?}");
                        prop_assert!(scores_agree || ranked_linearly.len() < 2);
                    }
                    // Without filters and rules, the feasible hosts are those of placement's
                    // candidates.
                    let offered = find_candidates(&state, &prepared.query).unwrap();
                    let offered_roots: BTreeSet<u32> = offered
                        .iter()
                        .flat_map(|candidate| candidate.allocations().to_vec())
                        .filter_map(|allocation| Some(state.provider(allocation.provider)?.root.0))
                        .filter(|root| scheduler.hosts().usable().contains(*root))
                        .collect();
                    if is_unconditional(request) {
                        let slots: BTreeSet<u32> = ranked_linearly.iter().map(|host| host.slot).collect();
                        prop_assert_eq!(slots, offered_roots);
                    }
                    let candidates: Vec<_> = ranked
                        .iter()
                        .flat_map(|host| {
                            scheduler.candidates(&state, &prepared, host.slot, 2).unwrap()
                        })
                        .collect();
                    let group = request.instance_group.as_ref().map(|group| group.uuid);
                    let intent = Intent {
                        consumer: ConsumerUuid::from_uuid(instance(*number)),
                        generation: ConsumerGeneration::Any,
                        project: "p".into(),
                        user: "u".into(),
                        consumer_type: None,
                        group: group.filter(|group| state.group(*group).is_some()),
                        rules: hard_topology_rules(request).collect(),
                        candidates,
                        alongside: Vec::new(),
                    };
                    // The claim takes the host that was ranked first.
                    let at = Timestamp::from_seconds(2);
                    let claimed =
                        execute(&mut state, &Command::ClaimFirst { intents: vec![intent], least: 1, at });
                    prop_assert_eq!(claimed, !ranked.is_empty());
                    if let Some(best) = ranked.first() {
                        let consumer = ConsumerUuid::from_uuid(instance(*number));
                        let assignment = state.consumer(consumer).and_then(|consumer| consumer.host_assignment);
                        prop_assert_eq!(assignment.map(|assignment| assignment.host), Some(ProviderId(best.slot)));
                    }
                }
                Event::Release(number) => {
                    let consumer = ConsumerUuid::from_uuid(instance(*number));
                    execute(&mut state, &Command::Release { consumer });
                }
                Event::Disable(host, is_disabled) => {
                    let reason = is_disabled.then(|| "test".to_owned());
                    let update = HostUpdate::Disabled(reason);
                    scheduler.hosts_mut().apply(host_uuid(*host), now, &update);
                }
                Event::Load(host, io_ops) => {
                    let load = placewright_scheduler::host_state::Load {
                        io_ops: *io_ops,
                        ..Default::default()
                    };
                    let update = HostUpdate::Load(load);
                    scheduler.hosts_mut().apply(host_uuid(*host), now, &update);
                }
            }
        }
    }
}
