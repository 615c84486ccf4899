//! Backups: a copy of a store in one file, made while a service writes to the store, and a store made
//! from such a file.
//!
//! A backup holds the oldest sound snapshot, the entries after that snapshot, and small files that the service
//! has in the store's directory. A backup of a store that still has its first entry, and so all of them, needs no
//! snapshot. In both cases the state after any of the entries in the backup can be restored.
//!
//! This module does not know the meaning of records. The caller loads a restored store to verify it, before
//! [`Restored::publish`] gives the store its name.

mod error;
mod file;
mod pace;
mod read;
mod restore;
mod section;
mod write;

pub use error::BackupError;
pub use file::PARTIAL_SUFFIX;
pub use read::{BackupBatch, BackupContents, inspect};
pub use restore::{Restored, restore};
pub use section::FORMAT;
pub use write::{BackupOptions, BackupProgress, WrittenBackup, remove_leftovers, write};
