//! The encoding of values as bytes.
//!
//! There are two layouts. One declaration of a type serves both:
//!
//! - [`Layout::Growing`] is the layout that this release writes. A row, and a variant of an enum, is
//!   preceded by its length in bytes; an enum whose variants will never have fields is its number
//!   alone. New fields are appended to a row. A reader that knows fewer fields skips the rest of the
//!   row; a reader that knows more takes the default for each missing field. So trailing new fields
//!   that have their defaults are not written.
//! - [`Layout::Positional`] is the layout of earlier releases: the same values without lengths, in the
//!   encoding of the `postcard` crate. This layout never changes, so it lacks the fields that were added later.
//!
//! Integers of more than one byte are LEB128, signed ones after zigzag encoding. Texts and lists are preceded by
//! their length.

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
    /// Rows without lengths, so that no field can be added: the layout of older releases.
    Positional,
    /// Rows with lengths, so that fields can be added.
    Growing,
}

/// A value that can be written and read.
///
/// Reading the bytes that were written gives an equal value. In the positional layout this is true only of
/// values whose later added fields have their defaults.
pub trait Form: Sized {
    /// Appends the value in the layout of `out`.
    fn write(&self, out: &mut Writer);

    /// Reads a value from the front of the remaining bytes.
    ///
    /// # Errors
    ///
    /// The bytes are not a value of this type.
    fn read(from: &mut Reader<'_>) -> Result<Self, FormError>;

    /// Appends the items of a list, whose number was written before. A type whose items often have equal parts defines
    /// this and [`Form::read_items`], in order to write such parts once for several items.
    fn write_items(list: &[Self], out: &mut Writer) {
        list.iter().for_each(|item| item.write(out));
    }

    /// Reads the items of a list.
    ///
    /// # Errors
    ///
    /// The bytes are not `count` values of this type.
    fn read_items(count: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, FormError> {
        // The claimed count is not trusted: the memory reserved is at most about as large as the
        // remaining bytes.
        let capacity = count.min(1 + from.remaining() / size_of::<Self>().max(1));
        let mut list = Vec::with_capacity(capacity);
        for _ in 0..count {
            list.push(Self::read(from)?);
        }
        Ok(list)
    }
}

/// Why bytes cannot be read as a value of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// The bytes end inside a value.
    #[error("it ends too early")]
    Ended,
    /// This release does not know the number, for instance of a variant; a later release may have added it.
    #[error("{what} number {number} is not known to this release")]
    Unknown {
        /// What has the number: the name of an enum, or a word such as `version`.
        what: &'static str,
        /// The number that was read.
        number: u64,
    },
    /// The bytes are not the encoding of any value of the named type.
    #[error("not valid: {0}")]
    Bad(&'static str),
    /// There are bytes after the last value.
    #[error("there is more after its end")]
    Trailing,
}
