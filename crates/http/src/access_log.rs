//! Metrics and the access log of requests.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Body as _;
use hyper::http::request::Parts;
use hyper::{Method, Response, Uri};
use placewright_auth::Identity;

use crate::body::Body;
use crate::gateway::Gateway;
use crate::request_context::RequestContext;
use crate::request_id::{self, REQUEST_ID};
use crate::tls::TlsSession;

/// The target of the access log's events. It is not the name of a module, because operators name it in their log
/// filters, which must stay valid when modules change.
const LOG_TARGET: &str = "placewright_server::access";

impl Gateway {
    /// Counts a request that was answered, and writes its line of the access log.
    pub(crate) fn record<V: Copy>(
        &self,
        parts: &Parts,
        response: &Response<Body>,
        context: &RequestContext<V>,
    ) {
        let status = response.status().as_u16();
        let elapsed = context.started.elapsed();
        self.metrics().count_request(
            method_label(&parts.method),
            context.route(),
            status,
            elapsed,
        );
        if !tracing::enabled!(target: LOG_TARGET, tracing::Level::INFO) {
            return;
        }
        let global_id = parts
            .headers
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok());
        let session = parts.extensions.get::<Arc<TlsSession>>().map(Arc::as_ref);
        tracing::info!(
            target: LOG_TARGET,
            request_id = context.request_id(),
            global_request_id = request_id::valid_global_id(global_id),
            user_id = context.identity().and_then(Identity::user_id),
            project_id = context.identity().and_then(Identity::project_id),
            remote = context.remote.map(|remote| tracing::field::display(Peer(remote))),
            tls = session.map(|session| session.version),
            client_certificate = session.and_then(TlsSession::client_name),
            method = %parts.method,
            uri = %RequestTarget(&parts.uri),
            status,
            bytes = response.body().size_hint().exact(),
            microversion = context.version_text(),
            duration_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

/// The label of a method in metrics; `other` for every method that is not listed here, so that clients cannot create
/// labels.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "PUT" => "PUT",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// A client's address. This type formats it faster than the address's own `Display`, which takes as long as the rest of
/// a log line.
struct Peer(SocketAddr);

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V4(address) => {
                let mut digits = itoa::Buffer::new();
                for (index, octet) in address.ip().octets().into_iter().enumerate() {
                    if index > 0 {
                        formatter.write_char('.')?;
                    }
                    formatter.write_str(digits.format(octet))?;
                }
                formatter.write_char(':')?;
                formatter.write_str(digits.format(address.port()))
            }
            SocketAddr::V6(address) => address.fmt(formatter),
        }
    }
}

/// The target of the request line, as the client wrote it.
struct RequestTarget<'a>(&'a Uri);

impl fmt::Display for RequestTarget<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.path_and_query() {
            // Almost always path and query are one text already.
            Some(path) if self.0.authority().is_none() && path.as_str().starts_with('/') => {
                formatter.write_str(path.as_str())
            }
            _ => self.0.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_prints_as_its_address() {
        for text in [
            "127.0.0.1:80",
            "0.0.0.0:0",
            "255.255.255.255:65535",
            "10.20.130.4:8778",
            "[::1]:5",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Peer(address).to_string(), text);
        }
    }

    #[test]
    fn a_target_prints_as_its_uri() {
        for text in [
            "/",
            "/a?b=c",
            "/?",
            "*",
            "http://host:1/a?b",
            "http://host",
            "host:443",
        ] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!(RequestTarget(&uri).to_string(), uri.to_string());
        }
    }
}
