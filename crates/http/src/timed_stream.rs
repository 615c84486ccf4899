//! The layer directly above the socket: closes connections whose client sends no request or takes
//! no data. It closes a connection so that the last response still arrives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use placewright_net::{ConnectionState, PeerTimer, TimerState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::peer_watch::{PeerWatch, Watchable};

/// The longest time for which the server reads on after it has closed its side: otherwise unread data would make the
/// system discard the response (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// The most bytes that the server reads on after it has closed its side.
const LINGER_BYTES_MAX: usize = 4 << 20;

/// Pieces of a write that have up to this size together are joined: copying them costs less than the system's handling
/// of several pieces.
const JOINED_BYTES_MAX: usize = 2048;

/// Joins the pieces in `buffer`; `None` if they do not fit.
fn gather<'a>(slices: &[io::IoSlice<'_>], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut end = 0;
    for slice in slices {
        buffer
            .get_mut(end..end + slice.len())?
            .copy_from_slice(slice);
        end += slice.len();
    }
    Some(&buffer[..end])
}

/// Time-outs of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// For the first byte of a new connection.
    pub(crate) first_byte: Duration,
    /// For the first byte of a further request.
    pub(crate) keep_alive: Duration,
    /// For the rest of a head after its first byte.
    pub(crate) head: Duration,
    /// For a client to take at least some data of a response.
    pub(crate) write: Duration,
}

/// A stream that fails when a write makes no progress for too long, when the head of a request does not arrive in time,
/// or when another connection needs its permit while it is idle.
///
/// The time of a write counts only while the system takes no bytes. So a slow client that takes some bytes is not
/// disconnected, and a write that succeeds at once needs no timer. The time of a head starts when the server first
/// waits for the client after a response, and again when a head has begun.
#[derive(Debug)]
pub(crate) struct TimedStream<S> {
    stream: S,
    timeouts: Timeouts,
    connection_state: Arc<ConnectionState>,
    /// Tells a request that waits that its client has closed the connection.
    peer_watch: Arc<PeerWatch>,
    /// Since when the server has waited for the client.
    waiting_since: Option<Instant>,
    /// Whether part of a head has been read.
    has_head_begun: bool,
    /// Since when the server has waited for the rest of the head.
    head_begun_since: Option<Instant>,
    /// The timer of the deadline by which the client has to send something.
    client_timer: PeerTimer,
    /// The write that makes no progress, if there is one.
    stalled: Option<StalledWrite>,
    /// The state of reading on after the server has closed its side.
    linger: Option<LingeringClose>,
    /// The waker that is registered with `connection_state`.
    waker: Option<Waker>,
}

/// A write that makes no progress, with its timer.
#[derive(Debug)]
struct StalledWrite {
    since: Instant,
    timer: PeerTimer,
}

/// The state while the server reads on after it has closed its side: until when, and how many bytes were read so far.
#[derive(Debug)]
struct LingeringClose {
    until: Pin<Box<Sleep>>,
    bytes_read: usize,
}

impl<S> TimedStream<S> {
    /// Wraps a stream. The caller marks `connection_state` as busy while a request is handled.
    pub(crate) fn new(
        stream: S,
        timeouts: Timeouts,
        connection_state: Arc<ConnectionState>,
        peer_watch: Arc<PeerWatch>,
    ) -> Self {
        Self {
            stream,
            timeouts,
            connection_state,
            peer_watch,
            waiting_since: None,
            has_head_begun: false,
            head_begun_since: None,
            client_timer: PeerTimer::default(),
            stalled: None,
            linger: None,
            waker: None,
        }
    }

    /// Unwraps the stream, to hand the connection over.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// The time by which the client, which has nothing to read at present, has to send something. The
    /// time-out counts from the first call in which the server waits for the request, or for the rest of its head.
    fn deadline(&mut self) -> Instant {
        if self.has_head_begun {
            return *self.head_begun_since.get_or_insert_with(Instant::now) + self.timeouts.head;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let timeout = if self.connection_state.is_new() {
            self.timeouts.first_byte
        } else {
            self.timeouts.keep_alive
        };
        since + timeout
    }

    /// Is ready once the client, which has nothing to read at present, has exceeded its time-out, or once the
    /// connection has to close because another one needs its permit. Until then a connection between two requests is
    /// marked as idle.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.connection_state.is_busy() {
            return Poll::Pending;
        }
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            self.waker = Some(context.waker().clone());
            self.connection_state.register_waker(context);
        }
        if self.connection_state.must_close() {
            return Poll::Ready(());
        }
        self.connection_state
            .set_idle(!self.has_head_begun && self.stalled.is_none());
        loop {
            let deadline = self.deadline();
            match ready!(self.client_timer.poll(deadline, context)) {
                TimerState::Expired => return Poll::Ready(()),
                // The process was suspended, so the time counts from now on.
                TimerState::Suspended => {
                    self.waiting_since = None;
                    self.head_begun_since = None;
                }
            }
        }
    }

    /// Notes that part of a request was read, or that the client has ended its side.
    fn note_read(&mut self) {
        self.connection_state.set_idle(false);
        if !self.connection_state.is_busy() {
            self.has_head_begun = true;
        }
    }

    /// Notes that a response is being written, so that the bytes that were read before were a whole request.
    fn note_written(&mut self) {
        self.waiting_since = None;
        self.has_head_begun = false;
        self.head_begun_since = None;
    }

    /// Passes the result of a write on; fails if writes have made no progress for too long.
    fn time_write<T>(
        &mut self,
        result: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let stalled = self.stalled.get_or_insert_with(|| StalledWrite {
            since: Instant::now(),
            timer: PeerTimer::default(),
        });
        loop {
            let deadline = stalled.since + self.timeouts.write;
            match ready!(stalled.timer.poll(deadline, context)) {
                TimerState::Expired => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                TimerState::Suspended => stalled.since = Instant::now(),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> TimedStream<S> {
    /// Reads and discards the bytes that the client still sends.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| LingeringClose {
            until: Box::pin(tokio::time::sleep(LINGER)),
            bytes_read: 0,
        });
        let mut scratch = [0; 4096];
        while linger.bytes_read < LINGER_BYTES_MAX {
            if linger.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => linger.bytes_read += buffer.filled().len(),
                _ => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Hyper reads the next request only once a response is complete. When it reads the body of a request, the
        // connection is busy, and `set_waiting` has no effect.
        self.connection_state.set_waiting();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if result.is_pending() {
            ready!(self.poll_overdue(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.note_read();
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Watchable + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written();
        self.time_write(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = [0; JOINED_BYTES_MAX];
        let result = match gather(slices, &mut buffer) {
            Some(bytes) => Pin::new(&mut self.stream).poll_write(context, bytes),
            None => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        };
        self.note_written();
        self.time_write(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes whenever it has polled the future of the request, so this is where to look whether the client
        // has closed the connection meanwhile.
        let this = &mut *self;
        this.peer_watch.check(&mut this.stream, context);
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.time_write(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.connection_state.must_close() && !self.connection_state.is_busy() {
            // The connection is closed to free its descriptor for other connections, so it does not linger.
            return Pin::new(&mut self.stream).poll_shutdown(context);
        }
        if self.linger.is_none() {
            let result = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.time_write(result, context))?;
        }
        ready!(self.poll_linger(context));
        Poll::Ready(Ok(()))
    }
}
