//! Measures how fast the core decides: `cargo bench -p placewright-placement`.
//!
//! The bars are in the names of the groups: one claim at most 5 µs, the first 1,000 candidates of 10,000 hosts at most
//! 1 ms, the first candidate of a wide tree at most 1 ms and 1,000 at most 20 ms. Explanations have no bar.

use std::cell::RefCell;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use placewright_placement::{
    AllocationRequest, CandidateQuery, Candidates, Command, ConsumerClaim, ConsumerGeneration,
    ConsumerUuid, GroupPolicy, Inventory, RequestGroup, State, Timestamp, decide, explain,
    find_candidates,
};
use uuid::Uuid;

const HOSTS: u128 = 10_000;

fn execute(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).expect("the fleet is sound");
    for change in &changes {
        state.apply(change);
    }
}

fn empty() -> State {
    let mut state = State::default();
    let at = Timestamp::default();
    execute(&mut state, &Command::SyncStandardNames { at });
    state
}

fn add_provider(state: &mut State, number: u128, parent: Option<u128>, totals: &[(&str, i32)]) {
    let at = Timestamp::default();
    let uuid = Uuid::from_u128(number);
    let parent = parent.map(Uuid::from_u128);
    let name = uuid.to_string();
    execute(
        state,
        &Command::CreateProvider {
            uuid,
            name,
            parent,
            at,
        },
    );
    let inventories = totals
        .iter()
        .map(|(class, total)| ((*class).to_owned(), Inventory::new(*total, 1.0)))
        .collect();
    execute(
        state,
        &Command::SetInventories {
            provider: uuid,
            generation: None,
            inventories,
            may_reserve_all: false,
            at,
        },
    );
}

const HOST: [(&str, i32); 3] = [("VCPU", 64), ("MEMORY_MB", 262_144), ("DISK_GB", 2_000)];

fn flat_fleet() -> State {
    let mut state = empty();
    for host in 0..HOSTS {
        add_provider(&mut state, host, None, &HOST);
    }
    state
}

/// A fleet of hosts, each with `children` devices below it. Each device has `units` units.
fn wide_trees(hosts: u128, children: u128, units: i32) -> State {
    let mut state = empty();
    for host in 0..hosts {
        let root = host * 1_000;
        add_provider(&mut state, root, None, &HOST);
        for child in 1..=children {
            add_provider(&mut state, root + child, Some(root), &[("VGPU", units)]);
        }
    }
    state
}

fn flavor() -> RequestGroup {
    RequestGroup {
        resources: vec![
            ("VCPU".into(), 4),
            ("MEMORY_MB".into(), 8_192),
            ("DISK_GB".into(), 40),
        ],
        ..RequestGroup::default()
    }
}

fn flat_query(limit: usize) -> CandidateQuery {
    CandidateQuery {
        groups: vec![flavor()],
        limit: Some(limit),
        nested: true,
        ..CandidateQuery::default()
    }
}

/// A request like that of a flavor with this many devices, each in a group of its own.
fn device_query(groups: usize, policy: GroupPolicy, limit: usize) -> CandidateQuery {
    let device = |number: usize| RequestGroup {
        suffix: format!("_{number}"),
        resources: vec![("VGPU".into(), 1)],
        ..RequestGroup::default()
    };
    CandidateQuery {
        groups: std::iter::once(flavor())
            .chain((0..groups).map(device))
            .collect(),
        group_policy: Some(policy),
        limit: Some(limit),
        nested: true,
        ..CandidateQuery::default()
    }
}

fn search(state: &State, query: &CandidateQuery, expected: usize) -> Candidates {
    let found = find_candidates(state, query).expect("all names are known");
    assert_eq!(found.len(), expected);
    found
}

