//! The work of the current thread, for the log line of a panic.

use std::cell::Cell;

use crate::{ContainedWork, Task};

/// The kind of work that the current thread is doing, which decides what a panic means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// The work was not started through this crate.
    Unknown,
    /// A long-lived task; its panic ends the process.
    Task(Task),
    /// Work for one caller; its panic ends only this work.
    Contained(ContainedWork),
}

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(Context::Unknown) };
}

pub(crate) fn current() -> Context {
    // The thread-local is gone while a thread is ending.
    CURRENT.try_with(Cell::get).unwrap_or(Context::Unknown)
}

/// Runs work in a context and restores the former one.
pub(crate) fn within<T>(context: Context, work: impl FnOnce() -> T) -> T {
    struct Back(Context);
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = CURRENT.try_with(|current| current.set(self.0));
        }
    }
    let _back = Back(current());
    let _ = CURRENT.try_with(|current| current.set(context));
    work()
}
