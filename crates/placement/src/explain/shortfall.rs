//! The shortfalls of roots for a constraint that they fail, computed 64 at a time where columns suffice.

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

/// The distance of a root that has nothing of the requested amount. If a root lacks a part of the amount, its distance
/// is that fraction of `WHOLE`.
pub(super) const WHOLE: i64 = 1 << 20;

impl Shortfall {
    /// The distance to satisfying a constraint: at most [`WHOLE`] for a missing amount, and a little more
    /// if an amount alone would not suffice.
    pub(super) fn distance(self, resolved: &ResolvedConstraint) -> i64 {
        match self {
            Self::Amount(missing) => missing_part(missing, requested_amount(resolved)),
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

/// The fraction of [`WHOLE`] that is missing, at most all of it.
fn missing_part(missing: i64, requested: i64) -> i64 {
    let requested = requested.max(1);
    if missing >= requested {
        return WHOLE;
    }
    // The fraction is below 1, so the result fits in 64 bits.
    match missing.checked_mul(WHOLE) {
        Some(product) => product / requested,
        None => i64::try_from(i128::from(missing) * i128::from(WHOLE) / i128::from(requested))
            .unwrap_or(WHOLE),
    }
}

/// The largest missing amount whose distance is at most this: the inverse of [`missing_part`].
fn missing_within(distance: i64, requested: i64) -> i64 {
    // `missing * WHOLE / requested`, rounded down, is at most `distance` if `missing * WHOLE` is at most this.
    let product_max = (i128::from(distance) + 1) * i128::from(requested.max(1)) - 1;
    i64::try_from(product_max / i128::from(WHOLE)).unwrap_or(i64::MAX)
}

/// The columns of a class for 64 neighbouring providers, as a constraint reads them.
struct ClassBlock<'a> {
    class: ClassId,
    amount: i64,
    /// Whether the amount is what one group requests, so that `min_unit`, `max_unit` and `step_size` apply. Of the sum
    /// over all groups ([`ResolvedConstraint::Together`]) only `max_unit` is checked.
    is_single_allocation: bool,
    /// The block of the class, and the `max_unit` of each inventory; `None` without inventories. In the block, the
    /// headroom of a provider is its free capacity or its `max_unit`, whichever is smaller, and providers with a
    /// `min_unit` or `step_size` above 1 are irregular.
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
            columns: column.block(word).zip(column.max_units(word)),
        })
    }

    /// The `max_unit` and the headroom of a provider; `None` if these two numbers do not determine its shortfall.
    fn max_unit_and_headroom(&self, bit: usize) -> Option<(i64, i64)> {
        let (block, max_units) = self.columns?;
        let is_irregular = self.is_single_allocation && block.irregular >> bit & 1 == 1;
        // A negative headroom is not stored exactly, so the row has to be read.
        let room = block.headroom[bit];
        (!is_irregular && room >= 0).then(|| (i64::from(max_units[bit]), i64::from(room)))
    }

    /// The shortfall of a provider among the 64 in this constraint.
    fn shortfall(&self, state: &State, slot: u32) -> Shortfall {
        let bit = slot as usize % BLOCK_SLOTS;
        let is_present = (self.columns).is_some_and(|(block, _)| block.present >> bit & 1 == 1);
        if !is_present {
            return Shortfall::Inventory;
        }
        match self.max_unit_and_headroom(bit) {
            Some((max_unit, _)) if max_unit < self.amount => Shortfall::Units,
            // `max_unit` is at least the amount, so a headroom below the amount is the free capacity.
            Some((_, room)) if room < self.amount => Shortfall::Amount(self.amount - room),
            // Another condition of the group excludes this provider.
            Some(_) => Shortfall::Condition,
            None => shortfall_from_row(
                state,
                ProviderId(slot),
                self.class,
                self.amount,
                self.is_single_allocation,
            ),
        }
    }

    /// A mask of providers among the 64 that have the same shortfall as a given one. It need not have all of them.
    fn same_shortfall(&self, bit: usize, shortfall: Shortfall) -> u64 {
        let itself = 1 << bit;
        let Some((block, max_units)) = self.columns else {
            return u64::MAX;
        };
        if shortfall == Shortfall::Inventory {
            return !block.present;
        }
        if self.max_unit_and_headroom(bit).is_none() {
            return itself;
        }
        let irregular = if self.is_single_allocation {
            block.irregular
        } else {
            0
        };
        let regular = block.present & !irregular & block.slots_with_room(0);
        let same = match shortfall {
            Shortfall::Units => !self.slots_with_unit(max_units),
            Shortfall::Amount(_) => {
                let room = block.headroom[bit];
                let more = room.checked_add(1);
                let has_more = more.map_or(0, |more| block.slots_with_room(more));
                self.slots_with_unit(max_units) & block.slots_with_room(room) & !has_more
            }
            Shortfall::Condition | Shortfall::Inventory => 0,
        };
        regular & same | itself
    }

    /// A mask of the providers among the 64 whose `max_unit` allows the amount.
    fn slots_with_unit(&self, max_units: &[i32; BLOCK_SLOTS]) -> u64 {
        i32::try_from(self.amount).map_or(0, |amount| slots_at_least(max_units, amount))
    }

    /// A mask that has at least those providers among the 64 whose shortfall has at most this distance.
    fn slots_within(&self, distance: i64) -> u64 {
        if distance >= WHOLE {
            return u64::MAX;
        }
        let Some((block, _)) = self.columns else {
            return 0;
        };
        let least = self.amount - missing_within(distance, self.amount);
        // No headroom is below -1, so lower thresholds have the same mask as -1.
        match i32::try_from(least.max(-1)) {
            Ok(least) => block.slots_with_room(least),
            Err(_) => 0,
        }
    }
}

