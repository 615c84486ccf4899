//! The commands of the machines that run as replicas, in the form in which they are handed over.

use placewright_cell::CellMachine;
use placewright_control::ControlMachine;
use placewright_engine::Machine;
use placewright_link::CommandVersions;
use placewright_records::{cell, command, control};

/// A machine that runs as one of several replicas.
pub(crate) trait ReplicatedMachine: Machine {
    /// Whether a replica that does not lead hands its commands to the one that leads. Otherwise it refuses them, and
    /// its callers have to find the one that leads.
    const HANDS_COMMANDS_OVER: bool;
    /// The versions of commands that this release knows.
    const COMMAND_VERSIONS: CommandVersions;
    /// The version of the records that this release writes.
    const RECORD_VERSION: u32;

    /// The bytes of a command; `None` if this release does not know the version.
    fn encode_command(version: u32, command: &Self::Command) -> Option<Vec<u8>>;

    /// Reads a command.
    ///
    /// # Errors
    ///
    /// The reason why the bytes are no command that this release knows.
    fn decode_command(version: u32, bytes: &[u8]) -> Result<Self::Command, String>;
}

impl ReplicatedMachine for ControlMachine {
    const HANDS_COMMANDS_OVER: bool = true;
    const COMMAND_VERSIONS: CommandVersions = CommandVersions {
        oldest: command::VERSIONS.oldest,
        newest: command::VERSIONS.newest,
    };
    const RECORD_VERSION: u32 = control::RECORD_VERSION as u32;

    fn encode_command(version: u32, command: &Self::Command) -> Option<Vec<u8>> {
        command::encode(version, command)
    }

    fn decode_command(version: u32, bytes: &[u8]) -> Result<Self::Command, String> {
        command::decode(version, bytes).map_err(|error| error.to_string())
    }
}

/// Control and agents find the replica of a cell that leads, so a cell's commands are never handed over and need no
/// form.
impl ReplicatedMachine for CellMachine {
    const HANDS_COMMANDS_OVER: bool = false;
    const COMMAND_VERSIONS: CommandVersions = CommandVersions {
        oldest: 1,
        newest: 1,
    };
    const RECORD_VERSION: u32 = cell::RECORD_VERSION as u32;

    fn encode_command(_: u32, _: &Self::Command) -> Option<Vec<u8>> {
        None
    }

    fn decode_command(_: u32, _: &[u8]) -> Result<Self::Command, String> {
        Err("replicas of a cell hand over no commands".into())
    }
}
