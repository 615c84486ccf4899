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
use super::{Client, ConnectionContext, ENDING, HANDING_OVER, HttpService, SERVING, ServerState};
use crate::body::Body;
use crate::options::HttpOptions;
use crate::peer_watch::PeerWatch;
use crate::timed_stream::{TimedStream, Timeouts};
use crate::tls::{FirstByteWait, Opened, TlsSession};

/// How a connection ended.
enum End {
    /// The connection was closed, by its client or because its server ends.
    Closed(hyper::Result<()>),
    /// The connection is idle, and the successor takes it over.
    HandedOver,
}

impl ConnectionContext {
    /// Serves a new connection in a task of its own, after its handshake if it speaks TLS.
    pub(super) fn open(&self, stream: TcpStream, remote: SocketAddr, permit: ConnectionPermit) {
        let counted = CountedConnection::new(&self.service.metrics().connections, permit);
        let Some(tls) = self.tls.clone() else {
            return self.start(Stream::Plain(stream), None, remote, counted);
        };
        let shared = self.clone();
        spawn_contained(ContainedWork::HttpConnection, async move {
            let connection_state = counted.permit.connection_state();
            let options = shared.service.options();
            let wait = FirstByteWait {
                // A connection that another process handed over is between two requests.
                timeout: match connection_state.is_new() {
                    true => options.first_byte_timeout,
                    false => options.keep_alive_timeout,
                },
                connection_state,
            };
            let is_stopping = || !shared.state.is(SERVING);
            match tls.open(stream, remote, wait, is_stopping).await {
                Opened::Plain(stream) => {
                    shared.start(Stream::Plain(stream), None, remote, counted);
                }
                Opened::Tls(stream, session) => {
                    shared.start(Stream::Tls(stream), Some(session), remote, counted);
                }
                Opened::Silent(stream) if shared.state.is(HANDING_OVER) => shared.hand_over(stream),
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
        let connection_state = Arc::clone(counted.permit.connection_state());
        let peer_watch = Arc::new(PeerWatch::default());
        let io = TokioIo::new(TimedStream::new(
            stream,
            timeouts(self.service.options()),
            Arc::clone(&connection_state),
            Arc::clone(&peer_watch),
        ));
        let can_hand_over = session.is_none();
        let service = Arc::clone(&self.service);
        let request_state = Arc::clone(&connection_state);
        let answer_service = service_fn(move |mut request: Request<Incoming>| {
            request_state.set_busy();
            if let Some(session) = &session {
                request.extensions_mut().insert(Arc::clone(session));
            }
            let client = Client {
                remote,
                watch: Arc::clone(&peer_watch),
            };
            answer_request(
                Arc::clone(&service),
                Arc::clone(&request_state),
                request,
                client,
            )
        });
        let mut connection = self.http.serve_connection(io, answer_service);
        let polls = self.service.metrics().polls.clone();
        let shared = self.clone();
        spawn_contained(ContainedWork::HttpConnection, async move {
            let end_conditions = EndConditions {
                server_state: &shared.state,
                can_hand_over,
            };
            let end = polls
                .time(pin!(run(
                    &mut connection,
                    &connection_state,
                    end_conditions
                )))
                .await;
            match end {
                End::Closed(Ok(())) => {}
                End::Closed(Err(error)) => tracing::debug!(%error, %remote, "connection broken"),
                End::HandedOver => {
                    let parts = connection.into_parts();
                    let stream = parts.io.into_inner().into_inner().into_plain();
                    // A partial head that arrived together with the request before it cannot be
                    // handed over; the client has to connect again.
                    if let (Some(stream), true) = (stream, parts.read_buf.is_empty()) {
                        shared.hand_over(stream);
                    }
                }
            }
            drop(counted);
        });
    }

    /// Gives a connection to the successor.
    fn hand_over(&self, stream: TcpStream) {
        if let Ok(stream) = stream.into_std() {
            let _ = self.handed_over.send(stream);
        }
    }
}

/// An open connection with its permit, counted in the metrics until it is dropped.
struct CountedConnection {
    gauge: Gauge,
    permit: ConnectionPermit,
}

impl CountedConnection {
    fn new(gauge: &Gauge, permit: ConnectionPermit) -> Self {
        gauge.inc();
        Self {
            gauge: gauge.clone(),
            permit,
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// When a connection has to end, or is handed over, because of the state of its server.
#[derive(Clone, Copy)]
struct EndConditions<'a> {
    server_state: &'a ServerState,
    /// Whether the connection can be handed over to a successor. A connection with TLS cannot.
    can_hand_over: bool,
}

impl EndConditions<'_> {
    /// Whether the connection is to be closed after its next response.
    fn is_ending(self, connection_state: &ConnectionState) -> bool {
        // A new connection with TLS is not closed: its client has just finished the handshake and sends a request now.
        let is_used = !connection_state.is_new();
        self.server_state.is(ENDING)
            || (self.server_state.is(HANDING_OVER) && !self.can_hand_over && is_used)
    }

    /// Whether idle connections are handed over to the successor now.
    fn is_handing_over(self) -> bool {
        self.server_state.is(HANDING_OVER) && self.can_hand_over
    }
}

/// Calls the service for one request; a panic becomes a 500.
async fn answer_request(
    service: Arc<dyn HttpService>,
    connection_state: Arc<ConnectionState>,
    request: Request<Incoming>,
    client: Client,
) -> Result<Response<Body>, Infallible> {
    let response = match why_host_is_invalid(&request) {
        None => {
            let answering = service.handle(request, client);
            let answered = contain_panic(ContainedWork::HttpRequest, answering).await;
            answered.unwrap_or_else(|_| internal_error())
        }
        Some(why) => bad_request(why),
    };
    connection_state.set_responded();
    Ok(response)
}

/// The time limits of a connection.
fn timeouts(options: &HttpOptions) -> Timeouts {
    Timeouts {
        first_byte: options.first_byte_timeout,
        keep_alive: options.keep_alive_timeout,
        head: options.head_timeout,
        write: options.write_timeout,
    }
}

/// Serves a connection to its end, or until the successor is to take it over.
async fn run<S>(
    connection: &mut Connection<TokioIo<TimedStream<Stream>>, S>,
    connection_state: &ConnectionState,
    end_conditions: EndConditions<'_>,
) -> End
where
    S: HyperService<Incoming, ResBody = Body> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: 'static,
{
    let mut is_ending = false;
    std::future::poll_fn(|context: &mut Context<'_>| {
        loop {
            if !is_ending && end_conditions.is_ending(connection_state) {
                is_ending = true;
                // An idle connection is closed; otherwise the response says that it is the last.
                Pin::new(&mut *connection).graceful_shutdown();
            }
            if let Poll::Ready(result) = Pin::new(&mut *connection).poll(context) {
                return Poll::Ready(End::Closed(result));
            }
            if end_conditions.is_handing_over() && connection_state.is_idle() {
                return Poll::Ready(End::HandedOver);
            }
            // The state of the server may have changed before this connection could be notified.
            if is_ending || !end_conditions.is_ending(connection_state) {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Why a request's `Host` header is not valid (RFC 9112, section 3.2); none if it is valid. A request of HTTP/1.0
/// needs no such header.
fn why_host_is_invalid<B>(request: &Request<B>) -> Option<&'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() <= Version::HTTP_10 => None,
        (None, _) => Some("A request of HTTP/1.1 needs a Host header.\n"),
        (Some(_), Some(_)) => Some("A request has one Host header, not several.\n"),
        (Some(host), None)
            if host
                .as_bytes()
                .iter()
                .all(|byte| MAY_BE_IN_HOST[usize::from(*byte)]) =>
        {
            None
        }
        (Some(_), None) => Some("The Host header is no host with a port.\n"),
    }
}

/// By byte: whether it may be in a host with a port (RFC 3986, section 3.2.2).
const MAY_BE_IN_HOST: [bool; 256] = {
    let mut may_be_in_host = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        may_be_in_host[byte as usize] = byte.is_ascii_alphanumeric()
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
    may_be_in_host
};

/// The response to a request whose handler panicked; the log has the panic.
fn internal_error() -> Response<Body> {
    let text = r#"{"errors": [{"status": 500, "title": "Internal Server Error", "detail": "An internal error occurred; the server's log says which."}]}"#;
    let mut response = Response::new(Body::Whole(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn bad_request(why: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
