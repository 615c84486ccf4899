//! Control's records and snapshots, with the changes of placement and of the super conductor.
//!
//! | version | content of a record after its version |
//! | --- | --- |
//! | 1 | a list of placement's changes; positional |
//! | 2 | a list of changes of both; positional |
//! | 3 | packed elements with changes of both; positional |
//! | 4 | a byte of flags, then changes of both, as rows or as packed elements; growing |
//!
//! In the positional layout rows have no lengths, so no field can be added to them; in the growing layout they have.
//! Packed elements have what several specs share only once; they are described in `packed.rs`. This release writes
//! version 4 and reads all versions.

use std::io;

use placewright_conductor::control::{Change, ControlState};
use placewright_conductor::table::SpecRow as _;
use placewright_placement as placement;
use placewright_placement::snapshot::SnapshotError;

use crate::error::{ReadError, check_version};
use crate::form::{Form, FormError, Layout, Reader, Writer};
use crate::packed::{Packer, Unpacker};
use crate::tables;

/// The version of records that this release writes.
pub const RECORD_VERSION: u8 = 4;

/// The flag of records with changes of the conductor. Followers of the conductor skip records without it, which are
/// most.
const CONCERNS_CONDUCTOR: u8 = 1;
/// The flag of records with packed elements.
const IS_PACKED: u8 = 2;

/// A number (0 for placement, 1 for the conductor), then the change, as a row.
impl Form for Change {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Placement(change) => {
                out.number(0);
                change.write(out);
            }
            Self::Conductor(change) => {
                out.number(1);
                change.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        match from.number()? {
            0 => Form::read(from).map(Self::Placement),
            1 => Form::read(from).map(Self::Conductor),
            number => Err(FormError::Unknown {
                what: "change of control",
                number,
            }),
        }
    }
}

/// Appends the record of one command's changes to a buffer.
pub fn encode(changes: &[Change], out: &mut Vec<u8>) {
    let is_of_conductor = |change: &Change| matches!(change, Change::Conductor(_));
    let mut flags = 0;
    if changes.iter().any(is_of_conductor) {
        flags |= CONCERNS_CONDUCTOR;
    }
    let specs = changes.iter().filter_map(|change| change.spec());
    let mut packer = Packer::of(specs.map(|(_, spec)| spec));
    if packer.has_shared_parts() {
        flags |= IS_PACKED;
    }
    let mut writer = Writer::new(std::mem::take(out), Layout::Growing);
    writer.raw(&[RECORD_VERSION, flags]);
    for change in changes {
        if packer.has_shared_parts() {
            // A record is written whole, so nothing is done after the single elements.
            let Ok(()) = packer.write(change, &mut writer, |_| {
                Ok::<_, std::convert::Infallible>(())
            });
        } else {
            change.write(&mut writer);
        }
    }
    *out = writer.into_bytes();
}

/// Whether a record may contain changes of the conductor, according to its first bytes.
#[must_use]
pub fn may_concern_conductor(record: &[u8]) -> bool {
    match record {
        [2 | 3, ..] => true,
        [RECORD_VERSION, flags, ..] => flags & CONCERNS_CONDUCTOR != 0,
        _ => false,
    }
}

/// Decodes the changes of a record of any version. Version 1 was written before control had a conductor.
///
/// # Errors
///
/// [`ReadError`] when the bytes are not a record that this release knows.
pub fn decode(record: &[u8]) -> Result<Vec<Change>, ReadError> {
    let Some((&version, body)) = record.split_first() else {
        return Err(ReadError::Damaged("it is empty".into()));
    };
    check_version(version, RECORD_VERSION)?;
    let mut from = Reader::new(body, Layout::Positional);
    match version {
        1 => {
            let changes: Vec<placement::Change> = Form::read(&mut from)?;
            from.finish()?;
            Ok(changes.into_iter().map(Change::Placement).collect())
        }
        2 => {
            let changes = Form::read(&mut from)?;
            from.finish()?;
            Ok(changes)
        }
        3 => decode_packed(from),
        RECORD_VERSION => decode_growing(body),
        _ => Err(ReadError::Damaged("it has no version".into())),
    }
}

fn decode_growing(body: &[u8]) -> Result<Vec<Change>, ReadError> {
    let mut from = Reader::new(body, Layout::Growing);
    let flags = u8::read(&mut from)?;
    if flags & !(CONCERNS_CONDUCTOR | IS_PACKED) != 0 {
        return Err(ReadError::Damaged(format!(
            "flags {flags:#x} are not known to this release"
        )));
    }
    if flags & IS_PACKED != 0 {
        return decode_packed(from);
    }
    let mut changes = Vec::new();
    while !from.is_at_end() {
        changes.push(Change::read(&mut from)?);
    }
    Ok(changes)
}

/// Decodes packed elements up to the end of the record.
fn decode_packed(mut from: Reader<'_>) -> Result<Vec<Change>, ReadError> {
    let mut unpacker = Unpacker::default();
    let mut changes = Vec::new();
    while !from.is_at_end() {
        changes.extend(unpacker.read(&mut from)?);
    }
    Ok(changes)
}

/// Writes the whole state: placement's snapshot, followed by the conductor's.
///
/// # Errors
///
/// Only the errors of `out`.
pub fn save(control: &ControlState, out: &mut dyn io::Write) -> io::Result<()> {
    control.placement.save(out)?;
    tables::save(&control.conductor, out)
}

/// Reads a saved state of any version, also one that was saved before control had a conductor.
///
/// # Errors
///
/// [`ReadError`] when the bytes are no saved state.
pub fn load(input: &mut dyn io::Read) -> Result<ControlState, ReadError> {
    let placement = placement::State::load(input).map_err(|error| match error {
        SnapshotError::Io(error) => ReadError::Io(error),
        SnapshotError::NewerVersion { found } => ReadError::NewerVersion {
            found: u8::try_from(found).unwrap_or(u8::MAX),
            supported: u8::try_from(placement::snapshot::SNAPSHOT_VERSION).unwrap_or(u8::MAX),
        },
        SnapshotError::Damaged(what) => ReadError::Damaged(what.to_owned()),
    })?;
    Ok(ControlState {
        placement,
        conductor: tables::load(input)?,
    })
}

/// A digest of the whole state: equal states have equal digests. Specs are therefore hashed in full, whether or not
/// they share parts in memory.
#[must_use]
pub fn digest(control: &ControlState) -> u128 {
    tables::digest(|out| {
        control.placement.save(out)?;
        tables::save_plain(&control.conductor, out)
    })
}

/// A digest of the conductor's part of the state.
#[must_use]
pub fn digest_of_conductor(control: &ControlState) -> u128 {
    tables::digest(|out| tables::save_plain(&control.conductor, out))
}
