//! Errors of journals: a variant for each cause, and a message for the operator of the store.

use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on a journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk, the quota or the configured size is exhausted. Later appends succeed once there
    /// is space.
    #[error("no space is left for the journal at {path}: free some, writes then go on")]
    NoSpace {
        /// The directory of the store.
        path: PathBuf,
    },

    /// The store, or its file system, is not writable for this program.
    #[error("the journal at {path} cannot be written: {reason}")]
    ReadOnly {
        /// The store, or a file in the store.
        path: PathBuf,
        /// The reason why the write was refused.
        reason: String,
    },

    /// The entries of a batch do not match their checksum, or do not follow the batch before.
    #[error("the journal at {path} is damaged: entries {first} to {last}: {reason}")]
    Damaged {
        /// The directory of the store.
        path: PathBuf,
        /// The first entry of the damaged batch.
        first: u64,
        /// The last entry of the damaged batch.
        last: u64,
        /// A description of the mismatch.
        reason: String,
    },

    /// Entries are missing from the log.
    #[error("the journal at {path} lacks entries {first} to {last}")]
    Missing {
        /// The directory of the store.
        path: PathBuf,
        /// The first missing entry.
        first: u64,
        /// The last missing entry.
        last: u64,
    },

    /// Entries were trimmed, and no snapshot that has the state after them is sound.
    #[error(
        "entries {first} to {last} were trimmed, and no sound snapshot has the state after them"
    )]
    NoBase {
        /// The first entry that neither the log nor a sound snapshot has.
        first: u64,
        /// The last trimmed entry.
        last: u64,
    },

    /// Entries that were acknowledged are gone: the end of the log was damaged or cut off, or an older
    /// copy of the log took its place.
    #[error(
        "the journal at {path} lacks entries {first} to {last} ({} entries), which were acknowledged: {}",
        last - first + 1,
        remedy(path)
    )]
    Lost {
        /// The directory of the store.
        path: PathBuf,
        /// The first missing entry.
        first: u64,
        /// The last missing entry, as far as is known.
        last: u64,
    },

    /// The mark that says how far the log has to reach is missing or damaged.
    #[error(
        "the mark of the journal at {path} is {what}, and only the mark tells whether entries after \
         {end} are missing: restore the store from a copy, or take it as it is with `placewright \
         journal accept-loss --store {path}`"
    )]
    NoMark {
        /// The directory of the store.
        path: PathBuf,
        /// Either "missing" or "damaged".
        what: &'static str,
        /// The last entry in the log.
        end: u64,
    },

    /// A snapshot does not match its checksums, or ends early.
    #[error("the snapshot at entry {sequence} ({path}) is damaged: {reason}")]
    DamagedSnapshot {
        /// The path of the snapshot's file.
        path: PathBuf,
        /// The entry that the snapshot was made at.
        sequence: u64,
        /// A description of the mismatch.
        reason: String,
    },

    /// The structure of the store's database file is damaged.
    #[error("the store at {path} is damaged near entry {sequence}: {reason}")]
    DamagedStore {
        /// The directory of the store.
        path: PathBuf,
        /// The entry that was being read; 0 if none was.
        sequence: u64,
        /// The message of the storage engine.
        reason: String,
    },

    /// The requested entries were trimmed.
    #[error("entry {asked} is no longer held: the first held entry is {first_held}")]
    Trimmed {
        /// The entry that was to be read next.
        asked: u64,
        /// The first entry still held.
        first_held: u64,
    },

    /// There is no snapshot at this entry.
    #[error("there is no snapshot at entry {sequence}")]
    NoSnapshot {
        /// The entry at which the snapshot was expected.
        sequence: u64,
    },

    /// Entries can be trimmed only up to the newest snapshot.
    #[error("cannot trim the entries before {before}: the newest snapshot is at {snapshot}")]
    TrimBeyondSnapshot {
        /// The entry before which to trim.
        before: u64,
        /// The newest snapshot's entry; 0 when there is none.
        snapshot: u64,
    },

    /// Another program has the store open.
    #[error("the journal at {path} is in use by another program{process}")]
    Locked {
        /// The directory of the store.
        path: PathBuf,
        /// " (process 123)", or nothing when it is not known.
        process: String,
    },

    /// A lock inside the store was not released in time.
    #[error("the journal at {path} stayed busy")]
    Busy {
        /// The directory of the store.
        path: PathBuf,
    },

    /// A newer release wrote this store.
    #[error(
        "{path} has format {found}, this program reads up to format {supported}: use a newer release"
    )]
    NewerFormat {
        /// The store, or a file in the store.
        path: PathBuf,
        /// The version of the store's format.
        found: u32,
        /// The newest format that this program reads.
        supported: u32,
    },

    /// The directory holds something else.
    #[error("{path} is not a journal: {reason}")]
    NotAJournal {
        /// The directory that was to be opened.
        path: PathBuf,
        /// A description of the content that was found there.
        reason: String,
    },

    /// There is no journal at this path.
    #[error("there is no journal at {path}")]
    NotFound {
        /// The directory that does not hold a store, or the file that it lacks.
        path: PathBuf,
    },

    /// A batch is larger than the storage engine can store.
    #[error("a batch of {bytes} bytes is too large: the most is {bytes_max}")]
    TooLarge {
        /// The size of the batch in bytes.
        bytes: u64,
        /// The maximum size in bytes.
        bytes_max: u64,
    },

    /// The servers of the storage engine do not answer, or cannot agree at present. A later attempt may
    /// succeed.
    #[error("the journal at {url} cannot be reached to {doing}: {reason}")]
    Unreachable {
        /// The store's address without secrets.
        url: String,
        /// The operation that failed.
        doing: &'static str,
        /// The error of the servers, or of the connections to them.
        reason: String,
    },

    /// The storage engine is not set up as a journal needs it.
    #[error("the journal at {url} cannot be used: {reason}")]
    Unsuitable {
        /// The store's address without secrets.
        url: String,
        /// The setting that is wrong, and its right value.
        reason: String,
    },

    /// The installation was moved to another store, and nothing is written to this one any more.
    #[error("the journal at {url} is sealed at entry {end}: it was moved to {moved_to}")]
    Sealed {
        /// The store's address without secrets.
        url: String,
        /// The last entry, with which the store was sealed.
        end: u64,
        /// The address of the store that replaces the sealed one, without secrets.
        moved_to: String,
    },

    /// The store has entries, and the requested operation needs an empty one.
    #[error("the journal at {path} is not empty: it ends at entry {end}")]
    NotEmpty {
        /// The directory of the store, or its address in another storage engine.
        path: PathBuf,
        /// The last entry that the store has.
        end: u64,
    },

    /// The operating system reported a failure.
    #[error("the journal at {path} failed to {doing}")]
    Io {
        /// The store, or a file in the store.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// SQLite reported a failure that has no variant of its own.
    #[error("the journal at {path} failed to {doing}")]
    Sqlite {
        /// The directory of the store.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The error as SQLite reports it.
        #[source]
        source: rusqlite::Error,
    },
}

