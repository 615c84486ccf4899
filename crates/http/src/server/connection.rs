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
use tokio::net::TcpStream;

use super::{ConnectionContext, ENDS, HANDS_OVER, HttpService, SERVES, ServerState};
use crate::body::Body;
use crate::timed_stream::{TimedStream, Times};

/// How a connection ended.
enum End {
    /// By itself, or because its server ends.
    Over(hyper::Result<()>),
    /// It is idle, and the successor takes it over.
    Kept,
}

impl ConnectionContext {
    /// Serves a connection in a task of its own.
    pub(super) fn start(&self, stream: TcpStream, remote: SocketAddr, place: ConnectionPermit) {
        let options = self.service.options();
        let times = Times {
            first_byte: options.first_byte_timeout,
            keep_alive: options.keep_alive_timeout,
            head: options.head_timeout,
            write: options.write_timeout,
        };
        let connection_state = Arc::clone(place.connection_state());
        let io = TokioIo::new(TimedStream::new(
            stream,
            times,
            Arc::clone(&connection_state),
        ));
        let service = Arc::clone(&self.service);
        let busy = Arc::clone(&connection_state);
        let answer = service_fn(move |request: Request<Incoming>| {
            busy.set_busy(true);
            answer(Arc::clone(&service), Arc::clone(&busy), request, remote)
        });
        let connection = self.http.serve_connection(io, answer);
        let metrics = self.service.metrics();
        let (gauge, polls) = (metrics.connections.clone(), metrics.polls.clone());
        let (stage, kept) = (Arc::clone(&self.stage), self.kept.clone());
        gauge.inc();
        spawn_contained(ContainedWork::HttpConnection, async move {
            let (end, connection) = polls
                .time(pin!(run(connection, &connection_state, &stage)))
                .await;
            match end {
                End::Over(Ok(())) => {}
                End::Over(Err(error)) => tracing::debug!(%error, %remote, "connection broken"),
                End::Kept => {
                    let parts = connection.into_parts();
                    let stream = parts.io.into_inner().into_inner().into_std();
                    // A partial head that arrived together with the request before it cannot be
                    // handed over; the client has to connect again.
                    if let (Ok(stream), true) = (stream, parts.read_buf.is_empty()) {
                        let _ = kept.send(stream);
                    }
                }
            }
            gauge.dec();
            drop(place);
        });
    }
}

/// Calls the service for one request; a panic becomes a 500.
async fn answer(
    service: Arc<dyn HttpService>,
    connection_state: Arc<ConnectionState>,
    request: Request<Incoming>,
    remote: SocketAddr,
) -> Result<Response<Body>, Infallible> {
    let response = match wrong_host(&request) {
        None => {
            let answering = service.handle(request, remote);
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
    mut connection: Connection<TokioIo<TimedStream<TcpStream>>, S>,
    connection_state: &ConnectionState,
    stage: &ServerState,
) -> (End, Connection<TokioIo<TimedStream<TcpStream>>, S>)
where
    S: HyperService<Incoming, ResBody = Body> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: 'static,
{
    let mut is_ending = false;
    let end = std::future::poll_fn(|context: &mut Context<'_>| {
        loop {
            if !is_ending && stage.is(ENDS) {
                is_ending = true;
                // An idle connection is closed; otherwise the response says that it is the last.
                Pin::new(&mut connection).graceful_shutdown();
            }
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(End::Over(result));
            }
            if stage.is(HANDS_OVER) && connection_state.is_idle() {
                return Poll::Ready(End::Kept);
            }
            // The stage may have changed before this connection could be notified.
            if is_ending || stage.is(SERVES) || stage.is(HANDS_OVER) {
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
