//! The interface of a state machine that the engine can run.

use std::io;

/// A state machine with all its state in memory and all its rules in [`Machine::decide`].
///
/// Every function depends only on its arguments and the state: none uses I/O, a clock or random numbers, and no result
/// depends on the order of a hash map. Times and new ids are part of the command.
pub trait Machine: Send + Sync + Sized + 'static {
    /// A request to change the state.
    type Command: Send + 'static;
    /// One change of the state, made by an accepted command.
    type Change: Send + Sync + 'static;
    /// The answer to an accepted command.
    type Outcome: Send + 'static;
    /// The reason why a command is refused.
    type Refusal: Send + 'static;
    /// The data that undoes one applied change.
    type Undo: Send + 'static;

    /// The state before the first change.
    fn empty() -> Self;

    /// Decides a command on this state: adds the command's changes to `changes`, or refuses the command. Changes that
    /// were added before a refusal are ignored. An accepted command without changes is not journaled.
    ///
    /// `changes` may already hold the changes of earlier commands, which have to stay.
    ///
    /// # Errors
    /// The typed refusal.
    fn decide(
        &self,
        command: &Self::Command,
        changes: &mut Vec<Self::Change>,
    ) -> Result<Self::Outcome, Self::Refusal>;

    /// Applies a change. This cannot fail: a change that was decided or journaled can always be applied.
    fn apply(&mut self, change: &Self::Change) -> Self::Undo;

    /// Applies a change that will never be undone.
    fn replay(&mut self, change: &Self::Change) {
        drop(self.apply(change));
    }

    /// Undoes the newest change that was not undone yet.
    fn undo(&mut self, undo: Self::Undo);

    /// Called when this state, which was loaded from a snapshot, takes the place of `former`. The entries between the
    /// two states were not applied one by one, so whoever keeps results computed from `former` has to notice the
    /// exchange.
    fn take_place_of(&mut self, former: &Self) {
        let _ = former;
    }

    /// Encodes the changes of one command as a record that contains the version of its format, and appends
    /// the record to `out`, which may already hold other bytes.
    fn encode(changes: &[Self::Change], out: &mut Vec<u8>);

    /// Decodes a record of this or an older release.
    ///
    /// # Errors
    /// A newer release's record, or one that is not valid.
    fn decode(record: &[u8]) -> Result<Vec<Self::Change>, DecodeError>;

    /// Writes the whole state, and the version of the format.
    ///
    /// # Errors
    /// Only those of `out`.
    fn save(&self, out: &mut dyn io::Write) -> io::Result<()>;

    /// Reads a state saved by this or an older release.
    ///
    /// # Errors
    /// A newer release's state, one that is not valid, or errors of `input`.
    fn load(input: &mut dyn io::Read) -> Result<Self, LoadError>;

    /// A digest of the whole state: equal states have equal digests.
    fn digest(&self) -> u128;
}

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A newer release wrote the record.
    #[error(
        "the record has version {found}, this program reads up to version {supported}: \
         use a newer release"
    )]
    Newer {
        /// The version in the record.
        found: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// The content is not a valid record.
    #[error("the record cannot be read: {0}")]
    Damaged(String),
}

/// Why a saved state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A newer release wrote the snapshot.
    #[error(
        "the snapshot has version {found}, this program reads up to version {supported}: \
         use a newer release"
    )]
    Newer {
        /// The version in the snapshot.
        found: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// The content is not a valid snapshot.
    #[error("the snapshot cannot be read: {0}")]
    Damaged(String),
    /// The reader failed, or the snapshot ended early.
    #[error("the snapshot cannot be read")]
    Io(#[from] io::Error),
}
