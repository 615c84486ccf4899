//! Health checks and metrics on a listener of their own, which answers even while everything else
//! is busy.
//!
//! [`Health::serve_on_own_thread`] runs on a thread with a runtime of its own. Its answers take no lock of
//! the state: readiness is read from flags, metrics from counters.

use std::fmt;
use std::future;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use placewright_net::Limits;
use placewright_tasks::{Task, supervise};
use prometheus_client::registry::Registry;

use crate::body::Body;
use crate::health_source::{HealthSource, METRICS_TYPE, metrics_text};
use crate::metrics::HttpMetrics;
use crate::options::HttpOptions;
use crate::server::{Client, HttpService, Responding, Server};
use crate::tls::TlsAcceptor;

const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// Answers `/healthz`, `/readyz` and `/metrics`.
pub struct Health {
    options: HttpOptions,
    metrics: HttpMetrics,
    /// The service, once it has been created.
    source: Arc<OnceLock<Arc<dyn HealthSource>>>,
}

impl fmt::Debug for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Health").finish_non_exhaustive()
    }
}

impl Health {
    /// The most connections of a health listener. One peer may have half of them. A monitoring client makes one
    /// connection for each check, or keeps one.
    pub const CONNECTIONS_MAX: usize = 64;
    // No options set these limits, so messages name the listener in place of an option.
    const LIMITS: Limits = Limits {
        connections: Self::CONNECTIONS_MAX,
        per_peer: Self::CONNECTIONS_MAX / 2,
        connections_option: "the health listener",
        per_peer_option: "the health listener",
    };
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// Creates a listener for the service that will be put into `source`. Until then `/readyz` reports that the
    /// service is not ready.
    pub fn new(source: Arc<OnceLock<Arc<dyn HealthSource>>>) -> Self {
        let options = HttpOptions {
            head_bytes_max: 8192,
            first_byte_timeout: Self::TIMEOUT,
            head_timeout: Self::TIMEOUT,
            write_timeout: Self::TIMEOUT,
            ..HttpOptions::default()
        };
        Self {
            options,
            // The listener's own connections are not counted.
            metrics: HttpMetrics::new(&mut Registry::default()),
            source,
        }
    }

    /// Serves until the process ends, on a thread of its own; over TLS, if there is an acceptor for it.
    ///
    /// # Errors
    ///
    /// The thread or its runtime cannot be created.
    pub fn serve_on_own_thread(
        self,
        listener: TcpListener,
        tls: Option<Arc<TlsAcceptor>>,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serve = move || {
            runtime.block_on(supervise(Task::Health, async {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => {
                        Server::new(Arc::new(self))
                            .with_limits(Self::LIMITS)
                            .with_tls(tls)
                            .serve(listener, std::future::pending())
                            .await;
                    }
                    Err(error) => tracing::error!(%error, "nobody can ask for health"),
                }
            }));
        };
        placewright_tasks::spawn_thread(Task::Health, serve)?;
        Ok(())
    }

    /// Answers a request for a path.
    fn answer(&self, method: &Method, path: &str) -> Response<Body> {
        if method != Method::GET && method != Method::HEAD {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        let source = self.source.get();
        match (path, source) {
            ("/healthz", _) => text(StatusCode::OK, "ok\n"),
            ("/readyz" | "/metrics", None) => text(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            ("/readyz", Some(source)) => match source.why_not_ready() {
                Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
                None => text(StatusCode::OK, source.ready_text()),
            },
            ("/metrics", Some(source)) => match metrics_text(source.registry()) {
                Ok(metrics) => respond(StatusCode::OK, METRICS_TYPE, metrics.into()),
                Err(_) => text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "cannot write the metrics\n",
                ),
            },
            _ => text(
                StatusCode::NOT_FOUND,
                "there is nothing but /healthz, /readyz and /metrics here\n",
            ),
        }
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    respond(status, TEXT_TYPE, Bytes::from_static(text.as_bytes()))
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

impl HttpService for Health {
    fn options(&self) -> &HttpOptions {
        &self.options
    }

    fn metrics(&self) -> &HttpMetrics {
        &self.metrics
    }

    fn begin_stop(&self) {}

    fn handle(self: Arc<Self>, request: Request<Incoming>, _: Client) -> Responding {
        let response = self.answer(request.method(), request.uri().path());
        Box::pin(future::ready(response))
    }
}
