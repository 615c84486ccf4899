//! What roots lack of a constraint that they fail, computed 64 at a time where columns suffice.

use super::constraint::ResolvedConstraint;
use super::constraint_table::ConstraintTable;
use crate::column::{BLOCK_SLOTS, Block, slots_at_least};
use crate::ids::{ClassId, ProviderId};
use crate::slot_set::bits;
use crate::state::State;

/// By how much a constraint is failed, from the nearest to the farthest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortfall {
    /// The additional amount that would have to be free.
    Amount(i64),
    /// The condition does not hold; there is no partial fulfilment.
    Condition,
    /// There is enough, but the units do not allow an allocation of this amount (`min_unit`,
    /// `max_unit`, `step_size`).
    Units,
    /// There is no inventory of the class.
    Inventory,
}

/// The score of a root that has nothing of what is requested; partial lacks are fractions of it.
pub(super) const WHOLE: i64 = 1 << 20;

impl Shortfall {
    /// The distance to satisfying a constraint, up to [`WHOLE`].
    pub(super) fn score(self, resolved: &ResolvedConstraint) -> i64 {
        match self {
            Self::Amount(missing) => lack_score(missing, requested_amount(resolved)),
            Self::Condition => WHOLE,
            Self::Units => WHOLE + 1,
            Self::Inventory => WHOLE + 2,
        }
    }
}

/// The amount that a constraint requests.
pub(super) fn requested_amount(resolved: &ResolvedConstraint) -> i64 {
    match resolved {
        ResolvedConstraint::Resource(_, _, amount) | ResolvedConstraint::Together(_, amount) => {
            *amount
        }
        _ => 1,
    }
}

/// A fraction of [`WHOLE`], at most 1.
fn lack_score(missing: i64, requested: i64) -> i64 {
    let requested = requested.max(1);
    if missing >= requested {
        return WHOLE;
    }
    // A fraction below 1, so the result fits.
    match missing.checked_mul(WHOLE) {
        Some(product) => product / requested,
        None => i64::try_from(i128::from(missing) * i128::from(WHOLE) / i128::from(requested))
            .unwrap_or(WHOLE),
    }
}

/// The largest missing amount whose score is at most this: the inverse of [`lack_score`].
fn missing_within(score: i64, requested: i64) -> i64 {
    let more = (i128::from(score) + 1) * i128::from(requested.max(1)) - 1;
    i64::try_from(more / i128::from(WHOLE)).unwrap_or(i64::MAX)
}

/// The columns of a class for 64 neighbouring providers, as a constraint reads them.
struct ClassBlock<'a> {
    class: ClassId,
    amount: i64,
    /// Whether the amount is one allocation, so that `min_unit`, `max_unit` and `step_size` apply.
    is_single_allocation: bool,
    columns: Option<(&'a Block, &'a [i32; BLOCK_SLOTS])>,
}

impl<'a> ClassBlock<'a> {
    /// `None` for a constraint that is not about capacity.
    fn new(state: &'a State, resolved: &ResolvedConstraint, word: usize) -> Option<Self> {
        let (class, amount, is_single_allocation) = match resolved {
            ResolvedConstraint::Resource(_, class, amount) => (*class, *amount, true),
            ResolvedConstraint::Together(class, amount) => (*class, *amount, false),
            _ => return None,
        };
        let column = state.column(class);
        Some(Self {
            class,
            amount,
            is_single_allocation,
            columns: column.block(word).zip(column.units(word)),
        })
    }

    /// The `max_unit` and the headroom of a provider, if these two suffice to tell what it lacks.
    fn regular(&self, bit: usize) -> Option<(i64, i64)> {
        let (block, units) = self.columns?;
        let is_irregular = self.is_single_allocation && block.irregular >> bit & 1 == 1;
        // A negative headroom is not stored exactly, so the record has to be read.
        let room = block.headroom[bit];
        (!is_irregular && room >= 0).then(|| (i64::from(units[bit]), i64::from(room)))
    }

    fn lack(&self, state: &State, slot: u32) -> Shortfall {
        let bit = slot as usize % BLOCK_SLOTS;
        let is_present = (self.columns).is_some_and(|(block, _)| block.present >> bit & 1 == 1);
        if !is_present {
            return Shortfall::Inventory;
        }
        match self.regular(bit) {
            Some((unit, _)) if unit < self.amount => Shortfall::Units,
            // `max_unit` does not limit the headroom, so it equals the free amount.
            Some((_, room)) if room < self.amount => Shortfall::Amount(self.amount - room),
            // Another condition of the group excludes this provider.
            Some(_) => Shortfall::Condition,
            None => lack_of_record(
                state,
                ProviderId(slot),
                self.class,
                self.amount,
                self.is_single_allocation,
            ),
        }
    }

