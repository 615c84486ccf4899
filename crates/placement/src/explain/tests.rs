//! Tests explanations against their definition: every root is tested with every constraint, without
//! columns, tree classes and bounds.

use placewright_testing::fleet::{
    self, Fleet, device_query, device_tree, fleet as any_fleet, placewright_placement as other,
    query as any_query,
};
use proptest::prelude::*;

use super::constraint::{ConstraintList, ResolvedConstraint};
use super::constraint_table::{ConstraintTable, FleetIndex};
use super::misses::MAX_NEAR_MISSES;
use super::shortfall::{Shortfall, shortfall_from_row};
use super::{NearMiss, explain_with_serving, first_failed};
use crate::candidates::{CandidateQuery, GroupPolicy, RequestGroup};
use crate::ids::ProviderId;
use crate::state::State;

/// The maximum number of roots of a fleet whose first failed constraint is checked.
const ROOTS_CHECKED: usize = 24;

/// The state of a fleet. The fleet uses the crate as a dependency, whose types differ from those of
/// this build for unit tests. The format of snapshots is the same.
fn build(fleet: &mut Fleet) -> State {
    let mut bytes = Vec::new();
    fleet::build(fleet).save(&mut bytes).unwrap();
    State::load(&mut bytes.as_slice()).unwrap()
}

/// A query in the types of this build; the generated ones have no limit and default options.
fn to_own_types(query: other::CandidateQuery) -> CandidateQuery {
    let group = |group: other::RequestGroup| RequestGroup {
        suffix: group.suffix,
        resources: group.resources,
        required: group.required,
        forbidden: group.forbidden,
        member_of: group.member_of,
        forbidden_aggregates: group.forbidden_aggregates,
        in_tree: group.in_tree,
    };
    CandidateQuery {
        groups: query.groups.into_iter().map(group).collect(),
        group_policy: query.group_policy.map(|policy| match policy {
            other::GroupPolicy::None => GroupPolicy::None,
            other::GroupPolicy::Isolate => GroupPolicy::Isolate,
        }),
        same_subtree: query.same_subtree,
        root_required: query.root_required,
        root_forbidden: query.root_forbidden,
        nested: query.nested,
        ..CandidateQuery::default()
    }
}

/// Which constraints of a query one root can and cannot serve, as the definition of an explanation predicts it.
struct PredictedRoot {
    root: ProviderId,
    /// Whether the root is a flat host without sharing providers in reach, for which constraints are independent.
    is_flat: bool,
    /// The constraints that the root cannot serve even if they are the only ones.
    failed_alone: Vec<usize>,
    /// The first constraint that the root cannot serve together with those before it; the number of constraints
    /// if the root can serve all.
    failed_at: usize,
}

fn predicted_roots(state: &State, table: &ConstraintTable<'_>) -> Vec<PredictedRoot> {
    let resolved = &table.constraint_list.resolved;
    let roots = state.roots().iter().map(ProviderId);
    let evaluate = |root: ProviderId| {
        let is_flat = table.hosts[root.index() / 64] >> (root.0 % 64) & 1 == 1;
        let serves_alone = |index: &usize| match &resolved[*index] {
            // A relation between groups cannot fail on a tree without the groups themselves.
            ResolvedConstraint::Together(_, _)
            | ResolvedConstraint::Isolate
            | ResolvedConstraint::SameSubtree(_)
            | ResolvedConstraint::OneProviderOfTree
                if !is_flat =>
            {
                true
            }
            ResolvedConstraint::Together(class, amount) => {
                let is_single_allocation = false;
                let shortfall =
                    shortfall_from_row(state, root, *class, *amount, is_single_allocation);
                shortfall == Shortfall::Condition
            }
            _ => serves(table, root, |other| other == *index),
        };
        let failed_alone: Vec<usize> = (0..resolved.len())
            .filter(|index| !serves_alone(index))
            .collect();
        let mut predicted = PredictedRoot {
            root,
            is_flat,
            failed_alone,
            failed_at: 0,
        };
        let fits = |length: &usize| predicted.serves(table, |index| index < *length);
        let shortest_failing = (1..=resolved.len()).find(|length| !fits(length));
        predicted.failed_at = shortest_failing.map_or(resolved.len(), |length| length - 1);
        predicted
    };
    roots.map(evaluate).collect()
}

