//! Equivalence classes of trees that no part of a query can distinguish.
//!
//! Two trees are of one class when their providers meet the same conditions, have as much left of
//! the resource classes that several groups request, can use the same sharing providers, and are
//! nested in the same way. Then each set of constraints is feasible for both or for none, and one
//! search is enough.

use smallvec::SmallVec;

use super::constraint::{ConstraintList, ResolvedConstraint};
use super::lineage::{Children, Lineage};
use crate::candidates::CandidateQuery;
use crate::candidates::lookup::capacity_word;
use crate::hash::Map;
use crate::ids::{AggregateId, ClassId, ProviderId};
use crate::state::State;

/// The number of an equivalence class of trees.
pub(super) type TreeClass = u32;

/// The equivalence key of a provider: the conditions that it meets, its useful remaining capacity,
/// the sharing providers in reach, and the tree classes of its children in rising order.
type Key = SmallVec<[u64; 8]>;

/// The maximum number of sums of a resource class that are stored. If there are more, no two capacities below the total
/// count as equivalent.
const SUMS_MAX: usize = 4_096;

/// A resource class that several groups request.
struct ContendedClass {
    class: ClassId,
    /// The sums that groups can take together, in rising order: capacities between two of these
    /// are equivalent to the lower one. Empty when there are more than [`SUMS_MAX`].
    sums: Vec<i64>,
    /// The sum of the amounts that all groups take; a larger capacity is equivalent to it.
    total: i64,
}

impl ContendedClass {
    fn new(class: ClassId, amounts: impl Iterator<Item = i64>, total: i64) -> Self {
        let mut sums = vec![0];
        for amount in amounts {
            let more: Vec<i64> = (sums.iter())
                .map(|sum: &i64| sum.saturating_add(amount))
                .collect();
            sums.extend(more);
            sums.sort_unstable();
            sums.dedup();
            if sums.len() > SUMS_MAX {
                sums.clear();
                break;
            }
        }
        Self { class, sums, total }
    }

    /// The canonical representative of a capacity.
    fn canonical(&self, room: i64) -> i64 {
        let room = room.clamp(0, self.total);
        let first_above = self.sums.partition_point(|sum| *sum <= room);
        let last_within = first_above.checked_sub(1);
        last_within.map_or(room, |index| self.sums[index])
    }
}

/// The sharing relation: which providers share through which aggregates.
struct SharingRelation<'a> {
    /// The aggregates that have a sharing member, in rising order.
    aggregates: &'a [AggregateId],
    /// Bit mask of the sharing providers.
    sharing_providers: Vec<u64>,
    /// Bit mask of the members of those aggregates.
    aggregate_members: Vec<u64>,
}

/// The tree classes found so far, by their keys.
pub(super) struct TreeClasses<'a> {
    state: &'a State,
    /// By condition (a constraint on one provider, regardless of the group): bit mask of the providers
    /// that meet it.
    conditions: Vec<Vec<u64>>,
    contended_classes: Vec<ContendedClass>,
    /// `None` when no provider shares with another.
    sharing: Option<SharingRelation<'a>>,
    children: Children,
    class_by_key: Map<Key, TreeClass>,
    /// The providers of the tree under examination, from the root downwards.
    members: Vec<u32>,
    /// By member: the range of its children among the members.
    child_ranges: Vec<(usize, usize)>,
    /// By member: its class.
    classes: Vec<TreeClass>,
}

impl<'a> TreeClasses<'a> {
    /// Computes which providers meet each condition. `shared_aggregates` are the aggregates that
    /// have a sharing member, in rising order.
    pub(super) fn new(
        state: &'a State,
        query: &CandidateQuery,
        constraint_list: &ConstraintList,
        lineage: &Lineage,
        shared_aggregates: &'a [AggregateId],
    ) -> Self {
        let mut seen: Vec<ResolvedConstraint> = Vec::new();
        let mut tree_classes = Self {
            state,
            conditions: Vec::new(),
            contended_classes: Vec::new(),
            sharing: SharingRelation::new(state, shared_aggregates),
            children: Children::new(state, lineage),
            class_by_key: Map::default(),
            members: Vec::new(),
            child_ranges: Vec::new(),
            classes: Vec::new(),
        };
        for resolved in &constraint_list.resolved {
            if let ResolvedConstraint::Together(class, total) = resolved {
                let amounts = (query.groups.iter().enumerate())
                    .flat_map(|(group, _)| constraint_list.amounts_of(group, *class));
                let contended = ContendedClass::new(*class, amounts, *total);
                tree_classes.contended_classes.push(contended);
            }
            let Some(condition) = resolved.without_group() else {
                continue;
            };
            if !seen.contains(&condition) {
                tree_classes
                    .conditions
                    .push(words_that_meet(state, &condition));
                seen.push(condition);
            }
        }
        tree_classes
    }