/// The shortfall of a provider in a class, computed from its inventory row.
pub(super) fn shortfall_from_row(
    state: &State,
    id: ProviderId,
    class: ClassId,
    amount: i64,
    is_single_allocation: bool,
) -> Shortfall {
    let row = (state.provider(id)).and_then(|provider| provider.inventory(class));
    let Some(row) = row else {
        return Shortfall::Inventory;
    };
    let is_allowed = if is_single_allocation {
        row.inventory.admits_amount(amount)
    } else {
        amount <= i64::from(row.inventory.max_unit)
    };
    let free = row.capacity.saturating_sub(row.used);
    if !is_allowed {
        Shortfall::Units
    } else if free < amount {
        Shortfall::Amount(amount - free)
    } else {
        // There is enough: another condition of the group excludes this provider.
        Shortfall::Condition
    }
}

impl ConstraintTable<'_> {
    /// The shortfall of a flat host in a constraint that it fails.
    pub(super) fn shortfall_of_host(&self, index: usize, slot: u32) -> Shortfall {
        let word = slot as usize / BLOCK_SLOTS;
        match ClassBlock::new(self.state, &self.constraint_list.resolved[index], word) {
            Some(block) => block.shortfall(self.state, slot),
            None => Shortfall::Condition,
        }
    }

    /// A mask of hosts, among 64 that fail a constraint, with the same shortfall as a given host. Some hosts with this
    /// shortfall may be missing in it.
    pub(super) fn hosts_with_same_shortfall(
        &self,
        index: usize,
        slot: u32,
        shortfall: Shortfall,
    ) -> u64 {
        let (word, bit) = (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS);
        let block = ClassBlock::new(self.state, &self.constraint_list.resolved[index], word);
        block.map_or(u64::MAX, |block| block.same_shortfall(bit, shortfall))
    }

    /// A mask that has at least those hosts among the 64 whose shortfall in a constraint has at most this distance.
    pub(super) fn hosts_within(&self, index: usize, word: usize, distance: i64) -> u64 {
        match ClassBlock::new(self.state, &self.constraint_list.resolved[index], word) {
            Some(block) => block.slots_within(distance),
            None if distance >= WHOLE => u64::MAX,
            None => 0,
        }
    }

    /// By root slot: a lower bound of the shortfall of its tree in a constraint, for the trees of a mask.
    pub(super) fn shortfalls_of_trees(&self, index: usize, trees: &[u64]) -> Vec<Shortfall> {
        let resolved = &self.constraint_list.resolved[index];
        if !matches!(
            resolved,
            ResolvedConstraint::Resource(_, _, _) | ResolvedConstraint::Together(_, _)
        ) {
            return vec![Shortfall::Condition; self.state.provider_slots()];
        }
        let mut shortfalls = vec![Shortfall::Inventory; self.state.provider_slots()];
        for (word, tree_mask) in trees.iter().enumerate() {
            let Some(block) = ClassBlock::new(self.state, resolved, word) else {
                continue;
            };
            let Some(present) = block.columns.map(|(columns, _)| columns.present) else {
                continue;
            };
            let non_roots = self.state.non_roots().word(word) & present;
            for slot in bits(tree_mask & present, word) {
                let shortfall = &mut shortfalls[slot as usize];
                *shortfall = (*shortfall).min(block.shortfall(self.state, slot));
            }
            for slot in bits(non_roots, word) {
                let root = self.lineage.root_of(slot);
                if trees[root as usize / 64] >> (root % 64) & 1 == 1 {
                    let shortfall = &mut shortfalls[root as usize];
                    *shortfall = (*shortfall).min(block.shortfall(self.state, slot));
                }
            }
        }
        shortfalls
    }
}