/// Why an append was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer was first. Read the missed entries, decide again, append after them.
    #[error("another writer was first: the next entry is {next_sequence}")]
    Conflict {
        /// The sequence with which the next append has to start.
        next_sequence: u64,
    },

    /// The store failed; nothing was appended.
    #[error(transparent)]
    Failed(#[from] JournalError),

    /// The store did not answer, so the records may be kept or not, and while the request is still under way they may
    /// be kept later. [`crate::Journal::resolve`] finds out.
    #[error("it is not known whether the append was made")]
    Unknown(#[source] JournalError),
}

/// The advice to an operator about entries that are lost.
fn remedy(path: &Path) -> String {
    if path.to_string_lossy().contains("://") {
        return "restore its servers from a backup that has them".into();
    }
    format!(
        "restore it from a copy, or give them up with `placewright journal accept-loss --store {}`",
        path.display()
    )
}

impl JournalError {
    /// Classifies an error of the operating system by its cause.
    pub(crate) fn from_io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        use io::ErrorKind::{
            NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let path = path.to_path_buf();
        match source.kind() {
            StorageFull | QuotaExceeded => Self::NoSpace { path },
            ReadOnlyFilesystem | PermissionDenied => Self::ReadOnly {
                path,
                reason: source.to_string(),
            },
            NotFound => Self::NotFound { path },
            _ => Self::Io {
                path,
                doing,
                source,
            },
        }
    }

    /// Classifies an error of SQLite by its cause. `sequence` is the entry that was wanted, or 0.
    pub(crate) fn from_sqlite(
        path: &Path,
        doing: &'static str,
        sequence: u64,
        source: rusqlite::Error,
    ) -> Self {
        use rusqlite::ErrorCode;
        let path = path.to_path_buf();
        let reason = source.to_string();
        let extended = source.sqlite_error().map(|error| error.extended_code);
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::NoSpace { path },
            // There is no space for SQLite's shared memory, which is a file beside the database.
            _ if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => Self::NoSpace { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path, reason }
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::DamagedStore {
                path,
                sequence,
                reason,
            },
            Some(ErrorCode::NotADatabase) => Self::NotAJournal { path, reason },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            _ => Self::Sqlite {
                path,
                doing,
                source,
            },
        }
    }

    /// Classifies an error of reading the snapshot at `sequence`. An error of a journal that
    /// [`Self::into_io`] wrapped is returned as it was.
    pub(crate) fn from_snapshot_io(error: io::Error, sequence: u64) -> Self {
        match error.downcast::<Self>() {
            Ok(inner) => inner,
            Err(error) => Self::from_io(Path::new(&format!("snapshot {sequence}")), "read", error),
        }
    }

    /// Wraps the error for use in an [`io::Read`] or [`io::Write`].
    pub(crate) fn into_io(self) -> io::Error {
        let kind = match self {
            Self::DamagedSnapshot { .. } => io::ErrorKind::InvalidData,
            Self::NoSpace { .. } => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}
