//! The rows of a snapshot, each preceded by its length.
//!
//! The length allows a later release to add fields to a row. They form a struct with defaults, which is written after
//! the row with [`RowWriter::write_with`] and read with [`RowReader::read_with`]. An older release skips them, and a
//! newer one that reads the row of an older release gets the defaults of the whole struct. So a released struct gets no
//! further fields: those of a still later release form a struct of their own after it.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::SnapshotError;

/// The most bytes of a row; a greater length is damage. Rows stay below it, because a provider's row does not list its
/// consumers.
const ROW_BYTES_MAX: u32 = 64 << 20;

/// Writes rows, each after its length.
pub(super) struct RowWriter<'a> {
    out: &'a mut dyn Write,
    row: Vec<u8>,
}

impl<'a> RowWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            row: Vec::new(),
        }
    }

    pub(super) fn write<T: Serialize>(&mut self, row: &T) -> io::Result<()> {
        self.write_with(row, &())
    }

    /// Writes a row and its added fields. They are not written if all have their defaults, so that
    /// equal states give the same bytes in every release.
    pub(super) fn write_with<T, A>(&mut self, row: &T, added: &A) -> io::Result<()>
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

/// Reads rows, and skips what newer releases have added to them.
pub(super) struct RowReader<'a> {
    input: &'a mut dyn Read,
    row: Vec<u8>,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(input: &'a mut dyn Read) -> Self {
        Self {
            input,
            row: Vec::new(),
        }
    }

    pub(super) fn read<T: DeserializeOwned>(&mut self) -> Result<T, SnapshotError> {
        let (row, ()) = self.read_with()?;
        Ok(row)
    }

    /// Reads a row and its added fields. Bytes after those belong to a later release and are ignored.
    pub(super) fn read_with<T, A>(&mut self) -> Result<(T, A), SnapshotError>
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
        let damaged = |_| SnapshotError::Damaged("a row does not hold what it should");
        let (row, added_bytes) = postcard::take_from_bytes(&self.row).map_err(damaged)?;
        let added = match added_bytes {
            [] => A::default(),
            added_bytes => postcard::from_bytes(added_bytes).map_err(damaged)?,
        };
        Ok((row, added))
    }
}
