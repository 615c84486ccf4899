//! Why a backup cannot be made or restored.

use std::io;
use std::path::{Path, PathBuf};

use crate::JournalError;

/// Why a backup was not made or not restored. A failure leaves no file that could be taken for a complete backup,
/// and no directory that could be taken for a restored store.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store failed, or is damaged.
    #[error(transparent)]
    Store(#[from] JournalError),

    /// No snapshot of the store is sound, and the entries that the snapshots cover were trimmed.
    #[error(
        "the store at {path} has no sound snapshot, and without one its entries before {first_held}, which \
         were given up, cannot be restored"
    )]
    NoBase {
        /// The directory of the store.
        path: PathBuf,
        /// The first entry that the store holds.
        first_held: u64,
    },

    /// The path of the backup or of the restored store exists already.
    #[error("{path} is there already: name another place, or move it away")]
    Exists {
        /// The path that exists.
        path: PathBuf,
    },

    /// Another process is making the same backup, or restoring the same store.
    #[error("another process is writing {path}")]
    Busy {
        /// The partial backup or store that the other process is writing.
        path: PathBuf,
    },

    /// There is no such file or directory.
    #[error("there is no {path}")]
    NotFound {
        /// The path that does not exist.
        path: PathBuf,
    },

    /// The file is not a backup.
    #[error("{path} is no backup: {reason}")]
    NotABackup {
        /// The file that was to be read as a backup.
        path: PathBuf,
        /// A description of the file that was found.
        reason: &'static str,
    },

    /// A newer release made the backup.
    #[error(
        "the backup {path} has format {found}, this program reads up to format {supported}: use a newer release"
    )]
    NewerFormat {
        /// The file of the backup.
        path: PathBuf,
        /// The format of the backup.
        found: u32,
        /// The newest format that this program reads.
        supported: u32,
    },

    /// The bytes of the backup are not those that were written.
    #[error("the backup {path} is damaged at byte {at}: {reason}")]
    Damaged {
        /// The file of the backup.
        path: PathBuf,
        /// The offset at which the damaged header or section begins.
        at: u64,
        /// A description of the mismatch.
        reason: String,
    },

    /// The state after the requested entry cannot be restored from the backup.
    #[error("the backup {path} reaches from entry {first} to entry {last}, and not to {asked}")]
    Outside {
        /// The file of the backup.
        path: PathBuf,
        /// The entry after which the state was to be restored.
        asked: u64,
        /// The first entry after which the state can be restored.
        first: u64,
        /// The last entry after which the state can be restored.
        last: u64,
    },

    /// The disk or the quota is exhausted.
    #[error("no space is left for {path}: nothing of it was kept")]
    NoSpace {
        /// The file or directory that was being written.
        path: PathBuf,
    },

    /// The operating system reported a failure.
    #[error("cannot {doing} {path}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl BackupError {
    pub(super) fn io<'p>(
        path: &'p Path,
        doing: &'static str,
    ) -> impl Fn(io::Error) -> Self + use<'p> {
        move |source| {
            let path = path.to_path_buf();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
                io::ErrorKind::NotFound => Self::NotFound { path },
                _ => Self::Io {
                    path,
                    doing,
                    source,
                },
            }
        }
    }
}
