//! The journal on etcd, for installations that must outlive the machine that they run on.
//!
//! ```no_run
//! use placewright_journal::Journal;
//! use placewright_journal_etcd::{EtcdJournal, EtcdOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = EtcdOptions::parse("etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/placewright")?;
//! let mut journal = EtcdJournal::open(&options)?;
//! let end = journal.end()?;
//! journal.append(end + 1, &[b"a record"])?;
//! # Ok(()) }
//! ```
//!
//! - An append is one transaction that is conditional on the head: it writes the batch and the new head, or
//!   nothing. The condition is the only protection against other writers, and needs no lease. An append returns
//!   when a majority of the members has it on stable storage.
//! - Reads of the head, the snapshots and the batches are linearizable.
//! - Requests go to one member at a time, and to the next one when it fails or does not answer.
//! - An append without an answer is sent again, or is reported as unknown; see
//!   [`Journal::resolve`](placewright_journal::Journal::resolve).
//! - The form of the store is described in `keys.rs` and `rows.rs`.
//!
//! This crate elects no leader, watches nothing, and does not administer the cluster. Trimming compacts etcd's history
//! unless [`EtcdOptions::compact`] is off, so the cluster should serve one installation only. Returning freed space to
//! the file system (`etcdctl defrag`) is left to the operator.

mod client;
mod connector;
mod failure;
mod journal;
mod keys;
mod kv;
mod notice;
mod open;
mod options;
mod rows;
mod snapshot;
mod store;

/// Code generated from `proto/etcd.proto`. It is committed, because its generator takes longer to build than this
/// crate; `tests/etcd/generated.rs` checks that it is up to date.
#[allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::too_many_lines,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod proto {
    include!("../generated/etcdserverpb.rs");
}

pub use journal::{EtcdHead, EtcdJournal};
pub use notice::EtcdNotice;
pub use options::{EtcdAddressError, EtcdOptions, EtcdTls, EtcdUser};
