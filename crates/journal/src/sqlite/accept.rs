//! Accepting the loss of entries: continuing without them on an operator's explicit request.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::mark::{HighWaterMark, StoredMark};
use super::open::{self, SqliteOptions};
use super::{SqliteJournal, Store, check, int, log_end, snapshot_file};
use crate::maintain::read_whole;
use crate::{Journal as _, JournalError};

/// The loss that [`SqliteJournal::accept_loss`] accepted, and which entries are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The first and the last entry that were given up, as far as is known; `None` if nothing was
    /// missing.
    pub lost: Option<(u64, u64)>,
    /// The last entry now. The next append continues after it, so the sequences of lost entries are
    /// used again.
    pub end: u64,
    /// Whether the entries up to `end` are gone, and only the snapshot of the state after them is
    /// left.
    pub has_only_snapshot: bool,
}

impl SqliteJournal {
    /// Continues without the missing parts: acknowledged entries that are gone, entries after a damaged or missing one,
    /// a missing or damaged mark. The content of a sound snapshot is kept. Files that are no longer useful are renamed
    /// with the suffix `.lost`, or `.lost-2` and so on after an earlier loss.
    ///
    /// # Errors
    /// [`JournalError::NoBase`] when no whole state can be made of the parts that are left, or the store failed; or as
    /// [`SqliteJournal::open`].
    pub fn accept_loss(directory: &Path) -> Result<AcceptedLoss, JournalError> {
        if !directory.is_dir() {
            return Err(JournalError::NotFound {
                path: directory.to_path_buf(),
            });
        }
        let (store, stored_mark) = open::lock_store(directory, SqliteOptions::default())?;
        let store = Arc::new(store);
        let snapshot = newest_sound_snapshot(&store)?;
        let accepted = Self::continue_without_lost(&store, snapshot, stored_mark);
        match accepted {
            // A directory with a mark is certainly a store, and a sound snapshot can replace its
            // log.
            Err(JournalError::DamagedStore { .. } | JournalError::NotAJournal { .. })
                if stored_mark.last().is_some() && snapshot > 0 =>
            {
                quarantine_database(&store)?;
                Self::continue_without_lost(&store, snapshot, stored_mark)
            }
            accepted => accepted,
        }
    }

    fn continue_without_lost(
        store: &Arc<Store>,
        snapshot: u64,
        stored_mark: StoredMark,
    ) -> Result<AcceptedLoss, JournalError> {
        let mut journal = Self {
            // An empty database is not refused, unlike when a store is opened: its loss is accepted.
            connection: open::connect(store, || Ok(()))?,
            store: Arc::clone(store),
            payload: Vec::new(),
        };
        let accepted = journal.discard_lost(snapshot, stored_mark)?;
        journal.enable_checkpoint_on_close()?;
        Ok(accepted)
    }

    /// Removes everything after the last readable entry, and makes the mark agree.
    fn discard_lost(
        &mut self,
        snapshot: u64,
        stored_mark: StoredMark,
    ) -> Result<AcceptedLoss, JournalError> {
        let end = self.end()?;
        let last_trimmed = self.first_held()?.saturating_sub(1);
        if last_trimmed > 0 && snapshot == 0 {
            // Nothing has the state after the trimmed entries: no snapshot is sound.
            return Err(JournalError::NoBase {
                first: 1,
                last: last_trimmed,
            });
        }
        let last_kept = self.last_readable(snapshot)?;
        let sqlite = self.store.sqlite_error("give up entries");
        let delete = "DELETE FROM batch WHERE first > ?1 OR last > ?1";
        self.connection
            .execute(delete, [int(last_kept)])
            .map_err(&sqlite)?;
        let has_only_snapshot = log_end(&self.connection).map_err(&sqlite)?.last != last_kept;
        if has_only_snapshot {
            restart_after(&self.connection, last_kept).map_err(&sqlite)?;
        }
        check::set_marked(&self.connection).map_err(&sqlite)?;
        let new_end = log_end(&self.connection).map_err(&sqlite)?;
        drop(sqlite);
        self.quarantine_snapshots(new_end.last)?;
        HighWaterMark::create(&self.store.directory, new_end)
            .map_err(self.store.io_error("write its mark"))?;
        let last_known = stored_mark.last().unwrap_or(0).max(end);
        Ok(AcceptedLoss {
            lost: (last_known > new_end.last).then_some((new_end.last + 1, last_known)),
            end: new_end.last,
            has_only_snapshot,
        })
    }

    /// The last entry that can be read from the snapshot on without a gap.
    fn last_readable(&mut self, snapshot: u64) -> Result<u64, JournalError> {
        let mut last_readable = snapshot;
        let read = self.read(snapshot + 1, &mut |sequence, _| {
            last_readable = sequence;
            ControlFlow::Continue(())
        });
        match read {
            Ok(_)
            | Err(
                JournalError::Damaged { .. }
                | JournalError::Missing { .. }
                | JournalError::DamagedStore { .. }
                | JournalError::Trimmed { .. },
            ) => Ok(last_readable),
            Err(error) => Err(error),
        }
    }

    /// Renames the snapshots after `end`, all of which are damaged: once the log reaches their sequences
    /// again, they would be taken for snapshots of the new entries.
    fn quarantine_snapshots(&mut self, end: u64) -> Result<(), JournalError> {
        for snapshot in self.snapshots()? {
            if snapshot.sequence > end {
                let path = snapshot_file::path(&self.store.directory, snapshot.sequence);
                quarantine(&self.store, &[path])?;
            }
        }
        Ok(())
    }
}

/// The sequence of the newest sound snapshot; 0 if there is none.
fn newest_sound_snapshot(store: &Store) -> Result<u64, JournalError> {
    for snapshot in
        snapshot_file::list(&store.directory).map_err(store.io_error("list snapshots"))?
    {
        let sequence = snapshot.sequence;
        let read = snapshot_file::Reader::open(&store.directory, sequence)
            .and_then(|mut reader| read_whole(&mut reader, sequence));
        match read {
            Ok(()) => return Ok(sequence),
            Err(JournalError::DamagedSnapshot { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

/// Removes all entries, so that the log continues after the snapshot.
fn restart_after(connection: &Connection, snapshot: u64) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute("DELETE FROM batch", [])?;
    for (key, value) in [("trimmed_last", int(snapshot)), ("trimmed_checksum", 0)] {
        transaction.execute(
            "UPDATE meta SET value = ?2 WHERE key = ?1",
            params![key, value],
        )?;
    }
    transaction.commit()
}

fn quarantine_database(store: &Store) -> Result<(), JournalError> {
    let names = ["journal.sqlite-shm", "journal.sqlite-wal", "journal.sqlite"];
    quarantine(store, &names.map(|name| store.directory.join(name)))
}

/// Renames those of the files that exist with the suffix `.lost`, so that they are not used and not lost. If files of
/// an earlier loss have this suffix, it is `.lost-2`, and so on: the first one that is free for all of the files.
fn quarantine(store: &Store, paths: &[PathBuf]) -> Result<(), JournalError> {
    let is_taken = |suffix: &str| {
        let mut renamed = paths.iter().map(|path| with_suffix(path, suffix));
        renamed.any(|path| path.symlink_metadata().is_ok())
    };
    let mut suffix = ".lost".to_owned();
    let mut number = 1_u64;
    while is_taken(&suffix) {
        number += 1;
        suffix = format!(".lost-{number}");
    }
    for path in paths.iter().filter(|path| path.exists()) {
        fs::rename(path, with_suffix(path, &suffix)).map_err(store.io_error("put a file aside"))?;
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
