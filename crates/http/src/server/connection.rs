//! One connection from its beginning to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1::Connection;
use hyper::service::{HttpService as HyperService, service_fn};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use placewright_net::{ConnectionPermit, ConnectionState};
use placewright_tasks::{ContainedWork, contain_panic, spawn_contained};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpStream;

use super::stream::Stream;
use super::{Client, ConnectionContext, ENDS, HANDS_OVER, HttpService, SERVES, ServerState};
use crate::body::Body;
use crate::peer_watch::PeerWatch;
use crate::timed_stream::{TimedStream, Times};
use crate::tls::{Opened, Patience, TlsSession};

/// How a connection ended.
enum End {
    /// By itself, or because its server ends.
    Over(hyper::Result<()>),
    /// It is idle, and the successor takes it over.
    Kept,
}

impl ConnectionContext {
    /// Serves a new connection in a task of its own, after its handshake if it speaks TLS.
    pub(super) fn open(&self, stream: TcpStream, remote: SocketAddr, place: ConnectionPermit) {
        let counted = CountedConnection::new(&self.service.metrics().connections, place);
        let Some(tls) = self.tls.clone() else {
            return self.start(Stream::Plain(stream), None, remote, counted);
        };
        let serving = self.clone();
        spawn_contained(ContainedWork::HttpConnection, async move {
            let connection_state = counted.place.connection_state();
            let options = serving.service.options();
            let patience = Patience {
                // One that another process handed over is between two requests.
                first_byte: match connection_state.is_new() {
                    true => options.first_byte_timeout,
                    false => options.keep_alive_timeout,
                },
                connection_state,
            };
            let is_stopping = || !serving.stage.is(SERVES);
            match tls.open(stream, remote, patience, is_stopping).await {
                Opened::Plain(stream) => {
                    serving.start(Stream::Plain(stream), None, remote, counted);
                }
                Opened::Tls(stream, session) => {
                    serving.start(Stream::Tls(stream), Some(session), remote, counted);
                }
                Opened::Silent(stream) if serving.stage.is(HANDS_OVER) => serving.keep(stream),
                Opened::Silent(_) | Opened::Closed => {}
            }
        });
    }

    /// Serves HTTP on a connection in a task of its own.
    fn start(
        &self,
        stream: Stream,
        session: Option<Arc<TlsSession>>,
        remote: SocketAddr,
        counted: CountedConnection,
    ) {
        let options = self.service.options();
        let times = Times {
            first_byte: options.first_byte_timeout,
            keep_alive: options.keep_alive_timeout,
            head: options.head_timeout,
            write: options.write_timeout,
        };
        let connection_state = Arc::clone(counted.place.connection_state());
        let peer_watch = Arc::new(PeerWatch::default());
        let io = TokioIo::new(TimedStream::new(
            stream,
            times,
            Arc::clone(&connection_state),
            Arc::clone(&peer_watch),
        ));
        let can_move = session.is_none();
        let service = Arc::clone(&self.service);
        let busy = Arc::clone(&connection_state);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            busy.set_busy(true);
            if let Some(session) = &session {
                request.extensions_mut().insert(Arc::clone(session));
            }
            let client = Client {
                remote,
                watch: Arc::clone(&peer_watch),
            };
            answer(Arc::clone(&service), Arc::clone(&busy), request, client)
        });
        let connection = self.http.serve_connection(io, answer);
        let polls = self.service.metrics().polls.clone();
        let serving = self.clone();
        spawn_contained(ContainedWork::HttpConnection, async move {
            let stage = Stage {
                of_server: &serving.stage,
                can_move,
            };
            let (end, connection) = polls
                .time(pin!(run(connection, &connection_state, stage)))
                .await;
            match end {
                End::Over(Ok(())) => {}
                End::Over(Err(error)) => tracing::debug!(%error, %remote, "connection broken"),
                End::Kept => {
                    let parts = connection.into_parts();
                    let stream = parts.io.into_inner().into_inner().into_plain();
                    // A partial head that arrived together with the request before it cannot be
                    // handed over; the client has to connect again.
                    if let (Some(stream), true) = (stream, parts.read_buf.is_empty()) {
                        serving.keep(stream);
                    }
                }
            }
            drop(counted);
        });
    }

    /// Gives a connection to the successor.
    fn keep(&self, stream: TcpStream) {
        if let Ok(stream) = stream.into_std() {
            let _ = self.kept.send(stream);
        }
    }
}

