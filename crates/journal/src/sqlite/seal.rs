//! The seal of a store whose installation was moved elsewhere.
//!
//! A sealed store has a table with the address of the store that replaces it, and a format of its own, so that earlier
//! releases, which do not know the seal, write nothing to the store either.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::{SqliteJournal, Store, log_end};
use crate::JournalError;

/// The format of sealed stores.
pub(super) const SEALED_FORMAT: u32 = 2;

/// The address of the store that replaces this one; `None` if this one is not sealed.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let has_table = connection
        .query_row(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'seal'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    if has_table.is_none() {
        return Ok(None);
    }
    connection
        .query_row("SELECT moved_to FROM seal", [], |row| row.get(0))
        .optional()
}

impl Store {
    /// The error for an append to a sealed store that ends at `end`; `None` if it is not sealed.
    pub(super) fn sealed(&self, end: u64) -> Option<JournalError> {
        let moved_to = self.moved_to.get()?;
        Some(JournalError::Sealed {
            url: self.directory.display().to_string(),
            end,
            moved_to: moved_to.clone(),
        })
    }
}

impl SqliteJournal {
    pub(super) fn seal_store(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        let store = std::sync::Arc::clone(&self.store);
        let _write_lock = store.lock_for_writing()?;
        let sqlite = store.sqlite_error("seal");
        let end = log_end(&self.connection).map_err(&sqlite)?.last;
        match store.moved_to.get() {
            Some(address) if address == moved_to => return Ok(end),
            Some(_) => return store.sealed(end).map_or(Ok(end), Err),
            None => {}
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&sqlite)?;
        transaction
            .execute_batch(&format!(
                "CREATE TABLE seal (moved_to TEXT NOT NULL); \
                 UPDATE meta SET value = {SEALED_FORMAT} WHERE key = 'format'"
            ))
            .and_then(|()| transaction.execute("INSERT INTO seal VALUES (?1)", [moved_to]))
            .map_err(&sqlite)?;
        transaction.commit().map_err(&sqlite)?;
        // The write lock is held, so nobody else has set the address.
        let _ = store.moved_to.set(moved_to.to_owned());
        Ok(end)
    }
}
