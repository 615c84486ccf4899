//! Compares explanations with their definition, host by host and constraint by constraint.

use std::collections::BTreeSet;

use placewright_placement::explain::{Constraint, Shortfall, Subject};
use placewright_placement::{
    CandidateQuery, Explanation, GroupPolicy, Inventory, RequestGroup, explain, find_candidates,
};
use placewright_testing::fleet::{
    self, Fleet, build, fleet as any_fleet, query as any_query, uuid_at,
};
use placewright_testing::model::{Model, QueryResult};
use proptest::prelude::*;

/// Whether a set of constraints contains one for which a predicate holds.
type Contains<'a> = dyn Fn(&dyn Fn(&Constraint) -> bool) -> bool + 'a;

/// Whether a flat host without sharing providers in reach can serve a constraint.
fn host_serves(
    fleet: &Fleet,
    query: &CandidateQuery,
    host: usize,
    constraint: &Constraint,
) -> bool {
    let member = &fleet[host];
    let has_any = |names: &[String]| {
        names
            .iter()
            .any(|name| member.traits.contains(&name.as_str()))
    };
    let is_in_any = |uuids: &[String]| uuids.iter().any(|uuid| member.aggregates.contains(uuid));
    let free = |class: &str| {
        let stock = member.stocks.iter().find(|stock| stock.class == class)?;
        let inventory = &stock.inventory;
        let unreserved = f64::from(inventory.total - inventory.reserved);
        let capacity = (unreserved * inventory.allocation_ratio) as i64;
        Some((inventory, capacity - stock.used))
    };
    match constraint {
        Constraint::Required(_, names) => has_any(names),
        Constraint::Forbidden(_, name) => !has_any(std::slice::from_ref(name)),
        Constraint::MemberOf(_, uuids) => is_in_any(uuids),
        Constraint::NotMemberOf(_, uuids) => !is_in_any(uuids),
        Constraint::InTree(_, uuid) => uuid_at(host).to_string() == *uuid,
        Constraint::RequestsNothing(_) => false,
        Constraint::Resource { class, amount, .. } => {
            let fits = |(inventory, free): (&Inventory, i64)| {
                inventory.admits_amount(*amount) && *amount <= free
            };
            free(class).is_some_and(fits)
        }
        Constraint::Together { class, amount } => {
            let fits = |(inventory, free): (&Inventory, i64)| {
                *amount <= free.min(i64::from(inventory.max_unit))
            };
            free(class).is_some_and(fits)
        }
        Constraint::Isolate => {
            let suffixed = query.groups.iter().filter(|group| !group.suffix.is_empty());
            suffixed.count() < 2
        }
        Constraint::SameSubtree(_) | Constraint::OneProviderOfTree => true,
    }
}

/// The minimum number of constraints of which every host fails at least one, found by trying all sets.
fn smallest_size(failed_by_host: &[BTreeSet<usize>], count: usize) -> Option<usize> {
    (0u32..1 << count)
        .filter(|set| {
            let is_in_set = |index: &usize| set >> index & 1 == 1;
            failed_by_host
                .iter()
                .all(|failed| failed.iter().any(is_in_set))
        })
        .map(|set| set.count_ones() as usize)
        .min()
}

/// The fleet without trees and sharing providers.
fn flat_hosts(mut fleet: Fleet) -> Fleet {
    for member in &mut fleet {
        member.parent = None;
        member.traits.retain(|name| *name != fleet::SHARING);
    }
    fleet
}

