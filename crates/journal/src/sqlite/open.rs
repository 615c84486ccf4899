//! Opening a store: the lock, the schema, the format.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::check::{
    Notice, add_acknowledged_entries, check_acknowledged, check_empty, check_file, resume_mark,
};
use super::directory::sync_directory;
use super::mark::StoredMark;
use super::seal::{self, SEALED_FORMAT};
use super::{SqliteJournal, Store, snapshot_file};
use crate::{JournalError, private};

/// The format of new stores. A sealed store has [`SEALED_FORMAT`]; both are read.
pub const FORMAT: u32 = 1;

/// The application id that identifies our database files: "PWJL".
const APPLICATION_ID: i32 = 0x5057_4a4c;
/// How long SQLite waits for its own locks. `Store::write_lock` serialises the handles within one process;
/// the waiting covers the remaining cases, such as a reader that starts while SQLite recovers its write-ahead log.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The page size of new stores. SQLite writes each page of an append in two system calls; with pages of 4 KiB, its
/// default, cells with many builds spend 7 % more processor time. With larger pages a small append writes more.
const PAGE_BYTES: i64 = 8192;
/// The write-ahead log is checkpointed when it has grown to this size in bytes: less often than by SQLite's default,
/// because each checkpoint costs two more fsyncs.
const CHECKPOINT_BYTES: i64 = 16 << 20;
/// The size to which [`SqliteJournal::grow_log`] extends the log: about five hundred appends of a quiet
/// store, or the first second of a busy one.
const LOG_BYTES: u64 = 4 << 20;

/// How to open a store.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// The maximum size of the journal's file in bytes; an append beyond it fails with
    /// [`JournalError::NoSpace`]. `None`: limited by the disk only.
    pub file_bytes_max: Option<u64>,
}

impl SqliteJournal {
    /// Opens the store in `directory`, which is created when it is not there yet. Nobody else can open the
    /// store for writing until this value and all handles from [`crate::Journal::try_clone`] are dropped.
    ///
    /// # Errors
    /// [`JournalError::Locked`], [`JournalError::NewerFormat`], [`JournalError::NotAJournal`],
    /// [`JournalError::ReadOnly`], the errors of [`crate::Journal::check_acknowledged`], or the store failed.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<Self, JournalError> {
        let (mut store, stored_mark) = lock_store(directory, options)?;
        check_file(&store, stored_mark)?;
        let connection = connect(&store, || check_empty(&store, stored_mark));
        let connection =
            connection.map_err(|error| add_acknowledged_entries(error, stored_mark))?;
        check_acknowledged(&store, &connection, stored_mark)?;
        resume_mark(&mut store, &connection, stored_mark)?;
        add_times(&connection).map_err(store.sqlite_error("open"))?;
        if let Some(moved_to) = seal::read(&connection).map_err(store.sqlite_error("open"))? {
            store.moved_to = moved_to.into();
        }
        sync_directory(directory).map_err(store.io_error("open"))?;
        snapshot_file::remove_partial(directory).map_err(store.io_error("open"))?;
        let journal = Self {
            connection,
            store: Arc::new(store),
            payload: Vec::new(),
        };
        journal.enable_checkpoint_on_close()?;
        Ok(journal)
    }

    /// Lets SQLite checkpoint the log into the database when the last handle is closed.
    pub(super) fn enable_checkpoint_on_close(&self) -> Result<(), JournalError> {
        (self.connection)
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map(|_| ())
            .map_err(self.store.sqlite_error("open"))
    }

    /// Extends the write-ahead log in advance. An fsync after a write that made the file longer waits for the
    /// disk twice, so appends would be slow until the log has reached its full length once. If there is
    /// no space, the log stays as it is.
    ///
    /// # Errors
    /// [`JournalError::ReadOnly`], or the store failed.
    pub fn grow_log(&mut self) -> Result<(), JournalError> {
        let _write_lock = self.store.lock_for_writing()?;
        let path = self.store.directory.join("journal.sqlite-wal");
        let grown = extend_with_zeros(&path, LOG_BYTES)
            .map_err(|error| JournalError::from_io(&path, "extend", error));
        match grown {
            Ok(()) | Err(JournalError::NoSpace { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens the store in `directory` for inspection, also while another process writes to it.
    /// Operations that would change it fail with [`JournalError::ReadOnly`].
    ///
    /// # Errors
    /// [`JournalError::NotFound`], [`JournalError::NewerFormat`], [`JournalError::NotAJournal`], or
    /// the store failed.
    pub fn open_read_only(directory: &Path) -> Result<Self, JournalError> {
        let store = Store {
            directory: directory.to_path_buf(),
            options: SqliteOptions::default(),
            lock: None,
            write_lock: Mutex::new(None),
            notices: Notice::of_access(directory),
            moved_to: OnceLock::new(),
        };
        let stored_mark = super::mark::read(directory).map_err(store.io_error("read its mark"))?;
        check_file(&store, stored_mark)?;
        let connection =
            reconnect(&store).map_err(|error| add_acknowledged_entries(error, stored_mark))?;
        Ok(Self {
            connection,
            store: Arc::new(store),
            payload: Vec::new(),
        })
    }
}

/// Creates the directory if it is missing, and locks it for this process.
pub(super) fn lock_store(
    directory: &Path,
    options: SqliteOptions,
) -> Result<(Store, StoredMark), JournalError> {
    private::create_directory(directory).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
            JournalError::NotAJournal {
                path: directory.to_path_buf(),
                reason: "it is not a directory".into(),
            }
        }
        _ => JournalError::from_io(directory, "create the store", e),
    })?;
    let store = Store {
        directory: directory.to_path_buf(),
        options,
        lock: Some(lock(directory)?),
        write_lock: Mutex::new(None),
        notices: Notice::of_access(directory),
        moved_to: OnceLock::new(),
    };
    let stored_mark = super::mark::read(directory).map_err(store.io_error("read its mark"))?;
    Ok((store, stored_mark))
}

