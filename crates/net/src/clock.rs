//! Limits of time that count only while the peer is at fault.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// When the time is over, what has arrived gets so long to be seen. After a pause of the process the
/// runtime may see the timer before it has asked the system which sockets have bytes; it asks before
/// it sees another timer.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// A timer that comes so late shows that this process, or its machine, stood still. The peer could do
/// nothing meanwhile, and what it sent may still be on its way.
const HELD_UP: Duration = Duration::from_secs(1);

/// What a [`Clock`] has found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The time is over.
    Over,
    /// The time is over because this process stood still: the peer's time begins anew.
    HeldUp,
}

/// A timer for a time that may move. It stays as it is when the time moves back, because to be woken
/// in vain once is cheaper than to set a timer for each request.
#[derive(Debug, Default)]
pub struct Clock {
    timer: Option<Pin<Box<Sleep>>>,
    /// The time for which the last look is under way.
    looking: Option<Instant>,
}

impl Clock {
    /// Whether the time is over. To be asked only after the peer was looked at, and in vain.
    pub fn poll(&mut self, due: Instant, context: &mut Context<'_>) -> Poll<Verdict> {
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
                return Poll::Ready(Verdict::HeldUp);
            }
            if self.looking == Some(due) {
                self.looking = None;
                return Poll::Ready(Verdict::Over);
            }
            self.looking = Some(due);
            timer.as_mut().reset(now + LAST_LOOK);
        }
    }
}

/// What a future that waits for a peer has to say, if it does within this time.
pub async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut clock = Clock::default();
    let mut since = Instant::now();
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        loop {
            match ready!(clock.poll(since + time, context)) {
                Verdict::Over => return Poll::Ready(None),
                Verdict::HeldUp => since = Instant::now(),
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets time pass, as a runtime sees it that stands still meanwhile.
    fn stand_still(time: Duration) {
        std::thread::sleep(time);
    }

    #[tokio::test]
    async fn time_is_over_after_a_last_look() {
        let start = Instant::now();
        let time = Duration::from_millis(50);
        assert_eq!(within(time, std::future::pending::<()>()).await, None);
        assert!(start.elapsed() >= time + LAST_LOOK);
        assert_eq!(within(time, std::future::ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn after_a_pause_a_peer_has_its_time_anew() {
        let time = Duration::from_millis(300);
        let (say, said) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(within(time, said));
        tokio::task::yield_now().await;
        stand_still(time + HELD_UP + Duration::from_millis(100));
        // The runtime sees the timer now. What is under way still counts.
        tokio::time::sleep(time / 2).await;
        say.send("late").unwrap();
        assert_eq!(waiting.await.unwrap(), Some(Ok("late")));
    }

    #[tokio::test]
    async fn a_time_that_moves_is_kept_either_way() {
        let start = Instant::now();
        let mut clock = Clock::default();
        let mut over = async |due| std::future::poll_fn(|context| clock.poll(due, context)).await;
        let far = start + Duration::from_secs(60);
        let near = start + Duration::from_millis(50);
        let none = tokio::time::timeout(Duration::from_millis(5), over(far)).await;
        assert!(none.is_err());
        assert_eq!(over(near).await, Verdict::Over);
        let later = Instant::now() + Duration::from_millis(200);
        assert_eq!(over(later).await, Verdict::Over);
        assert!(Instant::now() >= later);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
