//! Coalesces concurrent requests with the same key: only one is made, and all callers get its
//! answer (single flight).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::cache::Key;

/// The requests in flight. Their number is limited by the callers.
pub(crate) struct SingleFlight<V> {
    running: Mutex<HashMap<Key, Arc<OnceCell<V>>>>,
}

impl<V: Clone> SingleFlight<V> {
    /// Starts without any request in flight.
    pub(crate) fn new() -> Self {
        Self {
            running: Mutex::new(HashMap::new()),
        }
    }

    /// Makes the request, or waits for the answer to the same one.
    ///
    /// If the caller that makes it is cancelled, one of those that wait makes it instead.
    pub(crate) async fn join(&self, key: Key, ask: impl AsyncFnOnce() -> V) -> V {
        let cell = Arc::clone(self.running.lock().entry(key).or_default());
        let seat = Waiter {
            flights: self,
            key,
            cell,
        };
        let answer = seat
            .cell
            .get_or_init(async || {
                let answer = ask().await;
                // Later callers make a new request, or find the answer in a cache.
                self.running.lock().remove(&key);
                answer
            })
            .await;
        answer.clone()
    }
}

/// A waiting caller. The last one to leave removes the table entry.
struct Waiter<'f, V> {
    flights: &'f SingleFlight<V>,
    key: Key,
    cell: Arc<OnceCell<V>>,
}

impl<V> Drop for Waiter<'_, V> {
    fn drop(&mut self) {
        let mut running = self.flights.running.lock();
        // Two owners are the table and this caller; others can only join under the lock that is
        // held.
        if let Some(cell) = running.get(&self.key)
            && Arc::ptr_eq(cell, &self.cell)
            && Arc::strong_count(cell) == 2
        {
            running.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_same_question_is_asked_once_and_a_caller_that_leaves_hands_it_on() {
        let flights = Arc::new(SingleFlight::new());
        let asked = Arc::new(AtomicUsize::new(0));
        let spawn = |key: u8, wait: oneshot::Receiver<u32>| {
            let (flights, asked) = (Arc::clone(&flights), Arc::clone(&asked));
            tokio::spawn(async move {
                flights
                    .join([key; 32], async || {
                        asked.fetch_add(1, Ordering::SeqCst);
                        wait.await.unwrap()
                    })
                    .await
            })
        };
        let (first_sender, first) = oneshot::channel();
        let (second_sender, second) = oneshot::channel();
        let one = spawn(1, first);
        tokio::task::yield_now().await;
        let two = spawn(1, second);
        tokio::task::yield_now().await;
        assert_eq!(asked.load(Ordering::SeqCst), 1);

        one.abort();
        assert!(one.await.unwrap_err().is_cancelled());
        drop(first_sender);
        while asked.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        second_sender.send(7).unwrap();
        assert_eq!(two.await.unwrap(), 7);
        assert!(flights.running.lock().is_empty());
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_forgotten() {
        let flights = Arc::new(SingleFlight::<u32>::new());
        let busy = tokio::spawn({
            let flights = Arc::clone(&flights);
            async move { flights.join([1; 32], std::future::pending).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(flights.running.lock().len(), 1);
        busy.abort();
        assert!(busy.await.unwrap_err().is_cancelled());
        assert_eq!(flights.join([1; 32], async || 2).await, 2);
        assert!(flights.running.lock().is_empty());
    }
}
