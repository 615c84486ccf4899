//! Trees with many equal providers, and requests with many equal groups: the time must not grow with the number of
//! combinations. If it did, each of these tests would take hours.

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

/// A host with a number of devices that have `units` each.
fn host_with(devices: usize, units: i32) -> State {
    let mut fleet: Fleet = vec![member(None, &[("VCPU", 64)])];
    fleet.extend((0..devices).map(|_| member(Some(0), &[("VGPU", units)])));
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
        .map(|candidate| candidate.mappings().flatten().copied().collect())
        .collect();
    assert_eq!(distinct.len(), found.len(), "each candidate is listed once");
    found
}

#[test]
fn all_assignments_of_eight_groups_to_eight_devices_are_found() {
    let permutations: usize = (1..=8).product();
    let mut query = devices(GroupPolicy::None, [1; 8]);
    query.limit = None;
    assert_eq!(found(&host_with(8, 1), &query).len(), permutations);
    query.group_policy = Some(GroupPolicy::Isolate);
    let all = found(&host_with(8, 30), &query);
    assert_eq!((all.len(), all.is_complete()), (permutations, true));
}

#[test]
fn wide_trees_give_the_requested_number_of_candidates() {
    for (children, groups) in [(21, 8), (21, 21), (40, 40)] {
        for (policy, units) in [
            (GroupPolicy::None, 1),
            (GroupPolicy::None, 30),
            (GroupPolicy::Isolate, 30),
        ] {
            let query = devices(policy, vec![1; groups]);
            let found = found(&host_with(children, units), &query);
            assert_eq!((found.len(), found.is_complete()), (1_000, true));
        }
    }
}

#[test]
fn infeasible_requests_are_detected_fast() {
    let assert_none = |state: &State, query: &CandidateQuery| {
        let found = found(state, query);
        assert_eq!((found.len(), found.is_complete()), (0, true));
    };
    assert_none(&host_with(20, 1), &devices(GroupPolicy::None, [1; 21]));
    assert_none(&host_with(20, 30), &devices(GroupPolicy::Isolate, [1; 21]));
    // Two requests for three units do not fit on one device with four, although the total suffices.
    assert_none(&host_with(20, 4), &devices(GroupPolicy::None, [3; 21]));
    // After eleven requests for three units, four devices are left for ten requests for two units, of
    // which they can serve eight.
    let mixed = [vec![3; 11], vec![2; 10]].concat();
    assert_none(&host_with(15, 4), &devices(GroupPolicy::None, mixed));
}

#[test]
fn without_a_limit_the_number_of_candidates_of_a_wide_tree_is_bounded() {
    let mut query = devices(GroupPolicy::None, [1; 21]);
    query.limit = None;
    let some = find_candidates(&host_with(21, 1), &query).unwrap();
    assert!(!some.is_complete());
    assert!((10_000..1_000_000).contains(&some.len()));
}

/// NUMA nodes with four devices each, and requests for pairs of a node and a device on it.
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
fn a_sharing_provider_is_combined_with_each_host_that_uses_it() {
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
    let disk_and_cpu = query(vec![group("", &disk), group("1", &[("VCPU", 1)])]);
    assert_eq!(found(&state, &disk_and_cpu).len(), 2);
    let mut disk_only = query(vec![group("", &disk)]);
    assert_eq!(
        found(&state, &disk_only).len(),
        1,
        "equal candidates are merged"
    );
    disk_only.groups[0].resources.push(("VCPU".into(), 1));
    assert_eq!(found(&state, &disk_only).len(), 2);
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
    // The first candidate takes both amounts of `VGPU` from the first device, in one allocation of 2.
    let amounts: Vec<Vec<u32>> = find_candidates(&state, &query)
        .unwrap()
        .iter()
        .map(|candidate| {
            candidate
                .allocations()
                .iter()
                .map(|held| held.amount)
                .collect()
        })
        .collect();
    assert_eq!(amounts, [vec![1, 2], vec![1, 1, 1], vec![1, 1, 1]]);
}