fn claims(c: &mut Criterion) {
    let state = RefCell::new(flat_fleet());
    let undo_steps = RefCell::new(Vec::new());
    let mut number = 0u128;
    let mut group = c.benchmark_group("claim (bar: 5 us)");
    group.bench_function("decide and apply, 10,000 hosts", |b| {
        b.iter_batched(
            || {
                let undo: Vec<_> = undo_steps.borrow_mut().drain(..).collect();
                for step in undo.into_iter().rev() {
                    state.borrow_mut().undo(step);
                }
                number += 1;
                // Multiplied by a prime, so that the claims are spread over all hosts.
                claim(number, number * 7_919 % HOSTS)
            },
            |command| {
                let mut changes = Vec::with_capacity(4);
                decide(&state.borrow(), &command, &mut changes).expect("there is room");
                let mut state = state.borrow_mut();
                undo_steps
                    .borrow_mut()
                    .extend(changes.iter().map(|change| state.apply(change)));
            },
            BatchSize::PerIteration,
        );
    });
    let mut large = claim(u128::MAX, 0);
    if let Command::Claim { consumers, .. } = &mut large {
        let all = (0..HOSTS).map(|host| AllocationRequest {
            provider: Uuid::from_u128(host),
            resources: vec![("VCPU".to_owned(), 1)],
        });
        consumers[0].allocations = all.collect();
    }
    group.sample_size(20);
    group.bench_function("of 10,000 hosts at once", |b| {
        b.iter(|| {
            let mut changes = Vec::new();
            decide(&state.borrow(), &large, &mut changes).expect("there is room");
            let mut state = state.borrow_mut();
            let undo: Vec<_> = changes.iter().map(|change| state.apply(change)).collect();
            undo.into_iter().rev().for_each(|step| state.undo(step));
        });
    });
    group.finish();
}

fn claim(consumer: u128, host: u128) -> Command {
    Command::Claim {
        consumers: vec![ConsumerClaim {
            consumer: ConsumerUuid::from_uuid(Uuid::from_u128(consumer)),
            generation: ConsumerGeneration::Is(None),
            project: "project".into(),
            user: "user".into(),
            consumer_type: Some("INSTANCE".into()),
            allocations: vec![AllocationRequest {
                provider: Uuid::from_u128(host),
                resources: flavor().resources,
            }],
        }],
        at: Timestamp::from_seconds(1),
    }
}

fn flat(c: &mut Criterion) {
    let state = flat_fleet();
    let mut group = c.benchmark_group("10,000 flat hosts (bar: 1 ms)");
    let first = flat_query(1_000);
    group.bench_function("first 1,000 candidates", |b| {
        b.iter(|| black_box(search(&state, &first, 1_000)));
    });
    let all = flat_query(100_000);
    group.bench_function("all 10,000 candidates", |b| {
        b.iter(|| black_box(search(&state, &all, 10_000)));
    });
    let mut infeasible = flat_query(1_000);
    let more_than_any_host_has = 65;
    infeasible.groups[0].resources[0] = ("VCPU".into(), more_than_any_host_has);
    group.bench_function("no candidate", |b| {
        b.iter(|| black_box(search(&state, &infeasible, 0)));
    });
    group.finish();
}

fn trees(c: &mut Criterion) {
    let mut group = c.benchmark_group("wide trees (bars: first 1 ms, 1,000 within 20 ms)");
    group.sample_size(20);
    for (children, groups) in [(8, 8), (21, 8), (21, 21)] {
        for (policy, units) in [
            (GroupPolicy::None, 1),
            (GroupPolicy::None, 30),
            (GroupPolicy::Isolate, 30),
        ] {
            let state = wide_trees(1, children, units);
            for limit in [1, 1_000] {
                // Devices of the host, groups of the query, group policy, units of each device, limit.
                let name = format!("{children} x {groups}, {policy:?}, {units} each, {limit}");
                let query = device_query(groups, policy, limit);
                group.bench_function(&name, |b| {
                    b.iter(|| black_box(search(&state, &query, limit)));
                });
            }
        }
    }
    for (policy, units) in [(GroupPolicy::None, 1), (GroupPolicy::Isolate, 30)] {
        let state = wide_trees(1, 20, units);
        let query = device_query(21, policy, 1_000);
        group.bench_function(
            format!("20 x 21, {policy:?}, {units} each, impossible"),
            |b| {
                b.iter(|| black_box(search(&state, &query, 0)));
            },
        );
    }
    let state = wide_trees(1_000, 8, 1);
    let query = device_query(8, GroupPolicy::None, 1_000);
    group.bench_function("1,000 hosts of 8 x 8, 1,000", |b| {
        b.iter(|| black_box(search(&state, &query, 1_000)));
    });
    let query = device_query(9, GroupPolicy::None, 1_000);
    group.bench_function("1,000 hosts of 8 x 9, impossible", |b| {
        b.iter(|| black_box(search(&state, &query, 0)));
    });
    group.finish();
}

