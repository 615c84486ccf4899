//! Trees that no part of a query can tell from each other.
//!
//! Two trees have one shape when their providers meet the same conditions, have as much of the
//! classes that several groups take, can use the same sharing providers, and hang together in the
//! same way. Then each set of constraints is served by both or by none: one search is enough.

use smallvec::SmallVec;

use super::constraint::{Part, Parts};
use crate::candidates::CandidateQuery;
use crate::candidates::lookup::room_word;
use crate::candidates::plan::headroom;
use crate::hash::Map;
use crate::ids::{AggregateId, ClassId, ProviderId, TraitId};
use crate::state::State;

/// The number of a shape.
pub(super) type Shape = u32;

/// A provider as a query sees it: the conditions that it meets, what it has left, what shares with
/// it, and the shapes of its parts in rising order.
type Key = SmallVec<[u64; 8]>;

/// A class that several groups take.
struct Contended {
    class: ClassId,
    /// The least that a group takes: less is as good as nothing.
    least: i64,
    /// What all groups take: more is as good as that.
    total: i64,
}

/// The shapes found so far.
pub(super) struct Shapes<'a> {
    state: &'a State,
    /// By condition: words of the providers that meet it.
    conditions: Vec<Vec<u64>>,
    contended: Vec<Contended>,
    sharing: Option<TraitId>,
    /// The aggregates that have a sharing member, in rising order.
    shared: Vec<AggregateId>,
    known: Map<Key, Shape>,
}

impl<'a> Shapes<'a> {
    /// Looks up who meets which condition of a query. `shared` are the aggregates that have a
    /// sharing member, in rising order.
    pub(super) fn new(
        state: &'a State,
        query: &CandidateQuery,
        parts: &Parts,
        shared: Vec<AggregateId>,
    ) -> Self {
        let mut seen: Vec<Part> = Vec::new();
        let mut shapes = Self {
            state,
            conditions: Vec::new(),
            contended: Vec::new(),
            sharing: state.sharing_trait(),
            shared,
            known: Map::default(),
        };
        for part in &parts.parts {
            if let Part::Together(class, total) = part {
                let amounts = (query.groups.iter().enumerate())
                    .flat_map(|(group, _)| parts.amounts_of(group, *class));
                shapes.contended.push(Contended {
                    class: *class,
                    least: amounts.min().unwrap_or_default(),
                    total: *total,
                });
            }
            let Some(condition) = part.without_group() else {
                continue;
            };
            if !seen.contains(&condition) {
                shapes.conditions.push(words_that_meet(state, &condition));
                seen.push(condition);
            }
        }
        shapes
    }

    /// The shape of a tree.
    pub(super) fn of(&mut self, root: ProviderId) -> Shape {
        // From the root downwards, each with the place of its parent.
        let mut members: SmallVec<[(ProviderId, usize); 16]> = SmallVec::new();
        members.push((root, 0));
        let mut next = 0;
        while let Some((id, _)) = members.get(next).copied() {
            if let Some(provider) = self.state.provider(id) {
                members.extend(provider.children.iter().map(|child| (*child, next)));
            }
            next += 1;
        }
        let mut below: SmallVec<[SmallVec<[Shape; 8]>; 16]> = SmallVec::new();
        below.resize(members.len(), SmallVec::new());
        let mut shape = 0;
        for (place, (id, parent)) in members.iter().enumerate().rev() {
            let mut key = self.key(*id);
            let mut children = std::mem::take(&mut below[place]);
            children.sort_unstable();
            key.extend(children.into_iter().map(u64::from));
            let next = Shape::try_from(self.known.len()).unwrap_or(Shape::MAX);
            shape = *self.known.entry(key).or_insert(next);
            if place > 0 {
                below[*parent].push(shape);
            }
        }
        shape
    }

    /// What the query sees of one provider.
    fn key(&self, id: ProviderId) -> Key {
        let mut key = Key::new();
        for conditions in self.conditions.chunks(64) {
            let met = (conditions.iter().enumerate()).fold(0, |met, (place, words)| {
                met | (words[id.index() / 64] >> (id.0 % 64) & 1) << place
            });
            key.push(met);
        }
        let Some(provider) = self.state.provider(id) else {
            return key;
        };
        for contended in &self.contended {
            let left = headroom(provider, contended.class).min(contended.total);
            let useful = if left < contended.least { 0 } else { left };
            key.push(u64::try_from(useful).unwrap_or_default());
        }
        if self.shared.is_empty() {
            return key;
        }
        // Nobody else is the same sharing provider.
        let shares = self
            .sharing
            .is_some_and(|sharing| provider.has_trait(sharing));
        key.push(if shares { 1 + u64::from(id.0) } else { 0 });
        let count = key.len();
        key.push(0);
        let aggregates = provider.aggregates.iter();
        let shared = aggregates.filter(|one| self.shared.binary_search(one).is_ok());
        key.extend(shared.map(|one| one.index() as u64));
        key[count] = (key.len() - count) as u64;
        key
    }
}

/// Words of the providers that meet a condition.
fn words_that_meet(state: &State, condition: &Part) -> Vec<u64> {
    let words = 0..state.provider_slots().div_ceil(64);
    let existing = |word| state.existing_word(word);
    match condition {
        Part::Required(_, any) => words
            .map(|word| {
                any.iter()
                    .fold(0, |met, id| met | state.trait_members(*id).word(word))
            })
            .collect(),
        Part::MemberOf(_, any) => words
            .map(|word| {
                any.iter()
                    .fold(0, |met, id| met | state.aggregate_members(*id).word(word))
            })
            .collect(),
        Part::Resource(_, class, amount) => words
            .map(|word| room_word(state, *class, *amount, word, existing(word)))
            .collect(),
        Part::InTree(_, root) => {
            let mut met = vec![0; words.len()];
            for id in state.subtree(*root) {
                met[id.index() / 64] |= 1 << (id.0 % 64);
            }
            met
        }
        _ => vec![0; words.len()],
    }
}
