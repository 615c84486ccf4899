//! The servers, and the entries that are known to be durable, which all handles of a store share; and how failures are
//! reported.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use placewright_journal::JournalError;
use placewright_journal::batch::LogEnd;

use crate::connection::Connection;
use crate::failure::{Cause, Failure};
use crate::notice::PostgresqlNotice;
use crate::rows::Head;
use crate::schema::FORMAT;
use crate::servers::Servers;

/// The store as all its handles see it.
pub(crate) struct Store {
    pub(crate) servers: Arc<Servers>,
    /// The address, without secrets.
    pub(crate) url: String,
    pub(crate) notices: Vec<PostgresqlNotice>,
    /// The end of the entries that this process knows to be durable.
    acknowledged: Mutex<LogEnd>,
}

impl Store {
    pub(crate) fn new(servers: Arc<Servers>, url: String, notices: Vec<PostgresqlNotice>) -> Self {
        Self {
            servers,
            url,
            notices,
            acknowledged: Mutex::default(),
        }
    }

    /// A new connection, for one handle.
    pub(crate) fn connection(&self) -> Connection {
        Connection::new(&self.servers)
    }

    /// The end up to which entries are known to be durable.
    pub(crate) fn acknowledged(&self) -> LogEnd {
        *self.acknowledged.lock()
    }

    /// Notes that entries up to an end are durable.
    pub(crate) fn acknowledge(&self, end: LogEnd) {
        let mut acknowledged = self.acknowledged.lock();
        if end.last > acknowledged.last {
            *acknowledged = end;
        }
    }

    /// Forgets which entries are known to be durable, because the store has lost some of them.
    pub(crate) fn forget_acknowledged(&self) {
        *self.acknowledged.lock() = LogEnd::default();
    }

    /// The address of the store, for errors that name a path.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(&self.url)
    }

    /// The error for a failure that occurred while `doing` something.
    pub(crate) fn error(&self, doing: &'static str, failure: Failure) -> JournalError {
        error_of(&self.url, doing, failure)
    }

    pub(crate) fn damaged_store(&self, sequence: u64, reason: String) -> JournalError {
        JournalError::DamagedStore {
            path: self.path(),
            sequence,
            reason,
        }
    }

    pub(crate) fn newer_format(&self, found: u32) -> JournalError {
        JournalError::NewerFormat {
            path: self.path(),
            found,
            supported: FORMAT,
        }
    }

    /// The error of every append to a store that is sealed; `None` if the store is not sealed.
    pub(crate) fn sealed(&self, head: &Head) -> Option<JournalError> {
        let moved_to = head.moved_to.clone()?;
        Some(JournalError::Sealed {
            url: self.url.clone(),
            end: head.end.last,
            moved_to,
        })
    }

    pub(crate) fn missing(&self, first: u64, last: u64) -> JournalError {
        JournalError::Missing {
            path: self.path(),
            first,
            last,
        }
    }

    pub(crate) fn lost(&self, first: u64, last: u64) -> JournalError {
        JournalError::Lost {
            path: self.path(),
            first,
            last,
        }
    }
}

/// The error for a failure of the store at `url`.
pub(crate) fn error_of(url: &str, doing: &'static str, failure: Failure) -> JournalError {
    let Failure { cause, reason } = failure;
    let url = url.to_owned();
    match cause {
        Cause::NotDone | Cause::Unknown => JournalError::Unreachable { url, doing, reason },
        Cause::NoSpace => JournalError::NoSpace {
            path: format!("{url} ({reason})").into(),
        },
        Cause::Denied => JournalError::ReadOnly {
            path: url.into(),
            reason,
        },
        Cause::NoTable => JournalError::NotFound { path: url.into() },
        Cause::Damaged => JournalError::DamagedStore {
            path: url.into(),
            // The server does not say which entry is damaged.
            sequence: 0,
            reason,
        },
        Cause::Refused => JournalError::Unsuitable { url, reason },
    }
}
