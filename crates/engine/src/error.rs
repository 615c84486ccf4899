//! Why the engine could not do something.

use std::io;
use std::sync::Arc;

use placewright_journal::JournalError;

use crate::throttle::Stopped;
use crate::{DecodeError, LoadError};

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An entry is intact, but this release cannot decode it.
    #[error("entry {sequence} cannot be used")]
    Record {
        /// The sequence of the entry.
        sequence: u64,
        /// The reason that the machine gives.
        #[source]
        source: DecodeError,
    },
    /// The store has lost entries that were acknowledged, so nothing can be appended after them.
    #[error("the store has lost entries {first} to {last}, which were acknowledged")]
    Lost {
        /// The first missing entry.
        first: u64,
        /// The last missing entry, as far as this process knows.
        last: u64,
    },
    /// The state had to be recovered from a snapshot while the engine ran, and could not be.
    #[error("the state cannot be recovered: {0}")]
    Recovery(String),
    /// The replica that leads, to which a command was handed over, could not carry it out.
    #[error("at the replica that leads: {0}")]
    AtLeader(String),
}

/// Why lost entries were not appended again from memory.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendAgainError {
    /// Nothing is lost: the journal has every entry that this process has applied.
    #[error("no entry is missing that this process has applied")]
    NothingLost,
    /// The journal has other entries in the place of the lost ones. Or that cannot be excluded, because no entry is in
    /// memory to compare with.
    #[error(
        "entries {first} to {last} cannot be appended again: the journal has other entries in their place, \
         or none of those before them is in memory to compare; start this process anew to take the journal as it is"
    )]
    Replaced {
        /// The first entry that differs; if none can be compared, the last that this process has applied.
        first: u64,
        /// The last entry that this process has applied.
        last: u64,
    },
    /// This process does not have all of the lost entries, and the one before them, in memory.
    #[error(
        "entries {first} to {last} cannot be appended again: this process does not have all of them, and the one \
         before them, in memory; try another replica"
    )]
    NotInMemory {
        /// The first missing entry.
        first: u64,
        /// The last missing entry.
        last: u64,
    },
    /// The store failed. Some of the lost entries may be in the journal again.
    #[error("the store is unavailable")]
    Store(#[source] Arc<StoreError>),
    /// The engine is being shut down.
    #[error("shutting down")]
    ShuttingDown,
}

impl AppendAgainError {
    pub(crate) fn of(error: JournalError) -> Self {
        Self::Store(Arc::new(error.into()))
    }
}

/// Why a state could not be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The journal cannot be read to its end.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The snapshot is not usable, and the state cannot be recovered without it: earlier entries were trimmed,
    /// or a newer release made the snapshot and the entries after it.
    #[error("the snapshot at entry {sequence} cannot be used")]
    Snapshot {
        /// The entry that the snapshot was made at.
        sequence: u64,
        /// The reason that the machine gives.
        #[source]
        source: LoadError,
    },
    /// Interrupted by the shutdown.
    #[error("interrupted by the shutdown")]
    Stopped,
}

impl From<JournalError> for RecoverError {
    fn from(error: JournalError) -> Self {
        Self::Store(error.into())
    }
}

impl From<Stopped> for RecoverError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Why a snapshot was not made, or the journal not trimmed after it.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The state could not be built from the journal.
    #[error("the state for a snapshot cannot be built")]
    Recover(#[from] RecoverError),
    /// The journal cannot be read, written or trimmed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The writer of the snapshot failed.
    #[error("the snapshot cannot be written")]
    Save(#[source] io::Error),
    /// Interrupted by the shutdown.
    #[error("interrupted by the shutdown")]
    Stopped,
}

/// Why a command was neither accepted nor refused. The command had no effect, unless stated otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    /// The store failed, and does not have the command's entry. A later attempt may succeed.
    #[error("the store is unavailable")]
    Unavailable(#[source] Arc<StoreError>),
    /// It is not known whether the store has the command's entry: the store did not say before the engine shut down,
    /// the store has lost other entries, or the leader to which the command was handed over did not say. The next start
    /// shows the outcome.
    #[error("the store did not say whether the change was made")]
    Unknown(#[source] Arc<StoreError>),
    /// This replica handed the command to another one, and does not know its outcome there. The command may have taken
    /// effect.
    #[error("another replica has the command, and its outcome is not known here")]
    HandedOver,
    /// This replica does not lead (any more), and does not hand the command over: another replica sent the command, or
    /// these replicas never hand commands over. The command has no effect.
    #[error("another replica leads")]
    NotLeading,
    /// The engine is shutting down.
    #[error("shutting down")]
    ShuttingDown,
    /// The queue is full; see [`crate::Options::queue_commands_max`].
    #[error("too many requests are waiting")]
    Overloaded,
    /// The command would need a record larger than the limit. It has no effect, and the other commands of its batch are
    /// carried out.
    #[error(
        "the change makes a record of {bytes} bytes; store.record_bytes_max allows {bytes_max}"
    )]
    TooLarge {
        /// The size of the record.
        bytes: usize,
        /// The limit, which is [`crate::Options::record_bytes_max`].
        bytes_max: usize,
    },
    /// A change in the state from which the command was made was undone before the command was decided; see
    /// [`crate::Engine::submit_after`]. The command has no effect.
    #[error("the store did not keep an earlier change, on which this one rests")]
    ReadingUndone,
    /// Deciding the command panicked, which is a bug.
    #[error("an internal error occurred while the command was decided")]
    Panicked,
}

impl SubmitError {
    /// Whether the command had no effect or may have had one, as the beginning of a message to its caller.
    #[must_use]
    pub fn effect(&self) -> &'static str {
        match self {
            _ if self.may_have_had_effect() => "It is not known whether the change was made",
            _ => "The change was not made",
        }
    }

    /// Whether the command may have had an effect all the same.
    #[must_use]
    pub fn may_have_had_effect(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::HandedOver)
    }
}

/// Why entries cannot be followed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FollowError {
    /// The entries were trimmed. Start from a newer entry, or from a copy of the state.
    #[error("entry {asked} is no longer held: the first held entry is {first_held}")]
    Trimmed {
        /// The entry that the follower wants to read next.
        asked: u64,
        /// The first entry still held.
        first_held: u64,
    },
    /// The entry does not exist yet.
    #[error("entry {after} does not exist: the last entry is {end}")]
    Ahead {
        /// The entry after which to follow.
        after: u64,
        /// The last entry that exists.
        end: u64,
    },
    /// The journal cannot be read.
    #[error("the store is unavailable")]
    Store(#[source] Arc<StoreError>),
}
