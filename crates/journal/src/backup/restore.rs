//! Making a store from a backup. The store has another name until all of it is on the disk and was verified.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::file::{PARTIAL_SUFFIX, parent, sync_directory, with_suffix};
use super::read::Reader;
use super::section::{Base, Section};
use super::{BackupError, BackupProgress};
use crate::sqlite::rebuild::Rebuild;
use crate::{Journal as _, JournalError, SnapshotWriter, SqliteJournal, private};

/// A restored store that does not have its final name yet. If this is dropped before
/// [`Restored::publish`], the store is removed.
pub struct Restored {
    // Declared first, so that the journal is closed before the directory is removed.
    journal: SqliteJournal,
    partial: PartialStore,
}

impl Restored {
    /// The journal of the restored store, to check it before it is published.
    pub fn journal(&mut self) -> &mut SqliteJournal {
        &mut self.journal
    }

    /// Gives the store its final name.
    ///
    /// # Errors
    /// A file or directory of that name exists by now, or the file system fails.
    pub fn publish(self) -> Result<(), BackupError> {
        let Self { journal, partial } = self;
        // Closed before the rename, because SQLite removes its log when it closes the database, under the path
        // with which the database was opened.
        drop(journal);
        partial.publish()
    }
}

/// Makes the directory `store` from a backup that [`super::inspect`] found whole, up to the entry `last`.
///
/// # Errors
/// `store` exists already; the backup does not contain the entry `last`, is damaged or cannot be read; or the
/// store cannot be written. After an error nothing is left of the new store.
pub fn restore(
    backup: &Path,
    store: &Path,
    last: u64,
    progress: &mut dyn FnMut(&BackupProgress),
) -> Result<Restored, BackupError> {
    let (mut reader, base) = Reader::open(backup)?;
    if !(base.snapshot..=base.end).contains(&last) {
        return Err(BackupError::Outside {
            path: backup.to_path_buf(),
            asked: last,
            first: base.snapshot,
            last: base.end,
        });
    }
    let partial = PartialStore::create(store)?;
    let journal =
        fill(&mut reader, &base, &partial, last, progress).map_err(|error| match error {
            BackupError::Store(JournalError::NoSpace { .. }) => BackupError::NoSpace {
                path: store.to_path_buf(),
            },
            error => error,
        })?;
    Ok(Restored { journal, partial })
}

/// Copies the files, the entries up to `last` and the snapshot from the backup to the new store.
fn fill(
    reader: &mut Reader,
    base: &Base,
    partial: &PartialStore,
    last: u64,
    progress: &mut dyn FnMut(&BackupProgress),
) -> Result<SqliteJournal, BackupError> {
    let mut rebuild = Rebuild::create(&partial.path, base.before)?;
    let mut snapshot: Option<Box<dyn SnapshotWriter>> = None;
    let mut entry = base.snapshot;
    loop {
        let bytes = reader.offset;
        match reader.next()? {
            None => break,
            Some(Section::File { name, content }) => partial.put_file(name, content)?,
            Some(Section::Batch(row)) if row.first <= last => {
                rebuild.append(&row, last)?;
                entry = entry.max(row.last.min(last));
            }
            Some(Section::Piece(piece)) => {
                let mut writer = match snapshot.take() {
                    Some(writer) => writer,
                    None => rebuild.commit_to_journal()?.write_snapshot(base.snapshot)?,
                };
                writer
                    .write_all(piece)
                    .map_err(BackupError::io(&partial.path, "write"))?;
                snapshot = Some(writer);
            }
            Some(Section::Batch(_) | Section::Base(_) | Section::End { .. }) => {}
        }
        progress(&BackupProgress {
            entry,
            end: last,
            bytes,
        });
    }
    if let Some(snapshot) = snapshot {
        snapshot.finish()?;
    }
    Ok(rebuild.finish()?)
}

/// The directory of a store that is being made. The directory is removed if this is dropped before it was
/// published.
struct PartialStore {
    /// The path while the store is being made.
    path: PathBuf,
    /// The path that the store gets when it is published.
    store: PathBuf,
    is_published: bool,
}

impl PartialStore {
    fn create(store: &Path) -> Result<Self, BackupError> {
        refuse_existing(store)?;
        let path = with_suffix(store, PARTIAL_SUFFIX);
        remove_leftover(&path)?;
        private::create_directory(&path).map_err(BackupError::io(&path, "create"))?;
        if let Ok(directory) = File::open(&path) {
            private::give_to_owner_of(parent(store), &directory);
        }
        Ok(Self {
            path,
            store: store.to_path_buf(),
            is_published: false,
        })
    }

    fn put_file(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let path = self.path.join(name);
        private::create_file(&path)
            .and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()
            })
            .map_err(BackupError::io(&path, "write"))
    }

    fn publish(mut self) -> Result<(), BackupError> {
        sync_directory(&self.path).map_err(BackupError::io(&self.path, "sync"))?;
        refuse_existing(&self.store)?;
        fs::rename(&self.path, &self.store).map_err(BackupError::io(&self.store, "create"))?;
        self.is_published = true;
        let directory = parent(&self.store);
        sync_directory(directory).map_err(BackupError::io(directory, "sync"))
    }
}

impl Drop for PartialStore {
    fn drop(&mut self) {
        if !self.is_published {
            // Files that cannot be removed now are removed by the next restore to the same path.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn refuse_existing(store: &Path) -> Result<(), BackupError> {
    match store.symlink_metadata() {
        Ok(_) => Err(BackupError::Exists {
            path: store.to_path_buf(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::io(store, "read")(error)),
    }
}

/// Removes the partial store of a restore that was killed; refuses if another process is writing it.
fn remove_leftover(path: &Path) -> Result<(), BackupError> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    // A restore creates the lock file before everything else. A directory without a lock file may be something
    // else, so it is removed only if it is empty.
    let Ok(lock) = File::open(path.join("lock")) else {
        return fs::remove_dir(path).map_err(|_| BackupError::Exists {
            path: path.to_path_buf(),
        });
    };
    match lock.try_lock() {
        Ok(()) => fs::remove_dir_all(path).map_err(BackupError::io(path, "remove")),
        Err(TryLockError::WouldBlock) => Err(BackupError::Busy {
            path: path.to_path_buf(),
        }),
        Err(TryLockError::Error(error)) => Err(BackupError::io(path, "lock")(error)),
    }
}
