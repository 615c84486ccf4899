//! Names given small numbers: aggregates, projects, users, consumer types.

use crate::hash::Map;

/// A table of texts, each kept once.
///
/// Nothing is ever removed, so a number stays valid. The numbers depend on what was seen first and
/// may therefore differ between two equal states: they must not reach a snapshot, a digest or an
/// answer's order.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    texts: Vec<Box<str>>,
    numbers: Map<Box<str>, u32>,
}

impl Interner {
    /// The number of a text, if it was ever interned.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// The number of a text, a new one if need be.
    pub fn intern(&mut self, text: &str) -> u32 {
        if let Some(number) = self.find(text) {
            return number;
        }
        let number = u32::try_from(self.texts.len()).expect("fewer than 2^32 names fit in memory");
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// The text of a number; empty for a number that this table never gave.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}
