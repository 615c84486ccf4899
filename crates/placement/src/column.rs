//! One resource class over all providers, in a layout for the vectorised pass over capacity.

use crate::inventory::Inventory;

/// The number of providers in one block: the bits of a mask word.
pub const BLOCK_SLOTS: usize = 64;

/// The headroom of 64 neighbouring providers for one resource class.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which of the 64 have an inventory of the class.
    pub present: u64,
    /// Which of the 64 have a `min_unit` or `step_size` above 1, so that headroom alone does not
    /// decide.
    pub irregular: u64,
    /// The largest amount that one allocation could take now; -1 without an inventory, and if usage exceeds
    /// capacity.
    pub headroom: [i32; BLOCK_SLOTS],
}

impl Block {
    const EMPTY: Self = Self {
        present: 0,
        irregular: 0,
        headroom: [-1; BLOCK_SLOTS],
    };

    /// Whether the single provider of a mask has headroom for the amount; see [`Self::slots_with_room`].
    #[must_use]
    #[inline]
    pub fn has_room_for(&self, slot_bit: u64, amount: i32) -> bool {
        let headroom = self.headroom.get(slot_bit.trailing_zeros() as usize);
        self.present & slot_bit != 0 && headroom.is_some_and(|headroom| *headroom >= amount)
    }

    /// Which of the 64 have headroom for the amount. For the irregular ones this is necessary, not
    /// sufficient.
    #[must_use]
    #[inline]
    pub fn slots_with_room(&self, amount: i32) -> u64 {
        slots_at_least(&self.headroom, amount) & self.present
    }
}

/// Which of 64 values are at least `least`, with the widest vector instructions that the processor
/// has.
#[inline]
pub(crate) fn slots_at_least(values: &[i32; BLOCK_SLOTS], least: i32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(v4) = pulp::x86::V4::try_new() {
        return wide_at_least(v4, values, least);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new() {
        return avx2_at_least(v3, values, least);
    }
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || at_least(values, least),
    )
}

/// As [`at_least`], with AVX-512 comparisons that yield masks: 2 ns.
#[cfg(target_arch = "x86_64")]
#[inline]
fn wide_at_least(v4: pulp::x86::V4, values: &[i32; BLOCK_SLOTS], least: i32) -> u64 {
    v4.vectorize(
        #[inline(always)]
        || {
            let f = v4.avx512f;
            let least = f._mm512_set1_epi32(least);
            let (chunks, _) = values.as_chunks::<16>();
            let mut mask = 0;
            for (number, values) in chunks.iter().enumerate() {
                let chunk_mask = f._mm512_cmpge_epi32_mask(pulp::cast(*values), least);
                mask |= u64::from(chunk_mask) << (number * 16);
            }
            mask
        },
    )
}

/// As [`at_least`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
fn avx2_at_least(v3: pulp::x86::V3, values: &[i32; BLOCK_SLOTS], least: i32) -> u64 {
    v3.vectorize(
        #[inline(always)]
        || {
            let least = v3.avx._mm256_set1_epi32(least);
            let (chunks, _) = values.as_chunks::<8>();
            let mut less = 0;
            for (number, values) in chunks.iter().enumerate() {
                // AVX2 has no comparison for "at least".
                let is_less = v3.avx2._mm256_cmpgt_epi32(least, pulp::cast(*values));
                let bits = v3
                    .avx
                    ._mm256_movemask_ps(v3.avx._mm256_castsi256_ps(is_less));
                less |= u64::from(bits.unsigned_abs()) << (number * 8);
            }
            !less
        },
    )
}

/// Which values are at least `least`, one bit each. Always inlined, so that it is compiled anew
/// for each instruction set: for 64 values baseline x86-64 takes 27 ns, AVX2 6 ns.
#[inline(always)]
fn at_least(values: &[i32; BLOCK_SLOTS], least: i32) -> u64 {
    let mut mask = 0;
    for (bit, value) in values.iter().enumerate() {
        mask |= u64::from(*value >= least) << bit;
    }
    mask
}

