//! The journal of a role: in a directory (SQLite), in etcd, or in PostgreSQL.

use std::fmt;
use std::path::PathBuf;

use placewright_journal::{Journal, JournalError, SqliteJournal, SqliteOptions};
use placewright_journal_etcd::{EtcdJournal, EtcdOptions};
use placewright_journal_postgresql::{PostgresqlJournal, PostgresqlOptions};

use crate::config::ConfigErrors;
use crate::options::{CellOptions, SQLITE_SCHEME, StoreOptions};

/// The maximum size in bytes of the records in one append to etcd, which accepts requests of at most 1.5 MiB.
const ETCD_BATCH_BYTES_MAX: usize = 512 << 10;
/// The maximum size in bytes of the records in one append to PostgreSQL. A larger append would hold up the appends
/// after it.
const POSTGRESQL_BATCH_BYTES_MAX: usize = 1 << 20;

/// Where the journal of a role is.
#[derive(Debug, Clone)]
pub enum Store {
    /// In a directory of this machine.
    Directory(PathBuf, SqliteOptions),
    /// In a cluster of etcd, under the prefix of the options.
    Etcd(EtcdOptions),
    /// In a schema of a PostgreSQL database.
    Postgresql(PostgresqlOptions),
}

impl Store {
    /// The store of control.
    ///
    /// # Errors
    ///
    /// `store.url` is not valid.
    pub(crate) fn of_control(
        options: &StoreOptions,
        sqlite: SqliteOptions,
    ) -> Result<Self, ConfigErrors> {
        let is_path_set = options.path.is_some();
        let url = options.url.as_deref();
        Self::new("store.url", url, is_path_set, options.directory(), sqlite)
    }

    /// The store of a cell.
    ///
    /// # Errors
    ///
    /// `cell.store_url` is not valid.
    pub(crate) fn of_cell(
        options: &CellOptions,
        sqlite: SqliteOptions,
    ) -> Result<Self, ConfigErrors> {
        let is_path_set = options.store_path.is_some();
        let url = options.store_url.as_deref();
        Self::new(
            "cell.store_url",
            url,
            is_path_set,
            options.directory(),
            sqlite,
        )
    }

    fn new(
        key: &str,
        url: Option<&str>,
        is_path_set: bool,
        directory: PathBuf,
        sqlite: SqliteOptions,
    ) -> Result<Self, ConfigErrors> {
        let error = |reason: String| ConfigErrors(vec![format!("{key}: {reason}")]);
        match url {
            None => Ok(Self::Directory(directory, sqlite)),
            Some(url) if url.starts_with(SQLITE_SCHEME) => match is_path_set {
                true => Err(error(
                    "the directory is named twice: leave one of the two out".into(),
                )),
                false => Ok(Self::Directory(directory, sqlite)),
            },
            Some(url) => Self::parse_server_url(url).map_err(error),
        }
    }

    /// Reads the address of a store: a URL of etcd or PostgreSQL, `sqlite:DIRECTORY`, or a directory.
    ///
    /// # Errors
    ///
    /// A sentence that says why the address is not valid.
    pub fn parse(address: &str) -> Result<Self, String> {
        let directory = match address.strip_prefix(SQLITE_SCHEME) {
            Some(directory) => directory,
            None if address.contains("://") => return Self::parse_server_url(address),
            None => address,
        };
        if directory.is_empty() {
            return Err("the address names no directory".into());
        }
        Ok(Self::Directory(directory.into(), SqliteOptions::default()))
    }

    /// Reads a URL of etcd or PostgreSQL.
    fn parse_server_url(url: &str) -> Result<Self, String> {
        match url.split_once("://") {
            Some(("etcd" | "etcds", _)) => {
                let options = EtcdOptions::parse(url);
                options.map(Self::Etcd).map_err(|e| e.to_string())
            }
            Some(("postgresql" | "postgres", _)) => {
                let options = PostgresqlOptions::parse(url);
                options.map(Self::Postgresql).map_err(|e| e.to_string())
            }
            _ => Err(
                "allowed: sqlite:DIRECTORY, etcd://HOST:PORT,…/PREFIX (etcds:// with TLS), and \
                 postgresql://HOST:PORT,…/DATABASE"
                    .into(),
            ),
        }
    }

    /// Whether processes on several machines can use the store at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Self::Directory(..))
    }

    /// The maximum size in bytes of the records in one append, for the engine's option of this name. A single record
    /// may be larger.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        match self {
            Self::Directory(..) => usize::MAX,
            // A larger append would need several requests.
            Self::Etcd(_) => ETCD_BATCH_BYTES_MAX,
            Self::Postgresql(_) => POSTGRESQL_BATCH_BYTES_MAX,
        }
    }

    /// Opens the journal, and logs warnings about its store for operators. Blocks.
    ///
    /// # Errors
    ///
    /// The errors of opening the store's journal.
    pub fn open(self) -> Result<Box<dyn Journal>, JournalError> {
        match self {
            Self::Directory(directory, options) => {
                let mut journal = SqliteJournal::open(&directory, options)?;
                for notice in journal.notices() {
                    log_notice(notice.is_warning(), &notice.to_string());
                }
                // Without this, appends are slow until SQLite's log has reached its full length.
                journal.grow_log()?;
                Ok(Box::new(journal))
            }
            Self::Etcd(options) => {
                let journal = EtcdJournal::open(&options)?;
                tracing::info!(url = journal.url(), "the journal is in etcd");
                for notice in journal.notices() {
                    log_notice(notice.is_warning(), &notice.to_string());
                }
                Ok(Box::new(journal))
            }
            Self::Postgresql(options) => {
                let journal = PostgresqlJournal::open(&options)?;
                tracing::info!(url = journal.url(), "the journal is in PostgreSQL");
                for notice in journal.notices() {
                    log_notice(notice.is_warning(), &notice.to_string());
                }
                Ok(Box::new(journal))
            }
        }
    }
}

impl fmt::Display for Store {
    /// Writes the address without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory, _) => write!(f, "{SQLITE_SCHEME}{}", directory.display()),
            Self::Etcd(options) => options.fmt(f),
            Self::Postgresql(options) => options.fmt(f),
        }
    }
}

fn log_notice(is_warning: bool, notice: &str) {
    if is_warning {
        tracing::warn!("{notice}");
    } else {
        tracing::info!("{notice}");
    }
}
