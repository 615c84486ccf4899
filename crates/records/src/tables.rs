//! Snapshots of states that consist of tables: the version, each row preceded by its length, and a
//! length of 0.

use std::io::{self, Read, Write};

use placewright_conductor::table::Tables;

use crate::error::{ReadError, check_version};
use crate::form::{Form, Layout, Reader, Writer};
use crate::packed::{Packer, Unpacker, write_row};

/// Rows in the positional layout.
const POSITIONAL: u8 = 1;
/// Packed elements in the positional layout.
const PACKED_POSITIONAL: u8 = 2;
/// Packed elements in the growing layout: the version that this release writes.
const GROWING: u8 = 3;

/// The maximum size of a row in bytes; the API limits specs to less.
const ROW_BYTES_MAX: u32 = 64 << 20;

/// Writes all rows, and the shared parts of specs once.
pub(crate) fn save<T: Tables>(tables: &T, out: &mut dyn Write) -> io::Result<()>
where
    T::Change: Form,
{
    let mut packer = Packer::of(tables.all_specs());
    out.write_all(&[GROWING])?;
    let mut writer = Writer::new(Vec::new(), Layout::Growing);
    for row in tables.rows() {
        packer.write(&row, &mut writer, |writer| framed(writer, out))?;
    }
    out.write_all(&0u32.to_le_bytes())
}

/// Writes all rows without sharing: equal states give equal bytes.
pub(crate) fn save_plain<T: Tables>(tables: &T, out: &mut dyn Write) -> io::Result<()>
where
    T::Change: Form,
{
    out.write_all(&[GROWING])?;
    let mut writer = Writer::new(Vec::new(), Layout::Growing);
    for row in tables.rows() {
        write_row(&row, &mut writer);
        framed(&mut writer, out)?;
    }
    out.write_all(&0u32.to_le_bytes())
}

/// Passes on what was written, preceded by its length.
fn framed(writer: &mut Writer, out: &mut dyn Write) -> io::Result<()> {
    let bytes = &mut writer.bytes;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)?;
    bytes.clear();
    Ok(())
}

/// Reads rows of each version. Empty input has no rows: its writer did not have this part yet.
pub(crate) fn load<T: Tables>(input: &mut dyn Read) -> Result<T, ReadError>
where
    T::Change: Form,
{
    let mut tables = T::default();
    let mut version = [0];
    if input.read(&mut version)? == 0 {
        return Ok(tables);
    }
    let [version] = version;
    check_version(version, GROWING)?;
    let (layout, is_packed) = match version {
        POSITIONAL => (Layout::Positional, false),
        PACKED_POSITIONAL => (Layout::Positional, true),
        GROWING => (Layout::Growing, true),
        _ => return Err(ReadError::Damaged("it has no version".into())),
    };
    let mut unpacker = Unpacker::default();
    let mut bytes = Vec::new();
    loop {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length == 0 {
            return Ok(tables);
        }
        if length > ROW_BYTES_MAX {
            return Err(ReadError::Damaged(format!("a row of {length} bytes")));
        }
        bytes.resize(length as usize, 0);
        input.read_exact(&mut bytes)?;
        let mut from = Reader::new(&bytes, layout);
        let row = if is_packed {
            unpacker.read(&mut from)?
        } else {
            Some(T::Change::read(&mut from)?)
        };
        from.end()?;
        if let Some(row) = row {
            tables.put(&row);
        }
    }
}

/// The first half of a BLAKE3 hash of what `save` writes.
pub(crate) fn digest(save: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> u128 {
    let mut hasher = blake3::Hasher::new();
    let mut out = io::BufWriter::with_capacity(1 << 16, &mut hasher);
    // Hashing cannot fail.
    let written = save(&mut out).and_then(|()| out.flush());
    debug_assert!(written.is_ok());
    drop(out);
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(half)
}
