//! Starts tasks and threads and observes how they end.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread::{self, JoinHandle};

use crate::context::{Context, within};
use crate::fault::{Panicked, task_panicked, thread_panicked};
use crate::{Contained, Task};

/// A point at which test builds can inject a panic; a thread calls this once in each round. Tasks
/// need not.
#[inline]
pub fn pass(task: Task) {
    #[cfg(feature = "fault-injection")]
    crate::injection::pass(task.name());
    #[cfg(not(feature = "fault-injection"))]
    let _ = task;
}

/// Wraps a future as a task that the process depends on: its panic ends the process.
pub async fn watched<F: Future>(task: Task, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let poll = || {
            #[cfg(feature = "fault-injection")]
            crate::injection::poll(task.name(), context);
            future.as_mut().poll(context)
        };
        let polled = within(Context::Task(task), || catch_unwind(AssertUnwindSafe(poll)));
        polled.unwrap_or_else(|payload| task_panicked(payload))
    })
    .await
}

/// Starts a task that lives as long as the process. It may end by itself, but must not panic.
pub fn spawn(task: Task, future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(watched(task, future));
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

/// Wraps a future and contains its panic.
///
/// # Errors
/// It panicked.
pub async fn caught<F: Future>(what: Contained, future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let poll = || {
            #[cfg(feature = "fault-injection")]
            crate::injection::poll(what.name(), context);
            future.as_mut().poll(context)
        };
        let polled = within(Context::Contained(what), || {
            catch_unwind(AssertUnwindSafe(poll))
        });
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(_) => Poll::Ready(Err(Panicked(what))),
        }
    })
    .await
}

/// As [`caught`], for synchronous work.
///
/// # Errors
/// It panicked.
pub fn caught_now<T>(what: Contained, work: impl FnOnce() -> T) -> Result<T, Panicked> {
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
    what: Contained,
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<Result<T, Panicked>> {
    tokio::spawn(caught(what, future))
}
