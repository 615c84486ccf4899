//! The TCP server: accepts connections, serves HTTP/1.1 on them, and stops without breaking a
//! request.

mod connection;
mod stream;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, Response};
use placewright_net::{AcceptedConnection, ConnectionLimiter, Limits, Listener};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::body::Body;
use crate::metrics::HttpMetrics;
use crate::options::HttpOptions;
use crate::peer_watch::PeerWatch;
use crate::tls::TlsAcceptor;

/// How a server has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request under way was answered.
    Drained,
    /// Some requests were still under way at the end of the time-out. Their connections stay open until the runtime of
    /// the server ends.
    TimedOut,
}

/// The future of the response to a request.
pub type Responding = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A service that a [`Server`] exposes over TCP.
///
/// It is used as a trait object, so that the code of a connection, which is large, is compiled once and not
/// for each service.
pub trait HttpService: Send + Sync + 'static {
    /// The service's limits and time-outs.
    fn options(&self) -> &HttpOptions;

    /// The metrics in which the service's connections are counted.
    fn metrics(&self) -> &HttpMetrics;

    /// Called when the server is about to stop.
    fn begin_stop(&self);

    /// Answers a request. Errors are responses too.
    fn handle(self: Arc<Self>, request: Request<Incoming>, client: Client) -> Responding;
}

/// The client at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// The address and port at the other end of the connection, which may be those of a proxy.
    pub remote: SocketAddr,
    /// Notices when the client closes the connection while its request waits for a seat.
    pub watch: Arc<PeerWatch>,
}

/// Takes over the idle connections of a server that stops.
pub trait Successor: Send + Sync {
    /// Takes over a connection that is idle between two requests. Whatever its client sends before the successor
    /// reads from it stays in the socket's buffer.
    fn take(&self, connection: std::net::TcpStream);
}

/// Serves an [`HttpService`] over TCP.
#[derive(Clone)]
pub struct Server {
    service: Arc<dyn HttpService>,
    limits: Limits,
    tls: Option<Arc<TlsAcceptor>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The state of a server: serving, ending, or handing over.
#[derive(Debug)]
struct ServerState(AtomicU8);

const SERVING: u8 = 0;
/// Idle connections are closed, and busy ones once their request is answered.
const ENDING: u8 = 1;
/// Idle connections are handed over to the successor.
const HANDING_OVER: u8 = 2;

impl ServerState {
    fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::SeqCst) == state
    }

    fn set(&self, state: u8) {
        self.0.store(state, Ordering::SeqCst);
    }
}

impl Server {
    /// Creates a server for this service.
    pub fn new(service: Arc<dyn HttpService>) -> Self {
        let options = service.options();
        let limits = Limits {
            connections: options.connections_max,
            per_peer: options.connections_per_peer_max,
            connections_option: "placement.connections_max",
            per_peer_option: "placement.connections_per_peer_max",
        };
        Self {
            service,
            limits,
            tls: None,
        }
    }

    /// Sets other connection limits than those of the service's options.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Speaks TLS, if there is an acceptor for it.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<TlsAcceptor>>) -> Self {
        self.tls = tls;
        self
    }

    /// Serves connections until `stop` completes, then waits for requests under way.
    ///
    /// From the completion of `stop` on, new connections are refused, idle ones closed, and change streams ended.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) -> Stopped {
        let stop = async {
            stop.await;
            None
        };
        self.serve_until(listener, Vec::new(), stop).await
    }

    /// As [`Self::serve`], but serves the connections that another server handed over, too. If `stop` yields a
    /// successor, the successor gets the connections of this server as they become idle; it has the listening
    /// socket already.
    pub async fn serve_until(
        &self,
        listener: TcpListener,
        inherited: Vec<TcpStream>,
        stop: impl Future<Output = Option<Arc<dyn Successor>>>,
    ) -> Stopped {
        let limiter = ConnectionLimiter::new(self.limits, self.service.metrics().limiter.clone());
        let mut listener = Listener::new(listener, Arc::clone(&limiter), refusal_response);
        let (handed_over_sender, mut handed_over) = mpsc::unbounded_channel();
        let context = ConnectionContext {
            service: Arc::clone(&self.service),
            http: self.http_builder(),
            state: Arc::new(ServerState(AtomicU8::new(SERVING))),
            handed_over: handed_over_sender,
            tls: self.tls.clone(),
        };
        for stream in inherited {
            if let Ok(remote) = stream.peer_addr() {
                let permit = limiter.inherit(remote);
                context.open(stream, remote, permit);
            }
        }
        let mut stop = std::pin::pin!(stop);
        let successor = loop {
            let accepted = tokio::select! {
                biased;
                successor = &mut stop => break successor,
                accepted = listener.next() => accepted,
            };
            let AcceptedConnection {
                stream,
                remote,
                permit,
            } = accepted;
            // Without this option small responses wait for the acknowledgement of earlier ones.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, %remote, "cannot turn Nagle's algorithm off");
            }
            context.open(stream, remote, permit);
        };
        let (state, timeout) = match &successor {
            Some(_) => (HANDING_OVER, self.service.options().hand_over_timeout),
            None => (ENDING, self.service.options().drain_timeout),
        };
        // This closes the listening socket. A connection may be left that was accepted, but has no permit yet.
        let without_permit = listener.into_waiting().map(TcpStream::into_std);
        if let (Some(successor), Some(Ok(stream))) = (&successor, without_permit) {
            successor.take(stream);
        }
        context.state.set(state);
        self.service.begin_stop();
        limiter.wake_all();
        // The channel `handed_over`, which is read below, ends only after the sender in `context` was dropped, too.
        drop(context);
        let drained = async {
            while let Some(stream) = handed_over.recv().await {
                if let Some(successor) = &successor {
                    successor.take(stream);
                }
            }
            limiter.wait_until_empty().await;
        };
        match tokio::time::timeout(timeout, drained).await {
            Ok(()) => Stopped::Drained,
            Err(_) => Stopped::TimedOut,
        }
    }

    fn http_builder(&self) -> http1::Builder {
        let options = self.service.options();
        let mut http = http1::Builder::new();
        http.max_buf_size(options.head_bytes_max.max(8192))
            .keep_alive(true)
            // With this hyper does not read from the connection while a request is handled, which would take a
            // second buffer for each request. That a client has disconnected is noticed by `PeerWatch` while the
            // request waits for a seat, and after that on the next write.
            .half_close(true);
        http
    }
}

/// The data that the connections of one server share.
#[derive(Clone)]
struct ConnectionContext {
    service: Arc<dyn HttpService>,
    http: http1::Builder,
    state: Arc<ServerState>,
    /// The connections for the successor.
    handed_over: mpsc::UnboundedSender<std::net::TcpStream>,
    tls: Option<Arc<TlsAcceptor>>,
}

/// The response to a connection that is refused because of a limit.
fn refusal_response(why: &str) -> String {
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{why}\n",
        why.len() + 1
    )
}