/// Extends a write-ahead log with zeros, unless it has this length already. If there is no space, the log stays as it
/// was, and the error is returned.
///
/// SQLite ignores a log whose header is not valid, and reads any other log up to the first frame that is not valid;
/// zeros are neither a valid header nor a valid frame ([format](https://www.sqlite.org/fileformat2.html#walformat)).
/// SQLite may have the log open meanwhile, because it locks the database and the shared memory only. To open and close
/// the database in this way would be wrong: closing a file releases all locks that the process holds on it.
fn extend_with_zeros(log: &Path, bytes: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut options = fs::OpenOptions::new();
    let mut file = match private::refuse_links(options.append(true)).open(log) {
        // Without a log there is nothing to extend.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    let mut missing = bytes.saturating_sub(length);
    while missing > 0 {
        let part = usize::try_from(missing).map_or(ZEROS.len(), |missing| missing.min(ZEROS.len()));
        if let Err(error) = file.write_all(&ZEROS[..part]) {
            // If this fails, too, the log is a little longer, which is harmless.
            let _ = file.set_len(length);
            return Err(error);
        }
        missing -= part as u64;
    }
    Ok(())
}

/// Opens a connection to the store's database.
///
/// If the store may be written, an empty database becomes a new store, unless `check_empty` refuses that.
pub(super) fn connect(
    store: &Store,
    check_empty: impl FnOnce() -> Result<(), JournalError>,
) -> Result<Connection, JournalError> {
    let file = store.directory.join("journal.sqlite");
    let sqlite = store.sqlite_error("open");
    if store.lock.is_none() {
        let connection = connect_read_only(store, &file)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(&sqlite)?;
        check_format(store, &connection)?;
        return Ok(connection);
    }
    // SQLite gives the files that it creates beside this one the same mode.
    private::open_file(&file).map_err(|e| JournalError::from_io(&file, "open", e))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // With this flag SQLite refuses symbolic links anywhere in a path, but the directory may be below one.
    let directory = store.directory.canonicalize();
    let directory = directory.map_err(store.io_error("open"))?;
    let opened = Connection::open_with_flags(directory.join("journal.sqlite"), flags);
    let mut connection = opened.map_err(&sqlite)?;
    // A store that is refused must stay as it was found: a checkpoint on close would discard the
    // part of its log after the damage, which is all that is left of the missing entries.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(&sqlite)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(&sqlite)?;
    if connection.is_readonly("main").map_err(&sqlite)? {
        return Err(JournalError::ReadOnly {
            path: file,
            reason: "the file or its permissions".into(),
        });
    }
    // The format is checked before anything is changed: the file may be another program's, or of a newer
    // format.
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
        .map_err(&sqlite)?;
    if tables > 0 {
        check_format(store, &connection)?;
    } else {
        check_empty()?;
    }
    if tables == 0 {
        let page_size = format!("PRAGMA page_size = {PAGE_BYTES}");
        connection.execute_batch(&page_size).map_err(&sqlite)?;
    }
    configure(&connection, store).map_err(&sqlite)?;
    if tables == 0 {
        create_schema(&mut connection).map_err(&sqlite)?;
    }
    Ok(connection)
}

/// Opens a connection to a database that was checked already, or that is opened for reading only.
pub(super) fn reconnect(store: &Store) -> Result<Connection, JournalError> {
    connect(store, || Ok(()))
}

fn connect_read_only(store: &Store, file: &Path) -> Result<Connection, JournalError> {
    if !file.exists() {
        return Err(JournalError::NotFound {
            path: store.directory.clone(),
        });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(file, flags).and_then(|connection| {
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
        Ok(connection)
    });
    let log_bytes = fs::metadata(file.with_file_name("journal.sqlite-wal")).map_or(0, |m| m.len());
    let has_shared_memory = file.with_file_name("journal.sqlite-shm").exists();
    match opened {
        // In a read-only directory SQLite cannot create its shared memory, a file beside the
        // database. If there is neither this file nor a log, no other process uses the store.
        Err(error)
            if log_bytes == 0 && !has_shared_memory && cannot_create_shared_memory(&error) =>
        {
            let uri = format!("file:{}?immutable=1", escape(file));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
        }
        opened => opened,
    }
    .map_err(store.sqlite_error("open"))
}

/// Whether SQLite could not create its shared memory.
fn cannot_create_shared_memory(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Escapes the characters with a meaning in a `file:` URI.
fn escape(file: &Path) -> String {
    let mut escaped = String::new();
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'?' | b'#' | b'%' | b'\0'..=b' ' | 0x7f.. => {
                escaped.push_str(&format!("%{byte:02x}"));
            }
            plain => escaped.push(char::from(*plain)),
        }
    }
    escaped
}

fn configure(connection: &Connection, store: &Store) -> rusqlite::Result<()> {
    // Stores of earlier releases have other pages.
    let page_bytes: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let page_bytes = page_bytes.max(1);
    let checkpoint_pages = CHECKPOINT_BYTES / page_bytes;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; \
         PRAGMA synchronous = FULL; \
         PRAGMA fullfsync = ON; \
         PRAGMA checkpoint_fullfsync = ON; \
         PRAGMA wal_autocheckpoint = {checkpoint_pages}; \
         PRAGMA trusted_schema = OFF; \
         PRAGMA cell_size_check = ON;"
    ))?;
    if let Some(bytes) = store.options.file_bytes_max {
        let pages = super::int(bytes) / page_bytes;
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    Ok(())
}

