//! The last layer above the socket: cuts connections whose client sends no request or takes nothing
//! of an answer, and closes so that a last answer arrives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use placewright_net::{Clock, Seat, Verdict};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A closed connection is read on for so long, and so many bytes, so that what the client still
/// sends does not make the system throw the answer away (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 4 << 20;

/// Up to so many bytes in several pieces are put together before they are written: copying them
/// costs less than the system takes to look at the pieces.
const TOGETHER_BYTES: usize = 2048;

/// The pieces as one, when they fit.
fn gather<'a>(slices: &[io::IoSlice<'_>], together: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut end = 0;
    for slice in slices {
        together
            .get_mut(end..end + slice.len())?
            .copy_from_slice(slice);
        end += slice.len();
    }
    Some(&together[..end])
}

/// Times that a client has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// For the first byte of a new connection.
    pub(crate) first_byte: Duration,
    /// For the first byte of a further request.
    pub(crate) keep_alive: Duration,
    /// For the rest of a head after its first byte.
    pub(crate) head: Duration,
    /// For taking something of an answer.
    pub(crate) write: Duration,
}

/// A stream that fails when a write stays stuck for too long, the head of a request is not there in
/// time, or its place is needed for others while it waits for its client.
///
/// The clock of writes runs only while the system takes no bytes, so a slow client that takes some is
/// fine, and a write that succeeds at once costs nothing. The clock of heads starts when the client is
/// first waited for after an answer, and again when a head has begun.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    times: Times,
    seat: Arc<Seat>,
    /// Since when the client has been waited for.
    waiting_since: Option<Instant>,
    /// Whether a part of a head is there.
    has_begun: bool,
    /// Since when the rest of it has been waited for.
    begun_since: Option<Instant>,
    overdue: Clock,
    stalled: Option<Stalled>,
    linger: Option<Linger>,
    waker: Option<Waker>,
}

/// A write that does not go on.
#[derive(Debug)]
struct Stalled {
    since: Instant,
    clock: Clock,
}

/// What is left of a connection that is closed on our side.
#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes: usize,
}

impl<S> Wire<S> {
    /// A wire whose user says in the seat when a request is being answered.
    pub(crate) fn new(stream: S, times: Times, seat: Arc<Seat>) -> Self {
        Self {
            stream,
            times,
            seat,
            waiting_since: None,
            has_begun: false,
            begun_since: None,
            overdue: Clock::default(),
            stalled: None,
            linger: None,
            waker: None,
        }
    }

    /// The stream itself.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Until when the client, which has nothing to read from just now, has to send something.
    fn due(&mut self) -> Instant {
        if self.has_begun {
            return *self.begun_since.get_or_insert_with(Instant::now) + self.times.head;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let time = if self.seat.is_silent() {
            self.times.first_byte
        } else {
            self.times.keep_alive
        };
        since + time
    }

    /// Whether the client, which has nothing to read from just now, has had its time for a head, or
    /// has to make room.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.seat.is_busy() {
            return Poll::Pending;
        }
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            self.waker = Some(context.waker().clone());
            self.seat.wake_by(context);
        }
        if self.seat.must_leave() {
            return Poll::Ready(());
        }
        self.seat
            .set_idle(!self.has_begun && self.stalled.is_none());
        loop {
            let due = self.due();
            match ready!(self.overdue.poll(due, context)) {
                Verdict::Over => return Poll::Ready(()),
                Verdict::HeldUp => {
                    self.waiting_since = None;
                    self.begun_since = None;
                }
            }
        }
    }

    /// Something of a request was read, or the client has ended.
    fn has_read(&mut self) {
        self.seat.set_idle(false);
        if !self.seat.is_busy() {
            self.has_begun = true;
        }
    }

    /// Something is being written: what was read before was a request.
    fn has_written(&mut self) {
        self.waiting_since = None;
        self.has_begun = false;
        self.begun_since = None;
    }

    fn watch<T>(
        &mut self,
        result: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let stalled = self.stalled.get_or_insert_with(|| Stalled {
            since: Instant::now(),
            clock: Clock::default(),
        });
        loop {
            let due = stalled.since + self.times.write;
            match ready!(stalled.clock.poll(due, context)) {
                Verdict::Over => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Verdict::HeldUp => stalled.since = Instant::now(),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads and forgets what the client still sends.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Linger {
            until: Box::pin(tokio::time::sleep(LINGER)),
            bytes: 0,
        });
        let mut scratch = [0; 4096];
        while linger.bytes < LINGER_BYTES_MAX {
            if linger.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => linger.bytes += buffer.filled().len(),
                _ => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Hyper reads once an answer is complete, and within the body of a request.
        self.seat.waits();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if result.is_pending() {
            ready!(self.poll_overdue(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.has_read();
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.has_written();
        self.watch(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut together = [0; TOGETHER_BYTES];
        let result = match gather(slices, &mut together) {
            Some(bytes) => Pin::new(&mut self.stream).poll_write(context, bytes),
            None => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        };
        self.has_written();
        self.watch(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.seat.must_leave() && !self.seat.is_busy() {
            // Its descriptor is what is needed.
            return Pin::new(&mut self.stream).poll_shutdown(context);
        }
        if self.linger.is_none() {
            let result = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.watch(result, context))?;
        }
        ready!(self.poll_linger(context));
        Poll::Ready(Ok(()))
    }
}
