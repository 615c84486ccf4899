//! Compares explanations with their definition, host by host and constraint by constraint.

use std::collections::BTreeSet;

use placewright_placement::explain::{Constraint, Shortfall, Subject};
use placewright_placement::{
    CandidateQuery, Explanation, GroupPolicy, RequestGroup, explain, find_candidates,
};
use placewright_testing::fleet::{
    self, Fleet, build, fleet as any_fleet, query as any_query, uuid_at,
};
use placewright_testing::model::{Model, QueryResult};
use proptest::prelude::*;

/// Whether a set contains a constraint of some kind.
type Has<'a> = dyn Fn(&dyn Fn(&Constraint) -> bool) -> bool + 'a;

/// Whether a flat host without sharing providers in reach can serve a constraint.
fn host_serves(
    fleet: &Fleet,
    query: &CandidateQuery,
    host: usize,
    constraint: &Constraint,
) -> bool {
    let member = &fleet[host];
    let has = |names: &[String]| {
        names
            .iter()
            .any(|name| member.traits.contains(&name.as_str()))
    };
    let within = |uuids: &[String]| uuids.iter().any(|uuid| member.aggregates.contains(uuid));
    let free = |class: &str| {
        let stock = member.stocks.iter().find(|stock| stock.class == class)?;
        let of = &stock.inventory;
        let capacity = (f64::from(of.total - of.reserved) * of.allocation_ratio) as i64;
        Some((of, capacity - stock.used))
    };
    match constraint {
        Constraint::Required(_, names) => has(names),
        Constraint::Forbidden(_, name) => !has(std::slice::from_ref(name)),
        Constraint::MemberOf(_, uuids) => within(uuids),
        Constraint::NotMemberOf(_, uuids) => !within(uuids),
        Constraint::InTree(_, uuid) => uuid_at(host).to_string() == *uuid,
        Constraint::AsksForNothing(_) => false,
        Constraint::Resource { class, amount, .. } => {
            free(class).is_some_and(|(of, free)| of.admits_amount(*amount) && *amount <= free)
        }
        Constraint::Together { class, amount } => {
            free(class).is_some_and(|(of, free)| *amount <= free.min(i64::from(of.max_unit)))
        }
        Constraint::Isolate => {
            let suffixed = query.groups.iter().filter(|group| !group.suffix.is_empty());
            suffixed.count() < 2
        }
        Constraint::SameSubtree(_) | Constraint::OneProviderOfTree => true,
    }
}

