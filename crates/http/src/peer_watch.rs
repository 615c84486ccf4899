//! Notices that a client closes its connection while its request waits for a seat.
//!
//! Hyper does not read from a connection while it answers a request, so it does not notice when the client ends its
//! sending direction. While a request waits, the layer above the socket (`TimedStream`) checks for that end.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// Flags that the request of a connection and the layer above the socket share. The request and the layer
/// both run in the task of the connection.
#[derive(Debug, Default)]
pub struct PeerWatch {
    /// Whether a request waits, so that the layer above the socket has to look for the end of the connection.
    is_watching: AtomicBool,
    /// Whether the client has closed the connection.
    has_closed: AtomicBool,
}

/// A stream whose end can be seen without reading from it.
pub(crate) trait Watchable {
    /// Whether the peer has closed the stream. False while unread bytes are there, even if the peer has closed the
    /// stream after them. If nothing is there to be read, the task is woken when something is.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> bool;
}

impl Watchable for TcpStream {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> bool {
        let mut byte = [0];
        let peeked = Pin::new(self).poll_peek(context, &mut ReadBuf::new(&mut byte));
        matches!(peeked, Poll::Ready(Ok(0) | Err(_)))
    }
}

impl PeerWatch {
    /// Called by the layer above the socket in the task of the connection, whenever Hyper has polled the request there.
    pub(crate) fn check(&self, stream: &mut impl Watchable, context: &mut Context<'_>) {
        if self.is_watching.load(Ordering::Relaxed) && stream.poll_closed(context) {
            self.has_closed.store(true, Ordering::Relaxed);
            self.is_watching.store(false, Ordering::Relaxed);
            // The request was polled before this check noticed that the client is gone, so it has to be polled again.
            context.waker().wake_by_ref();
        }
    }

    /// Waits until the client has closed the connection, in the task of the connection.
    pub(crate) async fn wait_until_closed(&self) {
        self.is_watching.store(true, Ordering::Relaxed);
        let _stop = StopWatching(self);
        poll_fn(|_| match self.has_closed.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// Stops watching when it is dropped.
struct StopWatching<'a>(&'a PeerWatch);

impl Drop for StopWatching<'_> {
    fn drop(&mut self) {
        self.0.is_watching.store(false, Ordering::Relaxed);
    }
}
