//! A sparse bit set of slots, in chunks. A chunk is allocated when the first bit in it is set. When the set becomes
//! empty, its chunks are freed, except that of the last bit.

/// The number of 64-bit words in one chunk.
const CHUNK_WORDS: usize = 16;

/// The longest list of chunks that an empty set keeps: that of slots below 32,768. Such a set takes less than 1 KiB.
const EMPTY_CHUNKS_MAX: usize = 32;

/// A sparse bit set, read 64 slots at a time. Where no slot was ever set, 1,024 slots cost one pointer.
#[derive(Clone, Debug, Default)]
pub struct SlotSet {
    chunks: Vec<Option<Box<[u64; CHUNK_WORDS]>>>,
    count: usize,
}

impl SlotSet {
    /// The 64 slots from `64 * word` on; bit 0 is the lowest slot.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        match self.chunks.get(word / CHUNK_WORDS) {
            Some(Some(chunk)) => chunk[word % CHUNK_WORDS],
            _ => 0,
        }
    }

    /// Whether a slot is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, slot: u32) -> bool {
        self.word(slot as usize / 64) >> (slot % 64) & 1 == 1
    }

    /// Adds a slot. True if the set did not contain it.
    pub fn insert(&mut self, slot: u32) -> bool {
        let word = slot as usize / 64;
        let chunk = word / CHUNK_WORDS;
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK_WORDS]));
        let bit = 1 << (slot % 64);
        let is_new = chunk[word % CHUNK_WORDS] & bit == 0;
        chunk[word % CHUNK_WORDS] |= bit;
        self.count += usize::from(is_new);
        is_new
    }

    /// Removes a slot. True if the set contained it.
    pub fn remove(&mut self, slot: u32) -> bool {
        let word = slot as usize / 64;
        let Some(Some(chunk)) = self.chunks.get_mut(word / CHUNK_WORDS) else {
            return false;
        };
        let bit = 1 << (slot % 64);
        let was_present = chunk[word % CHUNK_WORDS] & bit != 0;
        chunk[word % CHUNK_WORDS] &= !bit;
        self.count -= usize::from(was_present);
        if self.count == 0 {
            self.free_unused(word / CHUNK_WORDS);
        }
        was_present
    }

    /// Frees nearly all memory of an empty set, since there may be very many empty sets. Often a set loses its only
    /// slot and soon gets another one close to it, so the chunk of the last slot is kept, unless the list of chunks is
    /// long.
    fn free_unused(&mut self, last_chunk: usize) {
        if self.chunks.len() > EMPTY_CHUNKS_MAX {
            self.chunks = Vec::new();
            return;
        }
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            if index != last_chunk {
                *chunk = None;
            }
        }
    }

    /// Adds or removes a slot.
    pub fn set(&mut self, slot: u32, is_member: bool) {
        if is_member {
            self.insert(slot);
        } else {
            self.remove(slot);
        }
    }

    /// The number of slots in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no slot is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of words up to the last allocated chunk.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.chunks.len() * CHUNK_WORDS
    }

    /// Merges the set into a mask of words, which grows as needed.
    pub fn union_into(&self, words: &mut Vec<u64>) {
        for (index, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let first = index * CHUNK_WORDS;
            if words.len() < first + CHUNK_WORDS {
                words.resize(first + CHUNK_WORDS, 0);
            }
            for (word, chunk_word) in words[first..].iter_mut().zip(chunk.iter()) {
                *word |= chunk_word;
            }
        }
    }

    /// The slots in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter_from(0)
    }

    /// The members from a slot on, in rising order.
    pub fn iter_from(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let first = slot as usize / 64;
        let mask = u64::MAX << (slot % 64);
        (first..self.word_count()).flat_map(move |word| {
            let mask = if word == first { mask } else { u64::MAX };
            bits(self.word(word) & mask, word)
        })
    }
}

/// The slots of one word of a mask, in rising order.
pub fn bits(mut mask: u64, word: usize) -> impl Iterator<Item = u32> {
    let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let bit = mask.trailing_zeros();
        mask &= mask - 1;
        Some(base + bit)
    })
}

/// How many empty sets a list may keep beyond the highest number in use, so that no set has to be allocated for a name
/// that is freed and soon interned again.
const SPARE_SETS_MAX: usize = 64;

/// Shortens a list that has one set for each number of a name, if it is much longer than the numbers in use require.
/// The sets beyond them are empty.
pub(crate) fn drop_spares(sets: &mut Vec<SlotSet>, end_number: usize) {
    debug_assert!(sets.iter().skip(end_number).all(SlotSet::is_empty));
    if sets.len() > end_number + SPARE_SETS_MAX {
        sets.truncate(end_number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_nothing_else() {
        let mut set = SlotSet::default();
        for slot in [0, 63, 64, 5_000, 1_023, 1_024] {
            assert!(set.insert(slot));
            assert!(!set.insert(slot));
        }
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [0, 63, 64, 1_023, 1_024, 5_000]
        );
        assert_eq!(
            set.iter_from(64).collect::<Vec<_>>(),
            [64, 1_023, 1_024, 5_000]
        );
        assert_eq!(set.iter_from(1_000).next(), Some(1_023));
        assert!(set.remove(64) && !set.remove(64) && !set.remove(1 << 20));
        assert_eq!(set.len(), 5);
        assert!(!set.contains(64) && set.contains(5_000));
    }

    #[test]
    fn an_empty_set_keeps_one_chunk_of_a_short_list() {
        let chunks_of = |set: &SlotSet| (set.chunks.len(), set.chunks.iter().flatten().count());
        let mut set = SlotSet::default();
        for slot in [7, 5_000] {
            set.insert(slot);
        }
        set.remove(7);
        assert_eq!(chunks_of(&set), (5, 2));
        set.remove(5_000);
        assert_eq!((chunks_of(&set), set.iter().next()), ((5, 1), None));
        assert!(set.insert(7) && set.contains(7) && !set.contains(5_000));
        set.remove(7);
        set.insert(1 << 20);
        set.remove(1 << 20);
        assert_eq!(chunks_of(&set), (0, 0));
    }

    #[test]
    fn a_list_keeps_a_few_spare_sets() {
        let mut sets = vec![SlotSet::default(); 10 + SPARE_SETS_MAX];
        sets[9].insert(1);
        drop_spares(&mut sets, 10);
        assert_eq!(sets.len(), 10 + SPARE_SETS_MAX);
        sets.push(SlotSet::default());
        drop_spares(&mut sets, 10);
        assert_eq!((sets.len(), sets[9].len()), (10, 1));
    }
}
