//! The entries of an agent's guest log.
//!
//! The file begins with a head whose last byte is the version of its entries: 1 is the positional
//! layout, 2, which this release writes, the growing one.

use placewright_conductor::{Amounts, HostId, InstanceId};
use uuid::Uuid;

use crate::error::{ReadError, check_version};
use crate::form::{Form, Layout, Reader, Writer};

/// The version of entries that this release writes.
pub const VERSION: u8 = 2;

/// An instance, and which of its guests.
pub type GuestKey = (InstanceId, u32);

/// An entry: one change of what an agent has on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A guest has this state.
    Put(HostId, GuestKey, GuestRow),
    /// A guest is gone.
    Erase(HostId, GuestKey),
    /// The agent began a session with this number.
    Session(u64),
}

/// A guest as it is on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRow {
    /// How far the guest's build or removal has come.
    pub state: GuestStateName,
    /// The amounts that it holds of the host's providers.
    pub amounts: Vec<Amounts>,
    /// The server group that its instance is a member of.
    pub group: Option<Uuid>,
    /// The properties of its image: name and value as text.
    pub image_properties: Vec<(String, String)>,
}

/// The state of a guest as it is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the agent's own type has the meaning of each")]
pub enum GuestStateName {
    Making,
    Prepared,
    Running,
    Left,
    Offloaded,
    Unsure,
}

row!(GuestRow {
    state,
    amounts,
    group,
    image_properties
});

names!(GuestStateName {
    0 Making,
    1 Prepared,
    2 Running,
    3 Left,
    4 Offloaded,
    5 Unsure,
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

/// Reads an entry of a file of any version.
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
    from.end()?;
    Ok(entry)
}
