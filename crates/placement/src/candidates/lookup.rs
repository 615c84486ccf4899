//! Resolves names to numbers and masks, for the candidate search and the list of providers.

use smallvec::SmallVec;

use super::query::QueryRefusal;
use crate::hash::Map;
use crate::ids::{AggregateId, ClassId, ProviderId, TraitId};
use crate::slot_set::SlotSet;
use crate::state::State;

/// A conjunction of disjunctions: of each inner list, at least one member must hold.
pub(crate) type AnyOf<T> = SmallVec<[SmallVec<[T; 2]>; 4]>;

pub(crate) fn class_id(state: &State, name: &str) -> Result<ClassId, QueryRefusal> {
    state
        .class_id(name)
        .ok_or_else(|| QueryRefusal::UnknownClass {
            name: name.to_owned(),
        })
}

pub(crate) fn trait_ids<'a, I, C>(state: &State, names: I) -> Result<C, QueryRefusal>
where
    I: IntoIterator<Item = &'a String>,
    C: FromIterator<TraitId>,
{
    names
        .into_iter()
        .map(|name| {
            state
                .trait_id(name)
                .ok_or_else(|| QueryRefusal::UnknownTrait {
                    name: name.to_owned(),
                })
        })
        .collect()
}

/// Resolves lists of required traits.
pub(crate) fn any_of_traits(
    state: &State,
    lists: &[Vec<String>],
) -> Result<AnyOf<TraitId>, QueryRefusal> {
    let lists = lists.iter().map(|list| trait_ids(state, list));
    Ok(deduplicated(lists.collect::<Result<_, _>>()?))
}

/// Up to this many lists are deduplicated by comparison; beyond, with a hash map.
const FEW_LISTS: usize = 8;

/// Removes duplicate lists: a repetition adds no condition, but each list costs a pass over
/// all providers.
pub(crate) fn deduplicated<T>(mut lists: AnyOf<T>) -> AnyOf<T>
where
    T: Copy + Eq + std::hash::Hash,
{
    if lists.len() <= FEW_LISTS {
        for index in (1..lists.len()).rev() {
            if lists[..index].contains(&lists[index]) {
                lists.remove(index);
            }
        }
        return lists;
    }
    let mut seen: Map<SmallVec<[T; 2]>, ()> = Map::default();
    lists.retain(|list| seen.insert(list.clone(), ()).is_none());
    lists
}

/// Resolves aggregates; unknown ones are dropped because they have no members.
pub(crate) fn aggregate_ids<'a, I, C>(state: &State, uuids: I) -> C
where
    I: IntoIterator<Item = &'a String>,
    C: FromIterator<AggregateId>,
{
    uuids
        .into_iter()
        .filter_map(|uuid| state.aggregate_id(uuid))
        .collect()
}

/// The provider with this UUID, as the client wrote it. Only the canonical form in lower case names a provider; for any
/// other text the result is `None`.
pub(crate) fn provider_by_uuid_text(state: &State, text: &str) -> Option<ProviderId> {
    let uuid = uuid::Uuid::try_parse(text).ok()?;
    let mut buffer = uuid::Uuid::encode_buffer();
    (&*uuid.hyphenated().encode_lower(&mut buffer) == text)
        .then(|| state.provider_id(uuid))
        .flatten()
}

/// A set of providers that the state maintains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProviderSet {
    Trait(TraitId),
    Aggregate(AggregateId),
    /// The roots of all trees.
    Roots,
}

impl ProviderSet {
    /// The providers that belong to the set.
    #[inline]
    pub(crate) fn slots(self, state: &State) -> &SlotSet {
        match self {
            Self::Trait(id) => state.trait_members(id),
            Self::Aggregate(id) => state.aggregate_members(id),
            Self::Roots => state.roots(),
        }
    }
}

