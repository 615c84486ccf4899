//! Control's commands, as its replicas hand them to the one that leads.
//!
//! As with messages ([`crate::message`]), two replicas use the highest version that both know. A field can be
//! added to a command without a new version. A new version is needed for a value that an older release could not
//! read, such as a new command.

use placewright_conductor::control::Command;

use crate::form::{Form, FormError, Layout, Reader, Writer};
use crate::message::Versions;

/// The versions of commands that this release supports.
///
/// Version 2 has the commands about accounts. A replica whose leader is of an older release cannot hand them over.
pub const VERSIONS: Versions = Versions {
    oldest: 1,
    newest: 2,
};

choice!(Command {
    0 Placement(command),
    1 Conductor { command, at },
});

/// The bytes of a command; `None` if this release does not support the version.
#[must_use]
pub fn encode(version: u32, command: &Command) -> Option<Vec<u8>> {
    if !VERSIONS.include(version) {
        return None;
    }
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    command.write(&mut out);
    Some(out.into_bytes())
}

/// Reads a command.
///
/// # Errors
///
/// The bytes are not a command that this release knows, or the version is not supported by this release.
pub fn decode(version: u32, bytes: &[u8]) -> Result<Command, FormError> {
    if !VERSIONS.include(version) {
        return Err(FormError::Unknown {
            what: "version",
            number: version.into(),
        });
    }
    let mut from = Reader::new(bytes, Layout::Growing);
    let command = Command::read(&mut from)?;
    from.finish()?;
    Ok(command)
}
