//! Cached rankings give the same hosts as weighing every host, and those are placement's
//! candidates that pass the filters, whatever happened in between.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::collections::BTreeSet;

use placewright_placement::group::{Level, Relation, Rule, RuleScope as Place};
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, ProviderId, State, Timestamp,
    decide, find_candidates,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::rank::Ranked;
use placewright_scheduler::request::group::{Strength, TopologyRelation, TopologyRule};
use placewright_scheduler::request::{GroupPolicy, RequestSpec, ServerGroup};
use placewright_scheduler::select::rules::of_topology;
use placewright_scheduler::select::weights::Weights;
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

fn run(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let accepted = decide(state, command, &mut changes).is_ok();
    if accepted {
        changes.iter().for_each(|change| drop(state.apply(change)));
    }
    accepted
}

/// A fleet in which every third host is a tree with two NUMA nodes that hold its CPUs.
#[expect(clippy::too_many_lines, reason = "one fleet, described in a row")]
fn fleet(sizes: &[u8]) -> State {
    let at = Timestamp::from_seconds(1);
    let mut state = State::default();
    run(&mut state, &Command::SyncStandardNames { at });
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
        run(&mut state, &create(host, format!("host{number}"), None));
        let cpus = ("VCPU".to_owned(), Inventory::new(size * 2, 2.0));
        let mut own = vec![
            ("MEMORY_MB".to_owned(), Inventory::new(size * 1024, 1.0)),
            ("DISK_GB".to_owned(), Inventory::new(size * 10, 1.0)),
        ];
        if number % 3 == 0 {
            for node in 0..2u32 {
                let uuid = Uuid::from_u128(0x9000 + u128::from(number * 2 + node));
                run(
                    &mut state,
                    &create(uuid, format!("numa{number}-{node}"), Some(host)),
                );
                run(&mut state, &set(uuid, vec![cpus.clone()]));
            }
        } else {
            own.push(cpus);
        }
        run(&mut state, &set(host, own));
        let traits = if number % 4 == 0 {
            vec!["HW_CPU_X86_AVX".to_owned()]
        } else {
            vec![]
        };
        run(
            &mut state,
            &Command::SetTraits {
                provider: host,
                generation: None,
                traits,
                at,
            },
        );
        let aggregates = vec![rack(number % 7)];
        run(
            &mut state,
            &Command::SetAggregates {
                provider: host,
                generation: None,
                aggregates,
                at,
            },
        );
    }
    let aggregates = (0..7).map(rack).collect();
    let levels = vec![Level {
        name: "rack".into(),
        aggregates,
    }];
    run(
        &mut state,
        &Command::SetLevels {
            levels,
            distances: Vec::new(),
        },
    );
    let rules = vec![Rule {
        scope: Place::Host,
        relation: Relation::FewerThan(1),
    }];
    run(
        &mut state,
        &Command::SetGroup {
            group: Uuid::from_u128(0xe1),
            rules,
        },
    );
    state
}

fn topology_rules(kind: u8) -> Vec<TopologyRule> {
    let to = |count: u128| {
        (0..count)
            .map(|number| Uuid::from_u128(0xc000 + number))
            .collect()
    };
    let mut rule = TopologyRule::hard("rack", TopologyRelation::Different);
    match kind {
        1 => {
            rule.to = to(2);
            vec![rule]
        }
        2 => {
            rule.relation = TopologyRelation::Spread;
            rule.to = to(12);
            vec![rule]
        }
        3 => {
            rule.strength = Strength::Soft;
            rule.to = to(3);
            let mut near = rule.clone();
            (near.level, near.relation) = (None, TopologyRelation::Near);
            vec![rule, near]
        }
        _ => Vec::new(),
    }
}