impl PredictedRoot {
    fn serves(&self, table: &ConstraintTable<'_>, includes: impl Fn(usize) -> bool) -> bool {
        if self.is_flat {
            return !self.failed_alone.iter().any(|index| includes(*index));
        }
        serves(table, self.root, includes)
    }
}

fn serves(table: &ConstraintTable<'_>, root: ProviderId, includes: impl Fn(usize) -> bool) -> bool {
    (table.relaxed(includes)).is_some_and(|mut relaxed| relaxed.root_fits(root))
}

/// The near misses that the definition predicts, nearest first, each with its first root.
fn predicted_near_misses(
    state: &State,
    table: &ConstraintTable<'_>,
    roots: &[PredictedRoot],
) -> Vec<NearMiss> {
    let resolved = &table.constraint_list.resolved;
    let fails_only_together = |predicted: &&PredictedRoot| {
        predicted.failed_alone.is_empty() && predicted.failed_at < resolved.len()
    };
    let counts = (roots.iter()).map(|predicted| match predicted.failed_alone.len() {
        0 if fails_only_together(&predicted) => 1,
        count => count,
    });
    let Some(fewest) = counts.filter(|count| *count > 0).min() else {
        return Vec::new();
    };
    let shortfall = |root: ProviderId, index: usize| {
        let (class, amount, is_single_allocation) = match resolved[index] {
            ResolvedConstraint::Resource(_, class, amount) => (class, amount, true),
            ResolvedConstraint::Together(class, amount) => (class, amount, false),
            _ => return Shortfall::Condition,
        };
        let members = state.subtree(root).into_iter();
        let shortfalls =
            members.map(|id| shortfall_from_row(state, id, class, amount, is_single_allocation));
        shortfalls.min().expect("a tree has a root")
    };
    let mut found: Vec<(i64, NearMiss)> = Vec::new();
    for predicted in roots {
        let shortfalls: Vec<(usize, Shortfall)> = if fewest == 1 && fails_only_together(&predicted)
        {
            let without = |dropped: &usize| predicted.serves(table, |index| index != *dropped);
            let Some(dropped) = (0..resolved.len()).find(without) else {
                continue;
            };
            let shortfall = match resolved[dropped] {
                ResolvedConstraint::Resource(_, _, amount) => Shortfall::Amount(amount),
                _ => Shortfall::Condition,
            };
            vec![(dropped, shortfall)]
        } else if predicted.failed_alone.len() == fewest {
            let failed = predicted.failed_alone.iter();
            failed
                .map(|index| (*index, shortfall(predicted.root, *index)))
                .collect()
        } else {
            continue;
        };
        match found
            .iter_mut()
            .find(|(_, miss)| miss.shortfalls == shortfalls)
        {
            Some((_, miss)) => miss.roots += 1,
            None => {
                let distance = shortfalls
                    .iter()
                    .map(|(index, shortfall)| shortfall.distance(&resolved[*index]));
                let miss = NearMiss {
                    roots: 1,
                    example: predicted.root,
                    shortfalls: shortfalls.clone(),
                };
                found.push((distance.sum(), miss));
            }
        }
    }
    found.sort_by(|a, b| (a.0, &a.1.shortfalls).cmp(&(b.0, &b.1.shortfalls)));
    found.truncate(MAX_NEAR_MISSES);
    found.into_iter().map(|(_, miss)| miss).collect()
}

