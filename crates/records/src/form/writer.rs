//! Writing of values.

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

    /// Appends a text, which may be given in two parts.
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

    /// Appends a row: what `write` appends, preceded by its length in the growing layout.
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
            self.make_room(start, length);
        }
    }

    /// Appends a variant of a choice: its number and what `write` appends, as a row.
    #[inline]
    pub fn variant(&mut self, number: u64, write: impl FnOnce(&mut Self)) {
        self.row(|out| {
            out.number(number);
            write(out);
        });
    }

    /// Where the next byte goes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a field that the positional layout does not have. `end` is where the row ends if
    /// nothing from here on differs from its default; returns the same for what comes behind.
    #[must_use]
    pub fn added<T: Form + Default + PartialEq>(&mut self, field: &T, end: usize) -> usize {
        if self.layout == Layout::Positional {
            return end;
        }
        field.write(self);
        if *field == T::default() {
            end
        } else {
            self.position()
        }
    }

    /// Takes back what was appended from a position on.
    pub fn cut(&mut self, end: usize) {
        self.bytes.truncate(end);
    }

    /// Moves a row whose length takes more than the one byte that was left for it.
    fn make_room(&mut self, start: usize, length: usize) {
        let (bytes, more) = encode(length as u64);
        self.bytes.extend_from_slice(&bytes[1..more]);
        let body = start + 1..start + 1 + length;
        self.bytes.copy_within(body, start + more);
        self.bytes[start..start + more].copy_from_slice(&bytes[..more]);
    }
}

/// The lowest eight bits.
fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// A number in LEB128: seven bits a byte, the lowest first, the top bit set where more follow.
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
