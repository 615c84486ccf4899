//! Supervision of the long-lived tasks and threads of a process.
//!
//! A role whose outbox, timer or writer has ended looks healthy and makes no progress. So all tasks that
//! live as long as their role are in one list ([`Task`]) and are started by this crate. When such a
//! task panics, or a task of a group ([`Tasks`]) ends although it was not stopped, its name is logged
//! and the process exits with [`EXIT_CODE`], so that systemd or another supervisor starts the process
//! again. Everything acknowledged is durable by then.
//!
//! Work for one request, connection or order is contained instead ([`ContainedWork`]): a panic in it
//! is logged and counted, the caller gets an error, and other callers are not affected.
//!
//! A process enables this by calling [`install`]. In a process that did not (tests, users of the
//! library) a panic has its usual effects, but for one: the panic of a long-lived thread aborts the process.

mod context;
mod finish;
mod group;
#[cfg(feature = "fault-injection")]
mod injection;
mod names;
mod panic;
mod supervise;

pub use finish::finish_if_dropped;
pub use group::Tasks;
pub use names::{ContainedWork, ProcessKind, Task};
pub use panic::{EXIT_CODE, Panicked, has_failed_task, install, panics, task_ended};
pub use supervise::{
    contain_panic, contain_panic_sync, injection_point, spawn, spawn_contained, spawn_thread,
    supervise,
};
