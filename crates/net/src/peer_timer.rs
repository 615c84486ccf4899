//! Time-outs for peers that do not count the time in which this process was suspended.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The grace period after a time-out, in which data that has already arrived is read. After the
/// process was suspended, the runtime may fire the timer before it has polled the sockets; it polls
/// them before it fires another timer.
const GRACE: Duration = Duration::from_millis(100);

/// A timer that fires this late shows that the process or its machine was suspended. Data that the
/// peer sent meanwhile may not have been received yet.
const SUSPENDED_AFTER: Duration = Duration::from_secs(1);

/// The result of polling a [`PeerTimer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerState {
    /// The time-out has passed.
    Expired,
    /// The time-out has passed because this process was suspended: the caller has to start it again.
    Suspended,
}

/// A timer for a deadline that may change. If the deadline becomes later, the timer is not reset,
/// because one unnecessary wake-up is cheaper than a reset for each request.
#[derive(Debug, Default)]
pub struct PeerTimer {
    timer: Option<Pin<Box<Sleep>>>,
    /// The deadline whose grace period is running.
    grace_of: Option<Instant>,
}

impl PeerTimer {
    /// Ready when the deadline has passed. It must be polled only after a poll for the peer's data
    /// returned `Pending`, because data that has arrived counts even after the deadline.
    pub fn poll(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<TimerState> {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if deadline < timer.deadline() && self.grace_of != Some(deadline) {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            let now = Instant::now();
            if now < deadline {
                timer.as_mut().reset(deadline);
                continue;
            }
            if now.duration_since(timer.deadline().max(deadline)) >= SUSPENDED_AFTER {
                self.grace_of = None;
                return Poll::Ready(TimerState::Suspended);
            }
            if self.grace_of == Some(deadline) {
                self.grace_of = None;
                return Poll::Ready(TimerState::Expired);
            }
            self.grace_of = Some(deadline);
            timer.as_mut().reset(now + GRACE);
        }
    }
}

/// The output of a future that waits for a peer, if it completes within the time-out.
pub async fn peer_timeout<F: Future>(timeout: Duration, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut timer = PeerTimer::default();
    let mut since = Instant::now();
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        loop {
            match ready!(timer.poll(since + timeout, context)) {
                TimerState::Expired => return Poll::Ready(None),
                TimerState::Suspended => since = Instant::now(),
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks the thread, which suspends the runtime.
    fn suspend(time: Duration) {
        std::thread::sleep(time);
    }

    #[tokio::test]
    async fn a_timeout_expires_after_the_grace_period() {
        let start = Instant::now();
        let time = Duration::from_millis(50);
        assert_eq!(peer_timeout(time, std::future::pending::<()>()).await, None);
        assert!(start.elapsed() >= time + GRACE);
        assert_eq!(peer_timeout(time, std::future::ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn a_timeout_starts_again_after_the_process_was_suspended() {
        let time = Duration::from_millis(300);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(peer_timeout(time, receiver));
        tokio::task::yield_now().await;
        suspend(time + SUSPENDED_AFTER + Duration::from_millis(100));
        // The runtime fires the timer now; data in flight still counts.
        tokio::time::sleep(time / 2).await;
        sender.send("late").unwrap();
        assert_eq!(waiting.await.unwrap(), Some(Ok("late")));
    }

    #[tokio::test]
    async fn a_deadline_can_become_earlier_or_later() {
        let start = Instant::now();
        let mut timer = PeerTimer::default();
        let mut expiry =
            async |deadline| std::future::poll_fn(|context| timer.poll(deadline, context)).await;
        let far = start + Duration::from_secs(60);
        let near = start + Duration::from_millis(50);
        let too_early = tokio::time::timeout(Duration::from_millis(5), expiry(far)).await;
        assert!(too_early.is_err());
        assert_eq!(expiry(near).await, TimerState::Expired);
        let later = Instant::now() + Duration::from_millis(200);
        assert_eq!(expiry(later).await, TimerState::Expired);
        assert!(Instant::now() >= later);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
