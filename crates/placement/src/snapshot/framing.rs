//! The rows of a snapshot, each preceded by its length.
//!
//! So a row can gain fields: they are a struct of their own with defaults, which is written behind the
//! row with [`Rows::put_with`] and read with [`Input::take_with`]. A reader that does not know them
//! passes over them, and one that looks for them in a row of an older release gets the defaults.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::SnapshotError;

/// The upper bound of a row. It suffices because a provider's row does not list its consumers.
const ROW_BYTES_MAX: u32 = 64 << 20;

/// Writes rows.
pub(super) struct Rows<'a> {
    out: &'a mut dyn Write,
    row: Vec<u8>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            row: Vec::new(),
        }
    }

    pub(super) fn put<T: Serialize>(&mut self, row: &T) -> io::Result<()> {
        self.put_with(row, &())
    }

    /// Writes a row and fields that it gained. They are not written if they have their defaults, so
    /// that equal states give the same bytes in every release.
    pub(super) fn put_with<T, A>(&mut self, row: &T, added: &A) -> io::Result<()>
    where
        T: Serialize,
        A: Serialize + Default + PartialEq,
    {
        self.row.clear();
        let buffer = std::mem::take(&mut self.row);
        self.row = postcard::to_extend(row, buffer).map_err(io::Error::other)?;
        if *added != A::default() {
            let buffer = std::mem::take(&mut self.row);
            self.row = postcard::to_extend(added, buffer).map_err(io::Error::other)?;
        }
        let length = u32::try_from(self.row.len()).map_err(io::Error::other)?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&self.row)
    }
}

/// Reads rows.
pub(super) struct Input<'a> {
    input: &'a mut dyn Read,
    row: Vec<u8>,
}

impl<'a> Input<'a> {
    pub(super) fn new(input: &'a mut dyn Read) -> Self {
        Self {
            input,
            row: Vec::new(),
        }
    }

    pub(super) fn take<T: DeserializeOwned>(&mut self) -> Result<T, SnapshotError> {
        let (row, ()) = self.take_with()?;
        Ok(row)
    }

    /// Reads a row and fields that it gained. What is behind those was added by a later release.
    pub(super) fn take_with<T, A>(&mut self) -> Result<(T, A), SnapshotError>
    where
        T: DeserializeOwned,
        A: DeserializeOwned + Default,
    {
        let mut length = [0; 4];
        self.input.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > ROW_BYTES_MAX {
            return Err(SnapshotError::Damaged("a row is longer than any can be"));
        }
        self.row.resize(length as usize, 0);
        self.input.read_exact(&mut self.row)?;
        let wrong = |_| SnapshotError::Damaged("a row does not hold what it should");
        let (row, rest) = postcard::take_from_bytes(&self.row).map_err(wrong)?;
        let added = match rest {
            [] => A::default(),
            rest => postcard::from_bytes(rest).map_err(wrong)?,
        };
        Ok((row, added))
    }
}
