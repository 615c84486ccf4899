//! Connections that a server accepted, plain or with TLS, and who is at their other end.

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

use crate::guarded::{LimitedConnection, Times};
use crate::peer::Peer;
use crate::refusals;

/// What the other end of a connection showed.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// The connection has no TLS.
    Plain,
    /// TLS without a certificate.
    Nothing,
    /// A certificate of a trusted authority.
    Certificate(Arc<Peer>),
}

/// The other end of a connection; handed to the code that authenticates calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    state: Arc<ConnectionState>,
    remote: SocketAddr,
    shown: Shown,
}

impl Caller {
    /// A call passed authentication: from now on only keep-alive pings decide whether the
    /// connection stays.
    pub(crate) fn set_authenticated(&self) {
        self.state.set_busy(true);
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    caller: Caller,
}

#[derive(Debug)]
enum Stream {
    Plain(LimitedConnection),
    Tls(Box<TlsStream<LimitedConnection>>),
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

/// How a server takes connections.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    /// With them, connections have TLS.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Whether connections from loopback may do without, because they have the shared token.
    pub(crate) has_token: bool,
    pub(crate) limits: Limits,
    pub(crate) handshakes: Handshakes,
    pub(crate) times: Times,
}

/// Accepts the connections of a listening socket, until the receiver is dropped.
pub(crate) fn incoming(
    listener: TcpListener,
    entrance: Entrance,
) -> ReceiverStream<io::Result<Connection>> {
    // A refused connection is closed without an answer: HTTP/2 has none before its handshake.
    let limiter = ConnectionLimiter::new(entrance.limits, ConnectionMetrics::default());
    let mut accepting = Listener::new(listener, limiter, |_| String::new());
    let (sender, receiver) = mpsc::channel(1);
    placewright_tasks::spawn(Task::GrpcDoor, async move {
        loop {
            let admitted = tokio::select! {
                () = sender.closed() => break,
                admitted = accepting.next() => admitted,
            };
            let remote = admitted.remote;
            prepare(&admitted.stream, remote);
            let state = Arc::clone(admitted.place.connection_state());
            let limited = LimitedConnection::new(admitted, entrance.times);
            let Some(credentials) = entrance.credentials.clone() else {
                if sender
                    .send(Ok(plain(limited, state, remote)))
                    .await
                    .is_err()
                {
                    break;
                }
                continue;
            };
            // Each handshake is work of its own, so that a slow one keeps nobody waiting.
            let takes_plain = entrance.has_token && remote.ip().to_canonical().is_loopback();
            let (sender, handshakes) = (sender.clone(), entrance.handshakes.clone());
            spawn_contained(ContainedWork::GrpcStream, async move {
                let begin = Begin {
                    handshakes: &handshakes,
                    credentials: &credentials,
                    takes_plain,
                };
                let begun = begin.run(limited, state, remote);
                let begun = tokio::select! {
                    () = sender.closed() => return,
                    begun = begun => begun,
                };
                match begun {
                    // A closed channel means that the server is stopping.
                    Ok(connection) => drop(sender.send(Ok(connection)).await),
                    Err(error) => refusals::handshake(remote, &error),
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

fn plain(
    limited: LimitedConnection,
    state: Arc<ConnectionState>,
    remote: SocketAddr,
) -> Connection {
    Connection {
        stream: Stream::Plain(limited),
        caller: Caller {
            state,
            remote,
            shown: Shown::Plain,
        },
    }
}

/// How connections with certificates begin.
struct Begin<'a> {
    handshakes: &'a Handshakes,
    credentials: &'a Credentials,
    takes_plain: bool,
}

impl Begin<'_> {
    /// Carries out the handshake of a connection.
    async fn run(
        &self,
        mut limited: LimitedConnection,
        state: Arc<ConnectionState>,
        remote: SocketAddr,
    ) -> io::Result<Connection> {
        if limited.first_byte().await? != TLS_RECORD {
            if self.takes_plain {
                return Ok(plain(limited, state, remote));
            }
            return Err(io::Error::other(
                "it has no TLS, and only TLS with a certificate is taken here",
            ));
        }
        let current = self.credentials.current();
        let server = Arc::clone(&current.server);
        let accepted = self.handshakes.accept(limited, remote, server).await;
        let stream = accepted.map_err(io::Error::other)?;
        let shown = match stream.get_ref().1.peer_certificates() {
            Some([certificate, ..]) => {
                let peer = Peer::new(certificate, remote, current.number);
                Shown::Certificate(Arc::new(peer.map_err(io::Error::other)?))
            }
            _ => Shown::Nothing,
        };
        Ok(Connection {
            stream: Stream::Tls(Box::new(stream)),
            caller: Caller {
                state,
                remote,
                shown,
            },
        })
    }
}

fn prepare(stream: &TcpStream, remote: SocketAddr) {
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
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
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
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