fn request() -> impl Strategy<Value = RequestSpec> {
    let group = prop_oneof![
        4 => Just(None),
        1 => Just(Some((0xe1, GroupPolicy::AntiAffinity))),
        1 => Just(Some((0xe2, GroupPolicy::Affinity))),
    ];
    // Few values, so that requests of one class come again after claims.
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
        0u8..12,
        condition,
    )
        .prop_map(|(vcpus, memory, disk, avx, group, kind, condition)| {
            let (vcpus, memory, disk, avx) = match condition {
                Some(_) => (1, memory % 2, 1, false),
                None => (vcpus, memory, disk, avx),
            };
            let mut flavor = Flavor {
                vcpus,
                memory_mb: 512 + memory * 1024,
                root_gb: disk * 5,
                ..Flavor::default()
            };
            let mut extra = |key: &str, value: &str| {
                flavor.extra_specs.insert(key.into(), value.into());
            };
            if avx {
                extra("trait:HW_CPU_X86_AVX", "required");
            }
            if let Some((name, condition)) = condition {
                extra(name, condition);
            }
            if kind == 0 {
                // Two groups, each served by a NUMA node.
                extra("resources:VCPU", "0");
                extra("resources1:VCPU", "1");
                extra("resources2:VCPU", "1");
                extra("group_policy", "isolate");
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
        })
}

/// Whether filters and rules let every usable host pass.
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
        6 => (request(), 0u8..40).prop_map(|(request, who)| Event::Claim(Box::new(request), who)),
        2 => (0u8..40).prop_map(Event::Release),
        1 => (0..HOSTS, any::<bool>()).prop_map(|(host, on)| Event::Disable(host, on)),
        1 => (0..HOSTS, 0u32..4).prop_map(|(host, ops)| Event::Load(host, ops)),
    ]
}

fn instance(number: u8) -> Uuid {
    Uuid::from_u128(0xc000 + u128::from(number))
}

/// A scheduler that has heard of every host of a fleet.
fn scheduler_of(hosts: u32, now: Timestamp) -> Scheduler {
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    for number in 0..hosts {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{number}");
        report.facts.names.node = format!("host{number}");
        report.facts.names.cell = Uuid::from_u128(u128::from(number % 2) + 1);
        let full = HostUpdate::Full(Box::new(report));
        scheduler.hosts_mut().apply(host_uuid(number), now, &full);
    }
    scheduler
}

