//! Feeds one follower.

use std::sync::Arc;

use placewright_link::CellNews;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};

use crate::shared::{Shared, count};

/// So many things are told between two looks.
const NEWS_AT_ONCE: usize = 256;

/// A follower that is fed. Whatever ends that, a panic too, it is fed no longer.
pub(crate) struct Fed {
    pub(crate) shared: Arc<Shared>,
    pub(crate) follower: u64,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.shared.known.lock().feeds.remove(self.follower);
    }
}

/// Tells a follower everything, then every change, until one of both goes away.
pub(crate) async fn feed(fed: Fed, wake: Arc<Notify>, to: mpsc::Sender<CellNews>) {
    tokio::select! {
        () = tell(&fed.shared, fed.follower, &wake, &to) => {}
        () = to.closed() => {}
        () = fed.shared.stopped() => {}
    }
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