    /// Of the 64, providers that lack the same as a given one; not necessarily all of them.
    fn same_lack(&self, bit: usize, lack: Shortfall) -> u64 {
        let itself = 1 << bit;
        let Some((block, units)) = self.columns else {
            return u64::MAX;
        };
        if lack == Shortfall::Inventory {
            return !block.present;
        }
        if self.regular(bit).is_none() {
            return itself;
        }
        let irregular = if self.is_single_allocation {
            block.irregular
        } else {
            0
        };
        let regular = block.present & !irregular & block.room_for(0);
        let same = match lack {
            Shortfall::Units => !self.unit_fits(units),
            Shortfall::Amount(_) => {
                let room = block.headroom[bit];
                let more = room.checked_add(1);
                let has_more = more.map_or(0, |more| block.room_for(more));
                self.unit_fits(units) & block.room_for(room) & !has_more
            }
            Shortfall::Condition | Shortfall::Inventory => 0,
        };
        regular & same | itself
    }

    /// Of the 64, those whose `max_unit` allows the amount.
    fn unit_fits(&self, units: &[i32; BLOCK_SLOTS]) -> u64 {
        i32::try_from(self.amount).map_or(0, |amount| slots_at_least(units, amount))
    }

    /// Of the 64, a superset of the providers that lack no more than this score.
    fn within(&self, score: i64) -> u64 {
        if score >= WHOLE {
            return u64::MAX;
        }
        let Some((block, _)) = self.columns else {
            return 0;
        };
        let least = self.amount - missing_within(score, self.amount);
        match i32::try_from(least.max(-1)) {
            Ok(least) => block.room_for(least),
            Err(_) => 0,
        }
    }
}

/// What a provider lacks of a class, computed from its record.
pub(super) fn lack_of_record(
    state: &State,
    id: ProviderId,
    class: ClassId,
    amount: i64,
    is_single_allocation: bool,
) -> Shortfall {
    let record = (state.provider(id)).and_then(|provider| provider.inventory(class));
    let Some(record) = record else {
        return Shortfall::Inventory;
    };
    let within = if is_single_allocation {
        record.inventory.admits_amount(amount)
    } else {
        amount <= i64::from(record.inventory.max_unit)
    };
    let free = record.capacity.saturating_sub(record.used);
    if !within {
        Shortfall::Units
    } else if free < amount {
        Shortfall::Amount(amount - free)
    } else {
        // There is enough: another condition of the group excludes this provider.
        Shortfall::Condition
    }
}

impl ConstraintTable<'_> {
    /// What a flat host lacks of a constraint that it fails.
    pub(super) fn lack_of_host(&self, index: usize, slot: u32) -> Shortfall {
        let word = slot as usize / BLOCK_SLOTS;
        match ClassBlock::new(self.state, &self.constraint_list.resolved[index], word) {
            Some(block) => block.lack(self.state, slot),
            None => Shortfall::Condition,
        }
    }

    /// Of 64 hosts that fail a constraint, some that lack the same as a given one.
    pub(super) fn hosts_with_same_lack(&self, index: usize, slot: u32, lack: Shortfall) -> u64 {
        let (word, bit) = (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS);
        let block = ClassBlock::new(self.state, &self.constraint_list.resolved[index], word);
        block.map_or(u64::MAX, |block| block.same_lack(bit, lack))
    }

    /// Of 64 hosts, a superset of those that lack no more of a constraint than this score.
    pub(super) fn hosts_within(&self, index: usize, word: usize, score: i64) -> u64 {
        match ClassBlock::new(self.state, &self.constraint_list.resolved[index], word) {
            Some(block) => block.within(score),
            None if score >= WHOLE => u64::MAX,
            None => 0,
        }
    }

    /// By root slot: a lower bound of what its tree lacks of a constraint, for the trees of a
    /// mask.
    pub(super) fn lacks_of_trees(&self, index: usize, trees: &[u64]) -> Vec<Shortfall> {
        let resolved = &self.constraint_list.resolved[index];
        if !matches!(
            resolved,
            ResolvedConstraint::Resource(_, _, _) | ResolvedConstraint::Together(_, _)
        ) {
            return vec![Shortfall::Condition; self.state.provider_slots()];
        }
        let mut lacks = vec![Shortfall::Inventory; self.state.provider_slots()];
        for (word, tree_mask) in trees.iter().enumerate() {
            let Some(block) = ClassBlock::new(self.state, resolved, word) else {
                continue;
            };
            let Some(present) = block.columns.map(|(columns, _)| columns.present) else {
                continue;
            };
            let nested = self.state.nested().word(word) & present;
            for slot in bits(tree_mask & present, word) {
                let lack = &mut lacks[slot as usize];
                *lack = (*lack).min(block.lack(self.state, slot));
            }
            for slot in bits(nested, word) {
                let root = self.lineage.root_of(slot);
                if trees[root as usize / 64] >> (root % 64) & 1 == 1 {
                    let lack = &mut lacks[root as usize];
                    *lack = (*lack).min(block.lack(self.state, slot));
                }
            }
        }
        lacks
    }
}