/// 100,000 hosts that differ in their inventories and traits. In every hundred, this many hosts have their CPUs in two
/// child providers. Every second host has a trait, and few CPUs.
fn busy_fleet(trees_in_hundred: u128) -> State {
    let mut state = empty();
    for host in 0..100_000u128 {
        let number = i32::try_from(host % 4_096).expect("small");
        let cpus = if host % 2 == 0 {
            1 + number % 14
        } else {
            1 + number % 64
        };
        let mut totals = vec![("MEMORY_MB", 512 + 13 * number), ("DISK_GB", 90)];
        let is_tree = host % 100 < trees_in_hundred;
        if !is_tree {
            totals.push(("VCPU", cpus));
        }
        add_provider(&mut state, host, None, &totals);
        for part in (0..2).filter(|_| is_tree) {
            let child = 1_000_000 + 2 * host + part;
            add_provider(&mut state, child, Some(host), &[("VCPU", 1 + cpus / 2)]);
        }
        if host % 2 == 0 {
            let traits = vec!["HW_CPU_X86_AVX2".to_owned()];
            execute(
                &mut state,
                &Command::SetTraits {
                    provider: Uuid::from_u128(host),
                    generation: None,
                    traits,
                    at: Timestamp::default(),
                },
            );
        }
    }
    state
}

fn explanations(c: &mut Criterion) {
    let mut group = c.benchmark_group("explanations");
    group.sample_size(20);
    let mut state = empty();
    for host in 0..100_000 {
        let free = i32::try_from(host % 64).expect("small") + 1;
        let totals = [
            ("VCPU", free),
            ("MEMORY_MB", free * 4_096),
            ("DISK_GB", 2_000),
        ];
        add_provider(&mut state, host, None, &totals);
    }
    let mut query = flat_query(1);
    query.groups[0].resources = vec![("VCPU".into(), 8), ("MEMORY_MB".into(), 64 * 4_096 + 512)];
    group.bench_function("100,000 flat hosts that lack memory", |b| {
        b.iter(|| {
            let explanation = explain(&state, &query).expect("all names are known");
            // No host is left, and the constraint with index 1, on memory, suffices to exclude all of them.
            assert_eq!(
                (explanation.left, explanation.smallest.as_deref()),
                (0, Some(&[1][..]))
            );
            black_box(explanation)
        });
    });
    let state = busy_fleet(10);
    for (what, resources, required) in [
        ("no memory", [("VCPU", 4), ("MEMORY_MB", 262_144)], None),
        (
            "no trait with room",
            [("VCPU", 16), ("MEMORY_MB", 4_096)],
            Some("HW_CPU_X86_AVX2"),
        ),
        ("room for all", [("VCPU", 1), ("MEMORY_MB", 1)], None),
    ] {
        let mut query = flat_query(1);
        let resources = resources.map(|(class, amount)| (class.to_owned(), amount));
        query.groups[0].resources = resources.to_vec();
        let required = required.map(|name: &str| vec![name.to_owned()]);
        query.groups[0].required = required.into_iter().collect();
        let name = format!("100,000 hosts, 10 % trees: {what}");
        group.bench_function(name, |b| {
            b.iter(|| black_box(explain(&state, &query).expect("all names are known")));
        });
    }
    let state = wide_trees(1_000, 8, 1);
    let query = device_query(9, GroupPolicy::None, 1);
    group.bench_function("1,000 hosts of 8 x 9, impossible", |b| {
        b.iter(|| {
            let explanation = explain(&state, &query).expect("all names are known");
            assert_eq!(explanation.left, 0);
            black_box(explanation)
        });
    });
    group.finish();
}

criterion_group!(core, claims, flat, trees, explanations);
criterion_main!(core);
