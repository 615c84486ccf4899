//! The last layer above the socket: cuts connections whose client sends no request or takes nothing
//! of an answer, and closes so that a last answer arrives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

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

/// Whether a request of a connection is being answered. Meanwhile its client owes no head of the next
/// one; bodies have a time of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    /// A request's head is there, or its answer is.
    pub(crate) fn set(&self, busy: bool) {
        // The connection's one task writes and reads it.
        self.0.store(busy, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that fails when a write stays stuck for too long, or the head of a request is not there in
/// time.
///
/// The clock of writes runs only while the system takes no bytes, so a slow client that takes some is
/// fine, and a write that succeeds at once costs nothing. The clock of heads starts when the client is
/// first waited for after an answer, and its timer stays as it is from request to request: to be woken
/// in vain once in the time that a client has is cheaper than to set a timer for each request.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    head_timeout: Duration,
    write_timeout: Duration,
    busy: Busy,
    /// Since when the client has been waited for.
    waiting_since: Option<Instant>,
    overdue: Option<Pin<Box<Sleep>>>,
    stalled: Option<Pin<Box<Sleep>>>,
    linger: Option<Linger>,
}

/// What is left of a connection that is closed on our side.
#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes: usize,
}

impl<S> Wire<S> {
    /// A wire whose user says when it is `busy`.
    pub(crate) fn new(
        stream: S,
        head_timeout: Duration,
        write_timeout: Duration,
        busy: Busy,
    ) -> Self {
        Self {
            stream,
            head_timeout,
            write_timeout,
            busy,
            waiting_since: None,
            overdue: None,
            stalled: None,
            linger: None,
        }
    }

    /// Whether the client, which has nothing to read from just now, has had its time for a head.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.busy.is_set() {
            return Poll::Pending;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let due = since + self.head_timeout;
        let timer = self
            .overdue
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        loop {
            ready!(timer.as_mut().poll(context));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
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
        let timeout = self.write_timeout;
        let sleep = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if result.is_pending() {
            ready!(self.poll_overdue(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
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
        self.waiting_since = None;
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
        self.waiting_since = None;
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
        if self.linger.is_none() {
            let result = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.watch(result, context))?;
        }
        ready!(self.poll_linger(context));
        Poll::Ready(Ok(()))
    }
}
