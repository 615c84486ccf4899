//! Work for one caller that is completed also if the caller goes away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::supervise::{BoxedFuture, contain_panic};
use crate::{ContainedWork, Panicked};

/// The future that [`finish_if_dropped`] returns.
struct FinishIfDropped<T: Send + 'static> {
    /// The work; `None` once it is done.
    work: Option<BoxedFuture<Result<T, Panicked>>>,
    /// Whether the work was polled.
    is_started: bool,
}

/// Makes a future contained work, which is completed also if its caller drops it: what is left then runs in a task of
/// its own, on the runtime on which it was dropped. Work that was never polled is not begun, and what is dropped while
/// the runtime shuts down is not completed.
///
/// The caller's task does the work as long as it waits for it. A task of its own from the start would cost more: its
/// memory, two more steps of the runtime's scheduler, and one more wake-up.
///
/// # Errors
/// [`Panicked`] if the future panicked.
pub fn finish_if_dropped<T: Send + 'static>(
    kind: ContainedWork,
    future: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T, Panicked>> + Send {
    FinishIfDropped {
        work: Some(Box::pin(contain_panic(kind, future))),
        is_started: false,
    }
}

impl<T: Send + 'static> Future for FinishIfDropped<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.is_started = true;
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for FinishIfDropped<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| self.is_started) else {
            return;
        };
        // Outside of a runtime nothing can complete the work.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(work.await) });
        }
    }
}
