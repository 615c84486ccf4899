//! Interned names: aggregates, projects, users, consumer types.

use hashbrown::HashTable;

use crate::hash::hash_of;
use crate::slots::Slots;

/// A table of reference-counted texts, each kept once and as long as it is held.
///
/// Whoever keeps a number calls [`Interner::hold`], and [`Interner::release`] when done: names
/// come from clients, and unused ones would otherwise accumulate for ever. A number stays valid as
/// long as it is held. Numbers depend on the order of arrival and may differ between two equal
/// states: they must not reach a snapshot, a digest or the order of an answer.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    rows: Slots<Row>,
    /// The numbers, found by the hash of their text. The text itself is only in the row.
    numbers: HashTable<u32>,
}

/// A name with its reference count.
#[derive(Clone, Debug)]
struct Row {
    text: Box<str>,
    /// How often the number is held.
    holders: u32,
}

/// A name whose reference count reached zero, kept for undo: it must get the same number again.
#[derive(Debug)]
pub(crate) struct FreedName {
    pub(crate) number: u32,
    pub(crate) text: Box<str>,
}

/// Names that one change freed; usually empty.
pub(crate) type FreedNames = Vec<FreedName>;

impl Interner {
    /// The number of a text, if it is in use.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<u32> {
        self.find_hashed(text, hash_of(text))
    }

    fn find_hashed(&self, text: &str, hash: u64) -> Option<u32> {
        let found = self.numbers.find(hash, |number| self.text(*number) == text);
        found.copied()
    }

    /// The number of a text, new if necessary. A new one has a reference count of zero.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        let hash = hash_of(text);
        if let Some(number) = self.find_hashed(text, hash) {
            return number;
        }
        let number = self.rows.next_row();
        self.put(number, text.into(), hash);
        number
    }

    fn put(&mut self, number: u32, text: Box<str>, hash: u64) {
        self.rows.put(number, Row { text, holders: 0 });
        let rows = &self.rows;
        // Each number in the table has a row.
        let hash_of_entry = |number: &u32| rows.get(*number).map_or(0, |row| hash_of(&*row.text));
        self.numbers.insert_unique(hash, number, hash_of_entry);
    }

    /// Increments the reference count.
    #[inline]
    pub(crate) fn hold(&mut self, number: u32) {
        if let Some(row) = self.rows.get_mut(number) {
            row.holders += 1;
        }
    }

    /// Decrements the reference count. Returns the name if that was the last reference.
    #[inline]
    pub(crate) fn release(&mut self, number: u32) -> Option<FreedName> {
        let row = self.rows.get_mut(number)?;
        row.holders = row.holders.saturating_sub(1);
        if row.holders > 0 {
            return None;
        }
        let text = self.rows.take(number)?.text;
        let is_entry = |entry: &u32| *entry == number;
        if let Ok(entry) = self.numbers.find_entry(hash_of(&*text), is_entry) {
            entry.remove();
        }
        Some(FreedName { number, text })
    }

    /// Gives freed names their former numbers again, with a reference count of zero.
    pub(crate) fn restore(&mut self, freed: impl IntoIterator<Item = FreedName>) {
        for FreedName { number, text } in freed {
            let hash = hash_of(&*text);
            self.put(number, text, hash);
        }
    }

    /// The text of a number; empty for a number that is not in use.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        self.rows.get(number).map_or("", |row| &row.text)
    }

    /// One past the highest number in use.
    #[must_use]
    pub fn end_number(&self) -> usize {
        self.rows.end_row()
    }

    /// The number of texts in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no text is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_names_is_found_also_after_half_of_them_went_and_came_back() {
        let mut names = Interner::default();
        let texts: Vec<String> = (0..1_000).map(|number| format!("name {number}")).collect();
        let numbers: Vec<u32> = texts.iter().map(|text| names.intern(text)).collect();
        numbers.iter().for_each(|number| names.hold(*number));
        let half = || numbers.iter().copied().step_by(2);
        let mut freed: FreedNames = half().filter_map(|number| names.release(number)).collect();
        assert_eq!((freed.len(), names.len()), (500, 500));
        for (index, text) in texts.iter().enumerate() {
            let expected = (index % 2 == 1).then_some(numbers[index]);
            assert_eq!(names.find(text), expected);
        }
        freed.reverse();
        names.restore(freed);
        let found: Vec<Option<u32>> = texts.iter().map(|text| names.find(text)).collect();
        assert_eq!(found, numbers.into_iter().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_name_goes_with_its_last_holder_and_comes_back_under_its_number() {
        let mut names = Interner::default();
        let numbers: Vec<u32> = ["a", "b", "c"].map(|name| names.intern(name)).to_vec();
        numbers.iter().for_each(|number| names.hold(*number));
        names.hold(numbers[0]);
        assert!(names.release(numbers[0]).is_none());
        let freed: FreedNames = vec![
            names.release(numbers[0]).expect("the last holder"),
            names.release(numbers[1]).expect("the last holder"),
        ];
        assert_eq!(
            (names.len(), names.find("a"), names.text(numbers[1])),
            (1, None, "")
        );
        // The number is reused and then freed again, as by an undo.
        let other = names.intern("d");
        names.hold(other);
        assert_eq!(other, numbers[0]);
        assert!(names.release(other).is_some());
        names.restore(freed);
        assert_eq!(
            ["a", "b", "c"]
                .map(|name| names.find(name).expect("known"))
                .to_vec(),
            numbers
        );
    }
}
