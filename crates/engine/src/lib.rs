//! Runs a state machine on a journal: decide, journal, apply.
//!
//! ```text
//! submit ─▶ queue ─▶ decide + apply (write lock) ─▶ append (fsync) ─▶ answer
//!                         read (read lock) ─▶ wait until what it saw is durable ─▶ answer
//! ```
//!
//! A [`Machine`] is pure: it decides commands, applies changes, and can undo them. [`Engine`] gives
//! it a thread that writes, and these promises:
//!
//! - All changes have one order. Each command is decided on the state after all changes before its own.
//! - An answer never shows a change that is not durable. A command is answered after its append, a refusal after the
//!   append of every change in the state on which it was decided, a read after the append of every change in the state
//!   that it saw.
//! - Commands that wait go into one append together, up to the limits in [`Options`].
//! - A failed append leaves no trace: everything that was not durable is undone, its callers learn
//!   why, and the engine continues.
//! - Callers do not notice that another writer appended first: its entries are applied, and the commands
//!   are decided again.
//!
//! The engine knows nothing of the machine's domain, of HTTP or of metrics libraries (it reports events to an
//! [`Observer`]), and it needs no particular asynchronous runtime.

mod appended;
mod commit;
mod decide;
mod engine;
mod entries;
mod envelope;
mod error;
mod feed;
mod following;
mod hand_over;
mod history;
mod leadership;
mod loss;
mod lost_entries;
mod machine;
mod observer;
mod options;
mod past;
mod pending;
mod reading;
mod recover;
mod replica;
mod replica_state;
mod resolve;
mod shared;
mod snapshot;
mod snapshot_schedule;
mod standing;
mod start_anew;
mod submission;
mod submit;
mod throttle;
mod undo;
mod writer;

pub use appended::AppendedBatch;
pub use engine::Engine;
pub use entries::{Entries, Entry};
pub use envelope::{CommandId, inner_record};
pub use error::{
    AppendAgainError, FollowError, RecoverError, SnapshotError, StoreError, SubmitError,
};
pub use feed::Follower;
pub use leadership::{Leadership, TakeoverReason};
pub use lost_entries::Loss;
pub use machine::{DecodeError, LoadError, Machine};
pub use observer::{Commit, Observer, RecoveryProgress, SnapshotReport};
pub use options::Options;
pub use past::{Past, PastError, PastLimits, PastRange, PastState};
pub use reading::Reading;
pub use recover::{Recovered, recover, recover_at};
pub use replica::{Replica, ReplicaStatus};
pub use replica_state::{ForwardReply, LeaderLink, ReplicaOptions};
