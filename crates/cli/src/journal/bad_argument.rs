//! Errors in the user's arguments, which end the program with exit code 2.

use placewright_journal::JournalError;
use placewright_journal::backup::BackupError;
use placewright_roles::config::chain;

/// An argument that is not valid.
#[derive(Debug)]
pub(crate) struct BadArgument(pub(crate) String);

impl std::fmt::Display for BadArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadArgument {}

/// Turns those errors of a backup or restore that are caused by the arguments into [`BadArgument`].
pub(super) fn classify(error: BackupError) -> anyhow::Error {
    match error {
        BackupError::Exists { .. }
        | BackupError::NotFound { .. }
        | BackupError::NotABackup { .. }
        | BackupError::Store(JournalError::NotFound { .. } | JournalError::NotAJournal { .. }) => {
            BadArgument(chain(&error)).into()
        }
        error => error.into(),
    }
}
