//! Snapshots of states that consist of tables. A snapshot is a version, then elements, each preceded by its
//! length, then a length of 0. An element is a row, or a part that rows share (`packed.rs`).

use std::io::{self, Read, Write};

use placewright_conductor::table::Tables;

use crate::error::{ReadError, check_version};
use crate::form::{Form, Layout, Reader, Writer};
use crate::packed::{Packer, Unpacker, write_row};

/// The version with rows in the positional layout.
const POSITIONAL: u8 = 1;
/// The version with packed elements in the positional layout.
const PACKED_POSITIONAL: u8 = 2;
/// The version with packed elements in the growing layout, which this release writes.
const GROWING: u8 = 3;

/// The maximum size in bytes of a row that is read. Every row was in a record of the journal, which is far smaller with
/// the default options of the store.
const ROW_BYTES_MAX: u32 = 64 << 20;

/// Writes all rows. Parts that several specs share are written once.
pub(crate) fn save<T: Tables>(tables: &T, out: &mut dyn Write) -> io::Result<()>
where
    T::Change: Form,
{
    let mut packer = Packer::of(tables.all_specs());
    out.write_all(&[GROWING])?;
    let mut writer = Writer::new(Vec::new(), Layout::Growing);
    for row in tables.rows() {
        packer.write(&row, &mut writer, |writer| write_with_length(writer, out))?;
    }
    out.write_all(&0u32.to_le_bytes())
}

/// Writes all rows in full, so that equal states give equal bytes, regardless of which parts their specs share.
pub(crate) fn save_plain<T: Tables>(tables: &T, out: &mut dyn Write) -> io::Result<()>
where
    T::Change: Form,
{
    out.write_all(&[GROWING])?;
    let mut writer = Writer::new(Vec::new(), Layout::Growing);
    for row in tables.rows() {
        write_row(&row, &mut writer);
        write_with_length(&mut writer, out)?;
    }
    out.write_all(&0u32.to_le_bytes())
}

/// Moves the bytes of `writer` to `out`, preceded by their length.
fn write_with_length(writer: &mut Writer, out: &mut dyn Write) -> io::Result<()> {
    let bytes = &mut writer.bytes;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)?;
    bytes.clear();
    Ok(())
}

/// Reads a snapshot of any version. Empty input gives an empty state, because releases before the first
/// version wrote nothing.
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
        from.finish()?;
        if let Some(row) = row {
            tables.put(&row);
        }
    }
}

/// The first 16 bytes of the BLAKE3 hash of the bytes that `save` writes.
pub(crate) fn digest(save: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> u128 {
    let mut hasher = blake3::Hasher::new();
    let mut out = io::BufWriter::with_capacity(1 << 16, &mut hasher);
    // Hashing cannot fail.
    let result = save(&mut out).and_then(|()| out.flush());
    debug_assert!(result.is_ok());
    drop(out);
    let mut first_bytes = [0; 16];
    first_bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(first_bytes)
}