    /// The equivalence class of a tree.
    pub(super) fn class_of(&mut self, root: ProviderId) -> TreeClass {
        self.members.clear();
        self.child_ranges.clear();
        self.members.push(root.0);
        let mut visited = 0;
        while let Some(slot) = self.members.get(visited).copied() {
            let start = self.members.len();
            self.members
                .extend_from_slice(self.children.children_of(slot));
            self.child_ranges.push((start, self.members.len()));
            visited += 1;
        }
        self.classes.clear();
        self.classes.resize(self.members.len(), 0);
        for member in (0..self.members.len()).rev() {
            let mut key = Key::new();
            self.add_own(&mut key, self.members[member]);
            let own_length = key.len();
            let (start, end) = self.child_ranges[member];
            key.extend(self.classes[start..end].iter().copied().map(u64::from));
            key[own_length..].sort_unstable();
            let new_class = TreeClass::try_from(self.class_by_key.len()).unwrap_or(TreeClass::MAX);
            self.classes[member] = *self.class_by_key.entry(key).or_insert(new_class);
        }
        self.classes[0]
    }

    /// Adds the key of one provider without its children.
    fn add_own(&self, key: &mut Key, slot: u32) {
        let (word, bit) = (slot as usize / 64, slot % 64);
        for conditions in self.conditions.chunks(64) {
            let met = (conditions.iter().enumerate()).fold(0, |met, (number, words)| {
                met | (words[word] >> bit & 1) << number
            });
            key.push(met);
        }
        for contended in &self.contended_classes {
            let block = self.state.column(contended.class).block(word);
            let room = block.map_or(-1, |block| block.headroom[bit as usize]);
            let canonical = contended.canonical(i64::from(room));
            key.push(u64::try_from(canonical).unwrap_or_default());
        }
        if let Some(sharing) = &self.sharing {
            sharing.add_to(key, self.state, slot);
        }
    }
}

impl<'a> SharingRelation<'a> {
    /// `None` when no provider shares with another.
    fn new(state: &State, aggregates: &'a [AggregateId]) -> Option<Self> {
        let sharing_trait = state.sharing_trait().filter(|_| !aggregates.is_empty())?;
        let words = state.provider_slots().div_ceil(64);
        let mut aggregate_members = Vec::new();
        for aggregate in aggregates {
            let members = state.aggregate_members(*aggregate);
            members.union_into(&mut aggregate_members);
        }
        aggregate_members.resize(words.max(aggregate_members.len()), 0);
        let sharing = state.trait_members(sharing_trait);
        Some(Self {
            aggregates,
            sharing_providers: (0..words).map(|word| sharing.word(word)).collect(),
            aggregate_members,
        })
    }

    /// Adds to the key of a provider whether it shares, and its aggregates that have a sharing member.
    fn add_to(&self, key: &mut Key, state: &State, slot: u32) {
        let (word, bit) = (slot as usize / 64, slot % 64);
        // A sharing provider is distinct from every other.
        let shares = self.sharing_providers[word] >> bit & 1 == 1;
        key.push(if shares { 1 + u64::from(slot) } else { 0 });
        // The length of this part of the key is stored before the aggregates, and filled in when they are counted.
        let count_index = key.len();
        key.push(0);
        if self.aggregate_members[word] >> bit & 1 == 0 {
            return;
        }
        let Some(provider) = state.provider(ProviderId(slot)) else {
            return;
        };
        let aggregates = provider.aggregates.iter();
        let shared = aggregates.filter(|id| self.aggregates.binary_search(id).is_ok());
        key.extend(shared.map(|id| id.index() as u64));
        key[count_index] = (key.len() - count_index) as u64;
    }
}

/// Bit mask of the providers that meet a condition.
fn words_that_meet(state: &State, condition: &ResolvedConstraint) -> Vec<u64> {
    let words = 0..state.provider_slots().div_ceil(64);
    let existing = |word| state.existing_word(word);
    match condition {
        ResolvedConstraint::Required(_, any) => words
            .map(|word| {
                any.iter()
                    .fold(0, |met, id| met | state.trait_members(*id).word(word))
            })
            .collect(),
        ResolvedConstraint::MemberOf(_, any) => words
            .map(|word| {
                any.iter()
                    .fold(0, |met, id| met | state.aggregate_members(*id).word(word))
            })
            .collect(),
        ResolvedConstraint::Resource(_, class, amount) => words
            .map(|word| capacity_word(state, *class, *amount, word, existing(word)))
            .collect(),
        ResolvedConstraint::InTree(_, root) => {
            let mut met = vec![0; words.len()];
            for id in state.subtree(*root) {
                met[id.index() / 64] |= 1 << (id.0 % 64);
            }
            met
        }
        // `ResolvedConstraint::without_group` returns no other constraints.
        _ => vec![0; words.len()],
    }
}
