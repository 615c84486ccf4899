//! The entries of an agent's guest log.
//!
//! The file begins with a header whose last byte is the version of its entries. Version 1 is the
//! positional layout; version 2, which this release writes, is the growing one.

use placewright_conductor::{Amounts, HostId, InstanceId};
use uuid::Uuid;

use crate::error::{ReadError, check_version};
use crate::form::{Form, Layout, Reader, Writer};

/// The version of entries that this release writes.
pub const VERSION: u8 = 2;

/// An instance, and the number of one of its guests.
pub type GuestKey = (InstanceId, u32);

/// An entry of the guest log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The guest's row from now on.
    Put(HostId, GuestKey, GuestRow),
    /// The guest does not exist any more.
    Erase(HostId, GuestKey),
    /// The agent began a session with this number.
    Session(u64),
}

/// A guest as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRow {
    /// The state of the guest.
    pub state: GuestStateName,
    /// The amounts that the guest holds of the host's providers.
    pub amounts: Vec<Amounts>,
    /// The server group that the guest's instance is a member of.
    pub group: Option<Uuid>,
    /// The properties of the guest's image: name and value as text.
    pub image_properties: Vec<(String, String)>,
}

/// The state of a guest in the form of the log: the variants of the agent's `GuestState`, which this crate cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the type `GuestState` of the agent explains each"
)]
pub enum GuestStateName {
    Incomplete,
    Prepared,
    Running,
    Left,
    Offloaded,
    Uncertain,
}

row!(GuestRow {
    state,
    amounts,
    group,
    image_properties
});

names!(GuestStateName {
    0 Incomplete,
    1 Prepared,
    2 Running,
    3 Left,
    4 Offloaded,
    5 Uncertain,
});

choice!(Entry {
    0 Put(host, key, guest),
    1 Erase(host, key),
    2 Session(session),
});

/// The bytes of an entry, in the version that this release writes.
#[must_use]
pub fn encode(entry: &Entry) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    entry.write(&mut out);
    out.into_bytes()
}

/// Reads an entry of a file whose header has this version.
///
/// # Errors
///
/// [`ReadError`] when the bytes are not an entry that this release knows.
pub fn decode(version: u8, bytes: &[u8]) -> Result<Entry, ReadError> {
    check_version(version, VERSION)?;
    let layout = match version {
        1 => Layout::Positional,
        VERSION => Layout::Growing,
        _ => return Err(ReadError::Damaged("it has no version".into())),
    };
    let mut from = Reader::new(bytes, layout);
    let entry = Entry::read(&mut from)?;
    from.finish()?;
    Ok(entry)
}
