//! Incoming connections with time-outs until a call on them passes authentication.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use placewright_net::{AcceptedConnection, ConnectionPermit, PeerTimer, TimerState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The time-outs of a new connection. Both begin when the connection is accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewConnectionTimeouts {
    /// The time-out for its first byte.
    pub(crate) first_byte: Duration,
    /// The time-out for its first call that passes authentication.
    pub(crate) first_call: Duration,
}

/// A connection that is closed if no call on it passes authentication in time, or if other connections
/// need its permit before that.
#[derive(Debug)]
pub(crate) struct LimitedConnection {
    stream: TcpStream,
    permit: ConnectionPermit,
    timeouts: NewConnectionTimeouts,
    /// The start of the time-outs: when the connection was accepted, or when this process last continued after it was
    /// suspended.
    waiting_since: Instant,
    /// Whether anything was received, so that the time-out for the first call is in force.
    has_received: bool,
    timer: PeerTimer,
}

impl LimitedConnection {
    pub(crate) fn new(accepted: AcceptedConnection, timeouts: NewConnectionTimeouts) -> Self {
        Self {
            stream: accepted.stream,
            permit: accepted.permit,
            timeouts,
            waiting_since: Instant::now(),
            has_received: false,
            timer: PeerTimer::default(),
        }
    }

    /// Waits for the first byte and returns it, without consuming it.
    pub(crate) async fn first_byte(&mut self) -> io::Result<u8> {
        poll_fn(|context| {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            match self.stream.poll_peek(context, &mut buffer) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(byte[0])),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(self.poll_timeout(context));
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
            }
        })
        .await
    }

    /// Ready when the connection has to be closed.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let connection_state = self.permit.connection_state();
        if !connection_state.is_new() {
            return Poll::Pending;
        }
        connection_state.register_waker(context);
        if connection_state.must_close() {
            return Poll::Ready(());
        }
        loop {
            let timeout = if self.has_received {
                self.timeouts.first_call
            } else {
                self.timeouts.first_byte
            };
            match ready!(self.timer.poll(self.waiting_since + timeout, context)) {
                TimerState::Expired => return Poll::Ready(()),
                // This process was suspended, and received nothing meanwhile: the time-out begins anew.
                TimerState::Suspended => self.waiting_since = Instant::now(),
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
            ready!(self.poll_timeout(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.has_received = true;
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
