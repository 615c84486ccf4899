//! Trees that are alike take the same number of instances, so one of each kind is counted. A kind is narrower than a
//! tree class: its trees have equal traits, inventories and usages, whatever the query reads of them.

use placewright_placement::{ProviderId, State};

use super::LimitingFactor;
use super::limiting_factors::has_aggregates;
use crate::translate::prepare::Prepared;

type Map<K, V> = hashbrown::HashMap<K, V, foldhash::quality::FixedState>;

/// The number of kinds of trees whose counts are kept.
const KINDS_MAX: usize = 1_000;
/// The number of trees after which it is judged whether looking for an equal one pays: it costs as much as a search or
/// two.
const TREES_TRIED: usize = 512;
/// If fewer than one tree in this many was like an earlier one, further trees are counted without looking.
const TREES_PER_EQUAL: usize = 8;

/// The number of instances that trees of each kind take, and the first obstacle to a further one.
#[derive(Debug, Default)]
pub(super) struct TreeKinds {
    known: Map<Vec<u64>, (u64, LimitingFactor)>,
    /// For how many trees an equal one was looked for, and for how many it was found.
    tried_count: usize,
    equal_count: usize,
}

impl TreeKinds {
    /// The kind of a tree; `None` if what is counted depends on which tree it is, or if hardly any trees are alike.
    pub(super) fn kind(
        &self,
        state: &State,
        prepared: &Prepared,
        root: ProviderId,
    ) -> Option<Vec<u64>> {
        let mut groups = prepared.query.groups.iter();
        let names_tree = groups.any(|group| group.in_tree.is_some());
        let are_different = self.tried_count >= TREES_TRIED
            && self.equal_count * TREES_PER_EQUAL < self.tried_count;
        (!names_tree && !are_different)
            .then(|| kind_of_tree(state, root, reads_aggregates(prepared)))
    }

    /// The number of instances that a tree of this kind takes, and the first obstacle to a further one; `None` if no
    /// tree of the kind was counted, or if the kind is `None`. The look-up counts for the judgement whether further
    /// ones pay.
    pub(super) fn get(&mut self, kind: &Option<Vec<u64>>) -> Option<(u64, &LimitingFactor)> {
        let kind = kind.as_ref()?;
        self.tried_count += 1;
        let (count, factor) = self.known.get(kind)?;
        self.equal_count += 1;
        Some((*count, factor))
    }

    /// Keeps what was counted of a tree of a kind.
    pub(super) fn insert(&mut self, kind: Option<Vec<u64>>, count: u64, factor: LimitingFactor) {
        if let Some(kind) = kind.filter(|_| self.known.len() < KINDS_MAX) {
            self.known.insert(kind, (count, factor));
        }
    }
}

/// Whether membership of hosts in aggregates can make a difference for a request.
fn reads_aggregates(prepared: &Prepared) -> bool {
    prepared.translation.has_rules() || has_aggregates(&prepared.query)
}

/// The key of a kind of trees: everything about a tree, apart from names, on which the candidates for a request depend.
fn kind_of_tree(state: &State, root: ProviderId, reads_aggregates: bool) -> Vec<u64> {
    let mut members = state.subtree(root);
    // Which candidate comes first depends on the order of slots, so trees with equal providers in another order are of
    // another kind.
    members.sort_unstable();
    let mut kind = Vec::with_capacity(members.len() * 16);
    for id in &members {
        let Some(provider) = state.provider(*id) else {
            continue;
        };
        let parent = provider.parent.map(|parent| members.binary_search(&parent));
        let parent = parent.and_then(Result::ok);
        kind.push(parent.map_or(u64::MAX, |index| index as u64));
        kind.push(provider.traits.len() as u64);
        kind.extend(provider.traits.iter().map(|id| u64::from(id.0)));
        if reads_aggregates {
            kind.push(provider.aggregates.len() as u64);
            kind.extend(provider.aggregates.iter().map(|id| u64::from(id.0)));
        }
        kind.push(provider.inventories.len() as u64);
        for row in &provider.inventories {
            let inventory = &row.inventory;
            let units = [inventory.min_unit, inventory.max_unit, inventory.step_size];
            kind.push(u64::from(row.class.0));
            kind.extend(units.map(|unit| u64::from(unit.cast_unsigned())));
            kind.extend([row.capacity, row.used].map(i64::cast_unsigned));
        }
    }
    kind
}
