//! The journal on PostgreSQL, for installations that must outlive the machine that they run on.
//!
//! ```no_run
//! use placewright_journal::Journal;
//! use placewright_journal_postgresql::{PostgresqlJournal, PostgresqlOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = PostgresqlOptions::parse("postgresql://10.0.0.1,10.0.0.2,10.0.0.3/placewright")?;
//! let mut journal = PostgresqlJournal::open(&options)?;
//! let end = journal.end()?;
//! journal.append(end + 1, &[b"a record"])?;
//! # Ok(()) }
//! ```
//!
//! - The head is one row, which names the last batch of the log. An append is one statement that is conditional on the
//!   head: it writes the batch and the new head, or nothing. The condition is the only protection against other
//!   writers. An append returns when the synchronous standbys have it on stable storage.
//! - PostgreSQL may show a commit that no standby has: a server that is started again, or told to stop waiting for its
//!   standbys, shows the commits of its own disk. So an entry that can be read is not yet known to be durable. Readers
//!   get an entry only after a later write has been acknowledged, which proves that every commit before that write is
//!   durable; see `journal/durable.rs`.
//! - Standbys are never read. Each handle has one session with the primary, and finds the new one after a failover.
//! - An append without an answer is sent again, or is reported as unknown; see
//!   [`Journal::resolve`](placewright_journal::Journal::resolve).
//! - The tables are described in `schema.rs`.
//!
//! This crate promotes no standby, elects no leader, and does not administer the servers. A failover has to end the old
//! primary, and then to promote a standby that has every acknowledged entry, as Patroni does.

mod connection;
mod connector;
mod failure;
mod journal;
mod notice;
mod open;
mod options;
mod rows;
mod schema;
mod servers;
mod session;
mod snapshot;
mod store;

pub use journal::PostgresqlJournal;
pub use notice::PostgresqlNotice;
pub use options::{PostgresqlAddressError, PostgresqlOptions, PostgresqlTls};
