//! States that consist of tables, and the changes that write their rows.
//!
//! A change gives the new content of a row, so applying it cannot fail, and the replaced content
//! undoes it. A snapshot is a list of changes too: one for each row. `placewright-records` has the
//! forms of both.

use crate::ids::InstanceId;
use crate::spec::Spec;

/// A type of changes, some of which write the spec of an instance.
pub trait SpecRow: Sized {
    /// The spec that the change writes, if it writes one.
    fn spec(&self) -> Option<(InstanceId, &Spec)>;

    /// Creates the change that writes a spec.
    fn from_spec(instance: InstanceId, spec: Box<Spec>) -> Self;
}

/// A state that consists of tables.
pub trait Tables: Default {
    /// One change: the new content of a row, or its removal.
    type Change: SpecRow;

    /// All rows as changes: table after table, each in the order of its keys.
    fn rows(&self) -> impl Iterator<Item = Self::Change> + '_;

    /// The specs of all instances.
    fn all_specs(&self) -> impl Iterator<Item = &Spec>;

    /// Applies a change that will not be undone.
    fn put(&mut self, change: &Self::Change);
}

/// An index derived from the rows of a state and updated with them.
pub(crate) trait Index<C>: Clone + std::fmt::Debug + Default + PartialEq {
    /// Updates the index after a row has changed: its former and its new content.
    fn update(&mut self, before: &C, after: &C);
}

impl<C> Index<C> for () {
    fn update(&mut self, _before: &C, _after: &C) {}
}

/// Declares a state, its changes, their undo data, and the derived index, whose type follows `with`: `()` if there is
/// no index. One of the tables has to be `specs: Spec(InstanceId => Spec)`.
macro_rules! tables {
    (
        $(#[$doc:meta])* tables with $index:ty;
        $( $(#[$table_doc:meta])* $table:ident: $variant:ident($key:ty => $row:ty), )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct State {
            $( pub(crate) $table: std::collections::BTreeMap<$key, $row>, )*
            index: $index,
        }

        /// One change: the new content of a row, or its removal.
        ///
        /// `placewright-records` declares its form.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Change {
            $( $(#[$table_doc])* $variant($key, Option<Box<$row>>), )*
        }

        /// Undoes one applied change. Undo in the reverse order of applying.
        #[derive(Debug)]
        pub struct Undo(Change);

        impl crate::table::SpecRow for Change {
            fn spec(&self) -> Option<(crate::ids::InstanceId, &crate::spec::Spec)> {
                match self {
                    Self::Spec(instance, Some(spec)) => Some((*instance, spec)),
                    _ => None,
                }
            }

            fn from_spec(
                instance: crate::ids::InstanceId,
                spec: Box<crate::spec::Spec>,
            ) -> Self {
                Self::Spec(instance, Some(spec))
            }
        }

        impl State {
            $( $(#[$table_doc])* #[must_use]
            pub fn $table(&self) -> &std::collections::BTreeMap<$key, $row> {
                &self.$table
            } )*

            /// Applies a change. The result undoes it.
            pub fn apply(&mut self, change: &Change) -> Undo {
                let undo = match change {
                    $( Change::$variant(key, row) => {
                        let before = match row {
                            Some(row) => self.$table.insert(key.clone(), (**row).clone()),
                            None => self.$table.remove(key),
                        };
                        Undo(Change::$variant(key.clone(), before.map(Box::new)))
                    } )*
                };
                crate::table::Index::update(&mut self.index, &undo.0, change);
                undo
            }

            /// Whether applying a change would change nothing, because its row has that content already.
            #[must_use]
            pub fn holds(&self, change: &Change) -> bool {
                match change {
                    $( Change::$variant(key, row) => self.$table.get(key) == row.as_deref(), )*
                }
            }

            /// Undoes the latest applied change that was not yet undone.
            pub fn undo(&mut self, undo: Undo) {
                drop(self.apply(&undo.0));
            }
        }

        impl crate::table::Tables for State {
            type Change = Change;

            fn rows(&self) -> impl Iterator<Item = Change> + '_ {
                let rows = std::iter::empty();
                $( let rows = rows.chain(self.$table.iter().map(|(key, row)| {
                    Change::$variant(key.clone(), Some(Box::new(row.clone())))
                })); )*
                rows
            }

            fn all_specs(&self) -> impl Iterator<Item = &crate::spec::Spec> {
                self.specs.values()
            }

            fn put(&mut self, change: &Change) {
                drop(self.apply(change));
            }
        }
    };
}

pub(crate) use tables;
