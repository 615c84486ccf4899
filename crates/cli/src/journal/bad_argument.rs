//! Errors in what the caller wrote, which end with exit code 2.

use placewright_journal::JournalError;
use placewright_journal::backup::BackupError;
use placewright_roles::config::chain;

/// An argument that cannot be meant.
#[derive(Debug)]
pub(crate) struct BadArgument(pub(crate) String);

impl std::fmt::Display for BadArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadArgument {}

/// The error of a backup or a restore: whether the arguments are wrong, or something else is.
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
