//! Starts tasks and threads and observes how they end.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};
use std::thread::{self, JoinHandle};

use pin_project_lite::pin_project;

use crate::context::{Context, within};
use crate::fault::{Panicked, task_panicked, thread_panicked};
use crate::{ContainedWork, Task};

/// A point at which test builds can inject a panic; a thread calls this once in each round. Tasks
/// need not.
#[inline]
pub fn pass(task: Task) {
    #[cfg(feature = "fault-injection")]
    crate::injection::pass(task.name());
    #[cfg(not(feature = "fault-injection"))]
    let _ = task;
}

pin_project! {
    /// See [`supervise`].
    struct Watched<F> {
        task: Task,
        #[pin]
        future: F,
    }
}

/// The same future as a task that the process cannot do without.
pub fn supervise<F: Future>(task: Task, future: F) -> impl Future<Output = F::Output> {
    Watched { task, future }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let task = *this.task;
        let poll = || {
            #[cfg(feature = "fault-injection")]
            crate::injection::poll(task.name(), context);
            this.future.poll(context)
        };
        let polled = within(Context::Task(task), || catch_unwind(AssertUnwindSafe(poll)));
        polled.unwrap_or_else(|payload| task_panicked(payload))
    }
}

/// Starts a task that lives as long as the process. It may end by itself, but must not panic.
pub fn spawn(task: Task, future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(supervise(task, future));
}

/// Starts a thread that the process depends on. It may end by itself, but must not panic.
///
/// # Errors
/// The system gives no thread.
pub fn spawn_thread<T: Send + 'static>(
    task: Task,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let thread = thread::Builder::new().name(format!("pw-{}", task.name()));
    thread.spawn(move || {
        within(Context::Task(task), || {
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| thread_panicked())
        })
    })
}

pin_project! {
    /// See [`contain_panic`]. Not an `async fn`, which would keep the future twice: as its
    /// argument, and where it is pinned.
    struct Caught<F> {
        what: ContainedWork,
        #[pin]
        future: F,
    }
}

/// The same future, whose panic is its own.
///
/// # Errors
/// It panicked.
pub fn contain_panic<F: Future>(
    what: ContainedWork,
    future: F,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    Caught { what, future }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let what = *this.what;
        let poll = || {
            #[cfg(feature = "fault-injection")]
            crate::injection::poll(what.name(), context);
            this.future.poll(context)
        };
        let polled = within(Context::Contained(what), || {
            catch_unwind(AssertUnwindSafe(poll))
        });
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked(what))),
        }
    }
}

/// As [`contain_panic`], for synchronous work.
///
/// # Errors
/// It panicked.
pub fn caught_now<T>(what: ContainedWork, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let work = || {
        #[cfg(feature = "fault-injection")]
        crate::injection::pass(what.name());
        work()
    };
    within(Context::Contained(what), || {
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked(what))
    })
}

/// Starts a task for one caller and contains its panic.
pub fn spawn_contained<T: Send + 'static>(
    what: ContainedWork,
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<Result<T, Panicked>> {
    tokio::spawn(contain_panic(what, future))
}
