//! Values that many hosts have in common. Each is sent to a page once; rows refer to it by its number.

use std::collections::HashMap;
use std::sync::Arc;

/// The values of one kind, as JSON.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// The number of each value.
    numbers: HashMap<Arc<str>, u32>,
    /// By number: the version in which a value was added, and the value.
    values: Vec<(u64, Arc<str>)>,
}

impl Dictionary {
    /// The number of a value, which is added if it is new.
    pub(super) fn number_of(&mut self, value: &str, version: u64) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let value: Arc<str> = value.into();
        self.numbers.insert(Arc::clone(&value), number);
        self.values.push((version, value));
        number
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// How many values are known to a page that has all rows up to this version.
    pub(super) fn known_at(&self, version: u64) -> usize {
        self.values.partition_point(|(added, _)| *added <= version)
    }

    /// The values from a number on, in order.
    pub(super) fn from(&self, number: usize) -> impl Iterator<Item = &str> {
        let values = self.values.get(number..).unwrap_or_default();
        values.iter().map(|(_, value)| &**value)
    }
}