/// The minimum number of constraints that together exclude all roots, found by trying all sets.
fn predicted_smallest(table: &ConstraintTable<'_>, roots: &[PredictedRoot]) -> Option<usize> {
    let count = table.constraint_list.resolved.len();
    let leaves_nothing = |set: &u32| {
        let includes = |index: usize| set >> index & 1 == 1;
        roots
            .iter()
            .all(|predicted| !predicted.serves(table, includes))
    };
    let sets = (0u32..1 << count).filter(leaves_nothing);
    sets.map(|set| set.count_ones() as usize).min()
}

/// Compares the explanation of a query with what its definition predicts.
fn check(state: &State, query: &CandidateQuery) -> Result<(), TestCaseError> {
    let (Ok((explanation, serving)), Ok(constraint_list)) = (
        explain_with_serving(state, query),
        ConstraintList::new(state, query),
    ) else {
        return Ok(());
    };
    let fleet_index = FleetIndex::new(state);
    let table = ConstraintTable::new(state, query, &constraint_list, &fleet_index);
    let roots = predicted_roots(state, &table);
    let count = constraint_list.resolved.len();
    prop_assert!(explanation.is_exact && explanation.unsearched == 0);
    prop_assert_eq!(explanation.roots, roots.len());
    prop_assert!(serving.unknown.iter().all(|word| *word == 0));
    for predicted in roots.iter().take(ROOTS_CHECKED) {
        let failed = first_failed(state, query, predicted.root).unwrap();
        prop_assert_eq!(
            failed.as_ref(),
            constraint_list.constraints.get(predicted.failed_at)
        );
    }
    for predicted in &roots {
        let is_left =
            serving.roots[predicted.root.index() / 64] >> (predicted.root.0 % 64) & 1 == 1;
        let serves_all = predicted.failed_at == count;
        prop_assert_eq!(is_left, serves_all, "{:?}", predicted.root);
    }
    prop_assert_eq!(
        explanation.left,
        roots.iter().filter(|root| root.failed_at == count).count()
    );
    for (index, effect) in explanation.effects.iter().enumerate() {
        let removed = roots.iter().filter(|root| root.failed_at == index).count();
        let failed_alone = roots
            .iter()
            .filter(|root| root.failed_alone.contains(&index))
            .count();
        prop_assert_eq!(
            (effect.removed, effect.removed_alone),
            (removed, failed_alone),
            "{}",
            index
        );
    }
    prop_assert_eq!(
        explanation.near_misses,
        predicted_near_misses(state, &table, &roots)
    );
    if let Some(set) = &explanation.smallest {
        let includes = |index: usize| set.contains(&index);
        for predicted in &roots {
            let is_left = predicted.serves(&table, includes);
            prop_assert!(
                !is_left,
                "{:?} is left by {set:?} of {:?}",
                predicted.root,
                constraint_list.resolved
            );
        }
        if count <= 7 {
            prop_assert_eq!(Some(set.len()), predicted_smallest(&table, &roots));
        }
    } else {
        prop_assert!(explanation.left > 0);
    }
    Ok(())
}

/// Several fleets as one, so that the masks of hosts have many words.
fn combined(fleets: &[Fleet]) -> Fleet {
    let mut all = Fleet::new();
    for fleet in fleets {
        let first = all.len();
        all.extend(fleet.iter().cloned().map(|mut member| {
            member.parent = member.parent.map(|parent| parent + first);
            member
        }));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn explanations_of_mixed_fleets_agree_with_their_definition(
        fleets in prop::collection::vec(any_fleet(), 1..40),
        query in any_query(),
    ) {
        check(&build(&mut combined(&fleets)), &to_own_types(query))?;
    }

    #[test]
    fn explanations_of_device_trees_agree_with_their_definition(
        fleets in prop::collection::vec(device_tree(), 1..12),
        query in device_query(),
    ) {
        check(&build(&mut combined(&fleets)), &to_own_types(query))?;
    }
}
