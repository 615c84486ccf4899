//! A group of tasks that are started and stopped together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::supervise::BoxedFuture;
use crate::{Task, supervise, task_ended};

/// A group of tasks that are started and stopped together. Dropping it stops them.
#[derive(Debug, Default)]
pub struct Tasks {
    running: Mutex<JoinSet<()>>,
    may_end: Arc<AtomicBool>,
}

impl Tasks {
    /// Starts a task. It must not end before [`Self::allow_end`] is called.
    pub fn spawn(&self, task: Task, future: impl Future<Output = ()> + Send + 'static) {
        let future: BoxedFuture<()> = Box::pin(future);
        self.start(task, future);
    }

    fn start(&self, task: Task, future: BoxedFuture<()>) {
        let may_end = Arc::clone(&self.may_end);
        self.running.lock().spawn(async move {
            supervise(task, future).await;
            if !may_end.load(Ordering::Acquire) {
                task_ended(task, &"nobody stopped it");
            }
        });
    }

    /// Allows the tasks to end. To be called before they are made to end.
    pub fn allow_end(&self) {
        self.may_end.store(true, Ordering::Release);
    }

    /// Waits until each task has ended by itself.
    pub async fn join(&self) {
        self.allow_end();
        let mut running = std::mem::take(&mut *self.running.lock());
        while running.join_next().await.is_some() {}
    }

    /// Cancels all tasks and waits for their end.
    pub async fn shutdown(&self) {
        self.allow_end();
        let mut running = std::mem::take(&mut *self.running.lock());
        running.shutdown().await;
    }
}
