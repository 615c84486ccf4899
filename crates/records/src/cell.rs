//! The records and snapshots of a cell.
//!
//! Version 1 of a record has a list of changes in the positional layout. Version 2, which this release
//! writes, has the changes one after the other, as rows of the growing layout, up to the record's end.

use std::io;

use placewright_conductor::cell_conductor::{Change, State};

use crate::error::{ReadError, check_version};
use crate::form::{Form, Layout, Reader, Writer};
use crate::tables;

/// The version of records that this release writes.
pub const RECORD_VERSION: u8 = 2;

/// Appends the record of some changes to a buffer.
pub fn encode(changes: &[Change], out: &mut Vec<u8>) {
    let mut writer = Writer::new(std::mem::take(out), Layout::Growing);
    writer.raw(&[RECORD_VERSION]);
    for change in changes {
        change.write(&mut writer);
    }
    *out = writer.into_bytes();
}

/// Reads the changes of a record of any version.
///
/// # Errors
///
/// [`ReadError`] when the bytes are not a record that this release knows.
pub fn decode(record: &[u8]) -> Result<Vec<Change>, ReadError> {
    let Some((&version, body)) = record.split_first() else {
        return Err(ReadError::Damaged("it is empty".into()));
    };
    check_version(version, RECORD_VERSION)?;
    if version == 1 {
        let mut from = Reader::new(body, Layout::Positional);
        let changes = Form::read(&mut from)?;
        from.finish()?;
        return Ok(changes);
    }
    if version != RECORD_VERSION {
        return Err(ReadError::Damaged("it has no version".into()));
    }
    let mut from = Reader::new(body, Layout::Growing);
    let mut changes = Vec::new();
    while !from.is_at_end() {
        changes.push(Change::read(&mut from)?);
    }
    Ok(changes)
}

/// Writes the whole state.
///
/// # Errors
///
/// Only the errors of `out`.
pub fn save(state: &State, out: &mut dyn io::Write) -> io::Result<()> {
    tables::save(state, out)
}

/// Reads a saved state of any version; empty input is an empty state.
///
/// # Errors
///
/// [`ReadError`] when the bytes are no saved state.
pub fn load(input: &mut dyn io::Read) -> Result<State, ReadError> {
    tables::load(input)
}

/// A digest of the whole state: equal states have equal digests.
#[must_use]
pub fn digest(state: &State) -> u128 {
    tables::digest(|out| tables::save_plain(state, out))
}
