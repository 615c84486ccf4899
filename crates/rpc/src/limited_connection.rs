//! Limits of incoming connections: of their number, and of the time in which a caller has to make a
//! call that passes authentication.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use placewright_net::{AcceptedConnection, ConnectionPermit, PeerTimer, TimerState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Time-outs of a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For its first byte.
    pub(crate) first_byte: Duration,
    /// For its first call that passes authentication.
    pub(crate) first_call: Duration,
}

/// A connection that is closed when no call was authenticated in time, or when others need its
/// place before one was.
#[derive(Debug)]
pub(crate) struct LimitedConnection {
    stream: TcpStream,
    place: ConnectionPermit,
    times: Times,
    since: Instant,
    has_begun: bool,
    clock: PeerTimer,
}

impl LimitedConnection {
    pub(crate) fn new(admitted: AcceptedConnection, times: Times) -> Self {
        Self {
            stream: admitted.stream,
            place: admitted.place,
            times,
            since: Instant::now(),
            has_begun: false,
            clock: PeerTimer::default(),
        }
    }

    /// Waits for the first byte, and leaves it where it is.
    pub(crate) async fn first_byte(&mut self) -> io::Result<u8> {
        poll_fn(|context| {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            match self.stream.poll_peek(context, &mut buffer) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(byte[0])),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(self.poll_overdue(context));
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
            }
        })
        .await
    }

    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let connection_state = self.place.connection_state();
        if !connection_state.is_silent() {
            return Poll::Pending;
        }
        connection_state.wake_by(context);
        if connection_state.must_close() {
            return Poll::Ready(());
        }
        loop {
            let time = if self.has_begun {
                self.times.first_call
            } else {
                self.times.first_byte
            };
            match ready!(self.clock.poll(self.since + time, context)) {
                TimerState::Over => return Poll::Ready(()),
                TimerState::HeldUp => self.since = Instant::now(),
            }
        }
    }
}

impl AsyncRead for LimitedConnection {
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
        self.has_begun = true;
        result
    }
}

impl AsyncWrite for LimitedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
