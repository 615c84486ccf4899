//! How values become bytes.
//!
//! There are two layouts, and one declaration serves both:
//!
//! - [`Layout::Growing`] is what this release writes. A row, and a variant of a choice, is preceded
//!   by its length. Fields are only ever appended. A reader that knows fewer fields passes over the
//!   rest of the row; one that knows more takes the default for what is missing. So added fields
//!   with nothing but defaults need not be written.
//! - [`Layout::Positional`] is what releases before it wrote: the same values without lengths, in
//!   the encoding of the `postcard` crate. It has only the fields of that time, and never changes.
//!
//! Numbers are LEB128 (signed ones zigzag first), texts and lists have their length first.

mod basic;
mod reader;
mod writer;

use thiserror::Error;

pub(crate) use basic::write_list;
pub use reader::Reader;
pub use writer::Writer;

/// How rows are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Rows without lengths, which can never gain a field: the layout of older releases.
    Positional,
    /// Rows with lengths, which can.
    Growing,
}

/// A value that can be written and read.
///
/// Reading what was written gives an equal value, in each layout; in the positional one except for
/// fields that were added later.
pub trait Form: Sized {
    /// Appends the value.
    fn write(&self, out: &mut Writer);

    /// Reads the value from the front of what is left.
    ///
    /// # Errors
    ///
    /// The bytes are no such value.
    fn read(from: &mut Reader<'_>) -> Result<Self, FormError>;
}

/// Why bytes are not the value that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// The bytes end within a value.
    #[error("it ends too early")]
    Ended,
    /// A variant that a later release may have added.
    #[error("{what} number {number} is not known to this release")]
    Unknown {
        /// The name of the choice.
        what: &'static str,
        /// The number of the variant.
        number: u64,
    },
    /// The bytes can be no value of this kind.
    #[error("{0} that cannot be")]
    Bad(&'static str),
    /// There are bytes after the last value.
    #[error("there is more after its end")]
    Trailing,
}
