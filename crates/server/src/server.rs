//! Sockets: accepts connections, serves HTTP/1.1 on them, and stops without breaking a request.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use placewright_tasks::{Contained, caught, spawn_contained};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::http::body::Body;
use crate::http::service::Service;
use crate::metrics::HttpMetrics;
use crate::options::ServerOptions;
use crate::wire::{Busy, Wire};

/// After a failed accept (no file descriptors left, say) the next is tried this much later.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request under way was answered.
    Drained,
    /// Some were still under way when the time to drain was over; their connections were cut.
    TimedOut,
}

/// What a [`Server`] puts on TCP.
pub trait HttpService: Send + Sync + 'static {
    /// Its limits and times.
    fn options(&self) -> &ServerOptions;

    /// Where its connections are counted.
    fn metrics(&self) -> &HttpMetrics;

    /// Is told that it is about to stop.
    fn stopping(&self);

    /// Answers a request. Never fails: what goes wrong is an answer too.
    fn handle(
        &self,
        request: Request<Incoming>,
        remote: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send;
}

impl HttpService for Service {
    fn options(&self) -> &ServerOptions {
        &self.options
    }

    fn metrics(&self) -> &HttpMetrics {
        &self.metrics
    }

    fn stopping(&self) {
        self.stopping.send_replace(true);
    }

    async fn handle(&self, request: Request<Incoming>, remote: SocketAddr) -> Response<Body> {
        Service::handle(self, request, Some(remote)).await
    }
}

/// Serves an [`HttpService`] on TCP.
#[derive(Debug)]
pub struct Server<S = Service> {
    service: Arc<S>,
}

impl<S> Clone for Server<S> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
        }
    }
}

impl<S: HttpService> Server<S> {
    /// A server for this service.
    pub fn new(service: S) -> Self {
        Self {
            service: Arc::new(service),
        }
    }

    /// The service, for calls without sockets.
    pub fn service(&self) -> &Arc<S> {
        &self.service
    }

    /// Serves connections until `stop` is done, then lets requests under way end.
    ///
    /// New connections are refused from then on, idle ones are closed, streams of changes end.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) -> Stopped {
        let options = self.service.options();
        let permits = Arc::new(Semaphore::new(options.connections_max));
        let graceful = GracefulShutdown::new();
        let http = self.http();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = accept(&listener, &permits) => accepted,
            };
            let (stream, remote, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            // Without it small answers wait for the acknowledgement of earlier ones.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, %remote, "cannot turn Nagle's algorithm off");
            }
            let service = Arc::clone(&self.service);
            let busy = Busy::default();
            let io = TokioIo::new(Wire::new(
                stream,
                options.head_timeout,
                options.write_timeout,
                busy.clone(),
            ));
            let answer = service_fn(move |request: Request<Incoming>| {
                let service = Arc::clone(&service);
                let busy = busy.clone();
                busy.set(true);
                async move {
                    let answering = caught(Contained::HttpRequest, service.handle(request, remote));
                    let response = answering.await.unwrap_or_else(|_| broken());
                    busy.set(false);
                    Ok::<_, std::convert::Infallible>(response)
                }
            });
            let connection = graceful.watch(http.serve_connection(io, answer));
            let gauge = self.service.metrics().connections.clone();
            gauge.inc();
            spawn_contained(Contained::HttpConnection, async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, %remote, "connection broken");
                }
                gauge.dec();
                drop(permit);
            });
        }
        drop(listener);
        self.service.stopping();
        match tokio::time::timeout(options.drain_timeout, graceful.shutdown()).await {
            Ok(()) => Stopped::Drained,
            Err(_) => Stopped::TimedOut,
        }
    }

    fn http(&self) -> http1::Builder {
        let options = self.service.options();
        let mut http = http1::Builder::new();
        http.max_buf_size(options.head_bytes_max.max(8192))
            .keep_alive(true)
            // A client that left is noticed when it is written to. To look out for its end while it
            // waits would take a second buffer for each request, which holds on to the first.
            .half_close(true);
        http
    }
}

/// What a request is answered that met a bug: its panic is in the log, and concerns nobody else.
fn broken() -> Response<Body> {
    let text = r#"{"errors": [{"status": 500, "title": "Internal Server Error", "detail": "An internal error occurred; the server's log says which."}]}"#;
    let mut response = Response::new(Body::Whole(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, remote) = listener.accept().await?;
    Ok((stream, remote, permit))
}
