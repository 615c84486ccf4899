//! The response of a handler that succeeded.

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::body::{Body, ChunkedResponse};
use crate::error::{ApiError, ApiResult};
use crate::json::Writer;
use crate::memory_budget::MemoryPermit;
use crate::tls::scheme;

/// The size up to which a response is sent in one piece.
const WHOLE_BYTES_MAX: usize = 256 << 10;

/// A response before the common headers are added.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status code of the response.
    pub status: u16,
    /// The body; may be empty.
    pub body: Body,
    /// The type of the body, if it has one.
    pub content_type: Option<&'static str>,
    /// The URL of the created object. A path is made absolute with the request's host.
    pub location: Option<String>,
    /// Whether the header `Cache-Control: no-cache` is sent, so that the client revalidates the response each time.
    /// Placement sends it from its microversion 1.15 on.
    pub no_cache: bool,
    /// The `Last-Modified` time, in seconds since 1970.
    pub last_modified: Option<i64>,
    /// Headers that only this response has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    /// A response without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            body: Body::Whole(Bytes::new()),
            content_type: None,
            location: None,
            no_cache: false,
            last_modified: None,
            headers: Vec::new(),
        }
    }

    /// A response with status 200 and JSON.
    pub fn json(writer: Writer) -> Self {
        Self::text(200, "application/json", writer.finish())
    }

    /// A response with JSON.
    ///
    /// # Errors
    ///
    /// 500 when the value has no form in JSON, which is a bug.
    pub fn value(status: u16, value: &impl Serialize) -> ApiResult<Self> {
        let json = serde_json::to_vec(value)
            .map_err(|error| ApiError::new(500, format!("cannot write the answer: {error}")))?;
        Ok(Self::text(status, "application/json", json))
    }

    /// A response with status 200 and JSON, of existing pieces.
    pub fn ready_pieces(pieces: Vec<Bytes>, permit: Option<MemoryPermit>) -> Self {
        Self {
            body: Body::of_pieces(pieces, permit),
            content_type: Some("application/json"),
            ..Self::empty(200)
        }
    }

    /// A response with content of any type.
    pub fn text(status: u16, content_type: &'static str, content: impl Into<Bytes>) -> Self {
        Self {
            body: Body::Whole(content.into()),
            content_type: Some(content_type),
            ..Self::empty(status)
        }
    }

    /// A response with status 200 and JSON of any length. A short one is sent whole, with its
    /// length; a long one in pieces, each generated when the client has taken the one before.
    /// `make` returns the next piece. The memory of `permit` stays reserved until the response is sent.
    pub fn json_in_pieces(
        mut make: impl FnMut() -> Option<Vec<u8>> + Send + 'static,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let mut first: Vec<u8> = make().unwrap_or_default();
        while first.len() < WHOLE_BYTES_MAX {
            match make() {
                Some(more) => first.extend_from_slice(&more),
                None => return Self::text(200, "application/json", first),
            }
        }
        let mut first = Some(first);
        let pieces = ChunkedResponse::new(move || first.take().or_else(&mut make), permit);
        Self {
            body: Body::Pieces(pieces),
            content_type: Some("application/json"),
            ..Self::empty(200)
        }
    }

    /// A response that is a stream of server-sent events.
    pub fn events(events: mpsc::Receiver<Bytes>) -> Self {
        Self {
            body: Body::Stream(events),
            content_type: Some("text/event-stream"),
            no_cache: true,
            ..Self::empty(200)
        }
    }

    /// Sets another status than the one that the response was made with.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a `Location` header.
    #[must_use]
    pub fn with_location(mut self, location: String) -> Self {
        self.location = Some(location);
        self
    }

    /// Adds a header that only this response has.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds the cache headers, if the microversion has them. `last_modified` is in seconds since 1970; without
    /// it there is no `Last-Modified`.
    #[must_use]
    pub fn with_cache_headers(mut self, are_in_version: bool, last_modified: Option<i64>) -> Self {
        if are_in_version {
            self.no_cache = true;
            self.last_modified = last_modified;
        }
        self
    }
}

/// A path with the scheme and host that the client used, if they are known. A `location` that is a URL is not changed.
pub(crate) fn absolute_url(parts: &Parts, location: String) -> String {
    if !location.starts_with('/') {
        return location;
    }
    let host = parts
        .headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    match host.or_else(|| parts.uri.authority().map(|authority| authority.as_str())) {
        Some(host) => format!("{}://{host}{location}", scheme(&parts.extensions)),
        None => location,
    }
}
