//! Reading of values from bytes that are not trusted.

use super::{Form, FormError, Layout};

/// Bytes from which values are taken, in one layout.
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    bytes: &'b [u8],
    layout: Layout,
    /// In how many rows the next value is nested.
    depth: u8,
}

/// How deeply rows may be nested. Commands may contain commands, and bytes that are not trusted must not
/// make reading use up the stack.
const DEPTH_MAX: u8 = 64;

impl<'b> Reader<'b> {
    /// A reader of some bytes.
    #[must_use]
    pub fn new(bytes: &'b [u8], layout: Layout) -> Self {
        Self {
            bytes,
            layout,
            depth: 0,
        }
    }

    /// The layout in which rows were written.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The number of remaining bytes.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes remain.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes `count` bytes as they are.
    ///
    /// # Errors
    ///
    /// Fewer bytes remain.
    pub fn raw(&mut self, count: usize) -> Result<&'b [u8], FormError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(FormError::Ended)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes a fixed number of bytes.
    ///
    /// # Errors
    ///
    /// Fewer bytes remain.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(FormError::Ended)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Takes a number without sign.
    ///
    /// # Errors
    ///
    /// The bytes end, or the number is larger than 64 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u64, FormError> {
        match self.bytes.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    /// Takes a number that may have more than one byte.
    fn long_number(&mut self) -> Result<u64, FormError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(FormError::Bad("a number"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(FormError::Bad("a number"))
    }

    /// Takes the number of items or bytes that follow. As each item takes at least one byte, it is an error if
    /// fewer bytes remain than this number.
    ///
    /// # Errors
    ///
    /// Fewer bytes remain.
    pub fn length(&mut self) -> Result<usize, FormError> {
        let length = self.number()?;
        let length = usize::try_from(length).map_err(|_| FormError::Ended)?;
        if length > self.bytes.len() {
            return Err(FormError::Ended);
        }
        Ok(length)
    }

    /// Takes bytes that are preceded by their number.
    ///
    /// # Errors
    ///
    /// Fewer bytes remain.
    pub fn bytes(&mut self) -> Result<&'b [u8], FormError> {
        let length = self.length()?;
        self.raw(length)
    }

    /// Takes a text.
    ///
    /// # Errors
    ///
    /// The bytes end, or are not UTF-8.
    pub fn text(&mut self) -> Result<&'b str, FormError> {
        let length = self.length()?;
        std::str::from_utf8(self.raw(length)?).map_err(|_| FormError::Bad("a text"))
    }

    /// Takes a row with `read`. Bytes of the row that `read` does not take are fields that a later
    /// release added; they are skipped.
    ///
    /// # Errors
    ///
    /// The errors of `read` (in the growing layout the whole row is taken even then); fewer bytes remain than the row
    /// has; or the row is nested too deeply.
    #[inline]
    pub fn row<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, FormError>,
    ) -> Result<T, FormError> {
        if self.layout == Layout::Positional {
            return read(self);
        }
        let length = self.length()?;
        let mut row = Self {
            bytes: self.raw(length)?,
            layout: self.layout,
            depth: self.depth + 1,
        };
        if row.depth > DEPTH_MAX {
            return Err(FormError::Bad("rows nested too deeply"));
        }
        read(&mut row)
    }

    /// Takes a field that was added to its row later. In the positional layout, and if the row ends before
    /// the field, the field has its default.
    ///
    /// # Errors
    ///
    /// The bytes are not a value of this type.
    pub fn added_field<T: Form + Default>(&mut self) -> Result<T, FormError> {
        if self.layout == Layout::Positional || self.is_at_end() {
            return Ok(T::default());
        }
        T::read(self)
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    ///
    /// Some bytes remain.
    pub fn finish(&self) -> Result<(), FormError> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(FormError::Trailing)
        }
    }
}
