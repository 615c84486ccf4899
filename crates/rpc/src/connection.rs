//! Connections that a server accepted, with or without TLS, and their callers.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use placewright_net::{
    ConnectionLimiter, ConnectionMetrics, ConnectionState, Handshakes, Limits, Listener, TLS_RECORD,
};
use placewright_pki::Credentials;
use placewright_tasks::{ContainedWork, Task, spawn_contained};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::limited_connection::{LimitedConnection, NewConnectionTimeouts};
use crate::peer::Peer;
use crate::refusals;

/// The certificate of a connection's caller, if it has one.
#[derive(Clone, Debug)]
pub(crate) enum PeerCertificate {
    /// The connection has no TLS.
    NoTls,
    /// TLS without a certificate.
    Missing,
    /// A certificate of a trusted authority.
    Certificate(Arc<Peer>),
}

/// The caller of a connection, as it is passed to the authentication of calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    state: Arc<ConnectionState>,
    remote: SocketAddr,
    certificate: PeerCertificate,
}

impl Caller {
    /// Notes that a call passed authentication. From then on the connection has no time-out for its first call, and is
    /// not closed because another connection needs its permit.
    pub(crate) fn set_authenticated(&self) {
        self.state.set_busy();
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub(crate) fn certificate(&self) -> &PeerCertificate {
        &self.certificate
    }
}

/// An accepted connection, with or without TLS, and who its caller is.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    caller: Caller,
}

#[derive(Debug)]
enum Stream {
    NoTls(LimitedConnection),
    Tls(Box<TlsStream<LimitedConnection>>),
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

/// How a server accepts connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionOptions {
    /// The server's own certificate; if there is one, connections have TLS.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Whether there is a shared token, so that connections from loopback need no TLS.
    pub(crate) has_token: bool,
    pub(crate) limits: Limits,
    pub(crate) handshakes: Handshakes,
    pub(crate) timeouts: NewConnectionTimeouts,
}

/// Accepts the connections of a listening socket, until the returned stream is dropped.
pub(crate) fn accept_connections(
    listener: TcpListener,
    connection_options: ConnectionOptions,
) -> ReceiverStream<io::Result<Connection>> {
    let limiter = ConnectionLimiter::new(connection_options.limits, ConnectionMetrics::default());
    // A connection beyond the limits is closed without a response: HTTP/2 has none before its handshake.
    let empty_response = |_: &str| String::new();
    let mut listener_with_limits = Listener::new(listener, limiter, empty_response);
    let (sender, receiver) = mpsc::channel(1);
    placewright_tasks::spawn(Task::GrpcListener, async move {
        loop {
            let accepted = tokio::select! {
                () = sender.closed() => break,
                accepted = listener_with_limits.next() => accepted,
            };
            let remote = accepted.remote;
            set_no_delay(&accepted.stream, remote);
            let state = Arc::clone(accepted.permit.connection_state());
            let connection = LimitedConnection::new(accepted, connection_options.timeouts);
            let Some(credentials) = connection_options.credentials.clone() else {
                if sender
                    .send(Ok(without_tls(connection, state, remote)))
                    .await
                    .is_err()
                {
                    break;
                }
                continue;
            };
            let admits_without_tls =
                connection_options.has_token && remote.ip().to_canonical().is_loopback();
            let (sender, handshakes) = (sender.clone(), connection_options.handshakes.clone());
            // Each handshake runs in a task of its own, so that a slow one delays no other connection.
            spawn_contained(ContainedWork::GrpcStream, async move {
                let handshake = ServerHandshake {
                    handshakes: &handshakes,
                    credentials: &credentials,
                    admits_without_tls,
                };
                let handshake = handshake.run(connection, state, remote);
                let connection = tokio::select! {
                    () = sender.closed() => return,
                    connection = handshake => connection,
                };
                match connection {
                    // A closed channel means that the server is stopping.
                    Ok(connection) => drop(sender.send(Ok(connection)).await),
                    Err(error) => refusals::record_refused_handshake(remote, &error),
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

/// A connection whose first byte is not one of TLS, or whose server has no certificate.
fn without_tls(
    connection: LimitedConnection,
    state: Arc<ConnectionState>,
    remote: SocketAddr,
) -> Connection {
    Connection {
        stream: Stream::NoTls(connection),
        caller: Caller {
            state,
            remote,
            certificate: PeerCertificate::NoTls,
        },
    }
}

/// How the handshake of a connection is carried out, if the server has a certificate.
struct ServerHandshake<'a> {
    handshakes: &'a Handshakes,
    credentials: &'a Credentials,
    /// Whether the connection may be without TLS, because it comes from loopback and there is a shared token.
    admits_without_tls: bool,
}

impl ServerHandshake<'_> {
    /// Carries out the handshake of a connection.
    async fn run(
        &self,
        mut connection: LimitedConnection,
        state: Arc<ConnectionState>,
        remote: SocketAddr,
    ) -> io::Result<Connection> {
        if connection.first_byte().await? != TLS_RECORD {
            if self.admits_without_tls {
                return Ok(without_tls(connection, state, remote));
            }
            return Err(io::Error::other(
                "it has no TLS, and only TLS with a certificate is taken here",
            ));
        }
        let current = self.credentials.current();
        let server = Arc::clone(&current.server);
        let accepted = self.handshakes.accept(connection, remote, server).await;
        let stream = accepted.map_err(io::Error::other)?;
        let (_, session) = stream.get_ref();
        let certificate = match session.peer_certificates() {
            Some([first, ..]) => {
                let peer = Peer::new(first, remote, current.number);
                PeerCertificate::Certificate(Arc::new(peer.map_err(io::Error::other)?))
            }
            _ => PeerCertificate::Missing,
        };
        Ok(Connection {
            stream: Stream::Tls(Box::new(stream)),
            caller: Caller {
                state,
                remote,
                certificate,
            },
        })
    }
}

fn set_no_delay(stream: &TcpStream, remote: SocketAddr) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %remote, "cannot turn Nagle's algorithm off");
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::NoTls(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::NoTls(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::NoTls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::NoTls(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::NoTls(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::NoTls(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