/// The headroom of all providers for one resource class; blocks exist only where an inventory
/// does.
#[derive(Clone, Debug, Default)]
pub struct ClassColumn {
    blocks: Vec<Option<Box<Block>>>,
    /// The `max_unit` of each inventory, 64 to a block. Only explanations use it, so it is kept
    /// apart from the data that every search reads.
    max_units: Vec<Option<Box<[i32; BLOCK_SLOTS]>>>,
    /// The number of providers with an inventory of the class.
    count: usize,
}

impl ClassColumn {
    /// The block of the slots from `64 * index` on; `None` only if none of these slots has an inventory of the
    /// class.
    #[must_use]
    #[inline]
    pub fn block(&self, index: usize) -> Option<&Block> {
        self.blocks.get(index)?.as_deref()
    }

    /// The `max_unit` of each inventory in the block of the slots from `64 * index` on; -1 where there
    /// is no inventory. `None` where [`Self::block`] is `None`.
    #[must_use]
    pub fn max_units(&self, index: usize) -> Option<&[i32; BLOCK_SLOTS]> {
        self.max_units.get(index)?.as_deref()
    }

    /// How many providers have an inventory of the class.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no provider has an inventory of the class.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sets a provider's inventory and the free part of its capacity; `None` removes it.
    pub(crate) fn set(&mut self, slot: u32, inventory: Option<(&Inventory, i64)>) {
        let (index, bit) = (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS);
        if index >= self.blocks.len() {
            if inventory.is_none() {
                return;
            }
            self.blocks.resize_with(index + 1, || None);
            self.max_units.resize_with(index + 1, || None);
        }
        let block = self.blocks[index].get_or_insert_with(|| Box::new(Block::EMPTY));
        let max_units = self.max_units[index].get_or_insert_with(|| Box::new([-1; BLOCK_SLOTS]));
        let was_present = block.present >> bit & 1 == 1;
        let mask = 1u64 << bit;
        if let Some((inventory, free)) = inventory {
            block.headroom[bit] = headroom(inventory, free);
            max_units[bit] = inventory.max_unit;
            block.present |= mask;
            if inventory.min_unit > 1 || inventory.step_size > 1 {
                block.irregular |= mask;
            } else {
                block.irregular &= !mask;
            }
            self.count += usize::from(!was_present);
        } else {
            block.headroom[bit] = -1;
            max_units[bit] = -1;
            block.present &= !mask;
            block.irregular &= !mask;
            self.count -= usize::from(was_present);
            if self.count == 0 {
                // A class without inventories frees its memory; clients may create very many
                // classes.
                *self = Self::default();
            }
        }
    }

    /// Updates the free part of the capacity of a provider that has this inventory.
    #[inline]
    pub(crate) fn set_free(&mut self, slot: u32, inventory: &Inventory, free: i64) {
        let (index, bit) = (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS);
        if let Some(Some(block)) = self.blocks.get_mut(index) {
            block.headroom[bit] = headroom(inventory, free);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "clamped to -1..=i32::MAX before"
)]
fn headroom(inventory: &Inventory, free: i64) -> i32 {
    free.min(i64::from(inventory.max_unit))
        .clamp(-1, i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_with_room_are_those_with_enough_headroom() {
        for mask in [
            0,
            1,
            u64::MAX,
            1 << 63,
            0x8421_0f0f_1234_5678,
            0xaaaa_5555_cccc_3333,
        ] {
            let mut block = Block::EMPTY;
            block.present = u64::MAX;
            for (bit, headroom) in block.headroom.iter_mut().enumerate() {
                *headroom = if mask >> bit & 1 == 1 { 4 } else { 3 };
            }
            assert_eq!(block.slots_with_room(4), mask);
            assert_eq!(block.slots_with_room(3), u64::MAX);
            assert_eq!(at_least(&block.headroom, 4), mask);
            #[cfg(target_arch = "x86_64")]
            if let Some(v3) = pulp::x86::V3::try_new() {
                assert_eq!(avx2_at_least(v3, &block.headroom, 4), mask);
            }
            block.present = 0xff;
            assert_eq!(block.slots_with_room(4), mask & 0xff);
            for bit in 0..64 {
                let has_room = mask & 0xff & 1 << bit != 0;
                assert_eq!(block.has_room_for(1 << bit, 4), has_room);
            }
        }
    }
}