fn create_schema(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    // `records` is the last column, so that a row's numbers are read without its bytes.
    transaction.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; \
         CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID; \
         INSERT INTO meta VALUES \
           ('format', {FORMAT}), ('trimmed_last', 0), ('trimmed_checksum', 0), ('marked', 1); \
         CREATE TABLE batch ( \
           first INTEGER PRIMARY KEY, last INTEGER NOT NULL, previous INTEGER NOT NULL, \
           checksum INTEGER NOT NULL, appended_at INTEGER, records BLOB NOT NULL);"
    ))?;
    transaction.commit()
}

/// Whether batches have a column for the time at which they were appended.
pub(super) fn has_times(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row(
            "SELECT 1 FROM pragma_table_info('batch') WHERE name = 'appended_at'",
            [],
            |_| Ok(()),
        )
        .optional()
        .map(|found| found.is_some())
}

/// Adds the column for times to the store of an earlier release, which can read the store and append to it
/// as before.
fn add_times(connection: &Connection) -> rusqlite::Result<()> {
    if !has_times(connection)? {
        connection.execute_batch("ALTER TABLE batch ADD COLUMN appended_at INTEGER")?;
    }
    Ok(())
}

/// Refuses the database of another program, and that of a newer format.
fn check_format(store: &Store, connection: &Connection) -> Result<(), JournalError> {
    let not_ours = |reason: &str| JournalError::NotAJournal {
        path: store.directory.clone(),
        reason: reason.into(),
    };
    let id: i32 = connection
        .query_row("PRAGMA application_id", [], |row| row.get(0))
        .map_err(store.sqlite_error("open"))?;
    if id != APPLICATION_ID {
        return Err(not_ours("journal.sqlite belongs to something else"));
    }
    let format: Option<u32> = connection
        .query_row("SELECT value FROM meta WHERE key = 'format'", [], |row| {
            row.get(0)
        })
        .optional()
        .map_err(store.sqlite_error("open"))?;
    match format {
        None | Some(0) => Err(not_ours("journal.sqlite does not say its format")),
        Some(FORMAT | SEALED_FORMAT) => Ok(()),
        Some(found) => Err(JournalError::NewerFormat {
            path: store.directory.clone(),
            found,
            supported: SEALED_FORMAT,
        }),
    }
}

/// Locks the store for this process, until the [`Store`] that gets the file is dropped.
fn lock(directory: &Path) -> Result<File, JournalError> {
    let path: PathBuf = directory.join("lock");
    let io = |e| JournalError::from_io(&path, "lock the store", e);
    let mut file = private::open_file(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // The process id is used in the message only, and left out if it cannot be read.
            let has_pid = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            return Err(JournalError::Locked {
                path: directory.to_path_buf(),
                process: if has_pid {
                    format!(" (process {})", pid.trim())
                } else {
                    String::new()
                },
            });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    // An error is ignored: the process id is only for the message of another process, and a full disk must
    // not prevent opening.
    let _ = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_space_is_not_extended() {
        let full = extend_with_zeros(Path::new("/dev/full"), LOG_BYTES);
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        extend_with_zeros(Path::new("/dev/full"), 0).unwrap();
    }
}
