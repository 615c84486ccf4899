//! Sends one follower its stream of events.

use std::sync::Arc;

use placewright_link::CellEvent;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};

use crate::counters::add_to;
use crate::shared::LeaderState;

/// The most events that are taken under one lock.
const EVENTS_AT_ONCE: usize = 256;

/// The registration of a follower by its number. However sending ends, even by a panic, the follower's queue is
/// removed.
pub(crate) struct Subscription {
    pub(crate) shared: Arc<LeaderState>,
    pub(crate) follower: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared
            .read_model
            .lock()
            .follower_queues
            .remove(self.follower);
    }
}

/// Sends a follower the initial listing and then the changes, until the cell or the follower ends, or the follower
/// takes no event for too long.
pub(crate) async fn send_stream(
    subscription: Subscription,
    wake: Arc<Notify>,
    to_follower: mpsc::Sender<CellEvent>,
) {
    tokio::select! {
        () = send_events(&subscription.shared, subscription.follower, &wake, &to_follower) => {}
        () = to_follower.closed() => {}
        () = subscription.shared.stopped() => {}
    }
}

async fn send_events(
    shared: &LeaderState,
    follower: u64,
    wake: &Notify,
    to_follower: &mpsc::Sender<CellEvent>,
) {
    loop {
        let Some(events) = shared
            .read_model
            .lock()
            .take_events(follower, EVENTS_AT_ONCE)
        else {
            return;
        };
        if events.is_empty() {
            wake.notified().await;
        }
        for event in events {
            let event = match to_follower.try_send(event) {
                Ok(()) => continue,
                Err(TrySendError::Closed(_)) => return,
                Err(TrySendError::Full(event)) => event,
            };
            let sent = to_follower
                .send_timeout(event, shared.options.follower_timeout)
                .await;
            if sent.is_err() {
                add_to(&shared.counts.followers_cut_off, 1);
                tracing::warn!(
                    follower,
                    "a follower took nothing for too long: it is cut off"
                );
                return;
            }
        }
    }
}