/// An open connection with its place, counted as long as it is there.
struct CountedConnection {
    gauge: Gauge,
    place: ConnectionPermit,
}

impl CountedConnection {
    fn new(gauge: &Gauge, place: ConnectionPermit) -> Self {
        gauge.inc();
        Self {
            gauge: gauge.clone(),
            place,
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// What the state of the server means to a connection.
#[derive(Clone, Copy)]
struct Stage<'a> {
    of_server: &'a ServerState,
    /// Whether a successor can have the connection. It cannot have one with TLS.
    can_move: bool,
}

impl Stage<'_> {
    /// Whether the connection's next response is its last one.
    fn is_ending(self, connection_state: &ConnectionState) -> bool {
        // A client that has just finished its handshake has a request on its way.
        let stays = !connection_state.is_new();
        self.of_server.is(ENDS) || (self.of_server.is(HANDS_OVER) && !self.can_move && stays)
    }

    fn is_moving(self) -> bool {
        self.of_server.is(HANDS_OVER) && self.can_move
    }
}

/// Calls the service for one request; a panic becomes a 500.
async fn answer(
    service: Arc<dyn HttpService>,
    connection_state: Arc<ConnectionState>,
    request: Request<Incoming>,
    client: Client,
) -> Result<Response<Body>, Infallible> {
    let response = match wrong_host(&request) {
        None => {
            let answering = service.handle(request, client);
            let answered = contain_panic(ContainedWork::HttpRequest, answering).await;
            answered.unwrap_or_else(|_| broken())
        }
        Some(why) => refused(why),
    };
    connection_state.set_busy(false);
    Ok(response)
}

/// Serves a connection to its end, or until the successor is to take it over.
async fn run<S>(
    mut connection: Connection<TokioIo<TimedStream<Stream>>, S>,
    connection_state: &ConnectionState,
    stage: Stage<'_>,
) -> (End, Connection<TokioIo<TimedStream<Stream>>, S>)
where
    S: HyperService<Incoming, ResBody = Body> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: 'static,
{
    let mut is_ending = false;
    let end = std::future::poll_fn(|context: &mut Context<'_>| {
        loop {
            if !is_ending && stage.is_ending(connection_state) {
                is_ending = true;
                // An idle connection is closed; otherwise the response says that it is the last.
                Pin::new(&mut connection).graceful_shutdown();
            }
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(End::Over(result));
            }
            if stage.is_moving() && connection_state.is_idle() {
                return Poll::Ready(End::Kept);
            }
            // The stage may have changed before this connection could be notified.
            if is_ending || !stage.is_ending(connection_state) {
                return Poll::Pending;
            }
        }
    })
    .await;
    (end, connection)
}

/// Why a request's `Host` header is not valid, if so (RFC 9112, section 3.2). A request of HTTP/1.0
/// needs none.
fn wrong_host<B>(request: &Request<B>) -> Option<&'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() <= Version::HTTP_10 => None,
        (None, _) => Some("A request of HTTP/1.1 needs a Host header.\n"),
        (Some(_), Some(_)) => Some("A request has one Host header, not several.\n"),
        (Some(host), None)
            if host
                .as_bytes()
                .iter()
                .all(|byte| IS_OF_HOST[usize::from(*byte)]) =>
        {
            None
        }
        (Some(_), None) => Some("The Host header is no host with a port.\n"),
    }
}

/// By byte: whether it may be in a host with a port (RFC 3986, section 3.2.2).
const IS_OF_HOST: [bool; 256] = {
    let mut is_of_host = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_of_host[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b':'
                    | b'['
                    | b']'
                    | b'%'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b','
                    | b';'
                    | b'='
            );
        byte += 1;
    }
    is_of_host
};

/// The response to a request whose handler panicked; the log has the panic.
fn broken() -> Response<Body> {
    let text = r#"{"errors": [{"status": 500, "title": "Internal Server Error", "detail": "An internal error occurred; the server's log says which."}]}"#;
    let mut response = Response::new(Body::Whole(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn refused(why: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
