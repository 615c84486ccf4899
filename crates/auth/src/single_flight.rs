//! Coalesces concurrent operations with the same key: only one runs, and all callers get its result
//! (single flight).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::cache::Key;

/// The operations in flight: at most as many as there are callers.
pub(crate) struct SingleFlight<V> {
    in_flight: Mutex<HashMap<Key, Arc<OnceCell<V>>>>,
}

impl<V: Clone> SingleFlight<V> {
    /// Starts without any operation in flight.
    pub(crate) fn new() -> Self {
        Self {
            in_flight: Mutex::new(HashMap::new()),
        }
    }

    /// Runs the operation, or waits for the result of one with the same key.
    ///
    /// If the caller that runs it is cancelled, one of the waiting callers runs its own operation instead.
    pub(crate) async fn run(&self, key: Key, operation: impl AsyncFnOnce() -> V) -> V {
        let result_cell = Arc::clone(self.in_flight.lock().entry(key).or_default());
        let caller = Caller {
            single_flight: self,
            key,
            result_cell,
        };
        let result = caller
            .result_cell
            .get_or_init(async || {
                let result = operation().await;
                // Later callers start a new operation, or find the result in a cache.
                self.in_flight.lock().remove(&key);
                result
            })
            .await;
        result.clone()
    }
}

/// A caller that runs the operation or waits for it. When the last caller is dropped, the entry is removed.
struct Caller<'f, V> {
    single_flight: &'f SingleFlight<V>,
    key: Key,
    result_cell: Arc<OnceCell<V>>,
}

impl<V> Drop for Caller<'_, V> {
    fn drop(&mut self) {
        let mut in_flight = self.single_flight.in_flight.lock();
        // With two owners, the map and this caller, there are no other callers, and none can come while
        // the lock is held.
        if let Some(result_cell) = in_flight.get(&self.key)
            && Arc::ptr_eq(result_cell, &self.result_cell)
            && Arc::strong_count(result_cell) == 2
        {
            in_flight.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn equal_operations_run_once_and_a_waiting_caller_takes_over_from_a_cancelled_one() {
        let single_flight = Arc::new(SingleFlight::new());
        let run_count = Arc::new(AtomicUsize::new(0));
        let spawn = |key: u8, wait: oneshot::Receiver<u32>| {
            let (single_flight, run_count) = (Arc::clone(&single_flight), Arc::clone(&run_count));
            tokio::spawn(async move {
                single_flight
                    .run([key; 32], async || {
                        run_count.fetch_add(1, Ordering::SeqCst);
                        wait.await.unwrap()
                    })
                    .await
            })
        };
        let (first_sender, first_result) = oneshot::channel();
        let (second_sender, second_result) = oneshot::channel();
        let first_caller = spawn(1, first_result);
        tokio::task::yield_now().await;
        let second_caller = spawn(1, second_result);
        tokio::task::yield_now().await;
        assert_eq!(run_count.load(Ordering::SeqCst), 1);

        first_caller.abort();
        assert!(first_caller.await.unwrap_err().is_cancelled());
        drop(first_sender);
        while run_count.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        second_sender.send(7).unwrap();
        assert_eq!(second_caller.await.unwrap(), 7);
        assert!(single_flight.in_flight.lock().is_empty());
    }

    #[tokio::test]
    async fn an_operation_without_callers_is_removed() {
        let single_flight = Arc::new(SingleFlight::<u32>::new());
        let cancelled = tokio::spawn({
            let single_flight = Arc::clone(&single_flight);
            async move { single_flight.run([1; 32], std::future::pending).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(single_flight.in_flight.lock().len(), 1);
        cancelled.abort();
        assert!(cancelled.await.unwrap_err().is_cancelled());
        assert_eq!(single_flight.run([1; 32], async || 2).await, 2);
        assert!(single_flight.in_flight.lock().is_empty());
    }
}
