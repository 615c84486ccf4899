//! The page of a replay: the files of the page, and what the replay tells of itself.
//!
//! Nobody signs in, because the program of a replay knows no users. So it listens on a loopback address only, and pages
//! of other origins are kept out. The headers that protect the page are not enough for that: whoever owns a name can
//! let it lead to a loopback address, and then requests of a page under that name are of the same origin for the
//! browser (DNS rebinding). Only the `Host` tells them apart.

use std::fmt;
use std::future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use placewright_http::{
    ApiError, ApiResult, Body, Client, HttpMetrics, HttpOptions, HttpService, Reply, Responding,
    Server,
};
use placewright_net::Limits;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;

use crate::files::File;
use crate::forward::{self, API_PREFIX};
use crate::{headers, refusal};

/// The most connections of the listener. A browser makes a few for each tab.
const CONNECTIONS_MAX: usize = 64;

/// The port that browsers leave out of `Host` and `Origin`.
const PORT_OF_HTTP: u16 = 80;

const ALLOWED_METHODS: &str = "GET, HEAD";

/// The page of a replay, which its own program serves while it runs and afterwards.
pub struct ReplayPageService {
    options: HttpOptions,
    metrics: HttpMetrics,
    /// What requests may have as their `Host`: host and port, without regard to case.
    hosts: Vec<String>,
    /// The answer to `GET /ui/api/replay`, which is JSON.
    progress: watch::Receiver<Bytes>,
}

impl fmt::Debug for ReplayPageService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReplayPageService")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl ReplayPageService {
    /// Creates the service for a listener with this address. `progress` has the JSON of the replay as it is now.
    #[must_use]
    pub fn new(address: SocketAddr, progress: watch::Receiver<Bytes>) -> Self {
        let port = address.port();
        let mut hosts = vec![address.to_string(), format!("localhost:{port}")];
        if port == PORT_OF_HTTP {
            let host = address.to_string();
            let host = host.strip_suffix(":80").unwrap_or(&host).to_owned();
            hosts.extend([host, "localhost".to_owned()]);
        }
        let options = HttpOptions {
            head_bytes_max: 16 << 10,
            ..HttpOptions::default()
        };
        Self {
            options,
            // Nobody reads the metrics of this process.
            metrics: HttpMetrics::new(&mut Registry::default()),
            hosts,
            progress,
        }
    }

    /// The server of the page, with limits of its own.
    #[must_use]
    pub fn into_server(self) -> Server {
        Server::new(Arc::new(self)).with_limits(Limits {
            connections: CONNECTIONS_MAX,
            // All peers are this machine, so 0: no limit for each of them.
            per_peer: 0,
            // No options set these limits, so messages name the listener.
            connections_option: "the page of the replay",
            per_peer_option: "the page of the replay",
        })
    }

    fn is_own_host(&self, host: &[u8]) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|own| own.as_bytes().eq_ignore_ascii_case(host))
    }

    /// Refuses requests under a name that is not the page's own, and those that pages of other origins cause.
    fn check<B>(&self, request: &Request<B>) -> ApiResult<()> {
        let fields = request.headers();
        let host = fields.get(header::HOST).map(HeaderValue::as_bytes);
        let authority = request.uri().authority();
        let authority = authority.map(|authority| authority.as_str().as_bytes());
        if !host.is_some_and(|host| self.is_own_host(host))
            || authority.is_some_and(|host| !self.is_own_host(host))
        {
            return Err(ApiError::forbidden(
                "The page of a replay has no such address: open the one that the replay prints.",
            ));
        }
        let is_own_origin = |origin: &HeaderValue| {
            let host = origin.as_bytes().strip_prefix(b"http://");
            host.is_some_and(|host| self.is_own_host(host))
        };
        let is_call = request.uri().path().starts_with(API_PREFIX);
        if fields
            .get_all(header::ORIGIN)
            .iter()
            .any(|origin| !is_own_origin(origin))
            || (is_call && forward::is_from_elsewhere(fields))
        {
            return Err(refusal::from_elsewhere());
        }
        Ok(())
    }

    fn reply<B>(&self, request: &Request<B>) -> ApiResult<Reply> {
        self.check(request)?;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(ApiError::new(405, "There is only GET here."));
        }
        match request.uri().path() {
            "/" | "/ui" => {
                let page = HeaderValue::from_static("/ui/");
                Ok(Reply::empty(302).with_header(header::LOCATION, page))
            }
            "/ui/api/installation" => {
                let installation = json!({"sign_in": null, "services": [], "replay": true});
                Reply::value(200, &installation)
            }
            "/ui/api/replay" => {
                let progress = self.progress.borrow().clone();
                Ok(Reply::text(200, "application/json", progress))
            }
            path => {
                let file = path.strip_prefix("/ui/").and_then(File::find);
                let file = file.map(|file| file.reply(request.headers()));
                file.ok_or_else(|| ApiError::not_found("There is nothing at this path."))
            }
        }
    }

    fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let mut response = match self.reply(request) {
            Ok(reply) => response_of(reply),
            Err(error) => {
                let mut response = refusal::refuse(&error);
                if error.status() == 405 {
                    let methods = HeaderValue::from_static(ALLOWED_METHODS);
                    response.headers_mut().insert(header::ALLOW, methods);
                }
                response
            }
        };
        headers::protect(response.headers_mut());
        response
    }
}

/// The HTTP response that a reply describes.
fn response_of(reply: Reply) -> Response<Body> {
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    let fields = response.headers_mut();
    if let Some(content_type) = reply.content_type {
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let caching = match reply.no_cache {
        true => "no-cache",
        false => "no-store",
    };
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    fields.extend(reply.headers);
    response
}

impl HttpService for ReplayPageService {
    fn options(&self) -> &HttpOptions {
        &self.options
    }

    fn metrics(&self) -> &HttpMetrics {
        &self.metrics
    }

    fn begin_stop(&self) {}

    fn handle(self: Arc<Self>, request: Request<Incoming>, _: Client) -> Responding {
        Box::pin(future::ready(self.respond(&request)))
    }
}
