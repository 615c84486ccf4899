//! Checks of a store when it is opened, and notices for the operator.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::Store;
use super::mark::{HighWaterMark, StoredMark};
use crate::{JournalError, private};

/// A condition of the store that an operator should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Other users of the machine can read or write the store.
    OpenToOthers {
        /// The directory of the store.
        path: PathBuf,
        /// The permission bits of the directory.
        mode: u32,
        /// The name of a file that other users have access to; empty if they can write to the directory.
        file: String,
    },
    /// An earlier release wrote the store, without a mark. The store has a mark from now on.
    Adopted {
        /// The directory of the store.
        path: PathBuf,
        /// The last entry in the log.
        end: u64,
    },
    /// A slot of the mark was damaged and has been rewritten.
    SlotDamaged {
        /// The directory of the store.
        path: PathBuf,
    },
}

impl Notice {
    /// The notices about who has access to the directory of a store.
    pub(super) fn of_access(directory: &Path) -> Vec<Self> {
        let access = private::access_of_others(directory);
        let notice = access.map(|(mode, file)| Self::OpenToOthers {
            path: directory.to_path_buf(),
            mode,
            file,
        });
        notice.into_iter().collect()
    }

    /// Whether the operator should do something about the condition.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::Adopted { .. })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenToOthers { path, mode, file } => {
                let path = path.display();
                write!(
                    f,
                    "other users of this machine can get at the store at {path} (mode {mode:04o}"
                )?;
                if !file.is_empty() {
                    write!(f, ", {file} for example")?;
                }
                write!(
                    f,
                    "), which holds everything of every tenant: chmod -R go= {path}"
                )
            }
            Self::Adopted { path, end } => write!(
                f,
                "the store at {} is an earlier release's: from entry {end} on a mark says which \
                 entries have to be there",
                path.display()
            ),
            Self::SlotDamaged { path } => write!(
                f,
                "a slot of the mark of {} was damaged: for its last append nothing \
                 tells whether it is missing",
                path.display()
            ),
        }
    }
}

/// Refuses a database file that is empty although its write-ahead log is not, or although the mark says that entries
/// were acknowledged. Called before SQLite opens the database, because SQLite discards the write-ahead log of an empty
/// database.
pub(super) fn check_file(store: &Store, stored_mark: StoredMark) -> Result<(), JournalError> {
    let bytes = |name| fs::metadata(store.directory.join(name)).map_or(0, |file| file.len());
    if bytes("journal.sqlite") > 0 {
        return Ok(());
    }
    check_empty(store, stored_mark)?;
    if bytes("journal.sqlite-wal") > 0 {
        return Err(JournalError::DamagedStore {
            path: store.directory.clone(),
            sequence: 0,
            reason: "journal.sqlite is empty, but its log is not".into(),
        });
    }
    Ok(())
}

/// Refuses an empty store whose mark says that entries were acknowledged, or is damaged.
pub(super) fn check_empty(store: &Store, stored_mark: StoredMark) -> Result<(), JournalError> {
    let path = store.directory.clone();
    match stored_mark {
        StoredMark::Valid { log_end, .. } if log_end.last > 0 => Err(JournalError::Lost {
            path,
            first: 1,
            last: log_end.last,
        }),
        StoredMark::Unreadable => Err(JournalError::NoMark {
            path,
            what: "damaged",
            end: 0,
        }),
        StoredMark::Valid { .. } | StoredMark::Absent => Ok(()),
    }
}

/// Adds to the reason of an error which entries were acknowledged, if the error itself names no entries.
pub(super) fn add_acknowledged_entries(
    mut error: JournalError,
    stored_mark: StoredMark,
) -> JournalError {
    let last = stored_mark.last().filter(|last| *last > 0);
    if let (
        JournalError::DamagedStore { reason, .. } | JournalError::NotAJournal { reason, .. },
        Some(last),
    ) = (&mut error, last)
    {
        reason.push_str(&format!(
            "; entries up to {last} were acknowledged: restore it from a copy, or give up what cannot be \
             read with `placewright journal accept-loss`"
        ));
    }
    error
}

/// Verifies that the log reaches the entry in the mark, with the same checksum.
pub(super) fn check_acknowledged(
    store: &Store,
    connection: &Connection,
    stored_mark: StoredMark,
) -> Result<(), JournalError> {
    let sqlite = store.sqlite_error("read");
    let path = || store.directory.clone();
    let end = super::log_end(connection).map_err(&sqlite)?;
    let marked_end = match stored_mark {
        StoredMark::Valid { log_end, .. } => log_end,
        StoredMark::Absent | StoredMark::Unreadable => {
            let is_mark_expected = end.last > 0 && is_marked(connection).map_err(&sqlite)?;
            let what = match stored_mark {
                StoredMark::Absent => "missing",
                _ => "damaged",
            };
            return if is_mark_expected {
                Err(JournalError::NoMark {
                    path: path(),
                    what,
                    end: end.last,
                })
            } else {
                Ok(())
            };
        }
    };
    if marked_end.last > end.last {
        return Err(JournalError::Lost {
            path: path(),
            first: end.last + 1,
            last: marked_end.last,
        });
    }
    let trimmed_end = super::trimmed_end(connection).map_err(&sqlite)?;
    if marked_end.last <= trimmed_end.last {
        return Ok(());
    }
    let batch_end = super::batch_at(connection, marked_end.last).map_err(&sqlite)?;
    match batch_end {
        Some((_, batch_end)) if batch_end == marked_end => Ok(()),
        Some((first, batch_end)) if batch_end.last >= marked_end.last => {
            Err(JournalError::Damaged {
                path: path(),
                first,
                last: batch_end.last,
                reason: format!(
                    "they are not those that were acknowledged up to entry {}",
                    marked_end.last
                ),
            })
        }
        batch_end => Err(JournalError::Missing {
            path: path(),
            first: batch_end.map_or(trimmed_end.last, |(_, batch_end)| batch_end.last) + 1,
            last: marked_end.last,
        }),
    }
}

/// Whether the database records that the store has a mark.
fn is_marked(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("SELECT 1 FROM meta WHERE key = 'marked'", [], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

/// Sets the mark to the end of the log, and records in the database that the store has a mark.
pub(super) fn resume_mark(
    store: &mut Store,
    connection: &Connection,
    stored_mark: StoredMark,
) -> Result<(), JournalError> {
    let sqlite = store.sqlite_error("open");
    let log_end = super::log_end(connection).map_err(&sqlite)?;
    let path = || store.directory.clone();
    let mut notice = None;
    match stored_mark {
        StoredMark::Valid {
            is_slot_damaged, ..
        } => {
            notice = is_slot_damaged.then(|| Notice::SlotDamaged { path: path() });
        }
        StoredMark::Absent | StoredMark::Unreadable if log_end.last > 0 => {
            notice = Some(Notice::Adopted {
                path: path(),
                end: log_end.last,
            });
        }
        StoredMark::Absent | StoredMark::Unreadable => {}
    }
    let mark = HighWaterMark::resume(&store.directory, stored_mark, log_end)
        .map_err(store.io_error("write its mark"))?;
    set_marked(connection).map_err(&sqlite)?;
    drop(sqlite);
    store.notices.extend(notice);
    *store.write_lock.get_mut() = Some(mark);
    Ok(())
}

/// Records in the database that the store has a mark.
pub(super) fn set_marked(connection: &Connection) -> rusqlite::Result<()> {
    if !is_marked(connection)? {
        connection.execute("INSERT INTO meta VALUES ('marked', 1)", [])?;
    }
    Ok(())
}
