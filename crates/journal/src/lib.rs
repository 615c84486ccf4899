//! A durable, ordered log of opaque records, with snapshots.
//!
//! ```
//! use placewright_journal::{AppendError, Journal, MemoryJournal};
//!
//! let mut journal = MemoryJournal::new();
//! journal.append(1, &[b"first", b"second"])?;
//! // Compare-and-swap: a writer with a wrong sequence gets an error that has the next one.
//! assert!(matches!(
//!     journal.append(2, &[b"late"]),
//!     Err(AppendError::Conflict { next_sequence: 3 })
//! ));
//! # Ok::<(), AppendError>(())
//! ```
//!
//! This crate does not know the meaning of records, runs no threads, and has no asynchronous calls. Each implementation
//! is small: [`SqliteJournal`] keeps a store directory, [`MemoryJournal`] serves tests and throw-away runs, [`Faulty`]
//! wraps another journal and makes it fail on demand.
//!
//! Invariants of every implementation:
//! - Entries are numbered 1, 2, 3 … without gaps.
//! - An append is kept whole, or leaves no trace. Acknowledged entries are on stable storage.
//! - A snapshot becomes visible whole, or not at all.
//! - Only entries that a snapshot covers are trimmed.
//! - Opening a store fails if acknowledged entries are gone, as far as the implementation records outside of the log
//!   which entries it acknowledged.

pub mod backup;
pub mod batch;
pub mod chunks;
mod copy;
mod error;
mod faulty;
mod fence;
mod journal;
mod maintain;
mod memory;
pub mod private;
mod sqlite;

pub use copy::{Copied, CopyError, CopyProgress, copy};
pub use error::{AppendError, JournalError};
pub use faulty::{Fault, Faults, Faulty, Operation};
pub use fence::Fence;
pub use journal::{Journal, Resolution, SnapshotInfo, SnapshotWriter, Stats, Visit};
pub use maintain::{Compaction, Verification, compact, verify};
pub use memory::MemoryJournal;
pub use sqlite::{AcceptedLoss, FORMAT, Notice, SqliteJournal, SqliteOptions};
