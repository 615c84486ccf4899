//! The work that the current thread does, which determines the effects of a panic.

use std::cell::Cell;

use crate::{ContainedWork, Task};

/// The kind of work that the current thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// The work was not started through this crate.
    Unknown,
    /// A long-lived task, whose panic ends the process.
    Task(Task),
    /// Work for one caller, whose panic ends only this work.
    Contained(ContainedWork),
}

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(Context::Unknown) };
}

pub(crate) fn current() -> Context {
    // The thread-local is not available while a thread is ending.
    CURRENT.try_with(Cell::get).unwrap_or(Context::Unknown)
}

/// Runs work in a context, and then restores the previous one.
pub(crate) fn within<T>(context: Context, work: impl FnOnce() -> T) -> T {
    struct Restore(Context);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = CURRENT.try_with(|current| current.set(self.0));
        }
    }
    let _restore = Restore(current());
    let _ = CURRENT.try_with(|current| current.set(context));
    work()
}
