//! Writing of values to a buffer.

use super::{Form, Layout};

/// The longest encoding of a number.
const NUMBER_BYTES_MAX: usize = 10;

/// A buffer to which values are appended, in one layout.
#[derive(Debug)]
pub struct Writer {
    pub(crate) bytes: Vec<u8>,
    layout: Layout,
}

impl Writer {
    /// A writer that appends to a buffer.
    #[must_use]
    pub fn new(bytes: Vec<u8>, layout: Layout) -> Self {
        Self { bytes, layout }
    }

    /// The buffer with all that was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The layout in which rows are written.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a number without sign.
    #[inline]
    pub fn number(&mut self, number: u64) {
        if number < 0x80 {
            self.bytes.push(low_byte(number));
            return;
        }
        let (bytes, length) = encode(number);
        self.bytes.extend_from_slice(&bytes[..length]);
    }

    /// Appends a text that consists of two parts.
    pub fn text(&mut self, first: &str, second: &str) {
        self.length(first.len() + second.len());
        self.raw(first.as_bytes());
        self.raw(second.as_bytes());
    }

    /// Appends bytes, preceded by their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.raw(bytes);
    }

    /// Appends the number of items or bytes that follow.
    pub fn length(&mut self, length: usize) {
        self.number(length as u64);
    }

    /// Appends a row with `write`, in the growing layout preceded by its length.
    #[inline]
    pub fn row(&mut self, write: impl FnOnce(&mut Self)) {
        if self.layout == Layout::Positional {
            return write(self);
        }
        let start = self.bytes.len();
        self.bytes.push(0);
        write(self);
        let length = self.bytes.len() - start - 1;
        if length < 0x80 {
            self.bytes[start] = low_byte(length as u64);
        } else {
            self.insert_long_length(start, length);
        }
    }

    /// Appends a variant of an enum as a row: its number, and its fields with `write`.
    #[inline]
    pub fn variant(&mut self, number: u64, write: impl FnOnce(&mut Self)) {
        self.row(|out| {
            out.number(number);
            write(out);
        });
    }

    /// The position of the next byte in the buffer.
    #[must_use]
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a field that was added to its row later; the positional layout does not have it.
    ///
    /// `row_end` is where the row ends if this field and all fields after it have their defaults. Returns
    /// where the row ends if all fields after this one have their defaults.
    #[must_use]
    pub fn added_field<T: Form + Default + PartialEq>(
        &mut self,
        field: &T,
        row_end: usize,
    ) -> usize {
        if self.layout == Layout::Positional {
            return row_end;
        }
        field.write(self);
        if *field == T::default() {
            row_end
        } else {
            self.position()
        }
    }

    /// Removes the bytes from a position on.
    pub fn truncate(&mut self, position: usize) {
        self.bytes.truncate(position);
    }

    /// Writes the length of a row whose length needs more than the one byte that was reserved, and moves the
    /// row after the length.
    fn insert_long_length(&mut self, start: usize, length: usize) {
        let (bytes, length_bytes) = encode(length as u64);
        // Grows the buffer by the bytes that were not reserved. Their content is overwritten.
        self.bytes.extend_from_slice(&bytes[1..length_bytes]);
        let body = start + 1..start + 1 + length;
        self.bytes.copy_within(body, start + length_bytes);
        self.bytes[start..start + length_bytes].copy_from_slice(&bytes[..length_bytes]);
    }
}

/// The lowest eight bits.
fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// A number in LEB128, and how many bytes it takes. Each byte has seven bits, the lowest first; its top
/// bit is set if more bytes follow.
fn encode(mut number: u64) -> ([u8; NUMBER_BYTES_MAX], usize) {
    let mut bytes = [0; NUMBER_BYTES_MAX];
    let mut length = 0;
    while number >= 0x80 {
        bytes[length] = low_byte(number) | 0x80;
        number >>= 7;
        length += 1;
    }
    bytes[length] = low_byte(number);
    (bytes, length + 1)
}
