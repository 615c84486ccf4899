//! The beginning of a connection to a listener that speaks TLS: whether it is TLS at all, and the
//! handshake.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use placewright_net::{ConnectionState, Handshakes, TLS_RECORD, TlsStream, peer_timeout};
use placewright_tls::rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use crate::tls::metrics::ListenerTlsMetrics;
use crate::tls::session::TlsSession;

/// The longest time for which the server reads on after it has refused a connection: otherwise unread data would make
/// the operating system discard the response (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// The most bytes that the server reads on after it has refused a connection.
const LINGER_BYTES_MAX: u64 = 1 << 20;

/// Returns the configuration in force.
type CurrentConfig = dyn Fn() -> Arc<ServerConfig> + Send + Sync;

/// Carries out the TLS handshakes of a listener.
pub struct TlsAcceptor {
    /// Returns the configuration for a new connection.
    config: Box<CurrentConfig>,
    handshakes: Handshakes,
    metrics: ListenerTlsMetrics,
    /// Whether HTTP without TLS is served too.
    allows_plain: bool,
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsAcceptor")
            .field("allows_plain", &self.allows_plain)
            .finish_non_exhaustive()
    }
}

/// The wait for the first byte of a connection.
pub(crate) struct FirstByteWait<'a> {
    pub(crate) timeout: Duration,
    /// The state that shows whether the connection has to close, because another one needs its permit.
    pub(crate) connection_state: &'a ConnectionState,
}

/// The result of opening a new connection.
pub(crate) enum Opened {
    /// The client speaks HTTP, which the listener allows.
    Plain(TcpStream),
    /// The client speaks TLS.
    Tls(Box<TlsStream<TcpStream>>, Arc<TlsSession>),
    /// The client has sent nothing yet, and the server stops.
    Silent(TcpStream),
    /// The connection is closed.
    Closed,
}

/// The beginning of a connection.
enum Beginning {
    /// The first byte that the client has sent.
    Byte(u8),
    /// The client has sent nothing yet, and the server stops.
    Stopping,
    /// The connection was closed, timed out, or has to close because another one needs its permit.
    Gone,
}

impl TlsAcceptor {
    /// An acceptor that calls `config` for the configuration of each new connection.
    pub fn new(
        config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
        allows_plain: bool,
        handshakes: Handshakes,
        metrics: ListenerTlsMetrics,
    ) -> Self {
        Self {
            config: Box::new(config),
            handshakes,
            metrics,
            allows_plain,
        }
    }

    /// Finds out whether the client of a new connection speaks HTTP or TLS, and makes the handshake of TLS.
    pub(crate) async fn open(
        &self,
        mut stream: TcpStream,
        remote: SocketAddr,
        wait: FirstByteWait<'_>,
        is_stopping: impl Fn() -> bool,
    ) -> Opened {
        match peek_beginning(&mut stream, &wait, is_stopping).await {
            Beginning::Byte(TLS_RECORD) => {
                self.shake_hands(stream, remote, wait.connection_state)
                    .await
            }
            Beginning::Byte(_) if self.allows_plain => Opened::Plain(stream),
            Beginning::Byte(_) => {
                self.metrics.count_plain_refused();
                if let Err(error) = refuse(stream).await {
                    tracing::debug!(%error, %remote, "connection broken");
                }
                Opened::Closed
            }
            Beginning::Stopping => Opened::Silent(stream),
            Beginning::Gone => Opened::Closed,
        }
    }

    /// Makes the handshake of TLS, and counts its outcome in the metrics.
    async fn shake_hands(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        connection_state: &ConnectionState,
    ) -> Opened {
        self.metrics.count_begun();
        let handshake = self.handshakes.accept(stream, remote, (self.config)());
        let finished = tokio::select! {
            finished = handshake => Some(finished),
            () = wait_until_must_close(connection_state) => None,
        };
        self.metrics.count_ended();
        let stream = match finished {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => {
                self.metrics.count_failure(error.reason());
                tracing::debug!(%error, %remote, "a TLS handshake failed");
                return Opened::Closed;
            }
            None => {
                self.metrics.count_failure("evicted");
                return Opened::Closed;
            }
        };
        match TlsSession::of(&stream) {
            Ok(session) => {
                self.metrics.count_success(&session);
                Opened::Tls(Box::new(stream), Arc::new(session))
            }
            Err(_) => {
                self.metrics.count_failure("client_certificate_expired");
                tracing::debug!(%remote, "a session was resumed whose client's certificate has expired");
                Opened::Closed
            }
        }
    }
}

/// Waits until the first byte of a connection arrives, which stays in the socket's buffer; or until the connection or
/// the server ends.
async fn peek_beginning(
    stream: &mut TcpStream,
    wait: &FirstByteWait<'_>,
    is_stopping: impl Fn() -> bool,
) -> Beginning {
    let state = wait.connection_state;
    let first = poll_fn(|context: &mut Context<'_>| {
        // Registered before the checks below, because a server that stops wakes registered tasks.
        state.register_waker(context);
        let mut byte = [0];
        match stream.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(1)) => Poll::Ready(Beginning::Byte(byte[0])),
            Poll::Ready(_) => Poll::Ready(Beginning::Gone),
            Poll::Pending if state.must_close() => Poll::Ready(Beginning::Gone),
            Poll::Pending if is_stopping() => Poll::Ready(Beginning::Stopping),
            Poll::Pending => Poll::Pending,
        }
    });
    let first = peer_timeout(wait.timeout, first).await;
    first.unwrap_or(Beginning::Gone)
}

/// Completes when the connection has to close, because another one needs its permit.
async fn wait_until_must_close(connection_state: &ConnectionState) {
    poll_fn(|context: &mut Context<'_>| {
        connection_state.register_waker(context);
        if connection_state.must_close() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Answers a client that speaks HTTP on a port for HTTPS.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    const WHY: &str = "This port takes HTTPS only: use https:// in place of http://.\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{WHY}",
        WHY.len()
    );
    let answered = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(LINGER_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    match tokio::time::timeout(LINGER, answered).await {
        Ok(answered) => answered.map(|_| ()),
        Err(_) => Ok(()),
    }
}
