//! Starts tasks and threads, and handles their panics.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};
use std::thread::{self, JoinHandle};

use pin_project_lite::pin_project;

use crate::context::{Context, within};
use crate::panic::{Panicked, task_panicked, thread_panicked};
use crate::{ContainedWork, Task};

/// A point at which test builds can inject a panic. Each long-lived thread calls this function once in each
/// iteration; a long-lived task need not, because [`supervise`] injects panics into tasks.
#[inline]
pub fn injection_point(task: Task) {
    #[cfg(feature = "fault-injection")]
    crate::injection::panic_if_pending(task.name());
    #[cfg(not(feature = "fault-injection"))]
    let _ = task;
}

pin_project! {
    /// The future that [`supervise`] returns: it polls `future`, and ends the process when `future` panics.
    struct Supervised<F> {
        task: Task,
        #[pin]
        future: F,
    }
}

/// Makes a future a long-lived task: its panic ends the process.
pub fn supervise<F: Future>(task: Task, future: F) -> impl Future<Output = F::Output> {
    Supervised { task, future }
}

impl<F: Future> Future for Supervised<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let task = *this.task;
        let poll = || {
            #[cfg(feature = "fault-injection")]
            crate::injection::panic_in_poll_if_pending(task.name(), context);
            this.future.poll(context)
        };
        let polled = within(Context::Task(task), || catch_unwind(AssertUnwindSafe(poll)));
        polled.unwrap_or_else(|payload| task_panicked(payload))
    }
}

/// A future behind a pointer. Tasks are started with such futures, so that the program contains the runtime's code for
/// tasks once, and not once for each kind of future.
pub(crate) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Starts a long-lived task. The task may end by itself; its panic ends the process.
pub fn spawn(task: Task, future: impl Future<Output = ()> + Send + 'static) {
    let future: BoxedFuture<()> = Box::pin(future);
    tokio::spawn(supervise(task, future));
}

/// Starts a long-lived thread. The thread may end by itself; its panic ends the process.
///
/// # Errors
/// If the system cannot start a thread.
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
    /// See [`contain_panic`]. An `async fn` would hold the future twice: as its argument, and where
    /// it is pinned.
    struct Contained<F> {
        kind: ContainedWork,
        #[pin]
        future: F,
    }
}

/// Makes a future contained work: its panic becomes an error.
///
/// # Errors
/// [`Panicked`] if the future panicked.
pub fn contain_panic<F: Future>(
    kind: ContainedWork,
    future: F,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    Contained { kind, future }
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let kind = *this.kind;
        let poll = || {
            #[cfg(feature = "fault-injection")]
            crate::injection::panic_in_poll_if_pending(kind.name(), context);
            this.future.poll(context)
        };
        let polled = within(Context::Contained(kind), || {
            catch_unwind(AssertUnwindSafe(poll))
        });
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked(kind))),
        }
    }
}

/// As [`contain_panic`], for synchronous work.
///
/// # Errors
/// [`Panicked`] if the work panicked.
pub fn contain_panic_sync<T>(kind: ContainedWork, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let work = || {
        #[cfg(feature = "fault-injection")]
        crate::injection::panic_if_pending(kind.name());
        work()
    };
    within(Context::Contained(kind), || {
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked(kind))
    })
}

/// Starts a task for one caller, and contains its panic.
pub fn spawn_contained<T: Send + 'static>(
    kind: ContainedWork,
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<Result<T, Panicked>> {
    let future: BoxedFuture<T> = Box::pin(future);
    tokio::spawn(contain_panic(kind, future))
}
