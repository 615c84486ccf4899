//! Timeouts that count only while the peer is at fault.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// After the timeout, data that has already arrived gets this long to be noticed. After a pause of
/// the process the runtime may fire the timer before it has polled the sockets; it polls them
/// before it fires another timer.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// A timer that fires this late shows that the process or its machine was suspended. The peer
/// could do nothing meanwhile, and its data may still be on its way.
const HELD_UP: Duration = Duration::from_secs(1);

/// The result of polling a [`PeerTimer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerState {
    /// The timeout has passed.
    Over,
    /// The timeout has passed because this process was suspended: the peer's timeout starts again.
    HeldUp,
}

/// A timer for a deadline that may move. If the deadline moves back, the timer is not reset,
/// because one unnecessary wake-up is cheaper than a reset for each request.
#[derive(Debug, Default)]
pub struct PeerTimer {
    timer: Option<Pin<Box<Sleep>>>,
    /// The deadline after which the grace period is running.
    looking: Option<Instant>,
}

impl PeerTimer {
    /// Whether the deadline has passed. To be polled only after the peer's data was polled without
    /// result.
    pub fn poll(&mut self, due: Instant, context: &mut Context<'_>) -> Poll<TimerState> {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if due < timer.deadline() && self.looking != Some(due) {
            timer.as_mut().reset(due);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            let now = Instant::now();
            if now < due {
                timer.as_mut().reset(due);
                continue;
            }
            if now.duration_since(timer.deadline().max(due)) >= HELD_UP {
                self.looking = None;
                return Poll::Ready(TimerState::HeldUp);
            }
            if self.looking == Some(due) {
                self.looking = None;
                return Poll::Ready(TimerState::Over);
            }
            self.looking = Some(due);
            timer.as_mut().reset(now + LAST_LOOK);
        }
    }
}

/// The output of a future that waits for a peer, if it completes within the timeout.
pub async fn peer_timeout<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut clock = PeerTimer::default();
    let mut since = Instant::now();
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        loop {
            match ready!(clock.poll(since + time, context)) {
                TimerState::Over => return Poll::Ready(None),
                TimerState::HeldUp => since = Instant::now(),
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advances the time as a suspended runtime sees it.
    fn stand_still(time: Duration) {
        std::thread::sleep(time);
    }

    #[tokio::test]
    async fn time_is_over_after_a_last_look() {
        let start = Instant::now();
        let time = Duration::from_millis(50);
        assert_eq!(peer_timeout(time, std::future::pending::<()>()).await, None);
        assert!(start.elapsed() >= time + LAST_LOOK);
        assert_eq!(peer_timeout(time, std::future::ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn after_a_pause_a_peer_has_its_time_anew() {
        let time = Duration::from_millis(300);
        let (say, said) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(peer_timeout(time, said));
        tokio::task::yield_now().await;
        stand_still(time + HELD_UP + Duration::from_millis(100));
        // The runtime fires the timer now; data in flight still counts.
        tokio::time::sleep(time / 2).await;
        say.send("late").unwrap();
        assert_eq!(waiting.await.unwrap(), Some(Ok("late")));
    }

    #[tokio::test]
    async fn a_time_that_moves_is_kept_either_way() {
        let start = Instant::now();
        let mut clock = PeerTimer::default();
        let mut over = async |due| std::future::poll_fn(|context| clock.poll(due, context)).await;
        let far = start + Duration::from_secs(60);
        let near = start + Duration::from_millis(50);
        let none = tokio::time::timeout(Duration::from_millis(5), over(far)).await;
        assert!(none.is_err());
        assert_eq!(over(near).await, TimerState::Over);
        let later = Instant::now() + Duration::from_millis(200);
        assert_eq!(over(later).await, TimerState::Over);
        assert!(Instant::now() >= later);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
