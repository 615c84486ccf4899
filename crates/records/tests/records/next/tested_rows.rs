//! Which rows were tested, by their names.

use std::collections::BTreeSet;
use std::fmt::Debug;

use placewright_records::Form;

use super::assert_grows;

/// The rows that were tested.
#[derive(Default)]
pub(crate) struct TestedRows {
    /// The name of each row, with its module.
    pub names: BTreeSet<String>,
}

impl TestedRows {
    /// Tests rows of one type, of which there has to be one at least.
    pub(crate) fn test<T: Form + Clone + PartialEq + Debug>(
        &mut self,
        module: &str,
        rows: impl IntoIterator<Item = T>,
    ) {
        let name = std::any::type_name::<T>();
        let name = name.rsplit("::").next().unwrap();
        let before = self.names.len();
        for row in rows {
            assert_grows(row);
            self.names.insert(format!("{module}::{name}"));
        }
        assert_eq!(self.names.len(), before + 1, "{module}::{name}");
    }
}
