//! What the current thread is working on, for the line that a panic leaves.

use std::cell::Cell;

use crate::{Contained, Task};

/// What a panic here means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// Nobody said.
    Unknown,
    /// The end of the process.
    Task(Task),
    /// The end of this alone.
    Contained(Contained),
}

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(Context::Unknown) };
}

pub(crate) fn current() -> Context {
    // A thread that is ending has none any more.
    CURRENT.try_with(Cell::get).unwrap_or(Context::Unknown)
}

/// Works on something, then on what it was before.
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