/// A filter over sets of providers, evaluated as bit masks of 64 providers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetFilter {
    /// A provider must be in at least one set of each list.
    pub(crate) required: SmallVec<[SmallVec<[ProviderSet; 2]>; 4]>,
    /// Sets that a provider must not be in.
    pub(crate) forbidden: SmallVec<[ProviderSet; 4]>,
}

impl SetFilter {
    pub(crate) fn require_traits(&mut self, lists: &AnyOf<TraitId>) {
        let members = |id: &TraitId| ProviderSet::Trait(*id);
        let lists = lists.iter();
        self.required
            .extend(lists.map(|list| list.iter().map(members).collect()));
    }

    pub(crate) fn forbid_traits(&mut self, ids: &[TraitId]) {
        self.forbidden
            .extend(ids.iter().map(|id| ProviderSet::Trait(*id)));
    }

    pub(crate) fn require_aggregates(&mut self, lists: &AnyOf<AggregateId>) {
        let members = |id: &AggregateId| ProviderSet::Aggregate(*id);
        let lists = lists.iter();
        self.required
            .extend(lists.map(|list| list.iter().map(members).collect()));
    }

    pub(crate) fn forbid_aggregates(&mut self, ids: &[AggregateId]) {
        self.forbidden
            .extend(ids.iter().map(|id| ProviderSet::Aggregate(*id)));
    }

    /// Which of the 64 providers from `64 * word` on pass, restricted to the mask.
    #[inline]
    pub(crate) fn word(&self, state: &State, word: usize, mut mask: u64) -> u64 {
        for list in &self.required {
            let members = list.iter().map(|set| set.slots(state).word(word));
            mask &= members.fold(0, |members, word| members | word);
            if mask == 0 {
                return 0;
            }
        }
        for set in &self.forbidden {
            mask &= !set.slots(state).word(word);
        }
        mask
    }

    /// Whether any provider at all passes.
    pub(crate) fn admits_any(&self, state: &State) -> bool {
        (0..state.provider_slots().div_ceil(64))
            .any(|word| self.word(state, word, state.existing_word(word)) != 0)
    }

    /// Whether one provider passes.
    #[inline]
    pub(crate) fn admits(&self, state: &State, id: ProviderId) -> bool {
        let bit = 1 << (id.0 % 64);
        self.word(state, id.index() / 64, bit) != 0
    }
}

/// Which of the 64 providers from `64 * word` on can give an amount of a class in one allocation
/// now, restricted to the mask.
#[inline]
pub(crate) fn capacity_word(
    state: &State,
    class: ClassId,
    amount: i64,
    word: usize,
    mut mask: u64,
) -> u64 {
    let (Some(block), Ok(amount32)) = (state.column(class).block(word), i32::try_from(amount))
    else {
        return 0;
    };
    if mask == 0 {
        return 0;
    }
    // For a single provider only its own headroom is read, which touches fewer cache lines than the
    // whole block.
    if mask.is_power_of_two() {
        if !block.has_room_for(mask, amount32) {
            return 0;
        }
    } else {
        mask &= block.slots_with_room(amount32);
    }
    let irregular = mask & block.irregular;
    if irregular == 0 {
        return mask;
    }
    for slot in crate::slot_set::bits(irregular, word) {
        let is_admitted = state
            .provider(ProviderId(slot))
            .and_then(|provider| provider.inventory(class))
            .is_some_and(|row| row.inventory.admits_amount(amount));
        if !is_admitted {
            mask &= !(1 << (slot % 64));
        }
    }
    mask
}

/// Which of the 64 providers of a mask can give this amount of a class to one consumer, as the sum of what several
/// groups request. Of the units only `max_unit` is checked.
#[inline]
pub(crate) fn room_for_total(
    state: &State,
    class: ClassId,
    amount: i64,
    word: usize,
    mask: u64,
) -> u64 {
    let (Some(block), Ok(amount32)) = (state.column(class).block(word), i32::try_from(amount))
    else {
        return 0;
    };
    mask & block.slots_with_room(amount32)
}