/// A query with only a set of the constraints, if there is such a query.
fn restrict(
    query: &CandidateQuery,
    explanation: &Explanation,
    set: &BTreeSet<usize>,
) -> Option<CandidateQuery> {
    let effects = &explanation.effects;
    let includes = |predicate: &dyn Fn(&Constraint) -> bool| {
        set.iter()
            .any(|index| predicate(&effects[*index].constraint))
    };
    let leaves_out = |predicate: &dyn Fn(&Constraint) -> bool| {
        (0..effects.len())
            .any(|index| !set.contains(&index) && predicate(&effects[index].constraint))
    };
    let is_relation = |constraint: &Constraint| {
        matches!(
            constraint,
            Constraint::Together { .. }
                | Constraint::Isolate
                | Constraint::SameSubtree(_)
                | Constraint::OneProviderOfTree
                | Constraint::RequestsNothing(_)
        )
    };
    if leaves_out(&is_relation) {
        return None;
    }
    let mut restricted = query.clone();
    let is_about_root = |constraint: &Constraint, name: &String| match constraint {
        Constraint::Required(Subject::Root, names) => names.contains(name),
        Constraint::Forbidden(Subject::Root, other) => other == name,
        _ => false,
    };
    restricted
        .root_required
        .retain(|name| includes(&|constraint| is_about_root(constraint, name)));
    restricted
        .root_forbidden
        .retain(|name| includes(&|constraint| is_about_root(constraint, name)));
    restricted.groups = (restricted.groups.into_iter())
        .map(|group| restrict_group(group, &includes, &leaves_out))
        .collect::<Option<_>>()?;
    Some(restricted)
}

fn restrict_group(
    mut group: RequestGroup,
    includes: &Contains<'_>,
    leaves_out: &Contains<'_>,
) -> Option<RequestGroup> {
    let subject = Subject::Group(group.suffix.clone());
    let is_resource = |constraint: &Constraint| matches!(constraint, Constraint::Resource { subject: other, .. } if *other == subject);
    if group.resources.is_empty() || leaves_out(&is_resource) {
        return None;
    }
    let includes_constraint = |wanted: &Constraint| includes(&|constraint| constraint == wanted);
    let requires = |names: &[String]| {
        includes_constraint(&Constraint::Required(subject.clone(), names.to_vec()))
    };
    let forbids =
        |name: &String| includes_constraint(&Constraint::Forbidden(subject.clone(), name.clone()));
    let is_member_of = |uuids: &[String]| {
        includes_constraint(&Constraint::MemberOf(subject.clone(), uuids.to_vec()))
    };
    let is_not_member_of = |constraint: &Constraint| matches!(constraint, Constraint::NotMemberOf(other, _) if *other == subject);
    let is_in_tree = |constraint: &Constraint| matches!(constraint, Constraint::InTree(other, _) if *other == subject);
    group.required.retain(|names| requires(names));
    group.forbidden.retain(forbids);
    group.member_of.retain(|uuids| is_member_of(uuids));
    if !includes(&is_not_member_of) {
        group.forbidden_aggregates.clear();
    }
    if !includes(&is_in_tree) {
        group.in_tree = None;
    }
    Some(group)
}