/// What `rank` finds and what `rank_all` finds, as slots.
fn found(scheduler: &mut Scheduler, state: &State, request: &RequestSpec) -> [Vec<u32>; 2] {
    scheduler.observe(state, Timestamp::from_seconds(100));
    let prepared = scheduler.prepare_once(state, request).unwrap();
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

/// A condition on a free amount can come true by a claim, which otherwise only takes away.
#[test]
fn a_host_that_only_lost_capacity_can_become_feasible() {
    for (name, condition) in [
        ("free_ram_mb", "<= 3600"),
        ("vcpus_used", ">= 1"),
        ("disk_mb_used", ">= 5120"),
        ("free_disk_mb", "<= 36000"),
    ] {
        // Hosts with 4,096 MB of memory and 40 GB of disk.
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
        // From the second time on, what was found out about the class is kept.
        for _ in 0..3 {
            let none: [Vec<u32>; 2] = [vec![], vec![]];
            assert_eq!(found(&mut scheduler, &state, &request), none, "{name}");
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
        assert!(run(&mut state, &claim));
        for _ in 0..2 {
            let one = [vec![host.0], vec![host.0]];
            assert_eq!(found(&mut scheduler, &state, &request), one, "{name}");
        }
    }
}

/// The slots of hosts that are asked about besides the ranking.
const ASKED: [u32; 3] = [7, 3, 9];

/// The hosts that are asked about have the places and weights of the whole ranking.
fn assert_asked(told: &[Ranked], weights: &Weights) {
    let all = told.iter().zip(&weights.of_hosts).enumerate();
    let all = all.filter(|(_, (one, _))| ASKED.contains(&one.slot));
    let of_asked = weights.of_asked.iter();
    let of_asked = of_asked.map(|one| (one.slot, one.rank, &one.weights));
    assert!(of_asked.eq(all.map(|(place, (one, weights))| (one.slot, place + 1, weights))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn ranks_as_weighing_every_host_does(
        sizes in prop::collection::vec(any::<u8>(), HOSTS as usize),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut state = fleet(&sizes);
        let now = Timestamp::from_seconds(100);
        let mut scheduler = scheduler_of(HOSTS, now);
        for event in &events {
            match event {
                Event::Claim(request, who) => {
                    scheduler.observe(&state, now);
                    let prepared = scheduler.prepare_once(&state, request).unwrap();
                    let scope = Scope { instance: instance(*who), count: 4, ..Scope::default() };
                    let found = scheduler.rank(&state, request, &prepared, &scope).unwrap();
                    // The cache of the request's class does not change the result.
                    let alone = scheduler.prepare(&state, request).unwrap();
                    prop_assert_eq!(&alone.query, &prepared.query);
                    let afresh = scheduler.rank(&state, request, &alone, &scope).unwrap();
                    prop_assert_eq!(&found, &afresh);
                    let all = Scope { count: 1_000, ..scope.clone() };
                    let everyone = scheduler.rank_all(&state, request, &prepared, &all).unwrap();
                    prop_assert_eq!(found.len(), everyone.len().min(4));
                    let (told, weights) = scheduler.rank_with_weights(&state, request, &prepared, &all, ASKED.to_vec()).unwrap();
                    prop_assert_eq!(&told, &everyone);
                    prop_assert_eq!((weights.compared, weights.of_hosts.len()), (told.len(), told.len()));
                    assert_asked(&told, &weights);
                    for (one, weights) in told.iter().zip(&weights.of_hosts) {
                        let sum: f64 = weights.iter().map(|weight| weight.share).sum();
                        prop_assert!((sum - one.score).abs() < 1e-9, "{one:?} {weights:?}");
                    }
                    for (mine, theirs) in found.iter().zip(&everyone) {
                        let is_tie = (mine.score - theirs.score).abs() < 1e-9;
                        prop_assert!(mine.slot == theirs.slot || is_tie, "{mine:?} {theirs:?}");
                        prop_assert!(is_tie || everyone.len() < 2);
                    }
                    // The feasible hosts are those that placement offers, minus those that filters
                    // and rules exclude.
                    let offered = find_candidates(&state, &prepared.query).unwrap();
                    let roots: BTreeSet<u32> = offered
                        .iter()
                        .flat_map(|one| one.allocations().to_vec())
                        .filter_map(|one| Some(state.provider(one.provider)?.root.0))
                        .filter(|root| scheduler.hosts().usable().contains(*root))
                        .collect();
                    if is_unconditional(request) {
                        let slots: BTreeSet<u32> = everyone.iter().map(|host| host.slot).collect();
                        prop_assert_eq!(slots, roots);
                    }
                    let candidates: Vec<_> = found
                        .iter()
                        .flat_map(|host| {
                            scheduler.candidates(&state, &prepared, host.slot, 2).unwrap()
                        })
                        .collect();
                    let group = request.instance_group.as_ref().map(|group| group.uuid);
                    let intent = Intent {
                        consumer: ConsumerUuid::from_uuid(instance(*who)),
                        generation: ConsumerGeneration::Any,
                        project: "p".into(),
                        user: "u".into(),
                        consumer_type: None,
                        group: group.filter(|group| state.group(*group).is_some()),
                        rules: of_topology(request).collect(),
                        candidates,
                        alongside: Vec::new(),
                    };
                    // The host ranked first is the one that is claimed.
                    let at = Timestamp::from_seconds(2);
                    let claimed =
                        run(&mut state, &Command::ClaimFirst { intents: vec![intent], least: 1, at });
                    prop_assert_eq!(claimed, !found.is_empty());
                    if let Some(best) = found.first() {
                        let consumer = ConsumerUuid::from_uuid(instance(*who));
                        let placing = state.consumer(consumer).and_then(|one| one.placing);
                        prop_assert_eq!(placing.map(|one| one.host), Some(ProviderId(best.slot)));
                    }
                }
                Event::Release(who) => {
                    let consumer = ConsumerUuid::from_uuid(instance(*who));
                    run(&mut state, &Command::Release { consumer });
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
