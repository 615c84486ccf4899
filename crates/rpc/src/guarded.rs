//! Limits of incoming connections: of their number, and of the time in which a caller has to make a
//! call that passes authentication.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use placewright_net::{
    AcceptedConnection, ConnectionLimiter, ConnectionMetrics, ConnectionPermit, ConnectionState,
    Limits, Listener, PeerTimer, TimerState,
};
use placewright_tasks::Task;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Time-outs of a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For its first byte.
    pub(crate) first_byte: Duration,
    /// For its first call that passes authentication.
    pub(crate) first_call: Duration,
}

/// The caller's place among the limited connections; handed to the code that authenticates calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<ConnectionState>);

impl Caller {
    /// A call passed authentication: from now on only keep-alive pings decide whether the
    /// connection stays.
    pub(crate) fn set_authenticated(&self) {
        self.0.set_busy(true);
    }
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
    fn new(admitted: AcceptedConnection, times: Times) -> Self {
        Self {
            stream: admitted.stream,
            place: admitted.place,
            times,
            since: Instant::now(),
            has_begun: false,
            clock: PeerTimer::default(),
        }
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

impl Connected for LimitedConnection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        Caller(Arc::clone(self.place.connection_state()))
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

/// Accepts the connections of a listening socket, until the receiver is dropped.
pub(crate) fn incoming(
    listener: TcpListener,
    limits: Limits,
    times: Times,
) -> ReceiverStream<io::Result<LimitedConnection>> {
    // A refused connection is closed without an answer: HTTP/2 has none before its handshake.
    let limiter = ConnectionLimiter::new(limits, ConnectionMetrics::default());
    let mut accepting = Listener::new(listener, limiter, |_| String::new());
    let (sender, receiver) = mpsc::channel(1);
    placewright_tasks::spawn(Task::GrpcDoor, async move {
        loop {
            let admitted = tokio::select! {
                () = sender.closed() => break,
                admitted = accepting.next() => admitted,
            };
            prepare(&admitted.stream, admitted.remote);
            if sender
                .send(Ok(LimitedConnection::new(admitted, times)))
                .await
                .is_err()
            {
                break;
            }
        }
    });
    ReceiverStream::new(receiver)
}

fn prepare(stream: &TcpStream, remote: SocketAddr) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %remote, "cannot turn Nagle's algorithm off");
    }
}
