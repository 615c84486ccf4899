//! Tests explanations against their plain definition: every root is asked about every constraint,
//! without columns, tree classes and bounds.

use placewright_testing::fleet::{
    self, Fleet, device_query, device_tree, fleet as any_fleet, placewright_placement as other,
    query as any_query,
};
use proptest::prelude::*;

use super::constraint::{ConstraintList, Part};
use super::effects::{ConstraintTable, FleetIndex};
use super::misses::MAX_NEAR_MISSES;
use super::shortfall::{Shortfall, lack_of_record};
use super::{NearMiss, explain_and_serve, first_failed};
use crate::candidates::{CandidateQuery, GroupPolicy, RequestGroup};
use crate::ids::ProviderId;
use crate::state::State;

/// Of how many roots of a fleet it is asked what they lack.
const ROOTS_ASKED: usize = 24;

/// The state of a fleet. It is made by the crate as others see it, whose types are not those of
/// this build for unit tests; the bytes of a snapshot are the same.
fn build(fleet: &mut Fleet) -> State {
    let mut bytes = Vec::new();
    fleet::build(fleet).save(&mut bytes).unwrap();
    State::load(&mut bytes.as_slice()).unwrap()
}

/// A query in the types of this build; the generated ones have no limit and default options.
fn ours(query: other::CandidateQuery) -> CandidateQuery {
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

/// What one root makes of a query.
struct Plain {
    root: ProviderId,
    /// Whether it is a flat host without sharing providers in reach, for which constraints are
    /// independent.
    is_lone: bool,
    /// The constraints that it cannot serve even alone.
    alone: Vec<usize>,
    /// The first constraint that it cannot serve together with those before it; their number if it
    /// can serve all.
    end: usize,
}

fn plain_roots(state: &State, table: &ConstraintTable<'_>) -> Vec<Plain> {
    let parts = &table.parts.parts;
    let roots = state.roots().iter().map(ProviderId);
    let look = |root: ProviderId| {
        let is_lone = table.hosts[root.index() / 64] >> (root.0 % 64) & 1 == 1;
        let alone = |index: &usize| match &parts[*index] {
            // A relation between groups cannot fail on a tree until the groups themselves are
            // there.
            Part::Together(_, _)
            | Part::Isolate
            | Part::SameSubtree(_)
            | Part::OneProviderOfTree
                if !is_lone =>
            {
                true
            }
            Part::Together(class, amount) => {
                let lack = lack_of_record(state, root, *class, *amount, false);
                lack == Shortfall::Condition
            }
            _ => serves(table, root, |other| other == *index),
        };
        let alone: Vec<usize> = (0..parts.len()).filter(|index| !alone(index)).collect();
        let mut plain = Plain {
            root,
            is_lone,
            alone,
            end: 0,
        };
        let fits = |length: &usize| plain.serves(table, |index| index < *length);
        let first_short = (1..=parts.len()).find(|length| !fits(length));
        plain.end = first_short.map_or(parts.len(), |length| length - 1);
        plain
    };
    roots.map(look).collect()
}

impl Plain {
    fn serves(&self, table: &ConstraintTable<'_>, includes: impl Fn(usize) -> bool) -> bool {
        if self.is_lone {
            return !self.alone.iter().any(|index| includes(*index));
        }
        serves(table, self.root, includes)
    }
}

fn serves(table: &ConstraintTable<'_>, root: ProviderId, includes: impl Fn(usize) -> bool) -> bool {
    (table.relaxed(includes)).is_some_and(|mut relaxed| relaxed.tree_fits(root))
}

/// Kinds of near misses, nearest first, each with its first root.
fn plain_misses(state: &State, table: &ConstraintTable<'_>, roots: &[Plain]) -> Vec<NearMiss> {
    let parts = &table.parts.parts;
    let is_puzzle = |plain: &&Plain| plain.alone.is_empty() && plain.end < parts.len();
    let counts = (roots.iter()).map(|plain| match plain.alone.len() {
        0 if is_puzzle(&plain) => 1,
        count => count,
    });
    let Some(fewest) = counts.filter(|count| *count > 0).min() else {
        return Vec::new();
    };
    let lack = |root: ProviderId, index: usize| {
        let (class, amount, at_once) = match parts[index] {
            Part::Resource(_, class, amount) => (class, amount, true),
            Part::Together(class, amount) => (class, amount, false),
            _ => return Shortfall::Condition,
        };
        let members = state.subtree(root).into_iter();
        let lacks = members.map(|id| lack_of_record(state, id, class, amount, at_once));
        lacks.min().expect("a tree has a root")
    };
    let mut found: Vec<(i64, NearMiss)> = Vec::new();
    for plain in roots {
        let lacks: Vec<(usize, Shortfall)> = if fewest == 1 && is_puzzle(&plain) {
            let without = |dropped: &usize| plain.serves(table, |index| index != *dropped);
            let Some(dropped) = (0..parts.len()).find(without) else {
                continue;
            };
            let lack = match parts[dropped] {
                Part::Resource(_, _, amount) => Shortfall::Amount(amount),
                _ => Shortfall::Condition,
            };
            vec![(dropped, lack)]
        } else if plain.alone.len() == fewest {
            let failed = plain.alone.iter();
            failed
                .map(|index| (*index, lack(plain.root, *index)))
                .collect()
        } else {
            continue;
        };
        match found.iter_mut().find(|(_, miss)| miss.lacks == lacks) {
            Some((_, miss)) => miss.roots += 1,
            None => {
                let score = lacks.iter().map(|(index, lack)| lack.score(&parts[*index]));
                let miss = NearMiss {
                    roots: 1,
                    example: plain.root,
                    lacks: lacks.clone(),
                };
                found.push((score.sum(), miss));
            }
        }
    }
    found.sort_by(|a, b| (a.0, &a.1.lacks).cmp(&(b.0, &b.1.lacks)));
    found.truncate(MAX_NEAR_MISSES);
    found.into_iter().map(|(_, miss)| miss).collect()
}

/// The least number of constraints that together leave no root, by trying all sets.
fn plain_smallest(table: &ConstraintTable<'_>, roots: &[Plain]) -> Option<usize> {
    let count = table.parts.parts.len();
    let leaves_nothing = |set: &u32| {
        let includes = |index: usize| set >> index & 1 == 1;
        roots.iter().all(|plain| !plain.serves(table, includes))
    };
    let sets = (0u32..1 << count).filter(leaves_nothing);
    sets.map(|set| set.count_ones() as usize).min()
}

fn check(state: &State, query: &CandidateQuery) -> Result<(), TestCaseError> {
    let (Ok((told, serving)), Ok(parts)) = (
        explain_and_serve(state, query),
        ConstraintList::new(state, query),
    ) else {
        return Ok(());
    };
    let fleet_index = FleetIndex::new(state);
    let table = ConstraintTable::new(state, query, &parts, &fleet_index);
    let roots = plain_roots(state, &table);
    let count = parts.parts.len();
    prop_assert!(told.is_exact && told.unsearched == 0);
    prop_assert_eq!(told.roots, roots.len());
    prop_assert!(serving.unknown.iter().all(|word| *word == 0));
    for plain in roots.iter().take(ROOTS_ASKED) {
        let failed = first_failed(state, query, plain.root).unwrap();
        prop_assert_eq!(failed.as_ref(), parts.constraints.get(plain.end));
    }
    for plain in &roots {
        let is_left = serving.roots[plain.root.index() / 64] >> (plain.root.0 % 64) & 1 == 1;
        prop_assert_eq!(is_left, plain.end == count, "{:?}", plain.root);
    }
    prop_assert_eq!(
        told.left,
        roots.iter().filter(|one| one.end == count).count()
    );
    for (index, effect) in told.effects.iter().enumerate() {
        let removed = roots.iter().filter(|one| one.end == index).count();
        let alone = roots
            .iter()
            .filter(|one| one.alone.contains(&index))
            .count();
        prop_assert_eq!(
            (effect.removed, effect.removed_alone),
            (removed, alone),
            "{}",
            index
        );
    }
    prop_assert_eq!(told.near_misses, plain_misses(state, &table, &roots));
    if let Some(set) = &told.smallest {
        let includes = |index: usize| set.contains(&index);
        for one in &roots {
            let is_left = one.serves(&table, includes);
            prop_assert!(
                !is_left,
                "{:?} is left by {set:?} of {:?}",
                one.root,
                parts.parts
            );
        }
        if count <= 7 {
            prop_assert_eq!(Some(set.len()), plain_smallest(&table, &roots));
        }
    } else {
        prop_assert!(told.left > 0);
    }
    Ok(())
}

/// Several fleets side by side, so that there are many words of hosts.
fn side_by_side(fleets: &[Fleet]) -> Fleet {
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
    fn mixed_fleets_are_explained_by_the_letter(
        fleets in prop::collection::vec(any_fleet(), 1..40),
        query in any_query(),
    ) {
        check(&build(&mut side_by_side(&fleets)), &ours(query))?;
    }

    #[test]
    fn trees_of_devices_are_explained_by_the_letter(
        fleets in prop::collection::vec(device_tree(), 1..12),
        query in device_query(),
    ) {
        check(&build(&mut side_by_side(&fleets)), &ours(query))?;
    }
}
