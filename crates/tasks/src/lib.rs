//! The long-lived tasks and threads of a process, watched.
//!
//! A role whose outbox, timer or writer is gone looks healthy and does nothing. So whatever lives as
//! long as its role is in one list ([`Task`]) and is started by this crate. When such a task panics, or
//! ends although nobody stopped it, a line of the log says which, and the process ends with
//! [`EXIT_CODE`], so that its supervisor starts it again. What was acknowledged is durable by then.
//!
//! What is done for one request, connection or order is contained instead ([`ContainedWork`]): its
//! panic is logged and counted, the caller gets an error, and no other caller is affected.
//!
//! A process takes part by calling [`install`]. In one that did not (tests, libraries) a panic takes
//! its usual way.

mod context;
mod fault;
mod group;
#[cfg(feature = "fault-injection")]
mod injection;
mod names;
mod watch;

pub use fault::{EXIT_CODE, Panicked, has_failed_task, install, panics, task_ended};
pub use group::Tasks;
pub use names::{ContainedWork, Role, Task};
pub use watch::{caught_now, contain_panic, pass, spawn, spawn_contained, spawn_thread, supervise};