proptest! {
    #[test]
    fn explanations_of_flat_hosts_are_exact(fleet in any_fleet(), query in any_query()) {
        let mut fleet = flat_hosts(fleet);
        let state = build(&mut fleet);
        let Ok(explanation) = explain(&state, &query) else { return Ok(()) };
        let failed_by_host: Vec<BTreeSet<usize>> = (0..fleet.len())
            .map(|host| {
                let serves = |index: &usize| {
                    host_serves(&fleet, &query, host, &explanation.effects[*index].constraint)
                };
                (0..explanation.effects.len()).filter(|index| !serves(index)).collect()
            })
            .collect();
        prop_assert_eq!(explanation.unsearched, 0);
        prop_assert_eq!(explanation.roots, fleet.len());
        let feasible = failed_by_host.iter().filter(|failed| failed.is_empty());
        prop_assert_eq!(explanation.left, feasible.count());
        for (index, effect) in explanation.effects.iter().enumerate() {
            let failed_first = failed_by_host.iter().filter(|failed| failed.first() == Some(&index));
            let failed_at_all = failed_by_host.iter().filter(|failed| failed.contains(&index));
            prop_assert_eq!(effect.removed, failed_first.count());
            prop_assert_eq!(effect.removed_alone, failed_at_all.count());
        }
        if explanation.left == 0 && explanation.effects.len() <= 12 {
            let smallest = explanation.smallest.expect("found, the fleet is small");
            let fails_one = |failed: &BTreeSet<usize>| {
                smallest.iter().any(|index| failed.contains(index))
            };
            prop_assert!(failed_by_host.iter().all(fails_one));
            let expected = smallest_size(&failed_by_host, explanation.effects.len());
            prop_assert_eq!(Some(smallest.len()), expected);
        }
        let fewest = failed_by_host.iter().map(BTreeSet::len).filter(|count| *count > 0).min();
        let nearest = failed_by_host.iter().filter(|failed| Some(failed.len()) == fewest);
        let missed: usize = explanation.near_misses.iter().map(|miss| miss.roots).sum();
        // With so few hosts there are at most ten different near misses.
        prop_assert_eq!(missed, nearest.count());
        for miss in &explanation.near_misses {
            let failed = &failed_by_host[miss.example.index()];
            let indexes: BTreeSet<usize> = miss.shortfalls.iter().map(|(index, _)| *index).collect();
            prop_assert_eq!(&indexes, failed);
        }
    }

    #[test]
    fn explanations_of_trees_agree_with_the_model(mut fleet in any_fleet(), query in any_query()) {
        let state = build(&mut fleet);
        let Ok(explanation) = explain(&state, &query) else { return Ok(()) };
        let model = Model::new(&fleet);
        if let QueryResult::Found(found, _) = model.candidates(&query) {
            prop_assert_eq!(explanation.left == 0, found.is_empty());
            prop_assert_eq!(explanation.left, model.count_serving_roots(&query));
        }
        prop_assert_eq!(explanation.unsearched, 0);
        let removed: usize = explanation.effects.iter().map(|effect| effect.removed).sum();
        prop_assert_eq!(removed + explanation.left, explanation.roots);
        for effect in &explanation.effects {
            prop_assert!(effect.removed_alone <= explanation.roots);
        }
        if explanation.left == 0 {
            let smallest: BTreeSet<usize> = explanation.smallest.clone().unwrap().into_iter().collect();
            prop_assert!(!smallest.is_empty());
            if let Some(restricted) = restrict(&query, &explanation, &smallest) {
                prop_assert!(find_candidates(&state, &restricted).unwrap().is_empty());
            }
            for left_out in &smallest {
                let mut rest = smallest.clone();
                rest.remove(left_out);
                if let Some(restricted) = restrict(&query, &explanation, &rest) {
                    prop_assert!(!find_candidates(&state, &restricted).unwrap().is_empty());
                }
            }
        } else {
            prop_assert_eq!(&explanation.smallest, &None);
        }
    }
}

