//! Feeds one follower.

use std::sync::Arc;

use placewright_link::CellNews;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};

use crate::shared::{Shared, count};

/// So many things are told between two looks.
const NEWS_AT_ONCE: usize = 256;

/// Tells a follower everything, then every change, until one of both goes away.
pub(crate) async fn feed(
    shared: Arc<Shared>,
    follower: u64,
    wake: Arc<Notify>,
    to: mpsc::Sender<CellNews>,
) {
    tokio::select! {
        () = tell(&shared, follower, &wake, &to) => {}
        () = to.closed() => {}
        () = shared.stopped() => {}
    }
    shared.known.lock().feeds.remove(follower);
}

async fn tell(shared: &Shared, follower: u64, wake: &Notify, to: &mpsc::Sender<CellNews>) {
    loop {
        let Some(news) = shared.known.lock().news(follower, NEWS_AT_ONCE) else {
            return;
        };
        if news.is_empty() {
            wake.notified().await;
        }
        for one in news {
            let one = match to.try_send(one) {
                Ok(()) => continue,
                Err(TrySendError::Closed(_)) => return,
                Err(TrySendError::Full(one)) => one,
            };
            let sent = to.send_timeout(one, shared.options.follower_timeout).await;
            if sent.is_err() {
                count(&shared.counts.followers_cut_off, 1);
                tracing::warn!(
                    follower,
                    "a follower took nothing for too long: it is cut off"
                );
                return;
            }
        }
    }
}