/// The minimum number of constraints of which every host fails at least one, found by trying all sets.
fn smallest_size(fails: &[BTreeSet<usize>], count: usize) -> Option<usize> {
    (0u32..1 << count)
        .filter(|set| {
            let inside = |index: &usize| set >> index & 1 == 1;
            fails.iter().all(|failed| failed.iter().any(inside))
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
    of: &Explanation,
    set: &BTreeSet<usize>,
) -> Option<CandidateQuery> {
    let kept = |wanted: &dyn Fn(&Constraint) -> bool| {
        set.iter()
            .any(|index| wanted(&of.effects[*index].constraint))
    };
    let skipped = |wanted: &dyn Fn(&Constraint) -> bool| {
        (0..of.effects.len())
            .any(|index| !set.contains(&index) && wanted(&of.effects[index].constraint))
    };
    let is_relation = |constraint: &Constraint| {
        matches!(
            constraint,
            Constraint::Together { .. }
                | Constraint::Isolate
                | Constraint::SameSubtree(_)
                | Constraint::OneProviderOfTree
                | Constraint::AsksForNothing(_)
        )
    };
    if skipped(&is_relation) {
        return None;
    }
    let mut restricted = query.clone();
    let root = |constraint: &Constraint, name: &String| match constraint {
        Constraint::Required(Subject::Root, names) => names.contains(name),
        Constraint::Forbidden(Subject::Root, other) => other == name,
        _ => false,
    };
    restricted
        .root_required
        .retain(|name| kept(&|constraint| root(constraint, name)));
    restricted
        .root_forbidden
        .retain(|name| kept(&|constraint| root(constraint, name)));
    restricted.groups = (restricted.groups.into_iter())
        .map(|group| restrict_group(group, &kept, &skipped))
        .collect::<Option<_>>()?;
    Some(restricted)
}

fn restrict_group(
    mut group: RequestGroup,
    kept: &Has<'_>,
    skipped: &Has<'_>,
) -> Option<RequestGroup> {
    let subject = Subject::Group(group.suffix.clone());
    let resource = |constraint: &Constraint| matches!(constraint, Constraint::Resource { subject: other, .. } if *other == subject);
    if group.resources.is_empty() || skipped(&resource) {
        return None;
    }
    let required = |names: &[String]| {
        kept(&|constraint| *constraint == Constraint::Required(subject.clone(), names.to_vec()))
    };
    let forbidden = |name: &String| {
        kept(&|constraint| *constraint == Constraint::Forbidden(subject.clone(), name.clone()))
    };
    let member = |uuids: &[String]| {
        kept(&|constraint| *constraint == Constraint::MemberOf(subject.clone(), uuids.to_vec()))
    };
    let no_member = |constraint: &Constraint| matches!(constraint, Constraint::NotMemberOf(other, _) if *other == subject);
    let tree = |constraint: &Constraint| matches!(constraint, Constraint::InTree(other, _) if *other == subject);
    group.required.retain(|names| required(names));
    group.forbidden.retain(forbidden);
    group.member_of.retain(|uuids| member(uuids));
    if !kept(&no_member) {
        group.forbidden_aggregates.clear();
    }
    if !kept(&tree) {
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
        let fails: Vec<BTreeSet<usize>> = (0..fleet.len())
            .map(|host| {
                let serves = |index: &usize| {
                    host_serves(&fleet, &query, host, &explanation.effects[*index].constraint)
                };
                (0..explanation.effects.len()).filter(|index| !serves(index)).collect()
            })
            .collect();
        prop_assert_eq!(explanation.unsearched, 0);
        prop_assert_eq!(explanation.roots, fleet.len());
        prop_assert_eq!(explanation.left, fails.iter().filter(|failed| failed.is_empty()).count());
        for (index, effect) in explanation.effects.iter().enumerate() {
            let first = fails.iter().filter(|failed| failed.first() == Some(&index)).count();
            let alone = fails.iter().filter(|failed| failed.contains(&index)).count();
            prop_assert_eq!((effect.removed, effect.removed_alone), (first, alone));
        }
        if explanation.left == 0 && explanation.effects.len() <= 12 {
            let smallest = explanation.smallest.expect("found, the fleet is small");
            prop_assert!(fails.iter().all(|f| smallest.iter().any(|index| f.contains(index))));
            prop_assert_eq!(Some(smallest.len()), smallest_size(&fails, explanation.effects.len()));
        }
        let fewest = fails.iter().map(BTreeSet::len).filter(|count| *count > 0).min();
        let nearly = fails.iter().filter(|failed| Some(failed.len()) == fewest).count();
        let missed: usize = explanation.near_misses.iter().map(|miss| miss.roots).sum();
        prop_assert_eq!(missed, nearly, "with so few hosts there are at most ten different near misses");
        for miss in &explanation.near_misses {
            let failed = &fails[miss.example.index()];
            let lacks: BTreeSet<usize> = miss.lacks.iter().map(|(index, _)| *index).collect();
            prop_assert_eq!(&lacks, failed);
        }
    }

    #[test]
    fn explanations_of_trees_agree_with_the_model(mut fleet in any_fleet(), query in any_query()) {
        let state = build(&mut fleet);
        let Ok(explanation) = explain(&state, &query) else { return Ok(()) };
        let model = Model(&fleet);
        if let QueryResult::Found(found, _) = model.candidates(&query) {
            prop_assert_eq!(explanation.left == 0, found.is_empty());
            prop_assert_eq!(explanation.left, model.serving_roots(&query));
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
    let inventory = |total| placewright_placement::Inventory {
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
        .map(|miss| (miss.roots, miss.lacks.as_slice()))
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