fn hosts_with_memory(free: &[i32]) -> Fleet {
    let inventory = |total| Inventory {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    free.iter()
        .map(|free| fleet::Member {
            parent: None,
            stocks: [("VCPU", 8), ("MEMORY_MB", *free)]
                .into_iter()
                .map(|(class, total)| fleet::Stock {
                    class,
                    inventory: inventory(total),
                    used: 0,
                })
                .collect(),
            traits: Vec::new(),
            aggregates: Vec::new(),
        })
        .collect()
}

#[test]
fn a_repeated_trait_is_one_constraint_and_each_constraint_has_its_own_trait() {
    let mut fleet = hosts_with_memory(&[1_024, 1_024]);
    let [held, missing] = [fleet::TRAITS[0], fleet::TRAITS[1]];
    fleet[0].traits = vec![held, missing];
    fleet[1].traits = vec![held];
    let state = build(&mut fleet);
    let list = |name: &str| vec![name.to_owned()];
    let group = RequestGroup {
        required: vec![list(held), list(held), list(missing)],
        resources: vec![("VCPU".into(), 1)],
        ..RequestGroup::default()
    };
    let query = CandidateQuery {
        groups: vec![group],
        nested: true,
        ..CandidateQuery::default()
    };
    let explanation = explain(&state, &query).unwrap();
    let effects = explanation.effects.iter();
    let lines: Vec<String> = effects
        .map(|effect| format!("{} {}", effect.constraint, effect.removed))
        .collect();
    let expected = [
        format!("required={held} 0"),
        format!("required={missing} 1"),
        "resources=VCPU:1 0".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_near_miss_says_how_much_is_missing() {
    let mut fleet = hosts_with_memory(&[3_584, 3_584, 1_024, 3_584]);
    let state = build(&mut fleet);
    let group = RequestGroup {
        resources: vec![("VCPU".into(), 2), ("MEMORY_MB".into(), 4_096)],
        ..RequestGroup::default()
    };
    let query = CandidateQuery {
        groups: vec![group],
        nested: true,
        ..CandidateQuery::default()
    };
    let explanation = explain(&state, &query).unwrap();
    assert_eq!((explanation.roots, explanation.left), (4, 0));
    assert_eq!(explanation.smallest, Some(vec![1]));
    let lines: Vec<String> = (explanation.effects.iter())
        .map(|effect| {
            format!(
                "{} {} {}",
                effect.constraint, effect.removed, effect.removed_alone
            )
        })
        .collect();
    assert_eq!(
        lines,
        ["resources=VCPU:2 0 0", "resources=MEMORY_MB:4096 4 4"]
    );
    let misses: Vec<_> = (explanation.near_misses.iter())
        .map(|miss| (miss.roots, miss.shortfalls.as_slice()))
        .collect();
    assert_eq!(
        misses,
        [
            (3, &[(1, Shortfall::Amount(512))][..]),
            (1, &[(1, Shortfall::Amount(3_072))][..])
        ]
    );
}

/// Trees of a root provider and devices with these amounts of `VGPU`.
fn trees_with_devices(trees: &[Vec<i32>]) -> Fleet {
    let mut fleet = Fleet::new();
    for devices in trees {
        let root = fleet.len();
        fleet.extend(hosts_with_memory(&[1_024]));
        for free in devices {
            let mut device = hosts_with_memory(&[*free]).remove(0);
            device.parent = Some(root);
            device.stocks.remove(0);
            device.stocks[0].class = "VGPU";
            fleet.push(device);
        }
    }
    fleet
}

/// A query with three suffixed groups that each request this amount of `VGPU`.
fn three_devices(amount: i64) -> CandidateQuery {
    let group = |number: usize| RequestGroup {
        suffix: format!("_{number}"),
        resources: vec![("VGPU".into(), amount)],
        ..RequestGroup::default()
    };
    CandidateQuery {
        groups: (0..3).map(group).collect(),
        nested: true,
        ..CandidateQuery::default()
    }
}

#[test]
fn many_trees_of_few_classes_are_counted_exactly() {
    // Trees of four devices with 5 to 8 units each, in all 256 combinations.
    let free = |number: usize| (0..4).map(move |device| ((number >> (2 * device)) % 4 + 5) as i32);
    let trees: Vec<Vec<i32>> = (0..600)
        .map(|number| free(number % 256).collect())
        .collect();
    let state = build(&mut trees_with_devices(&trees));
    let explanation = explain(&state, &three_devices(6)).unwrap();
    let enough = |tree: &&Vec<i32>| tree.iter().filter(|free| **free >= 6).count() >= 3;
    let none = |tree: &&Vec<i32>| tree.iter().all(|free| *free < 6);
    assert!(explanation.is_exact);
    assert_eq!(explanation.left, trees.iter().filter(enough).count());
    assert_eq!(
        explanation.effects[0].removed,
        trees.iter().filter(none).count()
    );
    let removed: usize = explanation
        .effects
        .iter()
        .map(|effect| effect.removed)
        .sum();
    assert_eq!(removed + explanation.left, trees.len());
    let missed: usize = explanation.near_misses.iter().map(|miss| miss.roots).sum();
    let is_near_miss = |tree: &&Vec<i32>| !enough(tree) && !none(tree);
    assert_eq!(missed, trees.iter().filter(is_near_miss).count());
}

#[test]
fn trees_that_differ_in_unusable_capacity_only_are_of_one_class() {
    // More trees than an explanation may search, so they must not be of a class each.
    let trees: Vec<Vec<i32>> = (0..1_100).map(|number| vec![9_000 + number; 2]).collect();
    let state = build(&mut trees_with_devices(&trees));
    let explanation = explain(&state, &three_devices(6_000)).unwrap();
    assert!(explanation.is_exact);
    assert_eq!((explanation.left, explanation.unsearched), (0, 0));
    let missed: usize = explanation.near_misses.iter().map(|miss| miss.roots).sum();
    assert_eq!(missed, trees.len());
}

/// A query with suffixed groups that each request one of these amounts of `VGPU`, of different devices.
fn isolated_devices(amounts: &[i64]) -> CandidateQuery {
    let group = |(number, amount): (usize, &i64)| RequestGroup {
        suffix: format!("_{number}"),
        resources: vec![("VGPU".into(), *amount)],
        ..RequestGroup::default()
    };
    CandidateQuery {
        groups: amounts.iter().enumerate().map(group).collect(),
        group_policy: Some(GroupPolicy::Isolate),
        nested: true,
        ..CandidateQuery::default()
    }
}

#[test]
fn an_incomplete_explanation_is_marked() {
    // Trees of four devices, each of which can serve a different set of the five groups.
    let mut trees: Vec<Vec<i32>> = Vec::new();
    for first in 16..32 {
        for second in first..32 {
            for third in second..32 {
                trees.extend((third..32).map(|last| vec![first, second, third, last]));
            }
        }
    }
    // More tree classes than an explanation may search.
    trees.truncate(1_100);
    let state = build(&mut trees_with_devices(&trees));
    let explanation = explain(&state, &isolated_devices(&[1, 2, 4, 8, 16])).unwrap();
    assert!(!explanation.is_exact && explanation.unsearched > 0);
    assert_eq!((explanation.left, &explanation.smallest), (0, &None));
    let removed: usize = explanation
        .effects
        .iter()
        .map(|effect| effect.removed)
        .sum();
    assert!(removed > 0);
    assert_eq!(removed + explanation.unsearched, explanation.roots);
}

#[test]
fn the_smallest_set_of_a_request_with_many_constraints_is_found() {
    const TRAITS: [&str; 16] = [
        "HW_CPU_X86_ABM",
        "HW_CPU_X86_AESNI",
        "HW_CPU_X86_3DNOW",
        "HW_CPU_X86_AVX",
        "HW_CPU_X86_AVX2",
        "HW_CPU_X86_BMI",
        "HW_CPU_X86_BMI2",
        "HW_CPU_X86_CLMUL",
        "HW_CPU_X86_F16C",
        "HW_CPU_X86_FMA3",
        "HW_CPU_X86_FMA4",
        "HW_CPU_X86_MMX",
        "HW_CPU_X86_MPX",
        "HW_CPU_X86_SSE",
        "HW_CPU_X86_SSE2",
        "HW_CPU_X86_SSE3",
    ];
    // A tree with a device for each pair of traits, which lacks that pair only. So some device has
    // any 14 of the traits, and none has 15.
    let pairs = (0..TRAITS.len()).flat_map(|first| (0..first).map(move |second| (first, second)));
    let lacking: Vec<(usize, usize)> = pairs.collect();
    let mut fleet = trees_with_devices(&[vec![1; lacking.len()]]);
    for (device, (first, second)) in fleet[1..].iter_mut().zip(lacking) {
        let has = |index: &usize| *index != first && *index != second;
        device.traits = (0..TRAITS.len())
            .filter(has)
            .map(|index| TRAITS[index])
            .collect();
    }
    let mut query = three_devices(1);
    query.groups.truncate(1);
    query.groups[0].required = TRAITS.iter().map(|name| vec![(*name).into()]).collect();
    let explanation = explain(&build(&mut fleet), &query).unwrap();
    assert!(explanation.is_exact);
    assert_eq!(explanation.left, 0);
    assert_eq!(explanation.smallest.map(|set| set.len()), Some(15));
}
