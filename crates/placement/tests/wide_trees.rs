//! Trees with many equal parts, and requests with many equal groups: the number of combinations
//! must not matter. Any of these would run for hours if it did.

use std::collections::BTreeSet;

use placewright_placement::{
    CandidateQuery, Candidates, GroupPolicy, Inventory, RequestGroup, State, find_candidates,
};
use placewright_testing::fleet::{Fleet, Member, SHARING, Stock, aggregate, build};

fn member(parent: Option<usize>, stocks: &[(&'static str, i32)]) -> Member {
    let stock = |(class, total): &(&'static str, i32)| Stock {
        class,
        inventory: Inventory {
            total: *total,
            reserved: 0,
            min_unit: 1,
            max_unit: i32::MAX,
            step_size: 1,
            allocation_ratio: 1.0,
        },
        used: 0,
    };
    Member {
        parent,
        stocks: stocks.iter().map(stock).collect(),
        traits: Vec::new(),
        aggregates: Vec::new(),
    }
}

/// A host with so many devices of so many units each.
fn host_with(devices: usize, each: i32) -> State {
    let mut fleet: Fleet = vec![member(None, &[("VCPU", 64)])];
    fleet.extend((0..devices).map(|_| member(Some(0), &[("VGPU", each)])));
    build(&mut fleet)
}

fn group(suffix: &str, resources: &[(&str, i64)]) -> RequestGroup {
    RequestGroup {
        suffix: suffix.to_owned(),
        resources: resources
            .iter()
            .map(|(class, amount)| ((*class).to_owned(), *amount))
            .collect(),
        ..RequestGroup::default()
    }
}

/// A request for one VCPU and devices of these amounts.
fn devices(policy: GroupPolicy, amounts: impl IntoIterator<Item = i64>) -> CandidateQuery {
    let device = |(number, amount)| group(&format!("_{number}"), &[("VGPU", amount)]);
    CandidateQuery {
        groups: std::iter::once(group("", &[("VCPU", 1)]))
            .chain(amounts.into_iter().enumerate().map(device))
            .collect(),
        group_policy: Some(policy),
        limit: Some(1_000),
        nested: true,
        ..CandidateQuery::default()
    }
}

fn found(state: &State, query: &CandidateQuery) -> Candidates {
    let found = find_candidates(state, query).expect("all names are known");
    let distinct: BTreeSet<Vec<_>> = found
        .iter()
        .map(|one| one.mappings().flatten().copied().collect())
        .collect();
    assert_eq!(distinct.len(), found.len(), "each candidate is listed once");
    found
}

#[test]
fn every_way_to_place_eight_groups_on_eight_devices_is_found() {
    let mut query = devices(GroupPolicy::None, [1; 8]);
    query.limit = None;
    assert_eq!(found(&host_with(8, 1), &query).len(), 40_320);
    query.group_policy = Some(GroupPolicy::Isolate);
    let all = found(&host_with(8, 30), &query);
    assert_eq!((all.len(), all.is_complete()), (40_320, true));
}

#[test]
fn wide_trees_give_as_many_candidates_as_are_asked_for() {
    for (children, groups) in [(21, 8), (21, 21), (40, 40)] {
        for (policy, each) in [
            (GroupPolicy::None, 1),
            (GroupPolicy::None, 30),
            (GroupPolicy::Isolate, 30),
        ] {
            let query = devices(policy, vec![1; groups]);
            let found = found(&host_with(children, each), &query);
            assert_eq!((found.len(), found.is_complete()), (1_000, true));
        }
    }
}

#[test]
fn what_cannot_be_placed_is_known_at_once() {
    let none = |state: &State, query: &CandidateQuery| {
        let found = found(state, query);
        assert_eq!((found.len(), found.is_complete()), (0, true));
    };
    none(&host_with(20, 1), &devices(GroupPolicy::None, [1; 21]));
    none(&host_with(20, 30), &devices(GroupPolicy::Isolate, [1; 21]));
    // Two of three do not fit into one of four, whatever the sum says.
    none(&host_with(20, 4), &devices(GroupPolicy::None, [3; 21]));
    // Eleven of three leave four devices for ten of two, and two find no place.
    let mixed = [vec![3; 11], vec![2; 10]].concat();
    none(&host_with(15, 4), &devices(GroupPolicy::None, mixed));
}

#[test]
fn without_a_limit_a_wide_tree_gives_a_bounded_number() {
    let mut query = devices(GroupPolicy::None, [1; 21]);
    query.limit = None;
    let some = find_candidates(&host_with(21, 1), &query).unwrap();
    assert!(!some.is_complete());
    assert!((10_000..1_000_000).contains(&some.len()));
}

/// Nodes with four devices each; groups in pairs of a node and a device on it.
#[test]
fn pairs_in_one_subtree_are_found_in_any_order() {
    let mut fleet: Fleet = vec![member(None, &[("VCPU", 64)])];
    for _ in 0..8 {
        let node = fleet.len();
        let mut numa = member(Some(0), &[]);
        numa.traits.push("CUSTOM_NUMA");
        fleet.push(numa);
        fleet.extend((0..4).map(|_| member(Some(node), &[("VGPU", 1)])));
    }
    let state = build(&mut fleet);
    for pairs in [8, 9] {
        let mut query = devices(GroupPolicy::Isolate, vec![1; pairs]);
        for number in 0..pairs {
            let mut node = group(&format!("_N{number}"), &[]);
            node.required = vec![vec!["CUSTOM_NUMA".into()]];
            let names = vec![node.suffix.clone(), format!("_{number}")];
            query.same_subtree.push(names);
            query.groups.push(node);
        }
        let expected = if pairs == 8 { 1_000 } else { 0 };
        assert_eq!(found(&state, &query).len(), expected);
        query.groups.reverse();
        assert_eq!(found(&state, &query).len(), expected);
    }
}

#[test]
fn a_shared_disk_anchors_in_every_host_that_uses_it() {
    let mut fleet: Fleet = vec![
        member(None, &[("VCPU", 8)]),
        member(None, &[("VCPU", 8)]),
        member(None, &[("DISK_GB", 100)]),
    ];
    fleet[2].traits.push(SHARING);
    for member in &mut fleet {
        member.aggregates.push(aggregate(1));
    }
    let state = build(&mut fleet);
    let query = |groups| CandidateQuery {
        groups,
        group_policy: Some(GroupPolicy::None),
        nested: true,
        ..CandidateQuery::default()
    };
    let disk = [("DISK_GB", 10)];
    let both = query(vec![group("", &disk), group("1", &[("VCPU", 1)])]);
    assert_eq!(found(&state, &both).len(), 2);
    let mut alone = query(vec![group("", &disk)]);
    assert_eq!(
        found(&state, &alone).len(),
        1,
        "equal candidates are merged"
    );
    alone.groups[0].resources.push(("VCPU".into(), 1));
    assert_eq!(found(&state, &alone).len(), 2);
}

#[test]
fn a_class_of_two_groups_counts_once_for_each() {
    let mut fleet: Fleet = vec![
        member(None, &[("VCPU", 2)]),
        member(Some(0), &[("VGPU", 2)]),
        member(Some(0), &[("VGPU", 1)]),
    ];
    let state = build(&mut fleet);
    let mut query = devices(GroupPolicy::Isolate, [1]);
    query.groups[0].resources.push(("VGPU".into(), 1));
    let amounts: Vec<Vec<u32>> = find_candidates(&state, &query)
        .unwrap()
        .iter()
        .map(|one| one.allocations().iter().map(|one| one.amount).collect())
        .collect();
    assert_eq!(amounts, [vec![1, 2], vec![1, 1, 1], vec![1, 1, 1]]);
}
