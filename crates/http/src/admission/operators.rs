//! The level of operators and services.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use placewright_admission::{AdmissionOptions, Entrance, Exit, Refusal, SeatCounter, Seats};
use tokio::sync::oneshot;

use super::LevelStatus;

/// The seats of operators and services, and the queue of requests that wait for one.
pub(super) struct OperatorLevel {
    counter: SeatCounter,
    /// Used only while all seats are taken.
    queue: Mutex<OperatorQueue>,
    queue_max: usize,
    queue_time: Duration,
    refused: AtomicU64,
    timed_out: AtomicU64,
}

#[derive(Default)]
struct OperatorQueue {
    /// The requests that wait, each with its id.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    next_id: u64,
}

/// A request's seat; dropping it gives it to the next request.
pub(crate) struct OperatorPermit<'a>(&'a OperatorLevel);

impl OperatorLevel {
    pub(super) fn new(options: &AdmissionOptions, seats: Seats) -> Self {
        Self {
            counter: SeatCounter::new(seats.operators),
            queue: Mutex::default(),
            queue_max: options.queue_total_max,
            queue_time: options.queue_time,
            refused: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
        }
    }

    pub(super) fn status(&self) -> LevelStatus {
        LevelStatus {
            level: "operators",
            seats: self.counter.seats(),
            taken: self.counter.taken(),
            held: 0,
            waiting: self.counter.waiting(),
            refused: self.refused.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
        }
    }

    /// Takes a seat if one is free: one atomic operation.
    pub(super) fn try_enter(&self) -> Option<OperatorPermit<'_>> {
        self.counter.try_enter().then(|| OperatorPermit(self))
    }

    /// Waits for a seat. The request is refused if too many wait already, or if it has waited for too long.
    pub(super) async fn wait(&self) -> Result<OperatorPermit<'_>, Refusal> {
        let (id, receiver) = {
            let mut queue = self.queue.lock();
            if queue.waiting.len() >= self.queue_max {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(Refusal::QueueFull(queue.waiting.len()));
            }
            if self.counter.enter_or_wait() == Entrance::Seated {
                return Ok(OperatorPermit(self));
            }
            let (sender, receiver) = oneshot::channel();
            let id = queue.next_id;
            queue.next_id += 1;
            queue.waiting.push_back((id, sender));
            (id, receiver)
        };
        let mut entry = QueueEntry {
            level: self,
            id,
            receiver,
        };
        // The receiver fails only if its sender was dropped unused, which happens only together with the queue.
        match tokio::time::timeout(self.queue_time, &mut entry.receiver).await {
            Ok(_) => Ok(OperatorPermit(self)),
            Err(_) => {
                self.timed_out.fetch_add(1, Ordering::Relaxed);
                Err(Refusal::TimedOut(self.queue_time))
            }
        }
    }

    /// Passes a seat on to the first request that waits for one, or frees it if none does.
    fn leave(&self) {
        while self.counter.leave() == Exit::PassOn {
            let first = self.queue.lock().waiting.pop_front();
            if let Some((_, sender)) = first
                && sender.send(()).is_ok()
            {
                return;
            }
            // The request has left the queue: the seat goes to the next one.
        }
    }
}

impl Drop for OperatorPermit<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The entry of a waiting request in the queue. When it is dropped before it has received a seat, the request
/// leaves the queue.
struct QueueEntry<'a> {
    level: &'a OperatorLevel,
    id: u64,
    /// Receives the seat when one is free for the request.
    receiver: oneshot::Receiver<()>,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        // The request has received its seat, so it has left the queue.
        if self.receiver.is_terminated() {
            return;
        }
        {
            let mut queue = self.level.queue.lock();
            let mut waiting = queue.waiting.iter();
            if let Some(index) = waiting.position(|(id, _)| *id == self.id) {
                queue.waiting.remove(index);
                self.level.counter.stop_waiting();
                return;
            }
        }
        // The request is not in the queue any more, so a seat was sent to it or is about to be.
        self.receiver.close();
        if self.receiver.try_recv().is_ok() {
            self.level.leave();
        }
    }
}
