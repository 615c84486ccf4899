//! The headers that all responses share.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::Exchange;
use super::checks::{accept_text, content_type};
use crate::http::body::Body;
use crate::http::date;
use crate::http::error::{self, ApiError, ErrorContext};
use crate::http::microversion::{self, Microversion};
use crate::http::reply::Reply;

const API_VERSION: HeaderName = HeaderName::from_static(microversion::HEADER);

/// The capacity for a response's headers, including those that are added later.
const HEADERS: usize = 12;

pub(crate) fn accepted(parts: &Parts, reply: Reply, exchange: &Exchange) -> Response<Body> {
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    if let Some(content_type) = reply.content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(path) = reply.location
        && let Ok(location) = HeaderValue::from_str(&absolute(parts, &path))
    {
        headers.insert(header::LOCATION, location);
    }
    if reply.no_cache {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    if let Some(value) = reply.last_modified.and_then(date::header) {
        headers.insert(header::LAST_MODIFIED, value);
    }
    put_version(headers, exchange.version, true);
    response
}

fn put_version(headers: &mut HeaderMap, version: Option<Microversion>, varies: bool) {
    let Some(version) = version else { return };
    headers.insert(
        API_VERSION,
        HeaderValue::from_static(version.header_value()),
    );
    if varies {
        headers.insert(header::VARY, HeaderValue::from_static(microversion::HEADER));
    }
}

/// A path with the scheme and host that the client used, if they are known.
fn absolute(parts: &Parts, path: &str) -> String {
    let host = parts
        .headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    match host.or_else(|| parts.uri.authority().map(|authority| authority.as_str())) {
        Some(host) => format!("http://{host}{path}"),
        None => path.to_owned(),
    }
}

pub(super) fn refused(parts: &Parts, error: &ApiError, exchange: &Exchange) -> Response<Body> {
    let accept = accept_text(&parts.headers);
    let sent = content_type(&parts.headers);
    let context = ErrorContext {
        method: parts.method.as_str(),
        accept: &accept,
        content_type: if sent.is_empty() { "None" } else { sent },
        version: exchange.version,
        request_id: exchange.request_id.as_str(),
    };
    let (body, content_type) = if parts.method == Method::HEAD {
        (Vec::new(), "text/html; charset=UTF-8")
    } else {
        error::render(error, &context)
    };
    let mut response = Response::new(Body::Whole(body.into()));
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(methods) = error.allow() {
        headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    }
    if let Some(challenge) = error.challenge()
        && let Ok(value) = HeaderValue::from_str(challenge)
    {
        headers.insert(header::WWW_AUTHENTICATE, value);
    }
    if let Some(seconds) = error.retry_after_s() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    put_version(headers, exchange.version, error.varies());
    response
}
