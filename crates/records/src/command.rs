//! Control's commands, as its replicas hand them to the one that leads.
//!
//! A replica hands a command over in the version that added it, because commands may be queued before it is known which
//! versions their leader knows. The bytes of a command are the same in every version that has it. A field can be added
//! to a command without a new version. A new version is needed for a value that an older release could not read, such
//! as a new command.
//!
//! | version | what it added |
//! | --- | --- |
//! | 1 | everything else |
//! | 2 | accounts |
//! | 3 | images: `SetImage`, and the checks of their limits |

use placewright_conductor::control::Command;
use placewright_conductor::super_conductor;

use crate::form::{Form, FormError, Layout, Reader, Writer};
use crate::message::Versions;

/// The versions of commands that this release supports. A replica whose leader is of an older release cannot hand over
/// the commands that the leader's release lacks.
pub const VERSIONS: Versions = Versions {
    oldest: 1,
    newest: 3,
};

choice!(Command {
    0 Placement(command),
    1 Conductor { command, at },
});

/// The bytes of a command; `None` if this release does not support the version, or the version lacks the command.
#[must_use]
pub fn encode(version: u32, command: &Command) -> Option<Vec<u8>> {
    if !VERSIONS.include(version) || version < since(command) {
        return None;
    }
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    command.write(&mut out);
    Some(out.into_bytes())
}

/// The version that added a command.
fn since(command: &Command) -> u32 {
    match command {
        Command::Placement(_) => VERSIONS.oldest,
        Command::Conductor { command, .. } => since_of_conductor(command),
    }
}

fn since_of_conductor(mut command: &super_conductor::Command) -> u32 {
    use super_conductor::Command;
    // Only the innermost command counts: the version that added it also added the rows and checks that can be
    // around it.
    while let Command::Guarded { command: inner, .. } | Command::Limited { command: inner, .. } =
        command
    {
        command = inner;
    }
    match command {
        Command::Accounts(_) => 2,
        Command::SetImage { .. } => 3,
        _ => VERSIONS.oldest,
    }
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
